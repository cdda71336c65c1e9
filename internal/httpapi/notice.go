package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	// noticeTime bounds how long a provider waits for its 200: Stripe and Standard
	// Webhooks allow some 15 s or more. A provider that gets an error sends the notice
	// again.
	noticeTime = 10 * time.Second
	// retryNotice: a full queue of a node drains in about a second.
	retryNotice = time.Second
)

// notice stores a provider's notice: the raw body, unchanged, as its signature covers
// that. Nothing else is done before the answer.
func (s *server) notice(res *response, r *http.Request) error {
	if s.Notices == nil {
		return errNoProvider
	}
	// Any client can send a body. So none is read before the headers that a provider sends.
	provider := r.PathValue("provider")
	if err := s.Notices.Expects(provider, r.Header); err != nil {
		return refusedNotice(err)
	}
	body, err := s.rawBody(res, r, s.notices, notice.MaxNotice)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), noticeTime)
	defer cancel()
	if err := s.Notices.Receive(ctx, provider, r.Header, body); err != nil {
		return refusedNotice(err)
	}
	res.Header()["Content-Length"] = []string{"0"}
	res.WriteHeader(http.StatusOK)
	return nil
}

// refusedNotice maps an error of a notice to the answer for its sender.
func refusedNotice(err error) error {
	switch {
	case errors.Is(err, notice.ErrUnknownProvider):
		return errNoProvider
	case errors.Is(err, notice.ErrForged), errors.Is(err, notice.ErrStale), errors.Is(err, notice.ErrMalformed):
		// Not 401: the sender has no credentials that it could change, and a 401 must
		// name a scheme.
		return refuse(problem.InvalidRequest, sentence(err.Error()))
	// A missing secret is our own mistake; do not report it to the sender.
	case errors.Is(err, notice.ErrUnchecked), errors.Is(err, notice.ErrBusy), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, claim.ErrUnavailable), errors.Is(err, claim.ErrHomeUnreachable):
		p := problem.New(problem.StoreUnavailable, "The notice could not be kept. Send it again.")
		p.RetryAfter = retryNotice
		return &refusal{Problem: p}
	default:
		return err
	}
}

// errNoProvider is the one answer if no notices are accepted, from this provider or at
// all.
var errNoProvider = refuse(problem.NotFound, "No provider of this name sends notices here.")
