package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/outbox"
)

// Attempt is the input of one call to [Executor].Attempt.
type Attempt struct {
	Record  Record
	Payload []byte
	// Unstored is [Request].Unstored of the request that makes this attempt; nil: a worker makes it.
	Unstored []byte
	// Recovery: an earlier attempt of this generation may have moved money.
	Recovery bool
	// Last: a release would become the final answer, see
	// [Record.LastGeneration].
	Last bool
	// Provider names the provider to call, one of [Config].Providers: that of the claim's
	// generation. "": the operation finds its provider by itself, or there has only ever
	// been one.
	Provider string
	// ReportedRef is the provider's own reference of the movement, if the provider ReportedBy
	// notified us that it was made; "" if not. If ReportedBy is the provider to call, the
	// executor calls none, and the outcome is Done. The movement may be one of an
	// earlier generation, which has been reversed or refunded since: then it counts for
	// nothing.
	ReportedRef, ReportedBy string
	// Refused is the decline code, if ReportedBy notified us that it declined this
	// generation for good. The executor then calls no provider.
	Refused string
	// Held is a notice about a charge that holds its money, nil for none. The executor moves no
	// money then. Held.By names the provider that sent it.
	Held *Held
	// Witness is the witness of this generation while a restore is in effect; nil if there is none.
	Witness *Witness
	// Closing: the claim is released and its request has expired, or its key is Canceled. The
	// executor calls no provider; the outcome is Refused.
	Closing bool
	// Canceled: the merchant has given the key up ([Cancel]). The executor sends nothing that may not
	// have been sent, calls off what can be, and refuses what it finds out to have been made, with a
	// Refund of its money, or reports it as Done if money cannot be called back.
	Canceled bool
	// Found is the outcome of an attempt that could not be recorded, since the key was canceled
	// meanwhile; nil: none. The executor makes of it what Canceled makes of it, without a call that
	// moves money.
	Found Outcome
	// Now is the store's clock, as the node estimates it.
	Now time.Time
}

// Executor makes attempts. Attempt makes at most one call that can move money, under
// Record.ProviderKey, and returns once ctx is done, with Unknown if it cannot
// tell. It is called concurrently. An attempt that panics leaves the outcome unknown.
type Executor interface {
	Attempt(ctx context.Context, a Attempt) Outcome
}

