package homeward

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/outbox"
)

// Op is one operation that somebody asks for, perhaps again.
type Op struct {
	// Tenant is whose keys these are: an account, a user. Two tenants may use the same key. Usually
	// who is logged in, never a text that a stranger chooses: each tenant is a row. At most 255 bytes
	// of UTF-8, which do not end in "~test". "": all callers share their keys.
	Tenant string
	// Name says what is done. A key that was used for one name is refused for another.
	Name string
	// Key is the caller's idempotency key: 1 to 255 visible ASCII characters.
	Key string
	// Request is what identifies the request: a retry has the same bytes, and other bytes under the
	// same key are refused with [claim.ErrMismatch]. Only a hash of it is stored.
	Request []byte
	// Repeatable says that the function may run again after an attempt that may have done the work:
	// it asks what became of that ([Attempt].Recovery), or repeats it under [Attempt].Key. It is
	// ignored by DoTx.
	Repeatable bool
}

// Attempt is one run of a function under its claim.
type Attempt struct {
	// Key is an idempotency key for whoever does the work, such as a payment provider: the same in
	// every attempt, and another one after the key was [Released].
	Key string
	// ID is minted for the key, and the same in every attempt: an id for what the function makes.
	ID string
	// Created is when the key was first used, by the store's clock, to the second.
	Created time.Time
	// Number counts the attempts of the key, from 1.
	Number int
	// Recovery: an earlier attempt may have done the work, in part or wholly. Only a [Op].Repeatable
	// function gets such an attempt.
	Recovery bool
}

// Outcome is how an attempt ended: a [Done], [Refused], [Released], [Pending] or [Unknown]. nil is an
// Unknown.
type Outcome interface {
	outcome(repeatable bool) (claim.Outcome, error)
}

type (
	// Done: the work is done, and Reply says so. At most a MiB of it is kept; of a longer one nothing.
	Done struct{ Reply []byte }
	// Refused: the work was not done, and the key remembers that.
	Refused struct {
		Reply []byte
		// Reason is a word for logs and the audit.
		Reason string
	}
	// Released: the work was not done, and the next call may try again: from a second later on, as
	// calls that are under way share this reply. It gets another [Attempt].Key. So in a recovery it says
	// that no attempt before did the work either: a token that has run out, or a limit, is Unknown there.
	Released struct {
		Reply  []byte
		Reason string
		// Pause is how long further calls get this reply, if that is more than a second.
		Pause time.Duration
	}
	// Pending: the work goes on elsewhere, and Reply is the answer for now. The first call after AskIn
	// runs the function again, as a recovery. Only for [Op].Repeatable.
	Pending struct {
		Reply []byte
		AskIn time.Duration
	}
	// Unknown: the work may be done or not. A [Op].Repeatable function is asked again by the next
	// call; any other claim ends here, see [ErrUnknown].
	Unknown struct{ Reason string }
)

// State is what a [Reply] says about the work.
type State uint8

// The states of a reply. An unknown outcome is an error.
const (
	StateDone State = iota + 1
	StateRefused
	StateReleased
	StatePending
)

func (s State) String() string {
	switch s {
	case StateDone:
		return "done"
	case StateRefused:
		return "refused"
	case StateReleased:
		return "released"
	case StatePending:
		return "pending"
	default:
		return "none"
	}
}

// Reply is what a call of an operation gets: the reply of its own attempt, or that of an earlier one.
type Reply struct {
	State State
	// Body is the Reply of the outcome, byte for byte.
	Body []byte
	// Replayed: an attempt of another call made it.
	Replayed bool
	// FirstUse is when the key was first used, ExpiresAt until when it answers so.
	FirstUse, ExpiresAt time.Time
}

// ErrUnknown: the work may be done or not, and nobody will find out under this key. Find out from
// whoever does the work before the operation is asked for under another key.
var ErrUnknown = errors.New("homeward: the outcome of this operation stayed unknown; find out whether it was done before you ask for it under a new key")

// Operations of claims, in their rows. They say what a recovery may do, whatever the program says by
// then.
const (
	opOnce        = "once"
	opRepeatable  = "repeatable"
	opTransaction = "transaction"
)

// prefix begins the ids of objects.
const prefix = "op"

