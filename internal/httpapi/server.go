package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment"
)

// Tenants finds merchants by their API keys. Implementations are safe for concurrent
// use and compare keys without leaking how much of one matched.
type Tenants interface {
	// TenantByAPIKey reports false for a key that no tenant has.
	TenantByAPIKey(ctx context.Context, key claim.APIKeyHash) (claim.Tenant, bool, error)
}

// Router executes or replays requests at their home. hint is the home region that the
// caller sent, or ""; it may be wrong. Implementations are safe for concurrent use. Do
// not modify returned slices.
type Router interface {
	// Do executes or replays req. Its errors are those of package claim and
	// router.ErrHomeUnavailable. With an error, too, the reply has Hops, and Home and
	// ExpiresAt if the router read them.
	Do(ctx context.Context, req claim.Request, hint string) (claim.Reply, error)
	// Inspect returns the history of a key; false when nothing is stored under it.
	Inspect(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error)
	// Object finds the tenant's object by its minted id.
	Object(ctx context.Context, tenant, id string) (claim.State, claim.Response, bool, error)
}

// Notices receives providers' webhooks. Implementations are safe for concurrent use.
type Notices interface {
	// Expects refuses a notice before its body is read, if no provider of this name sends
	// any, or if the header has no signature. The errors are those of Receive.
	Expects(provider string, header http.Header) error
	// Receive stores a notice and returns once it is durable. It may keep body, and
	// only reads header. It refuses with the errors of package notice; any other error
	// means that the outcome is unknown and the provider should send the notice again.
	Receive(ctx context.Context, provider string, header http.Header, body []byte) error
}

// Config configures an API. Tenants, Router, List, Region and RegionCode must be set;
// everything else has a default.
type Config struct {
	Tenants Tenants
	Router  Router
	// Tenant reads the row of a gateway's tenant, claim.ErrUnknownTenant for none, and NewTenant makes
	// it. nil: all tenants have the default limits.
	Tenant    func(ctx context.Context, id string) (claim.Tenant, error)
	NewTenant func(ctx context.Context, id, name string) (claim.Tenant, error)
	// List lists a tenant's charges; payment.Present.Charges does.
	List func(context.Context, payment.List) (page []json.RawMessage, more bool, err error)
	// Region is the entry region, RegionCode its code.
	Region     string
	RegionCode claim.RegionCode
	// HomeOf returns the region of a code, for the headers of requests whose home is
	// read off a key or an id. nil has this region alone.
	HomeOf func(claim.RegionCode) (region string, ok bool)
	// NewKeys returns the region code for new keys, which may be another region's;
	// false: no region takes new keys. nil means RegionCode.
	NewKeys func() (claim.RegionCode, bool)
	// Providers are the names of the providers that this API has; nil: the home checks the
	// name.
	Providers []string
	// Elapse lets time pass for a test tenant in every region, as claim.Store.Elapse; nil: it cannot.
	Elapse func(ctx context.Context, tenant string, by time.Duration) error
	// Notices; nil means that no provider sends any here.
	Notices Notices
	// Limits; the zero value means [DefaultLimits].
	Limits Limits
	// Unstable names the members of a body's top level that change between
	// retries of one request and are ignored; nil means [DefaultUnstable].
	Unstable map[string]struct{}
	// ErrorPages is the base URL of the types of problems; "" is the pages that this
	// API serves.
	ErrorPages problem.Pages
	// Ready returns why this node should get no traffic, in one line for anyone; nil,
	// or a nil error, means that it should. regional is false if the answer is about the
	// node alone, and not about the service of its region.
	Ready func(ctx context.Context, regional bool) error
	// Answered is called after each request to move money is answered, on the request's own
	// goroutine. Nil: it is not called.
	Answered func(Answer)
	// Logger; nil means slog.Default. Requests are logged at debug level.
	Logger *slog.Logger
	// Meters count answers. Nil: none are counted.
	Meters *meter.Set
	// Now is the clock of the rate limits; nil means time.Now.
	Now func() time.Time
	// Random feeds minted keys; nil means crypto/rand.
	Random io.Reader
}

// DefaultUnstable returns the members that merchants' HTTP libraries are known to
// change with every attempt.
func DefaultUnstable() map[string]struct{} {
	return map[string]struct{}{"client_ts": {}, "trace_id": {}, "request_id": {}, "sent_at": {}}
}

type server struct {
	Config
	canonical claim.CanonicalOptions
	rates     *rates
	tenants   *intake
	notices   *intake
	mux       *http.ServeMux
	took      *meter.Histogram
	requests  *meter.Counter // those that the router does not see
	closed    *meter.Counter
	entries   []problem.Entry // of its error pages
}

