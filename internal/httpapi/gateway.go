package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/problem"
)

// gated is a gateway: requests that it guards go to the router, those below its own path to the
// server's routes, and all others to the upstream.
type gated struct {
	*server
	through *gateway.Gateway
	// waits: the node has no database yet.
	waits bool
}

// NewGateway returns the handler of a gateway. It is as [New] is, needs no Tenants, and has no route
// of the API of payments.
func NewGateway(c Config, through *gateway.Gateway) (http.Handler, error) {
	return openGated(c, through, false)
}

// NewWaitingGateway is [NewGateway] for a node that waits for its database. It answers probes and error
// pages, refuses all else, and sends nothing to the upstream.
func NewWaitingGateway(c Config, through *gateway.Gateway) (http.Handler, error) {
	return openGated(c, through, true)
}

func openGated(c Config, through *gateway.Gateway, waits bool) (http.Handler, error) {
	if c.ErrorPages == "" {
		c.ErrorPages = problem.Behind
	}
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	s.entries = problem.CatalogueBehind()
	g := &gated{s, through, waits}
	inspect, cancel := g.owned(s.inspect), g.owned(g.cancelKey)
	if waits {
		inspect, cancel = away, away
	}
	key := gateway.Own + "idempotency-keys/{key}"
	s.mountAll([]route{
		{"GET", key, inspect, true, ""},
		{"POST", key + "/cancel", cancel, true, ""},
		{"GET", gateway.Own + "errors", s.errorIndex, true, ""},
		{"GET", gateway.Own + "errors/{error}", s.errorPage, true, ""},
		{"GET", gateway.Own + "livez", live, true, ""},
		{"GET", gateway.Own + "readyz", s.ready, true, ""},
	})
	return g, nil
}

// owned is h for the claim of the key that a request to the gateway's own paths is about.
func (g *gated) owned(h handler) handler {
	return func(res *response, r *http.Request) error {
		res.words = gatewayWords
		c, key, err := g.through.Named(r, r.PathValue("key"))
		if errors.Is(err, gateway.ErrNotNamed) {
			return refuse(problem.InvalidRequest, err.Error())
		}
		if err != nil {
			return err
		}
		if err := g.admit(res, r, c.Tenant); err != nil {
			return err
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
		r.SetPathValue("key", claim.FormatKey(key))
		if err := h(res, r); !errors.Is(err, errNoSuchKey) {
			return err
		}
		return refuse(problem.NotFound, "No request was sent with this key, or long ago.")
	}
}

// admit finds the tenant of a request, and charges the request to its rate.
func (g *gated) admit(res *response, r *http.Request, tenant func(*http.Request) (id, name string, err error)) error {
	id, name, err := tenant(r)
	switch {
	case errors.Is(err, gateway.ErrNoIdentity):
		return refuse(problem.Unauthorized, err.Error())
	case err != nil:
		g.Logger.WarnContext(r.Context(), "a token cannot be verified", "error", err)
		p := problem.New(problem.StoreUnavailable, "The keys that verify tokens cannot be read now. Nothing was sent; send the request again.")
		p.RetryAfter = retryStore
		return &refusal{Problem: p}
	}
	res.tenant = claim.Tenant{ID: id, Name: name}
	known, wait, err := g.row(r.Context(), id, name)
	switch {
	case wait > 0:
		p := problem.New(problem.RateLimited, "More tenants appear here than rows are made for; send the request again.")
		p.RetryAfter = wait
		return &refusal{Problem: p}
	case err != nil:
		// Without an answer the router may still reach the rows, in another region.
		g.Logger.WarnContext(r.Context(), "a tenant's row cannot be read or made", "tenant", id, "error", err)
	default:
		res.tenant = known
	}
	if wait := g.rates.take(&res.tenant, g.Now()); wait > 0 {
		p := problem.New(problem.RateLimited, "This tenant sends requests faster than its rate allows; slow down.")
		p.RetryAfter = wait
		return &refusal{Problem: p}
	}
	return nil
}

// appearing is charged for each row that is made: ten a second, and a hundred at once. Who names a tenant
// is authenticated, and may name any; a row stays.
var appearing = claim.Tenant{ID: "~new", RatePerSecond: 10, Burst: 100}

// row is the row of a tenant, which is made if there is none. wait is how long until it may be made.
func (g *gated) row(ctx context.Context, id, name string) (_ claim.Tenant, wait time.Duration, err error) {
	if g.Tenant == nil {
		return claim.Tenant{ID: id, Name: name}, 0, nil
	}
	known, err := g.Tenant(ctx, id)
	if !errors.Is(err, claim.ErrUnknownTenant) {
		return known, 0, err
	}
	if wait := g.rates.take(&appearing, g.Now()); wait > 0 {
		return known, wait, nil
	}
	known, err = g.NewTenant(ctx, id, name)
	return known, 0, err
}

// ServeHTTP answers one request.
func (g *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Opaque != "": // as in x:orders; it would reach the upstream without its base path
		g.serve(w, r, func(res *response) {
			g.fail(res, r, refuse(problem.InvalidRequest, "The request's target is neither a path nor an address; begin it with a slash."))
		})
	case strings.HasPrefix(r.URL.Path, gateway.Own):
		g.serve(w, r, func(res *response) { g.mux.ServeHTTP(res, r) })
	case g.waits: // also for what is not guarded: the node cuts off what streams when it starts
		g.serve(w, r, func(res *response) {
			err := away(res, r)
			if c := g.through.Match(r); c != nil {
				res.dialect, res.moves = c.Dialect(), gateway.Operation
				g.turnedAway(res, err)
			}
			g.fail(res, r, err)
		})
	default:
		switch c := g.through.Match(r); {
		case c == nil:
			g.pass(w, r)
		case g.through.Shadow():
			seen := c.Watch(r)
			defer g.through.Later(seen, g.compare)
			g.pass(w, seen.Request)
		default:
			g.serve(w, r, func(res *response) { g.guarded(res, r, c) })
		}
	}
}