var operations = claim.Operations{opOnce: prefix, opRepeatable: prefix, opTransaction: prefix}

func (op *Op) operation() string {
	if op.Repeatable {
		return opRepeatable
	}
	return opOnce
}

const (
	// anyone is the tenant of operations that name none. No caller may name it.
	anyone = "~anyone"
	// maxTenant is the longest id of a tenant, in bytes: a part of an index's entry, as a key is.
	maxTenant = 255
)

// Do runs fn, or returns what it made of this operation before. Any number of calls may run at once,
// in any number of processes: one of them runs fn, and the others wait for its outcome, for five
// seconds or as long as ctx lasts.
//
// A Reply without an error is an answer, also if that is a no: look at Reply.State. The errors are
//
//	claim.ErrMismatch      the key belongs to another request
//	*claim.InUseError      another call is running fn; ask again after RetryAfter
//	*claim.UnknownError    a repeatable fn does not know yet, or failed; ask again after RetryAfter
//	ErrUnknown             it stayed unknown
//	*claim.ExpiredError    the key is older than a day
//	*claim.KeyError        Op.Key is not a key
//	claim.ErrUnavailable   the store gave no answer, and fn did not run. Ask again
//	the error of ctx       it ended before anything began
//
// and all but ErrMismatch, ErrUnknown, ExpiredError and KeyError end by asking again, with the same
// key. In an attempt of a key a call under that key fails: derive its key from [Attempt].ID. fn is called in a goroutine of its own.
func (h *Homeward) Do(ctx context.Context, op Op, fn func(ctx context.Context, a Attempt) Outcome) (Reply, error) {
	req, err := op.request("DO", "", op.Request)
	if err != nil {
		return Reply{}, err
	}
	if h.under(ctx, req.Key) {
		return Reply{}, errUnder
	}
	reply, err := h.do(ctx, req, &call{op: &op, run: func(ctx context.Context, a Attempt) (claim.Outcome, error) {
		o := fn(ctx, a)
		if o == nil {
			o = Unknown{}
		}
		return o.outcome(op.Repeatable)
	}})
	if err != nil {
		return Reply{}, err
	}
	return replyOf(&reply)
}

// request is the claim's request for op. kind keeps those of one way of asking from those of another.
func (op *Op) request(kind, contentType string, canonical []byte) (*claim.Request, error) {
	key, err := claim.ParseKey(claim.FormatKey(op.Key))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	tenant := op.Tenant
	switch {
	case tenant == "":
		tenant = anyone
	case len(tenant) > maxTenant || !utf8.ValidString(tenant) || strings.ContainsRune(tenant, 0) || tenant == anyone || !claim.Livemode(tenant):
		return nil, fmt.Errorf("homeward: a tenant must be UTF-8 without zero bytes, of at most %d bytes, must not end in %s, and not be %s; pass the id of an account",
			maxTenant, claim.TestTenant(""), anyone)
	}
	name := op.Name
	if name == "" {
		name = "-"
	}
	req := &claim.Request{
		Key: claim.Key{Tenant: tenant, Value: key}, Operation: op.operation(), Payload: []byte(name), Began: time.Now(),
		Input: claim.FingerprintInput{Method: kind, Path: op.Name, Tenant: tenant, ContentType: contentType, Canonical: sum[:]},
	}
	req.Stamp, _ = claim.ReadStamp(key)
	return req, nil
}

// outcomeHeader marks the stored answer of a claim that stayed unknown.
const outcomeHeader = "Homeward-Outcome"

// notRun is the answer of a claim whose function never ran, as no call came back for it. Only requests that
// were under way then read it: the key is released.
func notRun() claim.Outcome {
	return &claim.Released{Reason: "not_run", Response: claim.Response{
		Status: statusNotNow, Header: []claim.HeaderField{{Name: outcomeHeader, Value: outcomeNotRun}},
	}}
}

const outcomeNotRun = "not_run"

var errNotRun = fmt.Errorf("%w: an earlier call of this operation got its claim too late, and never began", claim.ErrUnavailable)

