package homeward

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// MiddlewareOption changes what [Homeward.Middleware] does.
type MiddlewareOption func(*guarded)

// TenantOf names whose key a request carries, from who is logged in: not from a header that anybody
// may send. of may read the body. Without it, and where it returns
// "", all callers share their keys, and a retry must carry the same Authorization: with a renewed or a
// corrected one it is another request, which is refused with 422, also after a 401. Otherwise a renewed
// token would run the handler twice.
func TenantOf(of func(*http.Request) string) MiddlewareOption {
	return func(g *guarded) { g.tenant = of }
}

// RepeatableHandler says that the handler may run again for a request that an earlier run may have
// done, see [Op].Repeatable. It finds its [Attempt] in the request's context ([AttemptOf]).
func RepeatableHandler() MiddlewareOption { return func(g *guarded) { g.repeatable = true } }

// KeyRequired refuses a POST or PATCH without an Idempotency-Key with 400. Otherwise it passes.
func KeyRequired() MiddlewareOption { return func(g *guarded) { g.required = true } }

// HandlerName tells a handler from others of the same store that are asked for by the same path, as on
// two hosts of one program: under one key they are two requests.
func HandlerName(name string) MiddlewareOption { return func(g *guarded) { g.name = name + " " } }

// maxBody is the longest body of a guarded request, in bytes: it is read before anything is done.
const maxBody = 1 << 20

// Middleware has next run at most once for each POST or PATCH with an Idempotency-Key, and sends its
// first reply to every retry, with Idempotent-Replayed: true. Other requests pass untouched.
//
//	mux.Handle("POST /v1/orders", h.Middleware(orders))
//
// Requests are the same if method, path, query, body (JSON by its meaning), Content-Type and
// Content-Encoding are. The path is the one that the caller asked for, whatever http.StripPrefix
// left of it. The host does not count, so that a retry may go to another region's.
//
// A reply's status says what it means:
//
//	2xx, 3xx              done: replayed
//	4xx                   refused: replayed
//	401, 403, 429         released: the next request runs the handler again, if it is the same to
//	                      Homeward, see TenantOf
//	these, 409 and 425,   unknown: it says nothing about the attempt before, or conflicts with that
//	of a recovery
//	5xx, 408, 499         unknown: replayed, or, of a RepeatableHandler, sent, and the next request runs
//	                      the handler again
//	above 599, a panic,   unknown: as a 5xx, but what is sent is our own 503
//	a 4xx when the
//	context has ended
//
// A reply that could not be recorded is not sent: its caller gets our own 503, outcome_unknown.
//
// The reply is status, headers and body, at most a MiB, which reaches the caller once it is recorded.
// So the handler cannot stream, nor take over the connection: its ResponseWriter is no http.Flusher,
// and Flush and Hijack of http.ResponseController return an error that says so. A longer body is cut off entirely, and its
// writes fail. Of the headers Set-Cookie, Date and those of the connection are dropped: they are of
// one exchange. Headers that an outer handler sets stay, and its Vary is added to.
//
// Put Middleware outside whatever reads the body, as FormValue does, and inside what authenticates. A
// request whose body was read before is refused with 500, and an error in the log. Without a
// Content-Length so is an empty body, and one that was read in part is not noticed.
//
// In an attempt of the same key and tenant, as of another Middleware around it, a request passes: it is
// guarded already. For work of its own under Do or DoTx a handler derives a key from [Attempt].ID.
//
// A caller who hangs up does not end the handler. The context of its request ends when the lease of
// its claim does, after three minutes at most. Everything that Middleware answers by itself is
// application/problem+json, with the member "error" of docs/ERRORS.md, and "retry" and Retry-After
// where a retry is useful.
func (h *Homeward) Middleware(next http.Handler, options ...MiddlewareOption) http.Handler {
	g := &guarded{Homeward: h, next: next}
	for _, o := range options {
		o(g)
	}
	return g
}

