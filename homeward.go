// Package homeward makes the operations of a Go program safe to retry: an HTTP handler, a function,
// a transaction or an RPC has at most one effect for each idempotency key, and every retry reads the
// same reply.
//
//	err := homeward.Migrate(ctx, homeward.Postgres(url)) // once, as with every schema
//	h, err := homeward.Open(ctx, homeward.Postgres(url))
//	defer h.Close(ctx)
//
//	mux.Handle("POST /v1/orders", h.Middleware(orders)) // an http.Handler
//
//	reply, err := h.Do(ctx, homeward.Op{Tenant: "acme", Key: key, Request: body},
//		func(ctx context.Context, a homeward.Attempt) homeward.Outcome { … }) // a function
//
//	reply, err := h.DoTx(ctx, tx, homeward.Op{Tenant: "acme", Key: key, Request: body},
//		func(tx pgx.Tx) ([]byte, error) { … }) // the claim commits with the rows of tx
//
//	connect.WithInterceptors(h.Interceptor()) // unary RPCs
//
// The first call under a key makes a claim, a row in the store, before it runs anything. The row
// decides: any number of processes may share a database, and whichever gets the retry reads what the
// first one recorded. docs/EMBEDDING.md begins with a small program.
//
// # Outcomes
//
// An attempt ends in one of five ways, as in package claim: [Done] and [Refused] are final and
// replayed for 24 hours, [Released] is a no that the key forgets, [Pending] is an answer for now, and
// [Unknown] is neither yes nor no. A panic, and a function that has not returned when the lease of
// its claim ends, are unknown.
//
// # What becomes of an attempt that nobody finished
//
// A function lives in its caller. Nothing else can run it, so nothing does: after a crash the claim
// waits for the next call of the same operation, in whichever process. What that call may do is said
// by who wrote the function:
//
//   - By default a function runs once. A call that finds that an earlier attempt may have run it
//     does not run it again. It ends the claim as unknown, for good ([ErrUnknown]), and every retry
//     reads that.
//   - A [Op].Repeatable function runs again, with [Attempt].Recovery. It asks whoever does the work
//     what became of it, or repeats it under [Attempt].Key, which is the same in each of these
//     attempts. Until one of them says what is, retries get [claim.UnknownError].
//
// A worker of each process ends what nobody calls again: of the first kind when the lease has run
// out, of the second a day after the last attempt. A pending claim waits for its next call.
//
// # Crash points
//
// The process may die at any point of a call. This is what the next one finds:
//
//	                                 once                       repeatable
//	before the claim is durable      nothing: it is the first   the same
//	after that, before the function  for the lease, 10 s:       for the lease: *claim.InUseError
//	runs                             *claim.InUseError          then the function, as a recovery
//	                                 then unknown, for good
//	while it runs, or after it, and  the same                   the same
//	before the outcome is durable
//	after that                       the reply                  the reply
//
// A call whose claim comes when its lease is over runs nothing, and records that if it still can. Then the
// next call is the first one, and if none comes the key is released.
//
// In DoTx there is one point: the commit of the caller's transaction. Before it there is nothing,
// after it the reply.
//
//	savepoint | claim | function | outcome | release | … | COMMIT
//
//	the process or the connection dies before COMMIT   nothing has happened: it is the first call
//	the reply to COMMIT is lost                        the next call reads the reply if it was done,
//	                                                   and is the first one if not
//	the function fails                                 the savepoint takes claim and function back;
//	                                                   the rest of the transaction goes on
//	a twin, in another transaction                     it waits on the row until this one ends, and
//	                                                   then reads the reply, or is the first one
//
// # What a caller's context does
//
// The context of a call says how long it waits for a twin, and nothing else: a claim that it made is
// executed although its caller has gone. The function's own context has the caller's values. It ends
// when the lease can no longer be trusted. A function that goes on then works for nobody: its claim is
// unknown, and somebody may ask again.
//
// # Stability
//
// This is version 0. Until 1.0 a minor release may change names and signatures of this package, and
// says so in CHANGELOG.md. It never changes what a stored claim means: a build reads the rows of the
// release before it, and migrations only add.
package homeward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

