package simulator

import (
	"strings"
	"testing"
	"time"
)

// A refund and a charge fail after they succeeded: the statement has a line of its own
// for each, the money can move anew, the key's answer stays, and all of it is there
// after a restart.
func TestFailAfterSuccess(t *testing.T) {
	dir, now := t.TempDir(), birth
	s, err := Open(Config{Dir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	charge(s, "a", "ch_1", "pm_card_visa")
	first := do(s, "POST", "/v1/refunds", "b", body("re_1", 1250, "psp_ch_000000000001"))
	now = now.Add(time.Hour)
	for id, status := range map[string]int{"psp_re_000000000002": 204, "psp_re_000000000009": 404, "psp_tr_000000000001": 404} {
		if r := do(s, "POST", "/_sim/fail", "", `{"id":"`+id+`"}`); r.status != status {
			t.Errorf("%s: got %d %s, want %d", id, r.status, r.body, status)
		}
	}
	if err := s.Fail("psp_re_000000000002"); err == nil {
		t.Error("a movement failed twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	if r := do(s, "POST", "/v1/refunds", "b", body("re_1", 1250, "psp_ch_000000000001")); r.body != first.body {
		t.Errorf("the key answers %s, first it was %s", r.body, first.body)
	}
	if r := do(s, "GET", "/v1/lookup?kind=refund&reference=re_1", "", ""); r.status != 200 || !strings.Contains(r.body, `"status":"failed"`) {
		t.Errorf("the look-up answers %d %s", r.status, r.body)
	}
	if r := do(s, "POST", "/v1/refunds", "c", body("re_2", 1250, "psp_ch_000000000001")); r.status != 200 {
		t.Errorf("the money cannot be given back anew: %d %s", r.status, r.body)
	}
	want := "id,kind,reference,of,amount,currency,created\n" +
		"psp_ch_000000000001,charge,ch_1,,1250,usd,2026-03-01T12:00:00.0000005Z\n" +
		"psp_re_000000000002,refund,re_1,psp_ch_000000000001,1250,usd,2026-03-01T12:00:00.0000005Z\n" +
		"psp_re_000000000002,refund_failed,re_1,psp_ch_000000000001,1250,usd,2026-03-01T13:00:00.0000005Z\n" +
		"psp_re_000000000004,refund,re_2,psp_ch_000000000001,1250,usd,2026-03-01T13:00:00.0000005Z\n"
	if r := do(s, "GET", "/_sim/statement", "", ""); r.body != want {
		t.Errorf("got\n%swant\n%s", r.body, want)
	}
	if got := s.Stats(); got.Failures != 1 || got.Effects != 3 || got.DuplicateEffects != 0 {
		t.Errorf("%+v", got)
	}
	// A charge that has failed is charged anew under its reference, and is no duplicate.
	if err := s.Fail("pi_000000000001"); err != nil {
		t.Fatal(err)
	}
	charge(s, "d", "ch_1", "pm_card_visa")
	if got := s.Stats(); got.Failures != 2 || got.Effects != 4 || got.DuplicateEffects != 0 {
		t.Errorf("%+v", got)
	}
	if r := do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", ""); !strings.Contains(r.body, `"id":"psp_ch_000000000006","status":"succeeded"`) {
		t.Errorf("the look-up answers %s", r.body)
	}
}
