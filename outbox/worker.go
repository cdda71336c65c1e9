package outbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/span"
)

// Disposition is the result of handling a message.
type Disposition struct {
	kind   fate
	after  time.Duration
	reason string
	caught *fault.Error
}

type fate uint8

const (
	fateGone fate = iota
	fateDone
	fateLater
	fateFailed
	fateParked
	fateFaulted
)

// fates maps dispositions to their names in metrics.
var fates = [...]string{fateGone: "gone", fateDone: "done", fateLater: "later", fateFailed: "failed", fateParked: "parked", fateFaulted: "faulted"}

// Gone: the handler's own atomic step removed or rescheduled the row.
func Gone() Disposition { return Disposition{kind: fateGone} }

// Done: the worker should remove the row.
func Done() Disposition { return Disposition{kind: fateDone} }

// Later: nothing failed, but the row is not ready for d.
func Later(d time.Duration) Disposition { return Disposition{kind: fateLater, after: d} }

// Delay returns the delay of [Later]; ok is false for every other disposition.
func (v Disposition) Delay() (d time.Duration, ok bool) { return v.after, v.kind == fateLater }

// Failed: try again after the back-off; park the row at the bound.
func Failed(reason string) Disposition { return Disposition{kind: fateFailed, reason: reason} }

// FailedFor is [Failed] with a next try no sooner than after d.
func FailedFor(reason string, d time.Duration) Disposition {
	return Disposition{kind: fateFailed, reason: reason, after: d}
}

// Faulted: our code panicked on the row. It is like [Failed], but the row is parked
// after a few tries, whatever the worker's bound, and an operator is paged. The worker
// itself returns this disposition for the panics that it recovers.
func Faulted(caught *fault.Error) Disposition {
	return Disposition{kind: fateFaulted, reason: caught.Error(), caught: caught}
}

// Fault returns the error of [Faulted]; nil for every other disposition.
func (v Disposition) Fault() *fault.Error { return v.caught }

// Parked: no retry can succeed; the row waits for an operator.
func Parked(reason string) Disposition { return Disposition{kind: fateParked, reason: reason} }

// String is for logs and tests.
func (v Disposition) String() string {
	names := [...]string{fateGone: "Gone", fateDone: "Done", fateLater: "Later", fateFailed: "Failed", fateParked: "Parked", fateFaulted: "Faulted"}
	switch {
	case v.reason != "":
		return names[v.kind] + ": " + v.reason
	case v.kind == fateLater:
		return names[v.kind] + " " + v.after.String()
	default:
		return names[v.kind]
	}
}

// Handler handles one kind of message. It is called concurrently, must be
// idempotent, and must return soon after ctx ends, which is when the row's
// lease ends.
type Handler func(ctx context.Context, m Message) Disposition

// WorkerConfig assembles a [Worker]. Zero values take the stated defaults.
type WorkerConfig struct {
	Store Store
	// Regions returns the homes whose rows this worker takes, each once; asked before
	// each take, so that deputies can adopt and return regions. The worker takes from
	// all homes concurrently: one that does not answer does not delay the rows of
	// others.
	Regions  func() []string
	Handlers map[Kind]Handler
	// BatchHandler, if it is not nil, gets all rows of a take, before their handlers do. It
	// ends as many of them as it can end together, as a handler that returns [Gone]
	// does, and returns the others, which go to their handlers. It must be idempotent,
	// and return soon after ctx ends. If it panics, all rows go to their handlers.
	BatchHandler func(ctx context.Context, rows []Message) (rest []Message)
	// BatchSize is how many rows a take gets for BatchHandler, if that is more than there
	// are slots. Rows that it returns and that find no slot are due again at once.
	BatchSize int
	// Poll is the pause after a take that failed. Default 500 ms: well under the
	// lease, which dominates recovery time. Ended rows wait up to a tenth of it for
	// others in progress, to end in one step with them. Rows that are enqueued after a take
	// wait up to half of it, to be taken together.
	Poll time.Duration
	// Lease is how long this worker holds a row that it took. Default 60 s:
	// longer than a provider call.
	Lease time.Duration
	// Slots is how many rows are handled at once, of all regions together; a row
	// that takes long keeps one of these slots and delays no other row. It is also
	// the most that Round takes in one region. Default 32.
	Slots int
	// MaxAttempts is how many failures park a row. Default 20.
	MaxAttempts uint32
	// BackoffMin and BackoffMax bound the pause after a failure. 1 s, 5 min.
	BackoffMin, BackoffMax time.Duration
	// Meters counts rows by disposition; nil: nothing is counted.
	Meters *meter.Set
	Logger *slog.Logger
}

// defaultPoll is well under the lease, which dominates recovery time.
const defaultPoll = 500 * time.Millisecond

// maxFaults is how many failures park a row on which our code panics. The same code
// panics on the same row again. Ten tries with the default back-off take some four
// minutes: enough for a node of another build to take the row, or for a transient fault
// to pass.
const maxFaults = 10

// Operators watch for these lines.
const pageFaulted = "page: our code panics on a row, which is parked; mend the code, then retry the row"