// Homeward runs operations under claims. It is safe for concurrent use.
type Homeward struct {
	c       settings
	rows    *rows
	service *claim.Service
	node    string
	policy  claim.Policy
	codes   atomic.Pointer[codes]

	background context.Context
	stop       context.CancelFunc
	work       sync.WaitGroup
	worker     *outbox.Worker
	poller     *outbox.Poller
	meters     *meter.Set
	gate       sync.Mutex // of closed, and of calls while it is open
	closed     bool
	calls      sync.WaitGroup
	closing    sync.Once
	closeErr   error
}

// Option changes a setting of [Open].
type Option func(*settings)

type settings struct {
	log *slog.Logger

	// By tests.
	policy    func(*claim.Policy)
	pool      func(*sqlstore.Pool)
	poll      time.Duration
	wrapStore func(claim.Store) claim.Store
}

// Logger has Homeward log to l. The default is [slog.Default].
func Logger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// maxReply is the longest reply that is kept, in bytes: it is a part of the claim's row.
const maxReply = 1 << 20

// maxGenerations is how often a key is released before its last refusal stays, as with the gateway: a
// caller who is told to slow down, or that a password is wrong, may ask for as long as the key lives.
const maxGenerations = 1 << 20

// policy is that of all programs on a store, as [claim.Policy] demands.
func (s *settings) policyOf(store *Store) claim.Policy {
	p := claim.DefaultPolicy()
	p.ClockOffset = store.clockOffset
	// An unknown that has an answer for it is the last one: see stayedUnknown.
	p.MaxUnknowns = 1
	p.RememberFor = 0 // a function reports nothing after it has returned
	p.MaxGenerations = maxGenerations
	p.InlineBody = maxReply + 1<<10
	if s.policy != nil {
		s.policy(&p)
	}
	return p
}

// Open opens store, whose schema [Migrate] has made, and starts the workers. The caller must Close
// what it returns. ctx bounds the opening only. An error is one line that says what to do.
//
// Spans and metrics go to OpenTelemetry's global providers, if the program has set them before.
func Open(ctx context.Context, store Store, options ...Option) (_ *Homeward, err error) {
	h := &Homeward{node: "program-" + uuid.NewString()}
	for _, o := range options {
		o(&h.c)
	}
	h.c.log = cmp.Or(h.c.log, slog.Default())
	if store.open == nil {
		return nil, errors.New("homeward: there is no store; pass Postgres, Cockroach or Embedded to Open")
	}
	if h.meters, err = meter.New(otel.GetMeterProvider()); err != nil {
		return nil, fmt.Errorf("homeward: metrics: %w", err)
	}
	h.policy = h.c.policyOf(&store)
	if h.rows, err = store.open(ctx, opening{h.policy, h.c.pool, h.c.log, h.meters}); err != nil {
		h.meters.End()
		return nil, fmt.Errorf("homeward: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.rows.close())
			h.meters.End()
		}
	}()
	if err := h.readRegions(ctx); err != nil {
		return nil, fmt.Errorf("homeward: the table of regions: %w", err)
	}
	if h.c.wrapStore != nil {
		h.rows.store = h.c.wrapStore(h.rows.store)
	}
	if h.service, err = claim.NewService(claim.Config{
		Store: h.rows.store, Executor: executor{h}, Blobs: noBlobs{}, Policy: h.policy, Node: h.node, Region: h.rows.region,
		Code: h.code, Operations: operations, Meters: h.meters, Logger: h.c.log,
	}); err != nil {
		return nil, fmt.Errorf("homeward: %w", err)
	}
	if err := h.start(); err != nil {
		return nil, err
	}
	return h, nil
}

