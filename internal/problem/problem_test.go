package problem

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func TestJSONIsFixed(t *testing.T) {
	full := New(CardDeclined, `Say "no" <now> & again.`)
	full.RetryAfter = 1500*time.Millisecond + 1
	full.OriginalRequestAt = time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3600))
	full.Member, full.DeclineCode = "payment_method", "stolen_card"
	for name, c := range map[string]struct {
		p    Problem
		want string
	}{
		"full": {full, `{"type":"/errors/card_declined","title":"The payment was declined","status":402,` +
			`"detail":"Say \"no\" <now> & again.","error":"card_declined","retry":"new_key","retry_after_ms":1501,` +
			`"original_request_at":"2026-01-02T02:04:05Z","member":"payment_method","code":"stolen_card"}`},
		"plain": {New(NotFound, "There is no such charge."), `{"type":"/errors/not_found","title":"Not found","status":404,` +
			`"detail":"There is no such charge.","error":"not_found","retry":"never"}`},
		"invalid UTF-8": {New(Forbidden, "a\xffb"), `{"type":"/errors/forbidden","title":"Not allowed","status":403,` +
			`"detail":"a\ufffdb","error":"forbidden","retry":"never"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(c.p.JSON("")); got != c.want+"\n" {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The public contract, row by row.
func TestTable(t *testing.T) {
	rows := []struct {
		status int
		retry  Retry
		codes  []Code
	}{
		{400, Never, []Code{"idempotency_key_missing", "idempotency_key_invalid", "invalid_request"}},
		{401, Never, []Code{"unauthorized"}},
		{403, Never, []Code{"forbidden"}},
		{402, NewKey, []Code{"card_declined"}},
		{404, Never, []Code{"not_found"}},
		{405, Never, []Code{"method_not_allowed"}},
		{413, Never, []Code{"body_too_large"}},
		{415, Never, []Code{"unsupported_media_type"}},
		{409, SameKey, []Code{"idempotency_key_in_use"}},
		{410, NewKey, []Code{"idempotency_key_canceled", "idempotency_key_expired"}},
		{422, Never, []Code{"idempotency_key_fingerprint_mismatch"}},
		{429, SameKey, []Code{"rate_limited"}},
		{503, SameKey, []Code{"store_unavailable", "home_unavailable", "idempotency_key_withheld", "outcome_unknown"}},
		{500, SameKey, []Code{"internal"}},
	}
	var seen []Code
	for _, row := range rows {
		for _, code := range row.codes {
			seen = append(seen, code)
			p := New(code, "d")
			if p.Status != row.status || p.Retry != row.retry || p.Code != code || p.Title == "" {
				t.Errorf("%s: got %+v", code, p)
			}
			var wire map[string]any
			if err := json.Unmarshal(p.JSON(""), &wire); err != nil {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
	all := Codes()
	slices.Sort(all)
	slices.Sort(seen)
	if !slices.Equal(all, seen) {
		t.Errorf("table has %v, contract has %v", all, seen)
	}
	if p := New("surprise", "d"); p.Code != Internal || p.Status != 500 {
		t.Errorf("an unknown code became %+v", p)
	}
}

// What is rendered reads back, and renders to the same bytes.
func TestParse(t *testing.T) {
	p := New(CardDeclined, `Say "no" <now>.`)
	p.RetryAfter, p.Member, p.DeclineCode = 1500*time.Millisecond, "metadata.a", "stolen_card"
	p.OriginalRequestAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, want := range []Problem{p, New(NotFound, "No.")} {
		got, err := Parse(want.JSON(""))
		if err != nil || got != want || string(got.JSON("")) != string(want.JSON("")) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	for _, body := range []string{"", "[]", `{"original_request_at":"yesterday"}`} {
		if got, err := Parse([]byte(body)); err == nil {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", -1: "", 1: "1", time.Second: "1", time.Second + 1: "2", 5 * time.Second: "5",
	} {
		p := Problem{RetryAfter: d}
		if got := p.RetryAfterHeader(); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