// guarded is a handler behind claims.
type guarded struct {
	*Homeward
	next                 http.Handler
	name                 string // before the path, with a space, which no path has
	tenant               func(*http.Request) string
	repeatable, required bool
}

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	// pages is where the pages of errors are: nowhere in the program itself.
	pages problem.Pages = "https://github.com/homeward-io/homeward/blob/main/docs/ERRORS.md#"
)

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	keys := r.Header[keyHeader]
	if r.Method != http.MethodPost && r.Method != http.MethodPatch || len(keys) == 0 && !g.required {
		g.next.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Upgrade") != "" {
		refuse(w, problem.New(problem.InvalidRequest, "A request with an Idempotency-Key cannot change the protocol. Send it without Upgrade."))
		return
	}
	var key string
	var err error
	switch len(keys) {
	case 0:
		_, err = claim.ParseKey("")
	case 1:
		key, err = claim.ParseKey(keys[0])
	default:
		refuse(w, problem.New(problem.KeyInvalid, "Send exactly one Idempotency-Key header."))
		return
	}
	if err != nil {
		refuse(w, problemOf(err))
		return
	}
	formed := len(r.PostForm) > 0 || r.MultipartForm != nil
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		refuse(w, problem.New(problem.BodyTooLarge, "A request with an Idempotency-Key may have "+strconv.Itoa(maxBody)+" bytes. Nothing was done."))
		return
	} else if err != nil {
		refuse(w, problem.New(problem.InvalidRequest, "The body ended before it was whole. Nothing was done."))
		return
	}
	// A body without a length that is empty may have been read: nothing tells it from an empty one.
	if r.ContentLength > 0 && int64(len(body)) != r.ContentLength || len(body) == 0 && (formed || r.ContentLength < 0) {
		g.fail(w, r, errBodyRead)
		return
	}
	r = withBody(r.WithContext(r.Context()), body)
	op := Op{Key: key, Name: g.name + pathOf(r), Repeatable: g.repeatable}
	credentials := strings.Join(r.Header["Authorization"], ",")
	if g.tenant != nil {
		op.Tenant = g.tenant(r) // it may read the body
	}
	if op.Tenant != "" {
		credentials = "" // they may be renewed between two tries
	}
	contentType := strings.Join(r.Header["Content-Type"], ",")
	req, err := op.request(r.Method, contentType, digest(r, contentType, credentials, body))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	if g.under(r.Context(), req.Key) {
		g.next.ServeHTTP(w, r)
		return
	}
	mine := &recorder{header: http.Header{}}
	c := &call{op: &op}
	c.run = func(ctx context.Context, a Attempt) (claim.Outcome, error) {
		defer mine.close()
		g.next.ServeHTTP(mine, withBody(r.Clone(ctx), body))
		return mine.outcome(ctx, c, a.Recovery)
	}
	reply, err := g.do(r.Context(), req, c)
	var unknown *claim.UnknownError
	switch {
	case err == nil:
		send(w, &reply.Response, reply.Replayed)
	case errors.As(err, &unknown) && staysOpen(mine.means()):
		// The handler's own 5xx: more than we could say. It is not final.
		response, _ := mine.response()
		w.Header().Set("Retry-After", seconds(unknown.RetryAfter))
		send(w, &response, false)
	default:
		g.fail(w, r, err)
	}
}

// fail refuses a request. What is the program's fault is in its log.
func (g *guarded) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Code == problem.Internal {
		g.c.log.ErrorContext(r.Context(), "a guarded request failed unexpectedly", "path", r.URL.Path, "error", err)
	}
	refuse(w, p)
}

// pathOf is the path that the caller asked for. What is mounted under a prefix has it cut off in r.URL.
func pathOf(r *http.Request) string {
	if asked, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return asked.EscapedPath()
	}
	return r.URL.EscapedPath() // no server read it
}

// errBodyRead: with nothing of their bodies left, two different requests would be one.
var errBodyRead = errors.New("the body was read before Middleware could read it, or is empty without a Content-Length, so nothing was done; put Middleware outside what reads the body")

// withBody has r read body.
func withBody(r *http.Request, body []byte) *http.Request {
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	return r
}

// digest is what identifies a request beside its method, its path and its Content-Type.
func digest(r *http.Request, contentType, credentials string, body []byte) []byte {
	h := sha256.New()
	for _, part := range [...]string{r.URL.RawQuery, credentials, strings.Join(r.Header["Content-Encoding"], ",")} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash refuses no write
		_, _ = io.WriteString(h, part)
	}
	// A body that is JSON by its type and in fact is compared by its meaning.
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) {
		if canonical, err := claim.Canonical(body, claim.CanonicalOptions{}); err == nil {
			body = canonical
		}
	}
	h.Write(body)
	return h.Sum(nil)
}