func replyOf(r *claim.Reply) (Reply, error) {
	reply := Reply{Body: r.Response.Body, Replayed: r.Replayed, FirstUse: r.FirstUse, ExpiresAt: r.ExpiresAt}
	switch r.State {
	case claim.Completed:
		reply.State = StateDone
	case claim.FailedTerminal:
		reply.State = StateRefused
		if r.Response.Field(outcomeHeader) != "" {
			return Reply{}, ErrUnknown
		}
	case claim.FailedRetry:
		reply.State = StateReleased
	default:
		reply.State = StatePending
	}
	return reply, nil
}

// Statuses of stored replies that are no HTTP responses.
const (
	statusDone    = 200
	statusPending = 202
	statusRefused = 422
	statusNotNow  = 409
)

var errTooLong = fmt.Errorf("its reply is longer than %d bytes and is not kept", maxReply)

// stored is a reply as a claim has it, without its body if that is too long.
func stored(status int, body []byte) (claim.Response, error) {
	if len(body) > maxReply {
		return claim.Response{Status: status}, errTooLong
	}
	return claim.Response{Status: status, Body: body}, nil
}

func (o Done) outcome(bool) (claim.Outcome, error) {
	r, err := stored(statusDone, o.Reply)
	return &claim.Done{Response: r}, err
}

func (o Refused) outcome(bool) (claim.Outcome, error) {
	r, err := stored(statusRefused, o.Reply)
	return &claim.Refused{Response: r, Reason: o.Reason}, err
}

func (o Released) outcome(bool) (claim.Outcome, error) {
	r, err := stored(statusNotNow, o.Reply)
	return &claim.Released{Response: r, Reason: o.Reason, Pause: o.Pause}, err
}

// errNotRepeatable: nobody could ever ask what became of the work.
var errNotRepeatable = errors.New("it is pending, and Op.Repeatable is not set: nobody could ask what becomes of it, so it is unknown")

func (o Pending) outcome(repeatable bool) (claim.Outcome, error) {
	if !repeatable {
		out, _ := Unknown{"pending"}.outcome(false)
		return out, errNotRepeatable
	}
	r, err := stored(statusPending, o.Reply)
	// A fresh state each time, so that each attempt's reply replaces the one before.
	return &claim.Pending{Response: r, State: "pending " + time.Now().UTC().Format(time.RFC3339Nano), AskIn: o.AskIn}, err
}

func (o Unknown) outcome(repeatable bool) (claim.Outcome, error) {
	if repeatable {
		return &claim.Unknown{Reason: o.Reason}, nil
	}
	return stayedUnknown(o.Reason), nil
}

// stayedUnknown is an unknown that ends its claim, see settings.policyOf.
func stayedUnknown(reason string) claim.Outcome {
	p := problem.New(problem.OutcomeUnknown, "The request may have been done, and whether it was never became known. "+
		"It is not done again. Find out; only if it certainly was not done, send it with a new key.")
	p.Title, p.Retry = "The outcome stayed unknown", problem.Never
	return &claim.Unknown{Reason: reason, GiveUp: &claim.GivenUp{Response: claim.Response{
		Status: p.Status, Body: p.JSON(pages),
		Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}, {Name: outcomeHeader, Value: "unknown"}},
	}}}
}

// call is what a request's attempt runs. The claim's service takes it to the executor in the context,
// as it is of this process alone.
type call struct {
	op *Op
	// run returns the outcome, and what is worth a warning about it.
	run func(ctx context.Context, a Attempt) (claim.Outcome, error)
}

type callKey struct{}

type attemptKey struct{}

// under is the key of a mark in the context of an attempt of a claim.
type under struct {
	h   *Homeward
	key claim.Key
}

// under reports whether ctx is of an attempt of key: a call of it would wait for itself.
func (h *Homeward) under(ctx context.Context, key claim.Key) bool {
	return ctx.Value(under{h, key}) != nil
}

var errUnder = errors.New("homeward: this call is in an attempt of the same key and would wait for itself; give it a key of its own, derived from Attempt.ID")

// AttemptOf returns the attempt in whose function ctx is: for a handler behind [Homeward.Middleware]
// or [Homeward.Interceptor].
func AttemptOf(ctx context.Context) (a Attempt, ok bool) {
	a, ok = ctx.Value(attemptKey{}).(Attempt)
	return a, ok
}

// executor runs the calls of this process.
type executor struct{ *Homeward }

