package httpapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

const mediaJSON = "application/json"

// checkMedia refuses a body that is not plain JSON in UTF-8. Accepted media types parse
// alike, so the fingerprint need not distinguish them.
func checkMedia(r *http.Request) error { return checkMediaIs(r, mediaJSON) }

func checkMediaIs(r *http.Request, want string) error {
	values := r.Header["Content-Type"]
	if len(values) != 1 {
		return refuse(problem.UnsupportedMediaType, "Send exactly one Content-Type header: "+want+".")
	}
	if values[0] != want {
		mediaType, params, err := mime.ParseMediaType(values[0])
		charset, has := params["charset"]
		if err != nil || mediaType != want || has && !strings.EqualFold(charset, "utf-8") {
			return refuse(problem.UnsupportedMediaType, "Send the body as "+want+" in UTF-8.")
		}
	}
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") {
			return refuse(problem.UnsupportedMediaType, "Send the body without a Content-Encoding.")
		}
	}
	return nil
}

// withQuery refuses a request with a query before h, unless h reads it: readForm does. A
// parameter that was dropped could be the amount of a refund. Notices are not checked:
// a provider's address may carry a query of its own.
func withQuery(h handler) handler {
	return func(res *response, r *http.Request) error {
		if r.URL.RawQuery == "" {
			return h(res, r)
		}
		named, err := url.ParseQuery(r.URL.RawQuery)
		if len(named) == 0 && err == nil || res.stripe != nil && !isJSON(r) {
			return h(res, r)
		}
		p := problem.New(problem.InvalidRequest, "The query is refused: a POST has none here. Send its parameters in the JSON body.")
		if err == nil {
			p.Member = payment.MemberName(strings.ToValidUTF8(slices.Min(slices.Collect(maps.Keys(named))), ""))
			p.Detail = "Member " + p.Member + ": is in the query, and a POST has none here. Send it in the JSON body."
		}
		return &refusal{Problem: p}
	}
}

// limitBody gives the client Limits.BodyTime to send its body. It covers bodies that no
// handler reads, too: net/http waits for the rest of a body before it answers, and
// would wait for ever, and block a graceful stop.
func (s *server) limitBody(res *response, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	// Sockets use the real clock alone. A writer without a socket (a test's recorder) has no
	// slow client either.
	res.timed = http.NewResponseController(res).SetReadDeadline(res.began.Add(s.Limits.BodyTime)) == nil
}

// readBody reads the whole body, within limitBody's time, and returns its
// canonical form.
func (s *server) readBody(res *response, r *http.Request) ([]byte, error) {
	raw, err := s.rawBody(res, r, s.tenants, s.Limits.Body)
	if err != nil {
		return nil, err
	}
	return claim.Canonical(raw, s.canonical)
}

// intake counts the bodies of one kind of caller, and their bytes. One tenant holds at most as many
// of each as stay free: half of all if it is alone. So another tenant always finds room.
type intake struct {
	mu   sync.Mutex
	free InFlight
	held map[string]InFlight // by tenant
}

func newIntake(l InFlight) *intake { return &intake{free: l, held: map[string]InFlight{}} }

// take takes room for a tenant. "" stands for all callers without an API key, who share theirs. It
// reports false if there is none.
func (in *intake) take(tenant string, n InFlight) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	free, held := in.free.minus(n), in.held[tenant].plus(n)
	switch {
	case free.Bodies < 0 || free.Bytes < 0:
		return false
	case tenant != "" && (n.Bodies > 0 && held.Bodies > free.Bodies || n.Bytes > 0 && held.Bytes > free.Bytes):
		return false
	}
	in.free, in.held[tenant] = free, held
	return true
}

// release returns what was taken.
func (in *intake) release(tenant string, n InFlight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.free = in.free.plus(n)
	if in.held[tenant] = in.held[tenant].minus(n); in.held[tenant] == (InFlight{}) {
		delete(in.held, tenant)
	}
}

func (f InFlight) plus(n InFlight) InFlight  { return InFlight{f.Bodies + n.Bodies, f.Bytes + n.Bytes} }
func (f InFlight) minus(n InFlight) InFlight { return InFlight{f.Bodies - n.Bodies, f.Bytes - n.Bytes} }

var errFull = errors.New("no room for another body")

// countedBody is a body that res.intake counts.
type countedBody struct {
	io.Reader
	res *response
}

func (b *countedBody) Read(p []byte) (n int, err error) {
	if n, err = b.Reader.Read(p); n > 0 {
		if !b.res.intake.take(b.res.tenant.ID, InFlight{Bytes: int64(n)}) {
			return 0, errFull
		}
		b.res.held.Bytes += int64(n)
	}
	return n, err
}

// releaseBody ends the counting of a body, once its request is answered.
func (res *response) releaseBody() {
	if res.intake != nil {
		res.intake.release(res.tenant.ID, res.held)
	}
}

// rawBody reads the whole body, at most limit bytes, within limitBody's time, and counts
// it in in until the request is answered.
func (s *server) rawBody(res *response, r *http.Request, in *intake, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	one := InFlight{Bodies: 1}
	if !in.take(res.tenant.ID, one) {
		return nil, s.unreadable(res, errFull)
	}
	res.intake, res.held = in, one
	var body io.Reader = r.Body
	if r.ContentLength < 0 { // otherwise net/http returns no more than declared
		body = http.MaxBytesReader(res.ResponseWriter, r.Body, limit)
	}
	raw, err := io.ReadAll(&countedBody{body, res})
	if err != nil {
		return nil, s.unreadable(res, err)
	}
	if res.timed {
		// If it stayed set, the deadline would end the request while the provider is
		// called: net/http keeps reading to notice a client that disconnects.
		if err := http.NewResponseController(res).SetReadDeadline(time.Time{}); err != nil {
			return nil, s.unreadable(res, err)
		}
	}
	return raw, nil
}

// unreadable returns why a body did not arrive. No claim exists yet, so the same
// request may be sent again, unless it is too large.
func (s *server) unreadable(res *response, err error) error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit)
	}
	res.Header()["Connection"] = []string{"close"} // the rest of the body is still to come
	if errors.Is(err, errFull) {
		p := problem.New(problem.StoreUnavailable, "This node has no room for another request body now. Nothing was recorded; send it again.")
		p.RetryAfter = retryFull
		return &refusal{Problem: p}
	}
	p := problem.New(problem.InvalidRequest, "The body ended before it was whole; send it again.")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.Detail = fmt.Sprintf("The body did not arrive within %v; send it again.", s.Limits.BodyTime)
	}
	p.Retry = problem.SameKey
	return &refusal{Problem: p}
}

func tooLarge(limit int64) error {
	return refuse(problem.BodyTooLarge, fmt.Sprintf("The body is longer than %d bytes.", limit))
}