// Worker takes due rows and passes them to their handlers. Start, Drain and Stop may be
// called any number of times, from any goroutine.
type Worker struct {
	c    WorkerConfig
	took *meter.Histogram
	mu   sync.Mutex
	pool *pool // the latest started; nil before the first
}

// NewWorker applies defaults.
func NewWorker(c WorkerConfig) (*Worker, error) {
	if c.Store == nil || c.Regions == nil || len(c.Handlers) == 0 {
		return nil, errors.New("outbox: worker needs Store, Regions and Handlers")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Poll, defaultPoll)
	def(&c.Lease, time.Minute)
	def(&c.BackoffMin, time.Second)
	def(&c.BackoffMax, 5*time.Minute)
	if c.Slots <= 0 {
		c.Slots = 32
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Worker{c: c, took: c.Meters.Histogram(meter.HandleDuration)}, nil
}

// Start begins taking rows: once at first, and then after each [Worker.Wake]. A [Poller]
// wakes workers for rows that nobody else wakes them for. Starting a started worker does
// nothing.
func (w *Worker) Start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pool == nil || w.pool.ctx.Err() != nil {
		w.pool = startPool(w)
	}
}

// Wake makes the worker take rows of region after in, when one may be due. It keeps such
// wake-ups for a limited time, and not one for every row.
func (w *Worker) Wake(region string, in time.Duration) {
	w.mu.Lock()
	p := w.pool
	w.mu.Unlock()
	if p != nil {
		p.wake(region, in)
	}
}

// Offer has the worker handle rows of region that this process has just written, as if it had
// taken them: they are due only after end, so no other worker takes them before. It returns at
// once. Rows for which there is no slot are due at once, and this worker takes them, whatever homes
// it takes rows of. A worker that does not run leaves all until they are due.
func (w *Worker) Offer(region string, end time.Time, rows ...Message) {
	w.mu.Lock()
	p := w.pool
	w.mu.Unlock()
	if p != nil {
		p.offer(region, end, rows)
	}
}

// Drain takes no more rows and waits until the taken rows are handled or ctx is
// done. In the latter case the error says how many are still being handled:
// their handlers continue, and if the process ends first, their leases lapse and
// other workers take them. A second Drain waits again; Drain of a stopped worker
// does nothing.
func (w *Worker) Drain(ctx context.Context) error {
	w.mu.Lock()
	p := w.pool
	w.mu.Unlock()
	if p == nil {
		return nil
	}
	p.stop()
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-p.idle: // both at once: what counts is that no row is in progress
		return nil
	default:
		return p.unfinished(ctx)
	}
}

// Stop is Drain without a deadline: it waits until the taken rows are handled.
func (w *Worker) Stop() { _ = w.Drain(context.Background()) }

// Round takes one batch in each region, handles it and returns how many rows it
// took. It is meant for callers that want a single take without a running
// worker, and shares no slots with a started worker.
func (w *Worker) Round(ctx context.Context) int {
	var total atomic.Int64
	var wg sync.WaitGroup
	for _, region := range w.c.Regions() {
		wg.Go(func() {
			b, _ := w.take(ctx, &completer{w: w, region: region}, w.c.Slots)
			total.Add(int64(b.taken))
			for _, m := range b.rest {
				wg.Go(func() { b.work(m) })
			}
		})
	}
	wg.Wait()
	return int(total.Load())
}

// batch is the rows of one take.
type batch struct {
	w     *Worker
	c     *completer
	ctx   context.Context // marked, and of no drain: the rows' leases bound their handlers
	end   time.Time       // of the leases
	taken int
	// rest are those that BatchHandler has not ended. Each is passed to work or requeue, once.
	rest []Message
}

// take takes up to limit rows of c's region, and passes them to BatchHandler.
func (w *Worker) take(ctx context.Context, c *completer, limit int) (b batch, err error) {
	region := c.region
	// Counted from before the store is asked, so that it ends no later than the
	// store's lease.
	b = batch{w: w, c: c, end: time.Now().Add(w.c.Lease)}
	if caught := fault.Caught(func() { b.rest, err = w.c.Store.Take(ctx, region, limit, w.c.Lease) }); caught != nil {
		w.c.Logger.Error("the take of outbox rows panicked; it is repeated after the pause", "home", region, "fault", caught)
		return batch{}, caught
	}
	if err != nil {
		if ctx.Err() == nil {
			w.c.Logger.Warn("could not take outbox rows", "home", region, "error", err)
		}
		return batch{}, err
	}
	b.taken = len(b.rest)
	b.ctx = context.WithoutCancel(Begun(ctx))
	c.add(b.taken)
	if w.c.BatchHandler != nil && b.taken > 0 {
		b.handle()
	}
	return b, nil
}

