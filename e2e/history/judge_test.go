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
			for _, b := range v.Breaks { // each names the key
				require.Contains(t, []string{"acme/k", "acme/r"}, b.Key)
				require.NoError(t, read.Of(b.Key).Write(&seen))
				require.Contains(t, seen.String(), tc.ops[0].in.Body[1:8])
				require.Contains(t, seen.String(), "kill us-east1-1")
			}
		})
	}
}
