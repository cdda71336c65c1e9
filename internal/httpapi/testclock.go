package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// maxElapse is how far one request moves a test clock, in seconds: 400 days, for which anything is
// remembered.
const maxElapse = 400 * 24 * 60 * 60

// elapse lets time pass for a test tenant.
func (s *server) elapse(res *response, r *http.Request) error {
	if err := checkMedia(r); err != nil {
		return err
	}
	body, err := s.readBody(res, r)
	if err != nil {
		return err
	}
	seconds, err := onlyNumber(body, "advance", maxElapse)
	if err != nil {
		return err
	}
	if claim.Livemode(res.tenant.ID) || s.Elapse == nil {
		return errLive
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	if err := s.Elapse(ctx, res.tenant.ID, time.Duration(seconds)*time.Second); err != nil {
		p, expected := problemOf(err)
		if !expected {
			return err
		}
		// No key makes a repeat safe.
		p.Retry, p.RetryAfter = problem.Never, 0
		p.Detail = "The time of your test keys may have passed in some regions, or in all. The same request would move it further: read a key to see how old it is."
		return &refusal{Problem: p}
	}
	return res.sendJSON(http.StatusOK, struct {
		Advanced int `json:"advanced"`
	}{seconds})
}

var errLive = refuse(problem.Forbidden, "Time passes on request for test keys alone: hw_test_…, in the demo sk_demo_acme_test.")
