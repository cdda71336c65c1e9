package simulator

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLateEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		setFaults(t, s, Faults{LateEffect: 1, LateBy: 15 * time.Minute})
		charge(s, "k", "ch_1", "pm_card_visa").want(t, 504, "timeout")
		time.Sleep(15*time.Minute - 1)
		synctest.Wait()
		wantSummary(t, s, Summary{})
		do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", "").want(t, 404, "not_found")
		if st := s.Stats(); st.LatePending != 1 {
			t.Errorf("%+v", st)
		}
		time.Sleep(1)
		synctest.Wait()
		wantSummary(t, s, Summary{Effects: 1, Keys: 1})
		do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", "").want(t, 200, "succeeded")
		if st := s.Stats(); st.LatePending != 0 || st.LateEffects != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A key that was settled meanwhile is not settled again; without dedupe the money
// moves twice.
func TestLateEffectMeetsTheRetry(t *testing.T) {
	for name, c := range map[string]struct {
		config  Config
		effects int64
	}{"dedupes": {Config{}, 1}, "does not": {Config{IgnoreKeys: true}, 2}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.config)
			setFaults(t, s, Faults{LateEffect: 1, LateBy: time.Hour})
			charge(s, "k", "ch_1", "pm_card_visa").want(t, 504, "timeout")
			setFaults(t, s, Faults{})
			charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
			if r := do(s, "POST", "/_sim/late/release", "", ""); r.body != `{"released":1}`+"\n" {
				t.Errorf("got %+v", r)
			}
			if got := s.Summary(); got.Effects != c.effects || got.DuplicateEffects != c.effects-1 {
				t.Errorf("%+v, want %d effects", got, c.effects)
			}
		})
	}
}

// A call that was on its way when the provider died has not arrived.
func TestLateEffectEndsWithTheProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	setFaults(t, s, Faults{LateEffect: 1, LateBy: time.Hour})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 504, "timeout")
	closeNow(t, s)
	if n := s.ReleaseLate(); n != 0 {
		t.Errorf("%d calls took effect after the end", n)
	}
	wantSummary(t, open(t, Config{Dir: dir}), Summary{})
}

// The draws of the faults before there was a late effect are what they were.
func TestLateEffectShiftsNoDraw(t *testing.T) {
	s := open(t, Config{})
	sequence := func(f Faults) (out []bool) {
		setFaults(t, s, f)
		for range 100 {
			d := s.faults.draw()
			out = append(out, d.errorBefore, d.errorAfter, d.dropReply)
		}
		return out
	}
	f := Faults{ErrorBefore: 0.5, ErrorAfter: 0.5, DropReply: 0.5, Seed: 3}
	first := sequence(f)
	f.LateEffect = 0.5
	for i, hit := range sequence(f) {
		if hit != first[i] {
			t.Fatal("another sequence")
		}
	}
}

// Without dedupe each call moves money, across a restart too, and a provider
// without look-up answers no question.
func TestNoDedupeAtAll(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s := open(t, Config{Dir: dir, IgnoreKeys: true, NoLookup: true})
		charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
		charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
		do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", "").want(t, 501, "unsupported")
		closeNow(t, s)
	}
	wantSummary(t, open(t, Config{Dir: dir}), Summary{Effects: 4, DuplicateEffects: 3})
}