// send writes a stored response.
func send(w http.ResponseWriter, response *claim.Response, replayed bool) {
	h := w.Header()
	for _, f := range response.Header {
		if f.Name != "Vary" {
			h.Del(f.Name)
		}
	}
	for _, f := range response.Header {
		// What an outer handler varies by stays.
		if f.Name != "Vary" || !slices.Contains(h["Vary"], f.Value) {
			h.Add(f.Name, f.Value)
		}
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // the recorder has looked at the body: net/http is not to
	}
	if replayed {
		h.Set(replayedHeader, "true")
	}
	if bodyAllowed(response.Status) {
		h.Set("Content-Length", strconv.Itoa(len(response.Body)))
	}
	w.WriteHeader(response.Status)
	_, _ = w.Write(response.Body) // the caller has gone, and may ask again
}

func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

func refuse(w http.ResponseWriter, p problem.Problem) {
	h := w.Header()
	h.Set("Content-Type", problem.ContentType)
	if wait := p.RetryAfterHeader(); wait != "" {
		h.Set("Retry-After", wait)
	}
	body := p.JSON(pages)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// problemOf is what a caller is told about an error of [Homeward.do].
func problemOf(err error) problem.Problem {
	var (
		key     *claim.KeyError
		inUse   *claim.InUseError
		unknown *claim.UnknownError
		expired *claim.ExpiredError
	)
	after := func(code problem.Code, wait time.Duration, detail string) problem.Problem {
		p := problem.New(code, detail)
		p.RetryAfter = wait
		return p
	}
	switch {
	case errors.Is(err, claim.ErrKeyMissing):
		return problem.New(problem.KeyMissing, "This request needs an Idempotency-Key. Send it with one that is new for this operation, and keep it for its retries.")
	case errors.As(err, &key):
		return problem.New(problem.KeyInvalid, "The Idempotency-Key cannot be read: "+key.Reason+".")
	case errors.Is(err, claim.ErrMismatch):
		return problem.New(problem.FingerprintMismatch, "This key was first used with a different request, or with other credentials. Send that request again, or this one with a new key.")
	case errors.As(err, &inUse):
		return after(problem.KeyInUse, cmp.Or(inUse.RetryAfter, 5*time.Second), "A request with this key is being worked on. Send it again later to read its result.")
	case errors.As(err, &unknown):
		return after(problem.OutcomeUnknown, cmp.Or(unknown.RetryAfter, time.Second), "It is not known yet whether the request was done. Send the same request again to learn it.")
	case errors.As(err, &expired):
		p := problem.New(problem.KeyExpired, "This key was first used at "+expired.FirstUse.UTC().Format(time.RFC3339)+
			" and its answer is no longer kept. Find out what became of that request before you send another with a new key.")
		p.OriginalRequestAt = expired.FirstUse
		return p
	case errors.Is(err, claim.ErrUnavailable), errors.Is(err, claim.ErrHomeUnreachable), errors.Is(err, claim.ErrFingerprintVersion):
		return after(problem.StoreUnavailable, time.Second, "The request could not be recorded, or what became of it not be read. Send it again, with the same key.")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return after(problem.StoreUnavailable, time.Second, "The wait for the request's outcome took too long. Send it again, with the same key.")
	default:
		return problem.New(problem.Internal, "Something went wrong on our side. Sending the same request again is safe.")
	}
}

// recorder is the ResponseWriter of a guarded handler. It is safe for concurrent use, as a handler may
// write when its attempt is over.
type recorder struct {
	header http.Header

	mu     sync.Mutex
	status int
	sent   http.Header // header, as WriteHeader found it
	body   bytes.Buffer
	long   bool
	closed bool
	ended  claim.Outcome // what the handler's reply was taken for; nil before it returned
}

var (
	errFlush  = errors.New("homeward: a guarded handler cannot stream: its reply is sent when it is recorded; serve streams without Middleware")
	errHijack = errors.New("homeward: a guarded handler cannot take over the connection; serve that without Middleware")
)

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status)) // as net/http does
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *recorder) writeHeader(status int) {
	if w.status != 0 || status < 200 || w.closed { // 1xx are of one exchange
		return
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *recorder) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writeHeader(http.StatusOK); w.closed {
		return 0, http.ErrHandlerTimeout
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.long = w.long || w.body.Len()+len(p) > maxReply; w.long {
		return 0, errTooLong
	}
	return w.body.Write(p)
}

// FlushError is what http.ResponseController calls.
func (*recorder) FlushError() error { return errFlush }

// Hijack implements http.Hijacker, to say why it cannot be done.
func (*recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errHijack }

// EnableFullDuplex is what http.ResponseController calls. The body has been read.
func (*recorder) EnableFullDuplex() error { return errFlush }

// close ends the writing.
func (w *recorder) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// means is what the handler's reply was taken for, nil before it returned.
func (w *recorder) means() claim.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// staysOpen reports whether an attempt said itself that it does not know, and may be asked again. Its
// words may then be sent. Those of any other outcome that ends as a *claim.UnknownError were not
// recorded, and no retry would read them.
func staysOpen(o claim.Outcome) bool {
	unknown, ok := o.(*claim.Unknown)
	return ok && unknown.GiveUp == nil
}

// dropped are headers of one exchange, or of one connection. No retry gets them.
var dropped = []string{
	"Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Connection", "Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// response is what the handler wrote, and errTooLong if not all of it is kept.
func (w *recorder) response() (r claim.Response, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r = claim.Response{Status: cmp.Or(w.status, http.StatusOK)}
	from := w.sent
	if w.status == 0 {
		from = w.header
	}
	if w.long {
		err = errTooLong
	} else {
		r.Body = bytes.Clone(w.body.Bytes())
	}
	if _, typed := from["Content-Type"]; len(r.Body) > 0 && !typed && from.Get("Content-Encoding") == "" { // as net/http does
		from.Set("Content-Type", http.DetectContentType(r.Body))
	}
	r.Header = keep("", from)
	if w.long { // they are of the body
		r.Header = slices.DeleteFunc(r.Header, func(f claim.HeaderField) bool { return strings.HasPrefix(f.Name, "Content-") })
	}
	return r, err
}

// keep returns those of h that each retry gets, by name, which begin with prefix.
func keep(prefix string, h http.Header) (kept []claim.HeaderField) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		canonical := http.CanonicalHeaderKey(name)
		if slices.Contains(dropped, canonical) || strings.HasPrefix(canonical, http.TrailerPrefix) {
			continue
		}
		for _, v := range h[name] {
			kept = append(kept, claim.HeaderField{Name: prefix + canonical, Value: v})
		}
	}
	return kept
}

