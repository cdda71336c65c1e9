package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/homeward-io/homeward/internal/span"
)

// route is the path without the id or key in it: /v1/charges/{id}/capture.
func (c *call) route() string {
	parts := strings.SplitN(c.path, "/", 5)
	if len(parts) > 3 {
		parts[3] = "{id}"
	}
	return strings.Join(parts, "/")
}

// traceAttempt records where an attempt went and how it ended.
func (c *call) traceAttempt(sp span.Span, n int, base string, answer *Answer, failed *Error) {
	if !sp.IsRecording() {
		return
	}
	sp.SetAttributes(span.Method.String(c.method), span.Path.String(c.route()), span.AttemptNo.Int(n))
	if u, err := url.Parse(base); err == nil {
		sp.SetAttributes(span.Address.String(u.Host))
	}
	if failed == nil {
		sp.SetAttributes(span.HomeRegion.String(answer.HomeRegion), span.Region.String(answer.ServedBy), span.Replayed.Bool(answer.Replayed))
		return
	}
	if failed.Status != 0 {
		sp.SetAttributes(span.Status.Int(failed.Status))
	}
	fault(sp, failed)
}

// fault marks sp as failed unless failed is a refusal, which is an answer. It does not
// record the error's text, which may contain the key.
func fault(sp span.Span, failed *Error) {
	switch {
	case !sp.IsRecording() || failed == nil:
	case failed.Status >= http.StatusInternalServerError:
		span.Fail(sp, fmt.Errorf("answered %d", failed.Status))
	case failed.Status == 0:
		span.Fail(sp, errors.New("no answer"))
	}
}