const (
	// reasonAbandoned: an earlier attempt may have done the work, and it is not to be repeated, or
	// there is no call that could.
	reasonAbandoned = "abandoned"
	reasonPanic     = "panic"
	reasonHung      = "still_running"
	// faultPause is how long a repeatable function that panicked is left alone.
	faultPause = time.Second
	// lastWords is how long a function may take to return when its context has ended, so that what it
	// found out is still recorded: a quarter of the margin of a lease.
	lastWords = 500 * time.Millisecond
)

// Attempt implements claim.Executor.
func (e executor) Attempt(ctx context.Context, a claim.Attempt) claim.Outcome {
	c, _ := ctx.Value(callKey{}).(*call)
	again := a.Recovery && !a.Record.NeverBegun()
	switch {
	case c == nil && a.Recovery && !again:
		return notRun()
	case c == nil || again && !(c.op.Repeatable && a.Record.Operation == opRepeatable):
		return stayedUnknown(reasonAbandoned)
	}
	its := Attempt{
		Key: a.Record.ProviderKey, ID: a.Record.Minted.ID, Created: a.Record.Minted.Created,
		Number: int(a.Record.Attempts), Recovery: again,
	}
	log := e.c.log.With("tenant", a.Record.Key.Tenant, "name", c.op.Name, "object", its.ID)
	ended := make(chan claim.Outcome, 1)
	go func() {
		var out claim.Outcome = c.broken(reasonPanic) // also if the goroutine exits
		defer func() { ended <- out }()
		caught := fault.Caught(func() {
			o, err := c.run(context.WithValue(context.WithValue(ctx, under{e.Homeward, a.Record.Key}, true), attemptKey{}, its), its)
			if out = o; err != nil {
				log.WarnContext(ctx, "an operation ended in a way that cannot be kept", "error", err)
			}
		})
		if caught != nil {
			log.ErrorContext(ctx, "the function of an operation panicked; its outcome is unknown", "fault", caught)
		}
	}()
	select {
	case out := <-ended:
		return out
	case <-ctx.Done():
	}
	wait := time.NewTimer(lastWords)
	defer wait.Stop()
	select {
	case out := <-ended:
		return out
	case <-wait.C:
		log.ErrorContext(ctx, "the function of an operation goes on although its context has ended; its outcome is unknown", "cause", context.Cause(ctx))
		return c.broken(reasonHung)
	}
}

// broken is the outcome of a function that returned none.
func (c *call) broken(reason string) claim.Outcome {
	if c.op.Repeatable {
		return &claim.Fault{Reason: reason, RetryIn: faultPause}
	}
	return stayedUnknown(reason)
}

// abandoned handles a claim whose lease has run out, or whose outcome is unknown. There is no call of
// it here. A repeatable one waits for one, for a day after the last attempt; a pending one for ever.
func (h *Homeward) abandoned(ctx context.Context, m outbox.Message) outbox.Disposition {
	if m.Operation != opRepeatable {
		return h.service.Recover(ctx, m)
	}
	rec, now, found, err := h.rows.store.Get(ctx, claim.Key{Tenant: m.Tenant, Value: m.Key}, m.Region)
	switch {
	case err != nil:
		return outbox.Later(time.Minute)
	case !found || rec.State != claim.InFlight || rec.Minted.ID != m.ID:
		return outbox.Done()
	case rec.Interim != nil:
		return outbox.Later(repeatableFor)
	}
	if rest := rec.HeldSince.Add(repeatableFor).Sub(now); rest > 0 {
		return outbox.Later(rest)
	}
	return h.service.Recover(ctx, m)
}

// repeatableFor is how long a repeatable operation without an outcome waits for its next call.
const repeatableFor = 24 * time.Hour

// do runs a request at its key's home: the rows of any region are within reach of the store.
func (h *Homeward) do(ctx context.Context, req *claim.Request, c *call) (claim.Reply, error) {
	reply, err := h.find(ctx, req, c)
	if err == nil && reply.Response.Field(outcomeHeader) == outcomeNotRun {
		return claim.Reply{}, errNotRun
	}
	return reply, err
}