// New returns the API. It is safe for concurrent use and runs nothing in the
// background. An error names the missing or invalid setting.
func New(c Config) (http.Handler, error) {
	if c.Tenants == nil {
		return nil, errors.New("httpapi: Config.Tenants is missing")
	}
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	s.mount()
	return s, nil
}

// newServer returns a server without routes.
func newServer(c Config) (*server, error) {
	switch {
	case c.Router == nil:
		return nil, errors.New("httpapi: Config.Router is missing")
	case c.List == nil:
		return nil, errors.New("httpapi: Config.List is missing")
	case c.Region == "":
		return nil, errors.New("httpapi: Config.Region is missing")
	case c.RegionCode == 0:
		return nil, errors.New("httpapi: Config.RegionCode is missing")
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if err := c.Limits.validate(); err != nil {
		return nil, err
	}
	if c.Unstable == nil {
		c.Unstable = DefaultUnstable()
	}
	if c.HomeOf == nil {
		c.HomeOf = func(code claim.RegionCode) (string, bool) { return c.Region, code == c.RegionCode }
	}
	if err := c.ErrorPages.Validate(); err != nil {
		return nil, fmt.Errorf("httpapi: Config.ErrorPages %w", err)
	}
	if c.NewKeys == nil {
		c.NewKeys = func() (claim.RegionCode, bool) { return c.RegionCode, true }
	}
	if c.Ready == nil {
		c.Ready = func(context.Context, bool) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &server{
		Config:    c,
		canonical: claim.CanonicalOptions{Drop: c.Unstable},
		rates:     newRates(c.Limits.TenantRate, c.Limits.TenantBurst),
		tenants:   newIntake(c.Limits.Tenants),
		notices:   newIntake(c.Limits.Notices),
		mux:       http.NewServeMux(),
		took:      c.Meters.Histogram(meter.HTTPDuration),
		requests:  c.Meters.Counter(meter.Requests),
		closed:    c.Meters.Counter(meter.FailClosed),
		entries:   problem.Catalogue(),
	}
	return s, nil
}

// handler serves a route. A returned error becomes a problem, unless the handler has
// written an answer already.
type handler func(*response, *http.Request) error

type route struct {
	method, path string
	handle       handler
	// open routes need no API key.
	open bool
	// moves is what requests to a route that moves money do, "" of the others.
	moves payment.Operation
}

func (s *server) routes() []route {
	all := []route{
		{"POST", "/v1/webhooks/{provider}", s.notice, true, ""},
		{"POST", "/v1/idempotency-keys", s.mint, false, ""},
		{"GET", "/v1/idempotency-keys/{key}", s.inspect, false, ""},
		{"POST", "/v1/idempotency-keys/{key}/cancel", s.cancelKey, false, ""},
		{"POST", "/v1/test-clock", s.elapse, false, ""},
		{"GET", payment.Path(payment.Refund), s.refundsOf, false, ""},
		{"GET", payment.Path(payment.Charge), s.charges(stripeapi.Charge), false, ""},
		{"GET", pathPaymentIntents, s.charges(stripeapi.PaymentIntent), false, ""},
		{"GET", "/v1/openapi.json", openAPI, true, ""},
		{"GET", pathErrors, s.errorIndex, true, ""},
		{"GET", pathErrors + "/{error}", s.errorPage, true, ""},
		{"GET", "/livez", live, true, ""},
		{"GET", "/readyz", s.ready, true, ""},
	}
	for _, op := range payment.Public() {
		as := stripeapi.Resource(payment.Object(op))
		all = append(all,
			route{"POST", payment.Path(op), s.move(op, as), false, op},
			route{"GET", payment.Path(op) + "/{id}", s.object(op, as), false, ""})
	}
	for _, op := range []payment.Operation{payment.Capture, payment.Cancel} {
		all = append(all,
			route{"POST", payment.Path(payment.Charge) + "/{id}/" + string(op), s.order(op, stripeapi.Charge), false, op},
			route{"POST", pathPaymentIntents + "/{id}/" + string(op), s.order(op, stripeapi.PaymentIntent), false, op})
	}
	// A charge by the name under which Stripe's clients create one today.
	return append(all,
		route{"POST", pathPaymentIntents, s.move(payment.Charge, stripeapi.PaymentIntent), false, payment.Charge},
		route{"GET", pathPaymentIntents + "/{id}", s.object(payment.Charge, stripeapi.PaymentIntent), false, ""})
}

const pathPaymentIntents = "/v1/payment_intents"

var errNoSuchPath = refuse(problem.NotFound, "There is nothing at this path.")

// mount mounts the routes of the API.
func (s *server) mount() {
	handle := s.mountAll(s.routes())
	// At and below /v1 an unknown path, too, requires a key. Without "/v1" of its own
	// ServeMux would redirect it to "/v1/".
	notFound := func(*response, *http.Request) error { return errNoSuchPath }
	handle("/v1", route{handle: notFound})
	handle("/v1/", route{handle: notFound})
}

// mountAll mounts routes and what answers every other path. It returns the function that mounts
// one more.
func (s *server) mountAll(all []route) func(pattern string, rt route) {
	handle := func(pattern string, rt route) {
		h := rt.handle
		if !rt.open && strings.HasPrefix(pattern, "POST ") {
			h = withQuery(h)
		}
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			res := w.(*response) // ServeHTTP put it there
			res.moves = rt.moves
			defer func() { s.measure(pattern, res, r) }()
			var err error
			if !rt.open {
				err = s.admit(res, r)
				var sp span.Span
				r, sp = s.traced(res, r, pattern)
				defer func() { s.ended(sp, pattern, res, r) }()
				switch {
				case s.turnedAway(res, err):
					a := s.newAnswer(res, rt.moves)
					if err = s.finish(res, r, &a, err); err == nil {
						return
					}
				case err == nil && res.stripe != nil:
					err = res.stripe.acceptable(r)
				}
			}
			if err == nil {
				err = h(res, r)
			}
			if err != nil {
				s.fail(res, r, err)
			}
		})
	}
	allows := map[string][]string{}
	for _, rt := range all {
		handle(rt.method+" "+rt.path, rt)
		methods := []string{rt.method}
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		allows[rt.path] = append(allows[rt.path], methods...)
		if len(allows[rt.path]) > len(methods) {
			continue // the path has another method, and this answer already
		}
		handle(rt.path, route{open: rt.open, handle: func(res *response, _ *http.Request) error {
			allow := strings.Join(allows[rt.path], ", ")
			res.Header()["Allow"] = []string{allow}
			return refuse(problem.MethodNotAllowed, "This path only answers to "+allow+".")
		}})
	}
	handle("/", route{open: true, handle: func(*response, *http.Request) error { return errNoSuchPath }})
	return handle
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func(res *response) {
		res.stripe = stripeExchangeOf(r)
		if !clean(r.URL.EscapedPath()) {
			// ServeMux would redirect, and a redirected POST is another request.
			s.fail(res, r, errNoSuchPath)
			return
		}
		s.mux.ServeHTTP(res, r)
	})
}