// handle lets BatchHandler end what it can.
func (b *batch) handle() {
	w, rows := b.w, b.rest
	ctx, cancel := context.WithDeadline(b.ctx, b.end)
	defer cancel()
	began := time.Now()
	var rest []Message
	if caught := fault.Caught(func() { rest = w.c.BatchHandler(ctx, slices.Clone(rows)) }); caught != nil {
		w.c.Logger.Error("handling outbox rows together panicked; each is handled alone", "home", b.c.region, "rows", len(rows), "fault", caught)
		return
	}
	b.rest = rest
	open := make(map[string]bool, len(rest))
	for _, m := range rest {
		open[m.ID] = true
	}
	took := time.Since(began)
	for _, m := range rows {
		if open[m.ID] {
			continue
		}
		_, sp := w.span(ctx, m)
		w.took.Took(ctx, took, string(m.Kind), fates[fateGone])
		sp.End()
		b.c.remove()
	}
}

// work handles a row and returns when it is done.
func (b *batch) work(m Message) {
	defer b.c.remove()
	ctx, cancel := context.WithDeadline(b.ctx, b.end)
	defer cancel()
	b.w.handle(ctx, b.c, m)
}

// requeue makes a row due again that nobody has handled.
func (b *batch) requeue(m Message) {
	defer b.c.remove()
	ctx, cancel := context.WithDeadline(b.ctx, b.end)
	defer cancel()
	b.w.recorded(m, b.c.retry(ctx, m, 0, ""))
}

// handle processes one row. A panic of the store costs the row its lease.
func (w *Worker) handle(ctx context.Context, c *completer, m Message) {
	if caught := fault.Caught(func() { w.dispose(ctx, c, m) }); caught != nil {
		w.c.Logger.Error("the store panicked on an outbox row; another worker takes the row when its lease ends", "home", m.Region, "id", m.ID, "kind", m.Kind, "fault", caught)
	}
}

// ask calls the row's handler.
func (w *Worker) ask(ctx context.Context, m Message) (v Disposition) {
	handler, ok := w.c.Handlers[m.Kind]
	if !ok {
		return Failed("no handler for kind " + string(m.Kind))
	}
	if caught := fault.Caught(func() { v = handler(ctx, m) }); caught != nil {
		w.c.Logger.Error("the handler of an outbox row panicked; the row counts as failed", "home", m.Region, "id", m.ID, "kind", m.Kind, "attempts", m.Attempts, "fault", caught)
		return Faulted(caught)
	}
	return v
}

func (w *Worker) dispose(ctx context.Context, c *completer, m Message) {
	ctx, sp := w.span(ctx, m)
	defer sp.End()
	began := time.Now()
	disposition, parked := w.ask(ctx, m), "outbox row parked; retry it by hand once the cause is mended"
	switch {
	case disposition.kind == fateFaulted && m.Attempts+1 >= min(maxFaults, w.c.MaxAttempts):
		disposition.kind, parked = fateParked, pageFaulted
	case disposition.kind == fateFailed && m.Attempts+1 >= w.c.MaxAttempts:
		disposition.kind = fateParked
	}
	w.took.Took(ctx, time.Since(began), string(m.Kind), fates[disposition.kind])
	if disposition.reason = storable(disposition.reason); disposition.reason != "" {
		span.Fail(sp, errors.New(disposition.reason))
	}
	var err error
	switch disposition.kind {
	case fateGone:
	case fateDone:
		err = c.finish(ctx, m)
	case fateLater:
		err = c.retry(ctx, m, disposition.after, "")
	case fateParked:
		w.c.Logger.Error(parked, "home", m.Region, "id", m.ID, "kind", m.Kind, "tenant", m.Tenant, "reason", disposition.reason)
		err = w.c.Store.Park(ctx, m.Region, m.Hold(), disposition.reason)
	case fateFailed, fateFaulted:
		err = c.retry(ctx, m, max(disposition.after, w.backoff(m.Attempts)), disposition.reason)
	}
	w.recorded(m, err)
}

// recorded logs that the store could not record what became of a row.
func (w *Worker) recorded(m Message, err error) {
	if err != nil && !errors.Is(err, ErrFenced) {
		w.c.Logger.Warn("could not record an outbox row's disposition; another worker takes the row when its lease ends", "home", m.Region, "id", m.ID, "error", err)
	}
}

// span begins that of a row. The work may run hours after its cause, so it gets a trace
// of its own.
func (w *Worker) span(ctx context.Context, m Message) (context.Context, span.Span) {
	ctx, sp := span.Linked(ctx, span.Outbox+string(m.Kind), m.TraceParent)
	if sp.IsRecording() {
		sp.SetAttributes(span.Tenant.String(m.Tenant), span.HomeRegion.String(m.Region), span.OutboxID.String(m.ID),
			span.Operation.String(m.Operation), span.Fence.Int64(int64(m.Fence)))
	}
	return ctx, sp
}

// storable makes reason fit for every store. It may contain a provider's or a sink's
// answer, and one row must not make a step of many fail.
func storable(reason string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(reason, "\x00", "\uFFFD"), "\uFFFD")
}

// backoff is exponential with full jitter.
func (w *Worker) backoff(attempts uint32) time.Duration {
	limit := w.c.BackoffMax
	if attempts < 32 && w.c.BackoffMin<<attempts > 0 && w.c.BackoffMin<<attempts < limit {
		limit = w.c.BackoffMin << attempts
	}
	return rand.N(limit) + 1
}