// start starts what runs beside calls.
func (h *Homeward) start() (err error) {
	here := func() []string { return []string{h.rows.region} }
	if h.worker, err = outbox.NewWorker(outbox.WorkerConfig{
		Store: h.rows.queues.Queue(outbox.ProviderCalls), Regions: here, Poll: h.c.poll, Meters: h.meters, Logger: h.c.log,
		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: h.abandoned},
	}); err != nil {
		return fmt.Errorf("homeward: %w", err)
	}
	if h.poller, err = outbox.NewPoller(outbox.PollerConfig{
		Queues: h.rows.queues, Regions: here, Poll: h.c.poll, Logger: h.c.log,
		Workers: map[outbox.Queue]*outbox.Worker{outbox.ProviderCalls: h.worker},
	}); err != nil {
		return fmt.Errorf("homeward: %w", err)
	}
	h.background, h.stop = context.WithCancel(context.Background())
	h.service.Start()
	h.worker.Start()
	h.poller.Start()
	h.work.Go(h.keepHouse)
	return nil
}

const (
	// houseEvery is how often rows past their windows are deleted, houseBatch how many in one step.
	houseEvery = time.Minute
	houseBatch = 1000
)

// keepHouse deletes what is past its windows, and reads the table of regions anew. Only disk space
// depends on it.
func (h *Homeward) keepHouse() {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.background.Done():
			return
		case <-tick.C:
		}
		caught := fault.Caught(func() {
			if err := h.readRegions(h.background); err != nil {
				h.c.log.WarnContext(h.background, "the table of regions cannot be read; the one of before counts", "error", err)
			}
			for h.background.Err() == nil {
				n, err := h.rows.sweep(h.background, houseBatch)
				if err != nil {
					h.c.log.WarnContext(h.background, "rows past their windows cannot be deleted; they count as absent all the same", "error", err)
				}
				if err != nil || n < houseBatch {
					return
				}
			}
		})
		if caught != nil {
			h.c.log.Error("housekeeping panicked; it is tried again", "fault", caught)
		}
	}
}

// enter counts a call, unless Close has begun.
func (h *Homeward) enter() (leave func(), err error) {
	h.gate.Lock()
	defer h.gate.Unlock()
	if h.closed {
		return nil, errClosed
	}
	h.calls.Add(1)
	return h.calls.Done, nil
}

// ended waits, within ctx, until the calls that have entered are over.
func (h *Homeward) ended(ctx context.Context) error {
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.calls.Wait()
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("homeward: operations were still running when the time to close was over; they are as after a crash: %w", ctx.Err())
	}
}

// errClosed: there is nothing left to run a call with.
var errClosed = fmt.Errorf("%w: Homeward is closed", claim.ErrUnavailable)

// Close waits, within ctx, until the calls under way have ended, and stops the workers. A call that
// has not ended by then is as after a crash. Calls that begin after Close fail. A second Close does
// nothing and returns the same.
func (h *Homeward) Close(ctx context.Context) error {
	h.closing.Do(func() {
		h.gate.Lock()
		h.closed = true
		h.gate.Unlock()
		drained := h.ended(ctx)
		h.poller.Stop()
		drained = errors.Join(drained, h.worker.Drain(ctx))
		h.stop()
		h.work.Wait()
		h.service.Stop()
		h.meters.End()
		h.closeErr = errors.Join(drained, h.rows.close())
	})
	return h.closeErr
}

// Migrate makes or upgrades the schema of store: tables of its own beside the program's, in the schema
// "homeward". It may be run again, by any number of processes at once. The user of the URL must be
// allowed to create a schema. On CockroachDB name the database's regions, the primary one first; the
// database becomes one of several regions if it is not. An embedded store has no schema.
//
// "homeward migrate up" does the same, with search_path=homeward in its URL.
func Migrate(ctx context.Context, store Store, regions ...string) error {
	if store.migrate == nil {
		return nil
	}
	if err := store.migrate(ctx, regions); err != nil {
		return fmt.Errorf("homeward: %w", err)
	}
	return nil
}
