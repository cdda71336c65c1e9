package payment

import (
	"context"
	"errors"
	"slices"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
)

// elseMoved returns v, unless another provider is to try instead: the settings name one, the
// request names none, and this generation has certainly moved no money. That is so for a first
// attempt whose call was not sent or was declined, and never after an unknown outcome. It excludes
// a declined payment that its payer may still complete.
func (t *attempt) elseMoved(ctx context.Context, r psp.Result, v claim.Outcome) claim.Outcome {
	next, set := t.o.Failover[t.name]
	_, has := t.callees[next.To]
	switch {
	case !set || !has || t.Recovery || t.Last || t.intent.Provider != "" || t.Record.ProviderRef != "" || t.op != Charge && t.op != Transfer:
		return v
	case !certain(r, v, next.Codes):
		return v
	}
	reason := reasonNotSent
	if r.Decline != nil {
		reason = r.Decline.Code
	}
	t.log.WarnContext(ctx, "failing over: this provider has certainly moved no money",
		"object", t.Record.Minted.ID, "provider", t.name, "next", next.To, "reason", reason)
	return &claim.Moved{Next: next.To, Reason: reason}
}

// certain reports whether r proves that no money moved, with one of codes.
func certain(r psp.Result, v claim.Outcome, codes []string) bool {
	var held *psp.NotSentError
	if r.Outcome == psp.Unknown {
		return errors.As(r.Err, &held)
	}
	_, released := v.(*claim.Released)
	return r.Decline.Class != psp.Hard && released && slices.Contains(codes, r.Decline.Code)
}
