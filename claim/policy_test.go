package claim

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Each setting that would break a promise is named.
func TestPoliciesThatBreakAPromise(t *testing.T) {
	require.NoError(t, DefaultPolicy().Validate())
	for want, change := range map[string]func(*Policy){
		"lease must be":           func(p *Policy) { p.Lease = 0 },
		"renew_every must be":     func(p *Policy) { p.RenewEvery = p.Lease/2 + 1 },
		"lease_margin must be":    func(p *Policy) { p.ClockOffset = p.LeaseMargin + 1 },
		"below lease":             func(p *Policy) { p.LeaseMargin = p.Lease },
		"lease_ceiling must be":   func(p *Policy) { p.LeaseCeiling = p.Lease - 1 },
		"clock_offset must":       func(p *Policy) { p.ClockOffset = -1 },
		"replay_for must":         func(p *Policy) { p.ReplayFor = 0 },
		"tombstone_for must":      func(p *Policy) { p.TombstoneFor = 0 },
		"pin_grace must be above": func(p *Policy) { p.LeaseMargin, p.ClockOffset, p.PinGrace = time.Second, time.Second, time.Second },
		"remember_for must":       func(p *Policy) { p.RememberFor = MinRememberFor - 1 },
		"must be at most":         func(p *Policy) { p.TombstoneFor = maxWindow + 1 },
		"max_generations must":    func(p *Policy) { p.MaxGenerations = 0 },
		"decline_pause must":      func(p *Policy) { p.DeclinePause = p.ReplayFor },
		"action_for must":         func(p *Policy) { p.ActionFor = 0 },
		"processing_for must":     func(p *Policy) { p.ProcessingFor = 0 },
		"max_unknowns must":       func(p *Policy) { p.MaxUnknowns = 0 },
		"backoff_min must":        func(p *Policy) { p.BackoffMax = p.BackoffMin - 1 },
		"wait_poll must":          func(p *Policy) { p.WaitMax = p.WaitPoll - 1 },
		"inline_body must":        func(p *Policy) { p.InlineBody = -1 },
	} {
		p := DefaultPolicy()
		change(&p)
		require.ErrorContains(t, p.Validate(), want)
	}
}

// Where no provider reports a success after its refusal, the refusal leaves no row for it.
func TestNothingIsRememberedWhereNobodyReports(t *testing.T) {
	for _, days := range []time.Duration{0, MinRememberFor} {
		p := DefaultPolicy()
		p.RememberFor = days
		require.NoError(t, p.Validate())
		held := Record{Key: Key{Tenant: "acme", Value: "k"}, Home: "us-east1", State: InFlight, Fence: 1, Minted: Minted{ID: "ch_1"}}
		v := Verdict{Outcome: &Refused{Response: Response{Status: 402}, Reason: "stolen_card"}, ID: uuid.New()}
		s, err := Settle(&held, &v, &p, 0)
		require.NoError(t, err)
		require.Equal(t, days == 0, s.Effects.Unpaid == nil)
	}
}
