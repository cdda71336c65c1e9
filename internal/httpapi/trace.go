package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/homeward-io/homeward/internal/span"
)

// traced begins the span of a request, named after its route: a path may hold a key. It
// is in the caller's trace if a tenant calls. Nobody else decides what is sampled.
func (s *server) traced(res *response, r *http.Request, pattern string) (*http.Request, span.Span) {
	from := r.Header
	if res.tenant.ID == "" {
		from = nil
	}
	ctx, sp := span.Server(r.Context(), from, pattern, res.began)
	if sp.SpanContext().IsValid() {
		// Also if the trace is not sampled, so that nothing below begins another.
		r = r.WithContext(ctx)
	}
	return r, sp
}

func (s *server) ended(sp span.Span, pattern string, res *response, r *http.Request) {
	if sp.IsRecording() {
		_, path, ok := strings.Cut(pattern, " ")
		if !ok {
			path = pattern // of a method that the route does not have
		}
		sp.SetAttributes(span.Method.String(r.Method), span.Path.String(path), span.Region.String(s.Region), span.Status.Int(res.status))
		if res.tenant.ID != "" {
			sp.SetAttributes(span.Tenant.String(res.tenant.ID))
		}
		switch {
		case res.status == 0: // ServeHTTP answers for a handler that panicked
			span.Fail(sp, errPanicked)
		case res.status >= http.StatusInternalServerError:
			span.Fail(sp, fmt.Errorf("answered %d", res.status))
		}
	}
	sp.End()
}

var errPanicked = errors.New("the handler panicked")

// traceparentLength is that of W3C trace context version 00, in characters, and
// traceIDLength that of the trace id, which follows the version.
const (
	traceparentLength = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	traceIDLength     = len("4bf92f3577b34da6a3ce929d0e0e4736")
)

// traceparent returns this request's position in its trace. Without tracing it is the
// caller's trace context, or a new one that is not sampled. Trace ids must differ, but
// need not be secret.
func traceparent(r *http.Request) string {
	if here := span.TraceParent(r.Context()); here != "" {
		return here
	}
	if values := r.Header[headerTraceparent]; len(values) == 1 && validTraceparent(values[0]) {
		return values[0]
	}
	var id [24]byte
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], rand.Uint64())
	}
	id[0], id[16] = id[0]|1, id[16]|1 // all zeros are invalid
	text := make([]byte, 0, traceparentLength)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, id[:16])
	text = append(text, '-')
	text = hex.AppendEncode(text, id[16:])
	return string(append(text, "-00"...))
}

func validTraceparent(v string) bool {
	if len(v) != traceparentLength || v[:3] != "00-" || v[35] != '-' || v[52] != '-' {
		return false
	}
	return lowerHex(v[3:35], true) && lowerHex(v[36:52], true) && lowerHex(v[53:], false)
}

func lowerHex(s string, notZero bool) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		if c != '0' {
			notZero = false
		}
	}
	return !notZero
}
