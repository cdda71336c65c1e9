package httpapi

import (
	"context"
	"fmt"
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
}

// NewGateway returns the handler of a gateway. It is as [New] is, needs no Tenants, and has no route
// of the API of payments.
func NewGateway(c Config, through *gateway.Gateway) (http.Handler, error) {
	if c.ErrorPages == "" {
		c.ErrorPages = problem.Behind
	}
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	s.mountAll([]route{
		{"GET", gateway.Own + "idempotency-keys/{key}", s.inspect, true},
		{"GET", gateway.Own + "errors", errorIndex, true},
		{"GET", gateway.Own + "errors/{error}", errorPage, true},
		{"GET", gateway.Own + "livez", live, true},
		{"GET", gateway.Own + "readyz", s.ready, true},
	})
	return &gated{s, through}, nil
}

// ServeHTTP answers one request.
func (g *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Opaque != "": // as in x:orders; it would reach the upstream without its base path
		g.serve(w, r, func(res *response) {
			g.fail(res, r, refuse(problem.InvalidRequest, "The request's target is neither a path nor an address; begin it with a slash."))
		})
	case strings.HasPrefix(r.URL.Path, gateway.Own):
		g.serve(w, r, func(res *response) {
			res.tenant.ID = gateway.Tenant
			g.mux.ServeHTTP(res, r)
		})
	case g.through.Guards(r):
		g.serve(w, r, func(res *response) { g.guarded(res, r) })
	default:
		// A stream lasts as long as it does, both ways at once: the server's time-outs and its order
		// are for requests that it reads itself. A writer without a connection, a test's, has none.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
		_ = control.EnableFullDuplex()
		g.through.ServeHTTP(w, r)
	}
}

// guardedRoute stands for the path in spans and metrics, as a path of the upstream may hold anything.
const guardedRoute = "guarded"

func (g *gated) guarded(res *response, r *http.Request) {
	defer func() { g.measure(guardedRoute, res, r) }()
	res.tenant.ID, res.words = gateway.Tenant, gatewayWords
	r, sp := g.traced(res, r, guardedRoute)
	defer func() { g.ended(sp, guardedRoute, res, r) }()
	a := Answer{Began: res.began, Operation: gateway.Operation, Tenant: gateway.Tenant, ServedBy: g.Region}
	if err := g.finish(res, r, &a, g.call(res, r, &a)); err != nil {
		g.fail(res, r, err)
	}
}

// call answers a guarded request, and fills in a.
func (g *gated) call(res *response, r *http.Request, a *Answer) error {
	value, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	a.Key = value
	res.set(headerKey, r.Header[headerKey][0])
	body, err := g.rawBody(res, r, g.tenants, g.Limits.Body)
	if err != nil {
		return err
	}
	req := claim.Request{Key: claim.Key{Tenant: gateway.Tenant, Value: value}, TraceParent: traceparent(r), Began: res.began}
	req.Stamp, _ = claim.ReadStamp(value)
	if err := g.through.Request(r, body, &req); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.Limits.Request)
	defer cancel()
	reply, err := g.Router.Do(ctx, req, hint(r))
	a.Hops, a.Home = reply.Hops, reply.Home
	if err != nil {
		res.setRoute(&reply)
		return err
	}
	if !reply.Response.Sendable() {
		return fmt.Errorf("reply from %s is incomplete: status %d", reply.ServedBy, reply.Response.Status)
	}
	a.ServedBy, a.Replayed = reply.ServedBy, reply.Replayed
	res.sendReply(&reply)
	return nil
}

// gatewayWords are the details of problems that speak of payments elsewhere.
var gatewayWords = map[problem.Code]string{
	problem.FingerprintMismatch: "This key was first used with a different request, or with other credentials. Send that request again, or this one with a new key.",
	problem.OutcomeUnknown:      "The request may have been sent, and it is not known whether the API behind this gateway has done it. Send the same request again to learn what is known by then.",
	problem.KeyWithheld:         "Records of a recent time were lost, and this key may have been used in it, so nothing is done under it yet. Send the same request again later.",
	problem.HomeUnavailable:     "The region that answers for this key cannot be reached. Send the same request again, with the same key.",
	problem.StoreUnavailable:    "The request could not be recorded, and was not sent. Send it again, with the same key.",
}
