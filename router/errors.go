package router

import (
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// ErrHomeUnavailable: the key's home, or the registrar that knows it, cannot be
// reached, so nobody may act on the key now. A retry with the same key is safe.
var ErrHomeUnavailable = errors.New("router: the key's home region cannot be reached")

// unreachable gives every way of not reaching the home one name. What the home
// itself said passes unchanged.
func unreachable(err error) error {
	if err == nil || errors.Is(err, ErrHomeUnavailable) {
		return err
	}
	var wrong *region.WrongHomeError
	switch {
	case errors.Is(err, claim.ErrHomeUnreachable), errors.Is(err, region.ErrNoNode),
		errors.Is(err, region.ErrNoAnswer), errors.Is(err, region.ErrPeerFailed), errors.Is(err, region.ErrRefused),
		errors.Is(err, region.ErrHopLimit), errors.Is(err, claim.ErrNeedPin), errors.As(err, &wrong):
		return fmt.Errorf("%w: %w", ErrHomeUnavailable, err)
	default:
		return err
	}
}
