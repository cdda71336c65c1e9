package router

import (
	"errors"
	"fmt"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/region"
)

// ErrHomeUnavailable: the key's home, or the registrar that has its pin, cannot be reached, so no
// node may act on the key now. A retry with the same key is safe.
var ErrHomeUnavailable = errors.New("router: the key's home region cannot be reached")

// unreachable wraps every failure to reach the home in one error. Errors that the home
// itself returned pass unchanged.
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
