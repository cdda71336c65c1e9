package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/breaker"
)

// How notices are retried: a payer may be waiting for money, so soon at first, and for
// as long as it takes. After a day an operator is paged, see package notice.
const (
	noticeBackoffMin = time.Second
	noticeBackoffMax = time.Hour
	// noticesAtOnce leaves most of a node to charges.
	noticesAtOnce = 8
	// noticesTogether is how many notices of booked movements share their statements: enough that
	// 2,000 a second are some twenty takes, few enough that a take occupies a core for a few
	// milliseconds only.
	noticesTogether = 128
)

// code is the code of a home, home the region of a code.
func (c *Config) code(home string) (claim.RegionCode, bool) {
	r, ok := c.Topology.ByName(home)
	return r.Code, ok
}

func (c *Config) home(code claim.RegionCode) (string, bool) {
	r, ok := c.Topology.ByCode(code)
	return r.Name, ok
}

// homes are all regions, in the order of their codes, which never change.
func (c *Config) homes() (names []string) {
	all := c.Topology.Regions()
	slices.SortFunc(all, func(a, b claim.Region) int { return cmp.Compare(a.Code, b.Code) })
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

// service makes the claim service, inside or outside a node.
func (c *Config) service(guard *claim.Guard, through *gateway.Gateway, log *slog.Logger) (*claim.Service, error) {
	cc := claim.Config{
		Store: c.claims(guard), Blobs: c.Blobs, Policy: c.Policy, Node: c.Name, Region: c.Region, Code: c.code, Meters: c.Meters, Logger: log,
	}
	if through != nil {
		cc.Executor, cc.Operations, cc.Unstopped = guard.Executor(through), through.Operations(), through.Unstopped()
		return claim.NewService(cc)
	}
	of := &charges{Store: c.Store, calls: c.Store.Queue(outbox.ProviderCalls)}
	cc.Executor, cc.Operations = guard.Executor(c.executor(of, log)), payment.Operations()
	cc.Providers, cc.Unbound, cc.Unstopped = c.Providers.Names(), payment.Unbound(), payment.Unstopped()
	s, err := claim.NewService(cc)
	of.service = s
	return s, err
}

// claims are those of the store behind guard.
func (c *Config) claims(guard *claim.Guard) *claim.Guarded {
	return guard.Claims(c.Store, c.Store.Queue(outbox.ProviderCalls), &c.Policy)
}

// charges are the claims that captures and cancellations act on.
type charges struct {
	deployment.Store
	calls   outbox.Store
	service *claim.Service
}

func (c *charges) Message(ctx context.Context, home, id string) (outbox.Message, bool, error) {
	return c.calls.Message(ctx, home, id)
}

// Object replaces the store's method.
func (c *charges) Object(ctx context.Context, tenant, home, id string) (claim.Object, bool, error) {
	return c.service.Object(ctx, tenant, home, id)
}

func (c *charges) Learn(ctx context.Context, call outbox.Message, provider, ref string) outbox.Disposition {
	return c.service.Learn(ctx, call, provider, ref, 0)
}

func (c *charges) LearnHeld(ctx context.Context, call outbox.Message, h claim.Held) outbox.Disposition {
	return c.service.LearnHeld(ctx, call, h)
}

// executor makes the executor of this node.
func (c *Config) executor(of *charges, log *slog.Logger) *payment.Executor {
	guarded := make(psp.Providers, len(c.Providers))
	for i, p := range c.Providers {
		if guarded[i] = p; p.Name() == claim.TestProvider {
			continue // it is here
		}
		b := breaker.New(p, log)
		c.watchCircuit(b)
		guarded[i] = b
	}
	return payment.NewExecutor(c.time(guarded), payment.Options{
		Logger: log, Books: c.Store, Home: c.home, Charges: of, DeclinePause: c.Policy.TryAgainAfter(),
		ActionFor: c.Policy.ActionFor, ProcessingFor: c.Policy.ProcessingFor, Held: c.brakes(log).Held, Sinks: c.sinkKinds(), Failover: c.Failover,
		ErrorPages: c.ErrorPages, RefundFor: c.Audit.RefundFor(),
	})
}

func (c *Config) sinkKinds() []outbox.Kind { return slices.Sorted(maps.Keys(c.Sinks)) }

// brakes are those of automatic refunds.
func (c *Config) brakes(log *slog.Logger) *notice.Brakes {
	s := c.Compensations
	if s.PerHour == 0 { // none was given, as in tests: a file cannot leave it out
		s = DefaultCompensations()
	}
	b := s.brakes(c.Store, log)
	b.Meters = c.Meters
	return b
}

// compensator refunds ghosts by claims that do runs and inspect reads.
func (c *Config) compensator(
	do func(context.Context, claim.Request, string) (claim.Reply, error),
	inspect func(context.Context, claim.Key, string) (claim.Status, bool, error), log *slog.Logger,
) *notice.Compensator {
	return &notice.Compensator{Books: c.Store, Do: do, Inspect: inspect, Code: c.code, Providers: c.time(c.Providers), Brakes: c.brakes(log), Meters: c.Meters}
}

// startWork starts the background work: a worker for each queue and a poller that
// wakes them, and as many more for rows in lost regions, so that rows which are hard to
// reach do not delay those nearby.
func (n *Node) startWork(context.Context) (parts.Stop, error) {
	c := &n.c
	notifiers := maps.Clone(c.Notifiers)
	if notifiers == nil {
		notifiers = map[string]psp.Notifier{}
	}
	notifiers[n.test.Name()] = n.test
	n.compensator = c.compensator(n.routes.Do, n.routes.Inspect, n.log)
	notices, err := notice.NewProcessor(notice.ProcessorConfig{
		Store: c.Store, Notifiers: notifiers, Claims: c.claims(n.guard), Calls: c.Store.Queue(outbox.ProviderCalls), Books: c.Store,
		Learn: n.service.Learn, LearnRefusal: n.service.LearnRefusal, LearnHeld: n.service.LearnHeld, Home: c.home, Homes: c.homes, Compensator: n.compensator, Seal: c.Seal, Sinks: c.sinkKinds(), Meters: c.Meters, Logger: n.log, Now: n.clock.now,
	})
	if err != nil {
		return nil, err
	}
	var sets []workerSet
	here := func() []string { return []string{c.Region} }
	for _, regions := range []func() []string{here, n.outages.All} {
		b, err := n.newWorkers(regions, notices)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", c.Name, err)
		}
		sets = append(sets, b)
	}
	n.workers.Store(&sets)
	for _, b := range sets {
		for _, w := range b.workers {
			w.Start()
		}
		b.poller.Start()
	}
	return n.stopWork, nil
}

