package httpapi

import (
	"bytes"
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
	// No body is read for an unknown provider: anybody can send one.
	if s.Notices == nil || !s.Notices.Knows(r.PathValue("provider")) {
		return errNoProvider
	}
	var body []byte
	err := s.withBody(res, r, notice.MaxNotice, func(raw []byte) error {
		body = bytes.Clone(raw)
		return nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), noticeTime)
	defer cancel()
	switch err := s.Notices.Receive(ctx, r.PathValue("provider"), r.Header, body); {
	case err == nil:
		res.Header()["Content-Length"] = []string{"0"}
		res.WriteHeader(http.StatusOK)
		return nil
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
