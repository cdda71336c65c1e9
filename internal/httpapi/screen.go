package httpapi

import (
	"context"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// screen keeps card numbers out of req, as its tenant wants it. It runs before anything
// is stored, sent or said.
//
// A tenant's setting may change between a request and its retry, which must then find
// the answer of the first and not be another request. So a request that holds a card
// number carries the fingerprint of the spelling that it would have under the other
// settings. Where the setting now refuses it, only a key that is not in use yet is
// refused: under a key with a claim it may be a retry, and goes on as masked, to be
// compared with the claim. That costs such a request a look at its key, and others
// nothing.
func (s *server) screen(ctx context.Context, cards claim.CardNumbers, req *claim.Request, hint string) error {
	found := payment.Screen(req.Input.Canonical)
	if found.Member == "" {
		return nil
	}
	masked := req.Input
	masked.Canonical = found.Masked
	if cards == claim.AllowCardNumbers {
		return also(req, &masked)
	}
	if found.Masked == nil {
		return found.Refusal()
	}
	if cards != claim.MaskCardNumbers {
		status, used, err := s.Router.Inspect(ctx, req.Key, hint)
		if err != nil {
			return err // whether it is a retry is not known
		}
		if !used || status.Age == claim.Gone {
			return found.Refusal()
		}
	}
	plain := req.Input
	req.Input = masked
	return also(req, &plain)
}

// also lets req count as the request of other, too; a spelling that there is not is
// none.
func also(req *claim.Request, other *claim.FingerprintInput) (err error) {
	if other.Canonical != nil {
		req.Also, err = other.Fingerprint(claim.CurrentFingerprint)
	}
	return err
}
