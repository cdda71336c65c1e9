package httpapi

import (
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// screen applies the tenant's setting for card numbers to req. It runs before anything
// is stored, sent or logged.
//
// A request may be the retry of one that was accepted under another setting, and must then read
// the answer of the first. So a request with a card number also carries the fingerprint of its
// spelling under the other settings. A request that the present setting refuses continues as
// compare-only, and refusal is the answer if no claim has one.
func screen(cards claim.CardNumbers, intent *payment.Intent, req *claim.Request) (refusal, err error) {
	found := intent.Screen(req.Input.Canonical)
	if found.Member == "" {
		return nil, nil
	}
	plain, masked := req.Input, req.Input
	masked.Canonical = found.Masked
	allowed := cards == claim.AllowCardNumbers
	if wanted := allowed || cards == claim.MaskCardNumbers && found.Masked != nil; !wanted || found.Token {
		refusal, req.CompareOnly = found.Refusal(), true
	}
	if found.Masked == nil {
		return refusal, nil
	}
	other := &masked
	if !allowed {
		req.Input, other = masked, &plain
	}
	req.Also, err = other.Fingerprint(claim.CurrentFingerprint)
	return refusal, err
}
