package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/breaker"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/router"
)

// measured is a node's router that counts the requests of merchants.
type measured struct {
	httpapi.Router
	requests, tenants *meter.Counter
	layer             *meter.Histogram
}

func measure(r httpapi.Router, s *meter.Set) httpapi.Router {
	if s == nil {
		return r
	}
	return &measured{r, s.Counter(meter.Requests), s.Counter(meter.TenantRequests), s.Histogram(meter.LayerDuration)}
}

// Do implements [httpapi.Router].
func (m *measured) Do(ctx context.Context, req claim.Request, hint string) (claim.Reply, error) {
	reply, err := m.Router.Do(ctx, req, hint)
	if !claim.Livemode(req.Key.Tenant) {
		return reply, err
	}
	outcome := outcomeOf(&reply, err)
	m.requests.Add(1, req.Operation, outcome, reply.Home, reply.Way)
	m.tenants.Add(1, req.Key.Tenant, outcome)
	m.layer.Took(ctx, time.Since(req.Began)-reply.Away, reply.Way)
	return reply, err
}

// tookAtHome records how long a request that was forwarded took there, unless no money moves by it.
func tookAtHome(ctx context.Context, layer *meter.Histogram, req *claim.Request, took time.Duration) {
	if claim.Livemode(req.Key.Tenant) {
		layer.Took(ctx, took, meter.PathHome)
	}
}

// outcomeOf returns the outcome of a request, as [meter.Requests] has it.
func outcomeOf(reply *claim.Reply, err error) string {
	switch {
	case err != nil:
		return failureOf(err)
	case reply.Replayed:
		return meter.Replayed
	case reply.State == claim.Completed:
		return meter.Succeeded
	case reply.State == claim.InFlight:
		return meter.Pending
	case reply.State == claim.FailedRetry:
		return meter.Released
	default:
		return meter.Declined
	}
}

// failureOf judges in the order in which the API answers: a store that let the time run out is unavailable.
func failureOf(err error) string {
	var (
		inUse   *claim.InUseError
		unknown *claim.UnknownError
		expired *claim.ExpiredError
		held    *claim.WithheldError
	)
	switch {
	case errors.Is(err, claim.ErrMismatch):
		return meter.Mismatched
	case errors.As(err, &inUse), errors.Is(err, claim.ErrLeaseHeld):
		return meter.InUse
	case errors.As(err, &expired):
		return meter.Expired
	case errors.As(err, &held):
		return meter.Withheld
	case errors.As(err, &unknown), errors.Is(err, claim.ErrFenced):
		return meter.Unknown
	case errors.Is(err, router.ErrHomeUnavailable), errors.Is(err, claim.ErrHomeUnreachable), errors.Is(err, claim.ErrNeedPin):
		return meter.HomeUnavailable
	case errors.Is(err, claim.ErrUnavailable), errors.Is(err, claim.ErrFingerprintVersion):
		return meter.Unavailable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return meter.Unknown
	case errors.Is(err, claim.ErrUnknownTenant), errors.Is(err, claim.ErrNoClaim):
		return meter.Refused
	default:
		return meter.Failed
	}
}

// timed is a provider, with its circuit, that measures its answers.
type timed struct {
	psp.Provider
	took *meter.Histogram
}

// move measures a call that can move money.
func (t *timed) move(ctx context.Context, name string, call psp.Call, do func(context.Context, psp.Call) psp.Result) psp.Result {
	began := time.Now()
	r := do(ctx, call)
	t.record(ctx, name, began, &r)
	return r
}

func (t *timed) record(ctx context.Context, name string, began time.Time, r *psp.Result) {
	outcome := r.Outcome.String()
	if r.Outcome == psp.Unknown {
		if _, unsent := errors.AsType[*psp.NotSentError](r.Err); unsent {
			outcome = "not_sent"
		}
	}
	t.took.Took(ctx, time.Since(began), t.Name(), name, outcome)
}

// Charge and the next four implement [psp.Provider].
func (t *timed) Charge(ctx context.Context, call psp.Call) psp.Result {
	return t.move(ctx, "charge", call, t.Provider.Charge)
}

func (t *timed) Transfer(ctx context.Context, call psp.Call) psp.Result {
	return t.move(ctx, "transfer", call, t.Provider.Transfer)
}

func (t *timed) Refund(ctx context.Context, call psp.Call) psp.Result {
	return t.move(ctx, "refund", call, t.Provider.Refund)
}