// away refuses a request at a node that waits for its database.
func away(*response, *http.Request) error {
	p := problem.New(problem.StoreUnavailable, "This gateway waits for its database. Nothing was sent; send the request again.")
	p.RetryAfter = retryStore
	return &refusal{Problem: p}
}

// pass sends a request as it streams.
func (g *gated) pass(w http.ResponseWriter, r *http.Request) {
	// A stream lasts as long as it does, both ways at once: the server's time-outs and its order are
	// for requests that it reads itself. A writer without a connection, a test's, has none.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	_ = control.EnableFullDuplex()
	g.through.ServeHTTP(w, r)
}

// compare counts a request that has passed, by what guarding it would have come to.
func (g *gated) compare(ctx context.Context, s *gateway.Seen) {
	body, whole, refused := s.Body()
	if !whole {
		s.Uncompared()
		return
	}
	r := s.Request.WithContext(ctx) // its own has ended
	if s.Dropped(r) != "" {
		refused = problem.InvalidRequest
	}
	id, name, err := s.Tenant(r)
	if errors.Is(err, gateway.ErrNoIdentity) {
		s.Refused("", problem.Unauthorized)
		return
	}
	var sent, value string
	if err == nil {
		sent, value, err = s.Key(r, body)
	}
	if p, ok := problemOf(err); err != nil && ok && refused == "" {
		refused = p.Code
	}
	switch {
	case refused != "":
		s.Refused(sent, refused)
		return
	case err != nil:
		s.Uncompared()
		return
	case value == "":
		s.Unkeyed()
		return
	}
	_, _, _ = g.row(ctx, id, name) // one that is not there ends the claim
	req, err := s.Claim(id, sent, value, body)
	var reply claim.Reply
	if err == nil {
		reply, err = g.Router.Do(ctx, req, "")
	}
	if err == nil {
		s.Compared(sent, &reply)
		return
	}
	if p, _ := problemOf(err); p.Code == problem.FingerprintMismatch || p.Code == problem.KeyExpired {
		s.Refused(sent, p.Code)
		return
	}
	g.Logger.DebugContext(ctx, "a request that passed was not compared", "error", err)
	s.Uncompared()
}

// guardedRoute stands for the path in spans and metrics, as a path of the upstream may hold anything.
const guardedRoute = "guarded"

