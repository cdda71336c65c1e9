package testmode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Report keeps a notice, whose event has that id, of a tenant, and lets nobody act on it until so long
// after. It returns once the notice is durable, and nil if it was kept before.
type Report func(ctx context.Context, tenant, event string, after time.Duration, body []byte) error

// Left is what of a tenant's charge has not gone back, and is not on its way by another refund than
// but. found is false if the charge is not booked.
type Left func(ctx context.Context, tenant, charge, but string) (left int64, found bool, err error)

// Provider is the provider of test tenants. It is safe for concurrent use.
type Provider struct {
	report Report
	left   Left
	// slow is how long an answer takes that is slow.
	slow time.Duration
}

var (
	_ psp.Provider = (*Provider)(nil)
	_ psp.Notifier = (*Provider)(nil)
)

// slow is long enough for a page to show that it waits, and far below the time-out.
const slow = 5 * time.Second

// New returns a Provider that reports by report, and refunds no more than left.
func New(report Report, left Left) *Provider {
	return &Provider{report: report, left: left, slow: slow}
}

// Name implements [psp.Provider]: it is claim.TestProvider.
func (*Provider) Name() string { return "test" }

// keyLife is for ever, as no key is remembered: the answer follows from it.
const keyLife = 100 * 365 * 24 * time.Hour

// Capabilities implements [psp.Provider]. It has no look-ups, as it keeps nothing.
func (*Provider) Capabilities() psp.Capabilities {
	return psp.Capabilities{Dedupe: psp.DedupeKey, KeyLife: keyLife, Blind: true, Asynchronous: true, Captures: true, Timeout: 30 * time.Second}
}

// Charge implements [psp.Provider].
func (p *Provider) Charge(ctx context.Context, call psp.Call) psp.Result {
	call.Kind = psp.KindCharge
	for _, m := range Methods() {
		if m.Token == call.Source {
			return p.answer(ctx, &call, m.answer)
		}
	}
	if strings.HasPrefix(call.Source, anyCard) {
		return p.answer(ctx, &call, succeeds)
	}
	return declined(psp.Invalid, "payment_method_invalid", "There is no such test payment method.", "payment_method")
}

// Transfer implements [psp.Provider].
func (p *Provider) Transfer(ctx context.Context, call psp.Call) psp.Result {
	call.Kind = psp.KindTransfer
	for _, d := range Destinations() {
		if d.Token == call.Source {
			return p.answer(ctx, &call, d.answer)
		}
	}
	if strings.HasPrefix(call.Source, psp.AccountPrefix) {
		return p.answer(ctx, &call, succeeds)
	}
	return declined(psp.Invalid, "destination_invalid", "There is no such test destination.", "destination")
}

// Refund implements [psp.Provider]. It follows the payment method of the charge, which the reference
// of that repeats.
func (p *Provider) Refund(ctx context.Context, call psp.Call) psp.Result {
	call.Kind = psp.KindRefund
	// The provider keeps no sums. A refund that is refused here was not made, whoever repeats it.
	if call.Of != "" {
		left, found, err := p.left(ctx, call.Tenant, call.Of, call.Reference)
		switch {
		case err != nil:
			return psp.Result{Err: fmt.Errorf("what is left of the charge cannot be read: %w", err)}
		case found && call.Amount > left:
			return declined(psp.Invalid, "refund_exceeds_charge", "The refunds would exceed the charge.", "")
		}
	}
	for _, m := range Methods() {
		if m.refund != nil && strings.HasSuffix(call.Source, "_"+m.Token) {
			return p.answer(ctx, &call, m.refund)
		}
	}
	return p.answer(ctx, &call, succeeds)
}

// Capture implements [psp.Provider].
func (p *Provider) Capture(ctx context.Context, call psp.Call) psp.Result {
	return p.answer(ctx, &call, func(call *psp.Call, _ string) (psp.Result, []psp.Notice) {
		return ordered(call, psp.Notice{Outcome: psp.Approved})
	})
}

// Cancel implements [psp.Provider].
func (p *Provider) Cancel(ctx context.Context, call psp.Call) psp.Result {
	return p.answer(ctx, &call, func(call *psp.Call, _ string) (psp.Result, []psp.Notice) {
		return ordered(call, psp.Notice{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: "canceled"}})
	})
}

// ordered is the answer to a capture or a cancellation, whose effect is reported at once.
func ordered(call *psp.Call, n psp.Notice) (psp.Result, []psp.Notice) {
	n.Movement, n.Held, n.Kind, n.Reference, n.ProviderRef = true, true, psp.KindCharge, call.Of, call.Source
	n.Amount, n.Currency = call.Amount, call.Currency
	if call.Reference != call.Of {
		n.Order = call.Reference
	}
	return psp.Result{Outcome: psp.Pending, ProviderRef: call.Source, Wait: &psp.Wait{State: psp.Processing}}, []psp.Notice{n}
}

var errBlind = errors.New("the test provider shows no movement")

// Lookup implements [psp.Provider]: it has none.
func (*Provider) Lookup(context.Context, psp.Call) (psp.Found, psp.Result) {
	return psp.FoundUnknown, psp.Result{Err: errBlind}
}

// Show implements [psp.Provider]: it shows none.
func (*Provider) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	return psp.FoundUnknown, psp.Movement{}, errBlind
}

// answer answers a call once what it reports is kept.
func (p *Provider) answer(ctx context.Context, call *psp.Call, of answer) psp.Result {
	if err := ctx.Err(); err != nil {
		return psp.Result{Err: err}
	}
	r, notices := of(call, refOf(call))
	for i := range notices {
		body, err := json.Marshal(&notices[i])
		if err == nil {
			err = p.report(ctx, call.Tenant, fmt.Sprintf("%s/%d", call.Key, i+1), notices[i].After, body)
		}
		if err != nil {
			return psp.Result{Err: fmt.Errorf("what happens later could not be recorded: %w", err)}
		}
	}
	if call.Source == tokenSlow {
		select {
		case <-time.After(p.slow):
		case <-ctx.Done():
			return psp.Result{Err: ctx.Err()}
		}
	}
	return r
}

// refOf is the reference of a movement. It repeats the payment method, for refunds.
func refOf(call *psp.Call) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %s", call.Kind, call.Key, call.Reference, call.Amount, call.Currency))
	ref := "test_" + hex.EncodeToString(sum[:8])
	if call.Kind != psp.KindRefund {
		ref += "_" + call.Source
	}
	return ref
}

// Signed implements [psp.Notifier]. No notice comes from outside of the node.
func (*Provider) Signed(http.Header) bool { return false }

// Verify implements [psp.Notifier]: it refuses all.
func (*Provider) Verify(http.Header, []byte, time.Time) (string, error) {
	return "", fmt.Errorf("%w: the test provider sends none", psp.ErrForged)
}

// Read implements [psp.Notifier].
func (*Provider) Read(body []byte) (n psp.Notice, err error) {
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("%w: %w", psp.ErrMalformed, err)
	}
	return n, nil
}