// Blobs stores response bodies that are too large for a row, by content. Put is
// idempotent; a body that it acknowledged must be durable and readable in any
// region.
type Blobs interface {
	// Put stores body and returns the SHA-256, in hex, that names it.
	Put(ctx context.Context, body []byte) (ref string, err error)
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Operations holds the object id prefix of each operation ("charge" → "ch"). What follows a space in an
// operation is an addition of its executor's, and not in here.
type Operations map[string]string

// baseOf is an operation without its addition.
func baseOf(operation string) string {
	base, _, _ := strings.Cut(operation, " ")
	return base
}

// Config assembles a [Service].
type Config struct {
	Store    Store
	Executor Executor
	Blobs    Blobs
	Policy   Policy
	// Node identifies this process in leases. It is unique per start and never
	// reused, so that a restarted process does not mistake an old lease for its
	// own.
	Node string
	// Region is where the node runs.
	Region string
	// Providers names the providers that Executor can call, the default first; [TestProvider] is
	// that of test tenants, and stands behind it. A claim that was begun for another provider
	// stays open until a node that has that provider recovers it. nil: there is one provider, without a name.
	Providers []string
	// Unbound names the operations that find their provider through another object, as
	// a refund does through its charge. Their claims name no provider.
	Unbound map[string]bool
	// Unstopped names the operations that go on to their end although their key is canceled.
	Unstopped map[string]bool
	// Code returns the region code of a home, false for an unknown region.
	Code       func(home string) (RegionCode, bool)
	Operations Operations
	// Random is the source of random bits for ids; nil means crypto/rand. It
	// must be safe for concurrent use.
	Random io.Reader
	// Meters counts claims; nil: nothing is counted.
	Meters *meter.Set
	Logger *slog.Logger
}

// Service runs requests against the claims of a home. It is safe for concurrent
// use. Start begins the heartbeat; Drain waits for the running attempts; Stop
// ends the heartbeat, after which the leases of held claims lapse.
type Service struct {
	c      Config
	meters meters
	held   holdings
	flight flights
	// executing counts requests under way, and attempts.
	executing running
	// met is when this node last saw a claim of a provider that it does not have, in nanoseconds
	// since 1970; 0: never.
	met  atomic.Int64
	stop context.CancelFunc
	done chan struct{}
	life sync.Mutex
}

// NewService returns a Service, or an error if the configuration is invalid.
func NewService(c Config) (*Service, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, err
	}
	if c.Store == nil || c.Executor == nil || c.Blobs == nil || c.Code == nil || c.Node == "" || c.Region == "" {
		return nil, errors.New("claim: service needs Store, Executor, Blobs, Code, Node and Region")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{c: c, meters: newMeters(c.Meters)}, nil
}

// Do runs req at home: it executes, waits, replays or refuses. ctx says how long Do waits for a
// rival, and nothing else: a step of the claim goes on whether the caller waits or not, bounded by
// the store, and a claim that it won is executed, bounded by the lease. A caller who disconnected
// before the first step gets the error of ctx.
func (s *Service) Do(ctx context.Context, home string, req *Request) (reply Reply, err error) {
	arrival, err := s.arrival(home, req)
	if err != nil {
		return Reply{}, err
	}
	if req.Began.IsZero() {
		timed := *req
		timed.Began, req = time.Now(), &timed
	}
	s.executing.begin() // a drain waits for a claim that the step may have won, also of a disconnected caller
	defer s.executing.end()
	begun, sentAt, waited, err := s.begin(ctx, req, &arrival)
	defer func() { reply.Away += waited }()
	if s.metersOf(req.Key.Tenant).begun(req, &begun, err); err != nil {
		return Reply{}, err
	}
	rec := &begun.Record
	if begun.Decision == NeedPin && !s.has(req) {
		return Reply{}, fmt.Errorf("%w: this node has no provider %s for this tenant; give the nodes of both regions the same providers", ErrUnavailable, s.provider(req))
	}
	if begun.Decision == NeedPin {
		return Reply{}, ErrNeedPin // the home may be another region
	}
	reply = s.frame(rec, begun.Now, true)
	switch begun.Decision {
	case Won, WonUnknown:
		a := Attempt{Payload: arrival.payload(), Unstored: req.Unstored, Provider: arrival.Provider, Recovery: begun.Decision == WonUnknown}
		return s.execute(context.WithoutCancel(ctx), rec, a, sentAt)
	case Replay:
		s.note(ctx, rec, "replay")
		return s.answered(ctx, reply, rec.Response)
	case Shared:
		s.note(ctx, rec, "shared")
		reply.State = FailedRetry // the outcome of its own attempt
		return s.answered(ctx, reply, &rec.Refusal.Response)
	case Waiting:
		s.note(ctx, rec, "interim")
		return s.answered(ctx, reply, &rec.Interim.Response)
	case Mismatch:
		s.note(ctx, rec, "mismatch")
		return reply, ErrMismatch
	case TombStone:
		return reply, &ExpiredError{FirstUse: rec.FirstUse}
	case Busy:
		if rec.Holder == "" {
			return reply, &UnknownError{RetryAfter: s.c.Policy.untilNextAttempt(rec, begun.Now)}
		}
		return reply, &InUseError{RetryAfter: s.c.Policy.untilRetry(rec, begun.Now)}
	default:
		return reply, fmt.Errorf("claim: store decided %v", begun.Decision)
	}
}

// begin asks the store for the claim, and again while a rival holds it. Busy remains when the wait
// is over. sentAt is the local time before the last store call, waited the length of the wait.
func (s *Service) begin(ctx context.Context, req *Request, a *Arrival) (begun Begun, sentAt time.Time, waited time.Duration, err error) {
	ctx, sp := span.Start(ctx, span.Claim)
	defer func() { s.traceClaim(sp, &begun.Record, begun.Decision.String(), err); sp.End() }()
	var wait *waiter
	defer func() {
		if wait.close(); wait != nil {
			waited = time.Since(wait.since)
			s.metersOf(a.Key.Tenant).wait(ctx, begun.Decision, waited)
		}
	}()
	for {
		done := s.flight.watch(a.Home, a.Key) // before the read, so that no end is missed
		sentAt = time.Now()
		a.UnderWay = req.underWay(sentAt)
		if err = ctx.Err(); err != nil {
			return begun, sentAt, 0, err
		}
		begun, err = s.c.Store.Begin(context.WithoutCancel(ctx), *a)
		if err != nil || begun.Decision != Busy {
			return begun, sentAt, 0, err
		}
		a.Waited = a.Waited || begun.Record.State == InFlight
		if wait == nil {
			wait = newWaiter(&s.c.Policy)
		}
		if !wait.next(ctx, done) {
			return begun, sentAt, 0, nil
		}
	}
}

func (s *Service) arrival(home string, req *Request) (Arrival, error) {
	code, ok := s.c.Code(home)
	if !ok {
		return Arrival{}, fmt.Errorf("%w: no region %q in the topology", ErrHomeUnreachable, home)
	}
	prefix, ok := s.c.Operations[baseOf(req.Operation)]
	if !ok {
		return Arrival{}, fmt.Errorf("claim: operation %q has no id prefix", req.Operation)
	}
	fingerprint, err := req.Input.Fingerprint(CurrentFingerprint)
	if err != nil {
		return Arrival{}, err
	}
	id, err := NewObjectID(prefix, code, s.c.Random)
	if err != nil {
		return Arrival{}, err
	}
	return Arrival{
		Content: Content{
			Key: req.Key, Operation: req.Operation, Input: req.Input, Payload: req.Payload, Reverses: req.Reverses, Print: fingerprint, Also: req.Also,
			CompareOnly: req.CompareOnly || !s.has(req),
			// The receipt is the random part of the id in a shape that a person can read
			// out. It need not be unique by itself.
			Mint:        Minted{ID: id, Receipt: receipt(id)},
			TraceParent: req.TraceParent,
		},
		Route:  Route{Home: home, Stamped: req.Stamp != 0, PinnedAt: req.PinnedAt, PinHere: req.PinHere},
		Holder: Holder{Node: s.c.Node, Region: s.c.Region, Provider: s.provider(req), Providers: s.c.Providers},
	}, nil
}

// provider returns the provider of a new generation for req.
func (s *Service) provider(req *Request) string {
	switch {
	case s.c.Unbound[req.Operation] || len(s.c.Providers) == 0:
		return ""
	case !Livemode(req.Key.Tenant):
		return TestProvider
	case req.Provider == "":
		return s.c.Providers[0]
	}
	return req.Provider
}

// has reports whether this node can call the provider of a new generation for req. If it
// cannot, it begins no generation. A retry is still answered, as its claim names its
// own provider.
func (s *Service) has(req *Request) bool {
	provider := s.provider(req)
	return provider == "" || slices.Contains(s.c.Providers, provider) && MayCall(req.Key.Tenant, provider)
}

// receipt renders twelve characters of an object id as R-XXXX-XXXX-XXXX.
func receipt(id string) string {
	const digits = 12
	out := make([]byte, 0, len("R-XXXX-XXXX-XXXX"))
	out = append(out, 'R')
	start := max(0, len(id)-26) // the random bits lead the 26 characters of the stamp
	for i := range min(digits, len(id)-start) {
		if i%4 == 0 {
			out = append(out, '-')
		}
		c := id[start+i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// execute makes one attempt as the holder of rec and settles it. a carries the payload and the
// notice of the attempt. sentAt is the local time before the store call that wrote the lease, so
// that the trust window begins no later than the store's.
func (s *Service) execute(ctx context.Context, rec *Record, a Attempt, sentAt time.Time) (Reply, error) {
	s.executing.begin()
	defer s.executing.end()
	ctx = outbox.Begun(ctx)
	number := s.flight.begin(rec.Home, rec.Key)
	defer s.flight.end(rec.Home, rec.Key, number)
	settled, outcome, took, err := s.attempt(ctx, rec, a, sentAt)
	for err == nil && settled.State == InFlight {
		moved, ok := outcome.(*Moved)
		if !ok {
			break
		}
		if rec, err = s.follow(ctx, &settled, &a, moved.Next, &sentAt); err == nil {
			settled, outcome, took, err = s.attempt(ctx, rec, a, sentAt)
		}
	}
	if err != nil {
		open := s.frame(rec, rec.HeldSince, false)
		open.Away = took
		if errors.Is(err, ErrUnstorable) {
			s.c.Logger.Error(pageUnstorable, "tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "provider", a.Provider, "outcome", outcome.String(), "error", err)
			return open, fmt.Errorf("%w: %w", &UnknownError{RetryAfter: s.c.Policy.WaitMax}, err)
		}
		if errors.Is(err, ErrFenced) {
			// Another holder took the claim over; its answer is the answer.
			s.c.Logger.Warn("another holder took the claim over during the attempt", "tenant", rec.Key.Tenant, "home", rec.Home, "fence", rec.Fence)
			return open, &InUseError{RetryAfter: s.c.Policy.WaitMax}
		}
		// The provider may have acted. Whatever error the store returned, the caller
		// must not read it as "nothing happened".
		if caught, ok := errors.AsType[*fault.Error](err); ok {
			return open, fmt.Errorf("%w: %w", &UnknownError{RetryAfter: s.c.Policy.WaitMax}, caught)
		}
		s.c.Logger.Warn("could not settle an attempt; the outbox will recover it", "tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "error", err)
		return open, &UnknownError{RetryAfter: s.c.Policy.WaitMax}
	}
	reply := s.frame(&settled, rec.HeldSince, false)
	reply.Away = took
	if settled.Interim != nil {
		// Return the stored answer: this attempt may have spelled its own differently.
		return s.answered(ctx, reply, &settled.Interim.Response)
	}
	if settled.State == InFlight {
		return reply, &UnknownError{RetryAfter: s.c.Policy.untilNextAttempt(&settled, rec.HeldSince.Add(time.Since(sentAt)))}
	}
	// The body is in memory, wherever it is stored.
	response, _ := outcome.answer()
	reply.Response, reply.Response.Blob = *response, ""
	return reply, nil
}

// follow takes over the generation that moved the claim to another provider. It is a
// first attempt if no other holder had the claim in between, which the fence shows.
func (s *Service) follow(ctx context.Context, moved *Record, a *Attempt, provider string, sentAt *time.Time) (*Record, error) {
	*sentAt = time.Now()
	rec, err := s.takeOver(ctx, moved.Key, moved.Home, moved.Minted.ID, News{})
	if err != nil {
		if _, held := errors.AsType[*LeaseHeldError](err); held {
			err = ErrFenced // another node was faster and continues
		}
		return moved, err
	}
	first := moved.Fence + 1
	if rec.Canceled() { // since the move, as a canceled claim is not moved
		first++
	}
	a.Provider, a.Recovery, a.ReportedRef, a.ReportedBy, a.Held = provider, rec.Fence != first, "", "", nil
	return &rec, nil
}

// attempt calls the provider under the lease and settles the outcome, which it returns with
// how long the call took. A panic becomes a *[fault.Error]: the claim stays in flight, with
// its lease or without.
func (s *Service) attempt(ctx context.Context, rec *Record, a Attempt, sentAt time.Time) (settled Record, outcome Outcome, took time.Duration, err error) {
	defer func() {
		if err == nil {
			return
		}
		if caught := (*fault.Error)(nil); errors.As(err, &caught) {
			s.c.Logger.Error("an attempt panicked; its outcome is unknown and the claim stays in flight",
				"tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "provider", a.Provider, "fault", caught)
		}
	}()
	defer fault.Recover(&err)
	p := &s.c.Policy
	trust := sentAt.Add(p.Lease - p.LeaseMargin)
	callCtx, hold := s.held.add(ctx, Lease{Key: rec.Key, Home: rec.Home, Fence: rec.Fence}, trust, sentAt.Add(p.LeaseCeiling-p.LeaseMargin))
	defer s.held.remove(hold) // the heartbeat must not renew a claim without a worker
	began := time.Now()
	// If trust ended before the executor was called, nothing was sent.
	outcome = &Unsent{Reason: reasonLease}
	var caught *fault.Error
	tryCtx, try := span.Start(callCtx, span.Attempt)
	a.Record, a.Last, a.Now, a.Canceled = *rec, rec.LastGeneration(p), rec.HeldSince, rec.Canceled()
	here := true
	if a.Recovery { // a generation that this step began uses the provider that the arrival named
		a.Provider, here = s.with(rec)
	}
	switch {
	case !here:
		s.meet(rec)
		outcome = &Unsent{Reason: "other_provider", RetryIn: otherProviderPause}
	case callCtx.Err() == nil:
		outcome, caught = s.try(tryCtx, a)
	}
	verdict := s.verdict(outcome)
	outcome, took = verdict.outcome(), time.Since(began)
	traceAttempt(try, rec, a.Recovery, outcome)
	try.End()

	// Keep renewing the lease until the result is recorded.
	settled, err = s.settle(ctx, callCtx, rec, verdict)
	if errors.Is(err, ErrFenced) && s.marked(ctx, callCtx, &a.Record) && caught == nil {
		a.Canceled, a.Found = true, outcome
		if outcome, caught = s.try(callCtx, a); caught == nil {
			rec = &a.Record
			verdict = s.verdict(outcome)
			outcome = verdict.outcome()
			settled, err = s.settle(ctx, callCtx, rec, verdict)
		}
	}
	s.metersOf(rec.Key.Tenant).ended(rec.Operation, &settled, err)
	s.held.remove(hold)
	if caught != nil {
		err = errors.Join(caught, err)
	}
	if err != nil {
		return Record{}, outcome, took, err
	}
	if settled.Reason == ReasonOutcomeUnknown && settled.State == FailedTerminal {
		s.c.Logger.Error("outcome still unknown at the bound; the claim failed, and what was done all the same has to be found",
			"tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "attempts", settled.Attempts)
	}
	return settled, outcome, took, nil
}

// try has the executor make an attempt.
func (s *Service) try(ctx context.Context, a Attempt) (outcome Outcome, caught *fault.Error) {
	if caught = fault.Caught(func() { outcome = s.c.Executor.Attempt(ctx, a) }); caught != nil {
		// The executor may have called the provider. A panic never counts towards giving the claim up.
		outcome = &Fault{Reason: reasonFault, RetryIn: faultPause}
	}
	return outcome, caught
}

// verdict is an outcome of this node's.
func (s *Service) verdict(o Outcome) Verdict {
	return Verdict{Outcome: o, Node: s.c.Node, Region: s.c.Region}
}

// reasonLease marks an attempt whose lease could not be trusted any more before the executor was called.
const reasonLease = "lease_ran_out"

// reasonFault marks an attempt in which our own code failed. Merchants can read it in
// the audit.
const reasonFault = "our_fault"

// faultPause limits how often an attempt that panics is retried.
const faultPause = time.Second

// Operators watch for this line.
const (
	pageElsewhere  = "page: a claim was begun for another provider; it stays open until a node has that provider again"
	pageUnstorable = "page: the store refuses to record what a provider answered; the claim stays open until a person decides"
)

const (
	// otherProviderPause is how long a node leaves a claim of a provider that it does not have.
	// Another node may have it, or the wait ends with a change of settings.
	otherProviderPause = 15 * time.Second
	// elsewhereMemory is for how long after it saw such a claim a node reads a claim
	// before it takes it over.
	elsewhereMemory = time.Hour
)

// with returns the provider of rec's present generation. It is "" if there is none, as
// for refunds, or if the node's only provider has no name. ok is false if this node cannot
// call it.
func (s *Service) with(rec *Record) (name string, ok bool) {
	name, ok = rec.With(s.c.Providers)
	return name, ok && (name != "" || s.c.Providers == nil || s.c.Unbound[rec.Operation])
}

// meet records that rec's provider is not on this node.
func (s *Service) meet(rec *Record) {
	s.met.Store(time.Now().UnixNano())
	s.c.Logger.Error(pageElsewhere, "tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "providers", s.c.Providers)
}

const (
	// settlePause is the pause before Settle is retried. It doubles up to
	// settlePauseMax, which is short against the remaining lease.
	settlePause    = 25 * time.Millisecond
	settlePauseMax = time.Second
)

// settle records the verdict. If the store does not answer, it retries while
// trust lasts and once more: trust may have ended because a renewal found the
// claim settled by a try whose reply was lost. The fence, not trust, makes each
// try safe.
func (s *Service) settle(ctx, trust context.Context, rec *Record, verdict Verdict) (settled Record, err error) {
	ctx, sp := span.Start(ctx, span.Settle)
	defer func() { traceSettle(sp, &settled, err); sp.End() }()
	verdict.ID, verdict.MadeAt = uuid.New(), time.Now()
	err = insist(trust, func() (err error) {
		settled, err = s.record(ctx, rec, &verdict)
		return err
	}, func(err error) {
		s.c.Logger.Warn("could not record a verdict; retrying while the lease is trusted", "tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "error", err)
	})
	return settled, err
}

// insist calls try, again and again if the store does not answer, while trust lasts and once more.
// failed gets the first error of these.
func insist(trust context.Context, try func() error, failed func(error)) error {
	for pause := settlePause; ; pause = min(2*pause, settlePauseMax) {
		last := trust.Err() != nil
		err := try()
		if last || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrHomeUnreachable) {
			return err
		}
		if pause == settlePause {
			failed(err)
		}
		select {
		case <-trust.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// record calls Settle once. It first stores the body elsewhere if that is too large for
// a row.
func (s *Service) record(ctx context.Context, rec *Record, verdict *Verdict) (Record, error) {
	if r, _ := verdict.outcome().answer(); r != nil && r.Blob == "" && len(r.Body) > s.c.Policy.InlineBody {
		// Store the body before the row that points to it: a crash in between leaves an
		// orphan that a retry of the same bytes adopts, never a dangling row.
		ref, err := s.c.Blobs.Put(ctx, r.Body)
		if err != nil {
			return Record{}, fmt.Errorf("%w: large response body: %w", ErrUnavailable, err)
		}
		r.Blob = ref
	}
	return s.c.Store.Settle(ctx, *rec, *verdict)
}

// answered completes reply with a stored response, whose body may be in the object
// store.
func (s *Service) answered(ctx context.Context, reply Reply, r *Response) (Reply, error) {
	if r == nil {
		return reply, fmt.Errorf("claim: a claim at %s is %v without a response", reply.Home, reply.State)
	}
	reply.Response = *r
	if ref := r.Blob; ref != "" {
		body, err := s.c.Blobs.Get(ctx, ref)
		if err != nil {
			reply.Response = Response{}
			return reply, fmt.Errorf("%w: response body %s: %w", ErrUnavailable, ref, err)
		}
		reply.Response.Body, reply.Response.Blob = body, ""
	}
	return reply, nil
}

// frame sets the fields of a reply beside its response. now is the store's clock when
// rec was read, or earlier.
func (s *Service) frame(rec *Record, now time.Time, replayed bool) Reply {
	until := rec.ExpiresAt(&s.c.Policy, now)
	if rec.Age(&s.c.Policy, now) == Expired {
		until = rec.FreeAt(&s.c.Policy, now)
	}
	return Reply{
		Home: rec.Home, State: rec.State, Replayed: replayed, FirstUse: rec.FirstUse,
		ExpiresAt: until, ServedBy: s.c.Region,
	}
}

// note appends to the audit that a caller got a reply.
func (s *Service) note(ctx context.Context, rec *Record, detail string) {
	s.c.Store.Note(ctx, rec.Key, rec.Home, AuditEntry{
		Event: EventReplied, Region: s.c.Region, Node: s.c.Node, Fence: rec.Fence, Generation: rec.Generation, Detail: detail,
	})
}