// errStatus: net/http would send it, and no caller could read it.
var errStatus = errors.New("its status is above 599, which HTTP does not have, so its outcome is unknown")

// outcome is what the reply to c means, see [Homeward.Middleware].
func (w *recorder) outcome(ctx context.Context, c *call, recovery bool) (claim.Outcome, error) {
	r, err := w.response()
	o := meaning(ctx, c, r, recovery)
	if r.Status > 599 {
		err = errStatus
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = o
	return o, err
}

func meaning(ctx context.Context, c *call, r claim.Response, recovery bool) claim.Outcome {
	reason := "status_" + strconv.Itoa(r.Status)
	switch {
	case r.Status > 599:
		return c.broken(reason)
	case r.Status < 400:
		return &claim.Done{Response: r}
	case r.Status < 500 && ctx.Err() != nil:
		// What it called was cut off with it. The status says no, so it is not sent.
		return c.broken(reasonLate)
	case slices.Contains(notNow, r.Status):
		if recovery { // it says nothing about the attempt before, and a release gives the next one another key
			return &claim.Unknown{Reason: reason}
		}
		return &claim.Released{Response: r, Reason: reason}
	case recovery && slices.Contains(conflicts, r.Status):
		return &claim.Unknown{Reason: reason}
	case r.Status < 500 && !slices.Contains(timedOut, r.Status):
		return &claim.Refused{Response: r, Reason: reason}
	case c.op.Repeatable:
		return &claim.Unknown{Reason: reason}
	default:
		return &claim.Unknown{Reason: reason, GiveUp: &claim.GivenUp{Response: r}}
	}
}

// reasonLate: it refused when its time was over, perhaps because that was over.
const reasonLate = "refused_late"

var (
	// notNow are refusals that say nothing about the request itself: the caller may get them put right.
	notNow = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}
	// conflicts are what a repeat may meet because of the attempt before it: what that has made, or is at.
	conflicts = []int{http.StatusConflict, http.StatusTooEarly}
	// timedOut are what a handler answers whose own work was cut off, as it may be done all the same.
	// 499 is nginx's: the client closed the request.
	timedOut = []int{http.StatusRequestTimeout, 499}
)