// serve answers one request by answer, or by a problem if that panics.
func (s *server) serve(w http.ResponseWriter, r *http.Request, answer func(*response)) {
	// Before the look-up of the API key, which may wait.
	res := &response{ResponseWriter: w, began: time.Now()}
	defer res.releaseBody()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.Logger.ErrorContext(r.Context(), "request panicked", "fault", &fault.Error{Value: p, Stack: debug.Stack()})
			if res.status != 0 {
				// A truncated answer must not look like a whole one.
				panic(http.ErrAbortHandler)
			}
			s.fail(res, r, refuse(problem.Internal, internalDetail))
		}
		if s.Logger.Enabled(r.Context(), slog.LevelDebug) {
			// The route, not the path, which may hold a key.
			s.Logger.DebugContext(r.Context(), "request", "method", r.Method, "route", r.Pattern, "tenant", res.tenant.ID,
				"status", res.status, "took", time.Since(res.began))
		}
	}()
	if len(r.TransferEncoding) > 0 {
		// A Content-Length beside it is how requests are smuggled past a proxy, and
		// net/http removes it before a handler can see it. So no connection outlives a
		// chunked body (RFC 9112, section 6.1).
		res.Header()["Connection"] = []string{"close"}
	}
	s.limitBody(res, r)
	answer(res)
}

func clean(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.Contains(path, "//") &&
		!strings.Contains(path, "/./") && !strings.Contains(path, "/../") &&
		!strings.HasSuffix(path, "/.") && !strings.HasSuffix(path, "/..")
}

func live(res *response, _ *http.Request) error {
	res.send(http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// ready answers DNS and the load balancer, which send traffic to the region, and with
// ?exclude=region Kubernetes, which sends traffic to nodes of the region: requests that
// reach a drained region are served, and its nodes can be replaced. Checks are excluded
// as in Kubernetes' own probes ("Kubernetes API health endpoints"); other names are
// ignored.
func (s *server) ready(res *response, r *http.Request) error {
	regional := !slices.Contains(r.URL.Query()["exclude"], "region")
	if err := s.Ready(r.Context(), regional); err != nil {
		return &refusal{Problem: notReady(err.Error())}
	}
	res.send(http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// notReady is for load balancers and operators. It is outside the merchant's contract,
// as its path is.
func notReady(why string) problem.Problem {
	return problem.New(problem.NotReady, sentence(why))
}