func (t *timed) Capture(ctx context.Context, call psp.Call) psp.Result {
	return t.move(ctx, "capture", call, t.Provider.Capture)
}

func (t *timed) Cancel(ctx context.Context, call psp.Call) psp.Result {
	return t.move(ctx, "cancel", call, t.Provider.Cancel)
}

// founds maps the results of look-ups to labels.
var founds = map[psp.Found]string{psp.FoundYes: "found", psp.FoundNo: "not_found", psp.FoundUnknown: meter.Unknown}

// Lookup implements [psp.Provider].
func (t *timed) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	began := time.Now()
	found, r := t.Provider.Lookup(ctx, call)
	if found == psp.FoundUnknown {
		t.record(ctx, "lookup", began, &psp.Result{Err: r.Err})
	} else {
		t.took.Took(ctx, time.Since(began), t.Name(), "lookup", founds[found])
	}
	return found, r
}

// Show implements [psp.Provider].
func (t *timed) Show(ctx context.Context, kind psp.Kind, reference, providerRef string) (found psp.Found, m psp.Movement, err error) {
	began := time.Now()
	defer func() { t.took.Took(ctx, time.Since(began), t.Name(), "show", founds[found]) }()
	return t.Provider.Show(ctx, kind, reference, providerRef)
}

// time wraps providers with timers, but for that of test tenants, which nobody operates.
func (c *Config) time(providers psp.Providers) psp.Providers {
	if c.Meters == nil {
		return providers
	}
	all := make(psp.Providers, len(providers))
	for i, p := range providers {
		if all[i] = p; p.Name() == claim.TestProvider {
			continue
		}
		all[i] = &timed{p, c.Meters.Histogram(meter.ProviderDuration)}
	}
	return all
}

// observe records the node's gauges at each collection.
func (n *Node) observe(context.Context) (parts.Stop, error) {
	if err := n.collectFigures(); err != nil {
		return nil, err
	}
	return nil, n.c.Meters.Observe(func(o *meter.Observer) {
		o.Is(meter.InHand, float64(n.hand.requests.Load()), "api")
		o.Is(meter.InHand, float64(n.hand.forwards.Load()), "forward")
		o.Is(meter.NodeReady, flag(!n.verdict.unready.Load()))
		o.Is(meter.TopologyEpoch, float64(n.c.Topology.Epoch()))
		o.Is(meter.TopologyAge, n.c.Clock().Sub(n.follower.lastRead()).Seconds())
		for _, r := range n.c.Topology.Regions() {
			o.Is(meter.RegionNodes, float64(len(n.membership.Nodes(r.Name))), r.Name)
			o.Is(meter.RegionSilent, float64(len(n.outages.Silent(r.Name))), r.Name)
			o.Is(meter.RegionLost, flag(n.outages.Lost(r.Name)), r.Name)
			circuit := n.outages.Circuit(r.Name)
			for _, state := range []string{region.Closed, region.HalfOpen, region.Open} {
				o.Is(meter.RegionCircuit, flag(state == circuit), r.Name, state)
			}
			for _, status := range []region.Status{region.Active, region.Draining, region.Down} {
				o.Is(meter.RegionStatus, flag(r.Status == status), r.Name, strings.ToLower(status.String()))
			}
			if rtt, ok := (sight{n.membership, n}).RTT(r.Name); ok {
				o.Is(meter.RegionRTT, rtt.Seconds(), r.Name)
			}
		}
		for kind, sink := range n.c.Sinks {
			if w, ok := sink.(interface{ Waiting() string }); ok {
				o.Is(meter.SinkWaiting, flag(w.Waiting() != ""), string(kind))
			}
		}
		versions := map[string]int{}
		for _, m := range n.membership.Members() {
			versions[m.Version]++
		}
		for version, nodes := range versions {
			o.Is(meter.VersionNodes, float64(nodes), version)
		}
		if n.c.TLS != nil {
			own, ca := n.c.TLS.Expire()
			o.Is(meter.CertificateNotAfter, float64(own.Unix()), "node")
			o.Is(meter.CertificateNotAfter, float64(ca.Unix()), "ca")
		}
	})
}

// watchCircuit records the state of a provider's circuit.
func (c *Config) watchCircuit(b *breaker.Provider) {
	_ = c.Meters.Observe(func(o *meter.Observer) {
		now := b.State()
		for _, state := range []string{"closed", "half-open", "open"} {
			o.Is(meter.Circuit, flag(state == now), b.Name(), state)
		}
	})
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