func (g *gated) guarded(res *response, r *http.Request, c *gateway.Call) {
	defer func() { g.measure(guardedRoute, res, r) }()
	res.words, res.dialect, res.moves = gatewayWords, c.Dialect(), gateway.Operation
	admitted := g.admit(res, r, c.Tenant)
	g.turnedAway(res, admitted)
	r, sp := g.traced(res, r, guardedRoute)
	defer func() { g.ended(sp, guardedRoute, res, r) }()
	a := Answer{Began: res.began, Operation: gateway.Operation, Tenant: res.tenant.ID, ServedBy: g.Region}
	err := admitted
	if err == nil {
		err = g.call(res, r, c, &a)
	}
	if err := g.finish(res, r, &a, err); err != nil {
		g.fail(res, r, err)
	}
}

// call answers a guarded request, and fills in a.
func (g *gated) call(res *response, r *http.Request, c *gateway.Call, a *Answer) error {
	if name := c.Dropped(r); name != "" {
		return refuse(problem.InvalidRequest, "The Connection header names "+name+", which is not of the connection alone; take it out of Connection.")
	}
	if c.Route.Key.Member == "" { // before the body, which may be long
		if _, _, err := c.Key(r, nil); err != nil {
			return err
		}
	}
	body, err := g.rawBody(res, r, g.tenants, c.BodyLimit())
	if err != nil {
		return err
	}
	sent, value, err := c.Key(r, body)
	if err != nil {
		return err
	}
	if value == "" { // its member is not there, and the route lets that pass
		g.unguarded(res, r, body)
		return nil
	}
	a.Key, res.key = value, sent
	if values := r.Header[headerKey]; len(values) == 1 {
		res.set(headerKey, values[0])
	}
	req := claim.Request{Key: claim.Key{Tenant: res.tenant.ID, Value: value}, TraceParent: traceparent(r), Began: res.began}
	req.Stamp, _ = claim.ReadStamp(value)
	if err := c.Request(r, body, sent, &req); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.Limits.Request)
	defer cancel()
	reply, err := g.Router.Do(ctx, req, hint(r))
	a.Hops, a.Home = reply.Hops, reply.Home
	if err != nil {
		res.setRoute(&reply)
		if errors.Is(err, claim.ErrUnknownTenant) { // its row could not be made above
			p := problem.New(problem.StoreUnavailable, gatewayWords[problem.StoreUnavailable])
			p.RetryAfter = retryStore
			err = &refusal{Problem: p}
		}
		return err
	}
	if !reply.Response.Sendable() {
		return fmt.Errorf("reply from %s is incomplete: status %d", reply.ServedBy, reply.Response.Status)
	}
	a.ServedBy, a.Replayed = reply.ServedBy, reply.Replayed
	if p, own := gateway.OwnError(&reply.Response); own {
		a.Code = p.Code
		res.Header()["Link"] = []string{g.ErrorPages.LinkOf(p.Code)}
		if wait := p.RetryAfterHeader(); wait != "" {
			res.set("Retry-After", wait)
		}
		reply.Response = res.spelled(&p)
	}
	res.sendReply(&reply)
	return nil
}

// unguarded sends a request whose body has been read to the upstream, as it came.
func (g *gated) unguarded(res *response, r *http.Request, body []byte) {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	g.through.ServeHTTP(res, out)
}

// spelled is a problem in the dialect of the request's route.
func (res *response) spelled(p *problem.Problem) claim.Response {
	said := res.dialect.Spell(p, res.key)
	out := claim.Response{Status: said.Status, Body: said.Body, Header: []claim.HeaderField{{Name: "Content-Type", Value: said.ContentType}}}
	for name, value := range said.Header {
		out.Header = append(out.Header, claim.HeaderField{Name: name, Value: value})
	}
	return out
}

// gatewayWords are the details of problems that speak of payments elsewhere.
var gatewayWords = map[problem.Code]string{
	problem.Forbidden:           "This tenant is not enabled here.",
	problem.FingerprintMismatch: "This key was first used with a different request, or with other credentials. Send that request again, or this one with a new key.",
	problem.OutcomeUnknown:      "The request may have been sent, and it is not known whether the API behind this gateway has done it. Send the same request again to learn what is known by then.",
	problem.KeyWithheld:         "Records of a recent time were lost, and this key may have been used in it, so nothing is done under it yet. Send the same request again later.",
	problem.HomeUnavailable:     "The region that answers for this key cannot be reached. Send the same request again, with the same key.",
	problem.StoreUnavailable:    "What is recorded of this request cannot be read or written now. Send the same request again, with the same key.",
}
