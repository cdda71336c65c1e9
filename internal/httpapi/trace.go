package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"

	"github.com/homeward-io/homeward/internal/span"
)

// traced begins the span of a request, named after its route: a path may hold a key. If a tenant
// calls, the span continues the caller's trace. No other caller decides what is sampled.
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
		sp.SetAttributes(span.Method.String(r.Method), span.Path.String(pathOf(pattern)), span.Region.String(s.Region), span.Status.Int(res.status))
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

// traceIDLength is that of a trace id, in characters.
const traceIDLength = len("4bf92f3577b34da6a3ce929d0e0e4736")

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
	var ids [16 + 8]byte
	for i := 0; i < len(ids); i += 8 {
		binary.BigEndian.PutUint64(ids[i:], rand.Uint64()|1) // all zeros are invalid
	}
	text := hex.EncodeToString(ids[:])
	return "00-" + text[:traceIDLength] + "-" + text[traceIDLength:] + "-00"
}

// traceparentForm is W3C trace context, version 00.
var traceparentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

func validTraceparent(v string) bool {
	ids := traceparentForm.FindStringSubmatch(v)
	return ids != nil && strings.Trim(ids[1], "0") != "" && strings.Trim(ids[2], "0") != ""
}