// find is do, with the stored answer of a call that never began.
func (h *Homeward) find(ctx context.Context, req *claim.Request, c *call) (claim.Reply, error) {
	leave, err := h.enter()
	if err != nil {
		return claim.Reply{}, err
	}
	defer leave()
	ctx = context.WithValue(ctx, callKey{}, c)
	if req.Stamp != 0 {
		home, err := h.home(ctx, req.Stamp)
		if err != nil {
			return claim.Reply{}, err
		}
		return h.service.Do(ctx, home, req)
	}
	registrar, err := h.registrar(ctx, req.Key.Tenant)
	if err != nil {
		return claim.Reply{}, err
	}
	// One step where the tenant's pins are here, and for a key that is at home here. In any other
	// case it begins nothing.
	req.PinHere = registrar == h.rows.region
	reply, err := h.service.Do(ctx, h.rows.region, req)
	if !errors.Is(err, claim.ErrNeedPin) {
		return reply, err
	}
	req.PinHere = false
	if reply, found, _, err := h.service.Replica(ctx, req); found || err != nil {
		return reply, err
	}
	// Twice: a pin may run out between the look-up and the claim's own step.
	for range 2 {
		pin, err := h.pin(ctx, req.Key)
		if err != nil {
			return claim.Reply{}, err
		}
		req.PinnedAt = pin.CreatedAt
		if reply, err = h.service.Do(ctx, pin.Home, req); !errors.Is(err, claim.ErrNeedPin) {
			return reply, err
		}
	}
	return claim.Reply{}, fmt.Errorf("%w: the home of the key keeps changing", claim.ErrUnavailable)
}

// registrar returns the region that keeps a tenant's pins. A new tenant gets this one.
func (h *Homeward) registrar(ctx context.Context, tenant string) (string, error) {
	registrar, err := h.rows.store.Registrar(ctx, tenant)
	if !errors.Is(err, claim.ErrUnknownTenant) {
		return registrar, err
	}
	if err := h.rows.admit(ctx, claim.Tenant{ID: tenant, Name: tenant, Registrar: h.rows.region}); err != nil {
		return "", fmt.Errorf("%w: tenant %q cannot be added: %w", claim.ErrUnavailable, tenant, err)
	}
	return h.rows.store.Registrar(ctx, tenant)
}

// pin finds the home of an opaque key, which is this region if it has none, or else the first that
// takes new homes.
func (h *Homeward) pin(ctx context.Context, key claim.Key) (pin claim.Pin, err error) {
	for _, home := range h.codes.Load().order(h.rows.region) {
		if pin, err = h.rows.store.Pin(ctx, key, home); !errors.Is(err, claim.ErrNoNewHomes) {
			return pin, err
		}
	}
	return pin, fmt.Errorf("%w: no region takes new homes", claim.ErrUnavailable)
}

// codes are the regions of the store.
type codes struct {
	byName map[string]claim.RegionCode
	names  []string
}

// order lists the regions, first before all others.
func (c *codes) order(first string) []string {
	return slices.Concat([]string{first}, slices.DeleteFunc(slices.Clone(c.names), func(n string) bool { return n == first }))
}

func (h *Homeward) readRegions(ctx context.Context) error {
	all, err := h.rows.regions(ctx)
	if err != nil {
		return err
	}
	c := &codes{byName: map[string]claim.RegionCode{}}
	for _, r := range all {
		c.byName[r.Name], c.names = r.Code, append(c.names, r.Name)
	}
	h.codes.Store(c)
	return nil
}

func (h *Homeward) code(home string) (claim.RegionCode, bool) {
	code, ok := h.codes.Load().byName[home]
	return code, ok
}

// home is the region of a key that names one. A new region may be in the table already. Where there is
// none, another deployment has stamped the key: no retry will find one.
func (h *Homeward) home(ctx context.Context, code claim.RegionCode) (string, error) {
	for _, read := range []bool{false, true} {
		if read {
			if err := h.readRegions(ctx); err != nil {
				return "", fmt.Errorf("%w: the table of regions: %w", claim.ErrUnavailable, err)
			}
		}
		for name, c := range h.codes.Load().byName {
			if c == code {
				return name, nil
			}
		}
	}
	return "", &claim.KeyError{Reason: fmt.Sprintf("it was made for region %d of another deployment; send a key of your own, or one made for this one", code)}
}
