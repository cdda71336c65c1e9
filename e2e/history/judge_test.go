package history_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/history"
)

// TestJudge shows that the judge can fail: it accepts a run that keeps the promises, also read back
// from its files, and counts each that is broken.
func TestJudge(t *testing.T) {
	paid := func(id string) history.Got {
		return history.Got{Kind: history.Final, Reply: `201|application/json|/v1/charges/` + id + `|{"id":"` + id + `"}`}
	}
	charge := func(body string) history.Sent {
		return history.Sent{Key: "acme/k", Body: body, Path: "/v1/charges"}
	}
	visa, changed, stolen := charge(`{"amount":7}`), charge(`{"amount":8}`), charge(`{"amount":9,"payment_method":"pm_card_stolen"}`)
	refund := history.Sent{Key: "acme/r", Body: `{"charge":"ch_1","amount":7}`, Path: "/v1/refunds"}
	transfer := history.Sent{Key: "acme/k", Body: `{"amount":7}`, Path: "/v1/transfers"}
	cancel := history.Sent{Key: "acme/k", Path: history.CancelPath}
	became := func(status, body string) history.Got {
		return history.Got{Kind: history.Became, Reply: status + `|application/json||` + body}
	}
	held := charge(`{"amount":9,"capture_method":"manual"}`)
	order := func(what string) history.Sent {
		return history.Sent{Key: "acme/r", Path: "/v1/charges/ch_1/" + what, Body: "{}"}
	}
	took := history.Got{Kind: history.Final, Reply: `200|application/json||{"id":"ch_1"}`}
	captured := history.Got{Kind: history.Final, Reply: `201|application/json|/v1/charges/ch_1|{"id":"ch_1","amount_captured":7}`}
	unused, notMade := became("200", `{"outcome":"unused"}`), became("200", `{"outcome":"not_made","charge":"ch_1"}`)
	unknown, already := became("202", `{"outcome":"unknown","charge":"ch_1"}`), became("400", `{"code":"already_made"}`)
	refunded := became("200", `{"outcome":"refunded","charge":"ch_1","refund":"re_1"}`)
	part := history.Sent{Key: "acme/r", Body: `{"charge":"ch_1","amount":3}`, Path: "/v1/refunds"}
	refused, nothing := became("400", `{"code":"not_refundable"}`), became("200", `{"outcome":"refunded","charge":"ch_1"}`)
	gone := history.Got{Kind: history.Final, Reply: `410|application/problem+json||{"error":"idempotency_key_canceled"}`}
	none := history.Got{Kind: history.None}
	bought := history.Sent{Key: "acme/k", Body: `{"amount":7}`, Path: "/v1/orders"} // through a gateway
	delivered, found := history.Got{Kind: history.Final, Reply: `201|application/json||{"id":"ch_1"}`}, history.Got{Kind: history.Final, Reply: `200|application/json||{"id":"ch_1"}`}
	open, stays := history.Got{Kind: history.Final, Reply: `503|application/problem+json||{"error":"outcome_unknown"}`}, became("503", `{"error":"outcome_unknown"}`)
	ordered := history.Movement{"order", "ch_1", 7}
	there, back := history.Movement{"charge", "ch_1", 7}, history.Movement{"refund", "re_1", 7}
	disputed := history.Movement{"dispute", "ch_1", 7}
	no := history.Got{Kind: history.Final, Reply: `402|application/problem+json||{"error":"card_declined"}`}
	type op struct {
		in  history.Sent
		out history.Got
	}
	for name, tc := range map[string]struct {
		ops                                     []op
		moved                                   []history.Movement
		duplicates, differing, lost, disordered int
	}{
		"kept": {
			ops:   []op{{visa, history.Got{Kind: history.None}}, {visa, paid("ch_1")}, {changed, history.Got{Kind: history.Mismatch}}, {visa, paid("ch_1")}, {refund, paid("re_1")}},
			moved: []history.Movement{{"charge", "ch_1", 7}, {"refund", "re_1", 7}},
		},
		"declined":          {ops: []op{{stolen, no}}},
		"declined and paid": {ops: []op{{stolen, no}}, moved: []history.Movement{{"charge", "ch_1", 9}}, duplicates: 1},
		"paid twice":        {ops: []op{{visa, paid("ch_1")}}, moved: []history.Movement{{"charge", "ch_1", 7}, {"charge", "ch_1", 7}}, duplicates: 1},
		"paid as another":   {ops: []op{{visa, paid("ch_1")}}, moved: []history.Movement{{"charge", "ch_1", 7}, {"charge", "ch_2", 7}}, duplicates: 1},
		"refunded twice": {
			ops:   []op{{visa, paid("ch_1")}, {refund, paid("re_1")}},
			moved: []history.Movement{{"charge", "ch_1", 7}, {"refund", "re_1", 7}, {"refund", "re_2", 7}}, duplicates: 1,
		},
		"not paid":           {ops: []op{{visa, paid("ch_1")}}, lost: 1},
		"refused":            {ops: []op{{visa, no}}, lost: 1},
		"never answered":     {ops: []op{{visa, history.Got{Kind: history.None}}}, lost: 1},
		"one never answered": {ops: []op{{visa, paid("ch_1")}, {changed, history.Got{Kind: history.None}}}, moved: []history.Movement{{"charge", "ch_1", 7}}, lost: 1},
		"other bytes": {
			ops: []op{{visa, paid("ch_1")}, {visa, paid("ch_2")}}, moved: []history.Movement{{"charge", "ch_1", 7}},
			differing: 1, disordered: 1,
		},
		"given up before it was used":  {ops: []op{{cancel, unused}, {visa, gone}, {changed, gone}, {cancel, unused}}},
		"given up, and used":           {ops: []op{{cancel, unused}, {visa, paid("ch_1")}}, moved: []history.Movement{there}, lost: 1, disordered: 1},
		"used, and given up as unused": {ops: []op{{visa, history.Got{Kind: history.InUse}}, {visa, gone}, {changed, history.Got{Kind: history.Mismatch}}, {cancel, unused}}, disordered: 1},
		"given up before it was sent":  {ops: []op{{visa, none}, {cancel, notMade}, {visa, gone}, {changed, history.Got{Kind: history.Mismatch}}}},
		"given up, and paid":           {ops: []op{{visa, none}, {cancel, notMade}, {visa, gone}}, moved: []history.Movement{there}, duplicates: 1},
		"given up while it was made": {
			ops:   []op{{visa, none}, {cancel, unknown}, {cancel, refunded}, {visa, gone}, {cancel, refunded}},
			moved: []history.Movement{there, back},
		},
		"given up, and answered as made": {
			ops: []op{{visa, none}, {cancel, unknown}, {visa, paid("ch_1")}, {cancel, refunded}}, moved: []history.Movement{there, back},
			disordered: 1,
		},
		"given up and not refunded": {ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{there}, lost: 1, duplicates: 1},
		"given up and refunded twice": {
			ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{there, back, {"refund", "re_2", 7}}, duplicates: 1,
		},
		"given up and charged twice": {
			ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{there, there, back}, duplicates: 1,
		},
		"refunded, and no charge": {ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{back}, lost: 1, duplicates: 1},
		"another amount back":     {ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{there, {"refund", "re_1", 6}}, lost: 1, duplicates: 2},
		"answered, and given up":  {ops: []op{{visa, paid("ch_1")}, {cancel, refunded}, {visa, paid("ch_1")}}, moved: []history.Movement{there, back}},
		"answered, refunded in part, and given up": {
			ops:   []op{{visa, paid("ch_1")}, {part, paid("re_2")}, {cancel, refused}, {cancel, refunded}},
			moved: []history.Movement{there, {"refund", "re_2", 3}, {"refund", "re_1", 4}},
		},
		"answered, and refunded twice": {
			ops:   []op{{visa, paid("ch_1")}, {part, paid("re_2")}, {cancel, refunded}},
			moved: []history.Movement{there, {"refund", "re_2", 3}, back}, lost: 1, duplicates: 1,
		},
		"answered, and its refund refused": {ops: []op{{visa, paid("ch_1")}, {part, none}, {cancel, refunded}}, moved: []history.Movement{there, back}},
		"answered, and refunded before":    {ops: []op{{visa, paid("ch_1")}, {refund, paid("re_2")}, {cancel, nothing}}, moved: []history.Movement{there, {"refund", "re_2", 7}}},
		"answered, and kept":               {ops: []op{{visa, paid("ch_1")}, {cancel, refunded}}, moved: []history.Movement{there}, lost: 1},
		"given up, and disputed":           {ops: []op{{visa, none}, {cancel, nothing}, {visa, gone}}, moved: []history.Movement{there, disputed}},
		"given up, and disputed in part":   {ops: []op{{visa, none}, {cancel, nothing}, {visa, gone}}, moved: []history.Movement{there, {"dispute", "ch_1", 6}}, lost: 1, duplicates: 1},
		"given up, refunded and disputed":  {ops: []op{{visa, none}, {cancel, refunded}, {visa, gone}}, moved: []history.Movement{there, disputed, back}, duplicates: 1},
		"given up, disputed, and refunded": {ops: []op{{visa, none}, {cancel, nothing}, {visa, gone}}, moved: []history.Movement{there, disputed, back}, duplicates: 1},
		"answered, and given up as not":    {ops: []op{{visa, paid("ch_1")}, {cancel, notMade}}, moved: []history.Movement{there}, lost: 1, disordered: 1},
		"gone, and nobody gave it up":      {ops: []op{{visa, gone}}, lost: 1, disordered: 1},
		"never told": {
			ops: []op{{visa, paid("ch_1")}, {cancel, unknown}}, moved: []history.Movement{there}, lost: 1, disordered: 1,
		},
		"a cancellation that changes": {
			ops: []op{{visa, none}, {cancel, notMade}, {cancel, unknown}, {cancel, unused}, {visa, gone}}, differing: 1, disordered: 1,
		},
		"a transfer that was made":          {ops: []op{{transfer, none}, {cancel, unknown}, {transfer, paid("tr_1")}, {cancel, already}}, moved: []history.Movement{{"transfer", "tr_1", 7}}},
		"a transfer as it was gone":         {ops: []op{{transfer, none}, {transfer, gone}, {cancel, already}}, moved: []history.Movement{{"transfer", "tr_1", 7}}, lost: 1, duplicates: 1, disordered: 1},
		"captured in part":                  {ops: []op{{held, none}, {order("capture"), took}, {order("capture"), took}, {held, captured}}, moved: []history.Movement{there}},
		"captured twice":                    {ops: []op{{held, captured}, {order("capture"), took}}, moved: []history.Movement{there, there}, duplicates: 1},
		"captured as a whole":               {ops: []op{{held, captured}}, moved: []history.Movement{{"charge", "ch_1", 9}}, lost: 1, duplicates: 1},
		"let go":                            {ops: []op{{order("capture"), none}, {order("cancel"), took}, {held, no}}},
		"let go, and captured":              {ops: []op{{order("cancel"), took}, {held, no}}, moved: []history.Movement{there}, duplicates: 1},
		"an order that changes":             {ops: []op{{held, captured}, {order("capture"), took}, {order("capture"), captured}}, moved: []history.Movement{there}, differing: 1, disordered: 1},
		"found":                             {ops: []op{{bought, none}, {cancel, unknown}, {bought, found}, {cancel, already}}, moved: []history.Movement{ordered}},
		"found, and not there":              {ops: []op{{bought, found}}, lost: 1},
		"charged as found":                  {ops: []op{{visa, found}}, moved: []history.Movement{there}, lost: 1, duplicates: 1},
		"made, and answered as not":         {ops: []op{{bought, none}, {cancel, notMade}, {bought, gone}}, moved: []history.Movement{ordered}, duplicates: 1},
		"never known, and made":             {ops: []op{{bought, open}, {cancel, stays}, {bought, open}}, moved: []history.Movement{ordered}},
		"never known, and not made":         {ops: []op{{bought, none}, {cancel, unknown}, {cancel, stays}, {bought, open}}},
		"never known, and made twice":       {ops: []op{{bought, open}}, moved: []history.Movement{ordered, {"order", "ch_2", 7}}, duplicates: 1},
		"never known, and then made":        {ops: []op{{bought, open}, {bought, delivered}}, moved: []history.Movement{ordered}, differing: 1, disordered: 1},
		"made, and its outcome unknown":     {ops: []op{{bought, delivered}, {cancel, stays}}, moved: []history.Movement{ordered}, lost: 1, disordered: 1},
		"charged, and never known":          {ops: []op{{visa, open}}, lost: 1},
		"given up, and its outcome unknown": {ops: []op{{bought, none}, {cancel, notMade}, {bought, open}}, lost: 1},
		"refused for no other request": {
			ops: []op{{changed, history.Got{Kind: history.Mismatch}}, {visa, paid("ch_1")}}, moved: []history.Movement{{"charge", "ch_1", 7}},
			disordered: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h history.History
			start := time.Now()
			for _, o := range tc.ops {
				h.AddAt(1, "us-east1-1", o.in, time.Now(), o.out)
			}
			h.AddFault("kill us-east1-1", start)
			dir := t.TempDir()
			var lines, book bytes.Buffer
			require.NoError(t, h.Write(&lines))
			for _, m := range tc.moved {
				require.NoError(t, json.NewEncoder(&book).Encode(m))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, history.File), lines.Bytes(), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, history.Movements), book.Bytes(), 0o600))
			v, read, err := history.JudgeFiles(dir)
			require.NoError(t, err)
			require.Equal(t, h.Operations(), read.Operations())
			require.Equal(t, 1, v.Faults)
			require.Equal(t, [4]int{tc.duplicates, tc.differing, tc.lost, tc.disordered}, [4]int{v.Duplicates, v.Differing, v.Lost, v.Disordered}, "%+v", v)
			require.Equal(t, tc.duplicates+tc.differing+tc.lost+tc.disordered == 0, v.OK())
			require.Equal(t, v.OK(), len(v.Breaks) == 0)
			var seen bytes.Buffer
			for _, b := range v.Breaks { // each names the key, but for a refund that no request asked for
				if b.Key == "" {
					require.Contains(t, b.What, "a refund of ")
					continue
				}
				require.Contains(t, []string{"acme/k", "acme/r"}, b.Key)
				require.NoError(t, read.Of(b.Key).Write(&seen))
				require.Contains(t, seen.String(), `"Body":"{`)
				require.Contains(t, seen.String(), "kill us-east1-1")
			}
		})
	}
}
