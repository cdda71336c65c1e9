package httpapi

import (
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// screen keeps card numbers out of req, as its tenant wants it. It runs before anything
// is stored, sent or said.
//
// A request may be the retry of one that was let in, under another setting or by an
// older version, and must then read the answer of the first. So one that holds a card
// number carries the fingerprint of the spelling that it would have under the other
// settings. And one that is not wanted now is not refused here: it goes on, to be
// compared only, and refusal is what to answer where no claim has an answer for it.
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