// newWorkers makes the workers for the rows of some homes.
func (n *Node) newWorkers(regions func() []string, notices *notice.Processor) (b workerSet, err error) {
	c := &n.c
	b.workers = map[outbox.Queue]*outbox.Worker{}
	for q, w := range map[outbox.Queue]outbox.WorkerConfig{
		outbox.ProviderCalls: {
			Store: c.Store.Queue(outbox.ProviderCalls), Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: n.service.Recover},
		},
		outbox.Expiries: {
			Store: c.Store.Queue(outbox.Expiries), Handlers: map[outbox.Kind]outbox.Handler{outbox.KindExpiry: n.service.Expire, outbox.KindRefund: notices.Refund},
		},
		outbox.Notices: {
			Store: c.Store.Queue(outbox.Notices), Handlers: map[outbox.Kind]outbox.Handler{outbox.KindNotice: notices.Handle},
			BatchHandler: notices.CloseBooked, BatchSize: noticesTogether, Slots: noticesAtOnce, MaxAttempts: math.MaxUint32, BackoffMin: noticeBackoffMin, BackoffMax: noticeBackoffMax,
		},
	} {
		if b.workers[q], err = n.newWorker(w, regions, n.log); err != nil {
			return b, err
		}
	}
	if b.workers[outbox.Events], err = relay.NewWorker(relay.Config{
		Store: c.Store.Queue(outbox.Events), Regions: regions, Sinks: c.Sinks, Poll: c.Outbox.Poll, Meters: c.Meters, Logger: n.log,
	}); err != nil {
		return b, err
	}
	b.poller, err = outbox.NewPoller(outbox.PollerConfig{
		Queues: c.Store, Regions: regions, Workers: b.workers, Place: n.place, Poll: c.Outbox.Poll, Logger: n.log,
	})
	return b, err
}

// stopWork finishes the rows in progress.
func (n *Node) stopWork(ctx context.Context) error {
	var errs []error
	for _, b := range n.allWorkers() {
		b.poller.Stop()
		for q, w := range b.workers {
			if q != outbox.Events {
				errs = append(errs, w.Drain(ctx))
			}
		}
	}
	for _, b := range n.allWorkers() { // the others have offered it the events of their rows
		errs = append(errs, b.workers[outbox.Events].Drain(ctx))
	}
	return errors.Join(errs...)
}

// startReceiver starts the receiver of providers' notices.
func (n *Node) startReceiver(context.Context) (parts.Stop, error) {
	c := &n.c
	var err error
	if n.receiver, err = notice.NewReceiver(notice.ReceiverConfig{
		Region: c.Region, Store: c.Store, Notifiers: c.Notifiers, Seal: c.Seal, Meters: c.Meters, Logger: n.log, Now: c.Wall,
	}); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		n.receiver.Stop()
		return nil
	}, nil
}

// Compensator refunds ghosts that were found in another way than by a notice, as this
// node does for notices.
func (n *Node) Compensator() *notice.Compensator { return n.compensator }

// newWorker completes a worker's configuration by the deployment's.
func (n *Node) newWorker(w outbox.WorkerConfig, regions func() []string, log *slog.Logger) (*outbox.Worker, error) {
	c := &n.c.Outbox
	w.Regions, w.Poll, w.Lease, w.Meters, w.Logger = regions, c.Poll, c.Lease, n.c.Meters, log
	if w.Slots == 0 {
		w.Slots = c.Batch
	}
	return outbox.NewWorker(w)
}
