package claim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
)

// Worlds with banks: the executor of package payment acts there, and the processor and the
// compensator of package notice, as they are. An attempt, or the handling of a notice, is one
// event: what its provider call comes to, or where its node crashes, is chosen before. The
// provider is a model of one, the bank.

// Bodies of requests where the executor is real.
const (
	chargeBody = `{"amount":100,"currency":"usd","payment_method":"pm_1"}`
	manualBody = `{"amount":100,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`
)

// fate is what becomes of an attempt.
type fate struct {
	decides string // what the bank decides about a new movement
	// lost: it decides, and its answer is lost. delayed: the call is on its way. silent: nothing
	// arrives, of no call and no look-up. unsent: so it is with a call, and its node knows.
	lost, delayed, silent, unsent bool
	// crash is the step before which the node crashes, counted from 1; 0: it does not.
	crash int
}

// errCrashed unwinds what runs on a node that crashes.
var errCrashed = errors.New("the node crashes")

// run is what acts at the moment: the attempt of a task, or the handling of a notice.
type run struct {
	*world
	region int
	node   string
	fate   fate
	asked  bool // the bank got a call or a look-up, or would have
	called bool // it got a call
	steps  int
	order  string // the capture or cancellation that is attempted
	said   []string
}

// step is a point at which the node may crash.
func (r *run) step() {
	if r.steps++; r.steps == r.fate.crash {
		panic(errCrashed)
	}
}

// rails are the real parts of a scene, and what they run in.
type rails struct {
	*run
	executor    *payment.Executor
	processor   *notice.Processor
	compensator *notice.Compensator
	names       []string
}

func newRails(sc *scene) *rails {
	r := &rails{names: sc.banks}
	var banks psp.Providers
	notifiers := map[string]psp.Notifier{}
	for _, name := range sc.banks {
		b := bank{rails: r, scene: sc, name: name}
		banks, notifiers[name] = append(banks, b), b
	}
	home := func(c claim.RegionCode) (string, bool) {
		if int(c) < 1 || int(c) > len(regions) {
			return "", false
		}
		return regions[c-1], true
	}
	o := payment.Options{Logger: slog.New(slog.DiscardHandler), Books: books{rails: r}, Home: home, Charges: charges{r}}
	if len(sc.banks) > 1 {
		o.Failover = map[string]payment.Failover{sc.banks[0]: {To: sc.banks[1], Codes: []string{"elsewhere"}}}
	}
	r.executor = payment.NewExecutor(banks, o)
	c := &notice.Compensator{
		Books: books{rails: r}, Do: r.compensation, Inspect: r.inspect, Providers: banks, Brakes: &notice.Brakes{Store: noBrakes{}, Limits: notice.Limits{Count: 9, Sum: 900}},
		Code: func(home string) (claim.RegionCode, bool) {
			return claim.RegionCode(slices.Index(regions[:], home) + 1), slices.Contains(regions[:], home)
		},
	}
	p, err := notice.NewProcessor(notice.ProcessorConfig{
		Store: &notices{}, Notifiers: notifiers, Claims: charges{r}, Calls: calls{r: r}, Books: books{rails: r}, Compensator: c, Home: home,
		Homes: func() []string { return regions[:] }, Learn: r.told, LearnHeld: charges{r}.LearnHeld,
		LearnRefusal: func(ctx context.Context, m outbox.Message, provider, code string, generation uint32) outbox.Disposition {
			return r.learn(m, claim.Attempt{Refused: code, ReportedBy: provider}, generation, claim.News{Provider: provider, Generation: generation})
		},
		Now: func() time.Time { return r.by(europe).now },
	})
	if err != nil {
		panic(err)
	}
	r.processor, r.compensator = p, c
	return r
}

// in has do run on a node. It returns what happened, "" if the fate does not apply.
func (w *world) in(region int, node string, f fate, do func(r *run) string) (line string, r *run) {
	r = &run{world: w, region: region, node: node, fate: f}
	w.rails.run = r
	crashed := false
	func() {
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); !ok || !errors.Is(err, errCrashed) {
					panic(p)
				}
				crashed = true
			}
		}()
		line = do(r)
	}()
	w.rails.run = nil
	switch {
	case f.crash > 0 && !crashed, (f.lost || f.delayed || f.unsent) && !r.called, f.silent && !r.asked:
		return "", r // as without it
	case crashed:
		line = w.crash(node)
	case f.lost || f.delayed || f.silent || f.unsent:
		w.lost++
	}
	if r.said != nil {
		line = strings.Join(append(r.said, line), "; ")
	}
	return line, r
}

// fates lists what may become of an attempt, the plain one first.
func (w *world) fates() (all []fate) {
	for _, d := range w.decides {
		all = append(all, fate{decides: d})
	}
	if w.mayFail() {
		for _, d := range w.decides {
			all = append(all, fate{decides: d, lost: true})
		}
		all = append(all, fate{delayed: true}, fate{silent: true}, fate{unsent: true})
		for i := range 4 {
			all = append(all, fate{decides: w.decides[0], crash: i + 1})
		}
	}
	return all
}

// attemptBy are the events of an attempt of task i, or of the handling of a notice, that do runs.
func (w *world) attemptBy(i, region int, event func(func(n *world) string), do func(n *world, r *run) string) {
	for _, f := range w.fates() {
		var ran *run
		event(func(n *world) (line string) {
			name := n.name(i, region)
			line, ran = n.in(region, name, f, func(r *run) string { return do(n, r) })
			return line
		})
		if f == (fate{decides: w.decides[0]}) && !ran.asked && ran.steps == 0 {
			return // nothing can become of it but this
		}
	}
}

// execute has task i attempt what it holds, as claim.Service does.
func (w *world) execute(i int, r *run) string {
	t := &w.tasks[i]
	if payment.Operation(t.held.Operation).Orders() {
		r.order = t.held.Minted.ID
	}
	if !w.trusts(t) {
		w.learn(i, &claim.Unsent{Reason: "lease_ran_out", RetryIn: time.Second})
		return w.who(i) + " trusts its lease no longer, and sends nothing"
	}
	a := claim.Attempt{Record: t.held, Payload: t.body, Recovery: t.recovery, Provider: t.provider}
	o := w.attemptOf(a)
	w.learn(i, o)
	return fmt.Sprintf("%s attempts the %s %s: %s", w.who(i), t.held.Operation, t.held.Minted.ID, o)
}

// attemptOf completes an attempt as claim.Service does, and runs it.
func (w *world) attemptOf(a claim.Attempt) claim.Outcome {
	if a.Recovery {
		a.Provider, _ = a.Record.With(w.banks)
	}
	a.Last, a.Now, a.Canceled = a.Record.LastGeneration(&w.store.policy), a.Record.HeldSince, a.Canceled || a.Record.Canceled()
	if w.without == "no other provider after an unknown outcome" {
		a.Recovery = false
	}
	// The executor waits for another holder of a charge. Here it looks once.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if g := w.guard(); g != nil {
		return g.Executor(w.rails.executor).Attempt(ctx, a)
	}
	return w.rails.executor.Attempt(ctx, a)
}

// follow has task i go on with the provider to which its claim was moved, as claim.Service does.
func (w *world) follow(i int) string {
	t := &w.tasks[i]
	next, fence := t.verdict.Outcome.(*claim.Moved).Next, t.moved
	rec, err := w.claims(t.region).TakeOver(context.Background(), t.held.Key, t.held.Home, t.held.Minted.ID, t.node, regions[t.region], claim.News{})
	if err != nil {
		w.end(i)
		return w.who(i) + " does not follow its claim: " + err.Error()
	}
	if rec.Canceled() {
		fence++
	}
	w.hold(i, rec, rec.Fence != fence+1 && w.without != "a claim that another had in between")
	t.provider = next
	return fmt.Sprintf("%s follows its claim to %s", w.who(i), next)
}

// learn has the claim of a provider call attempted again, with what a says, as claim.Service does.
func (r *run) learn(m outbox.Message, a claim.Attempt, generation uint32, news claim.News) outbox.Disposition {
	r.step()
	key := claim.Key{Tenant: m.Tenant, Value: m.Key}
	node := r.incarnation(r.node)
	rec, err := r.claims(r.region).TakeOver(context.Background(), key, m.Region, m.ID, node, regions[r.region], news)
	switch held := (*claim.LeaseHeldError)(nil); {
	case errors.As(err, &held):
		return outbox.Later(held.For)
	case err != nil:
		return outbox.Done()
	}
	r.said = append(r.said, fmt.Sprintf("%s takes the %s %s over, fence %d", node, rec.Operation, rec.Minted.ID, rec.Fence))
	r.step()
	if generation != 0 && generation != rec.Generation {
		a = claim.Attempt{}
	}
	a.Record, a.Payload, a.Recovery = rec, m.Payload, true
	o := r.attemptOf(a)
	r.step()
	v := claim.Verdict{Outcome: o, ID: verdictID(len(r.asks), node, &rec)}
	if got, err := r.settle(r.region, rec, v); err == nil {
		r.said = append(r.said, fmt.Sprintf("it settles with %s: %s", o, got.State))
	}
	return outbox.Gone()
}

// charges are the claims, as an executor and the processor read them.
type charges struct{ *rails }

func (c charges) ByObject(_ context.Context, home, id string) (claim.Record, bool, error) {
	for at, rec := range c.store.rows {
		if at.Home == home && rec.Minted.ID == id {
			found := *rec
			if c.without == "an order takes its charge" && c.order != "" && found.Interim != nil {
				found.Interim = &claim.Interim{Response: found.Interim.Response, State: string(psp.Processing), By: c.order}
			}
			return found, true, nil
		}
	}
	return claim.Record{}, false, nil
}

func (c charges) Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error) {
	return c.store.Unpaid(ctx, home, id)
}

func (c charges) Message(_ context.Context, home, id string) (outbox.Message, bool, error) {
	m, ok := c.store.queued[outbox.ProviderCalls][claimtest.Ref{Home: home, ID: id}]
	return m, ok, nil
}

func (c charges) Object(ctx context.Context, tenant, home, id string) (claim.Object, bool, error) {
	rec, _, found, err := c.store.Object(ctx, tenant, home, id)
	is := claim.Object{State: rec.State}
	if rec.Response != nil {
		is.Response = *rec.Response
	}
	return is, found, err
}

func (c charges) Learn(_ context.Context, m outbox.Message, provider, ref string) outbox.Disposition {
	return c.learn(m, claim.Attempt{ReportedRef: ref, ReportedBy: provider}, 0, claim.News{})
}

func (c charges) LearnHeld(_ context.Context, m outbox.Message, h claim.Held) outbox.Disposition {
	var news claim.News
	if h.By != "" && h.Order == "" {
		news = claim.News{Provider: h.By, Generation: 1}
	}
	return c.learn(m, claim.Attempt{Held: &h, ReportedBy: h.By}, 0, news)
}

func (r *rails) told(_ context.Context, m outbox.Message, provider, ref string, generation uint32) outbox.Disposition {
	return r.learn(m, claim.Attempt{ReportedRef: ref, ReportedBy: provider}, 0, claim.News{Provider: provider, Generation: generation})
}

// calls is the queue of provider calls.
type calls struct {
	outbox.Store
	r *rails
}

func (c calls) Message(ctx context.Context, home, id string) (outbox.Message, bool, error) {
	return charges{c.r}.Message(ctx, home, id)
}

// inspect and compensation are what the compensator has of the router. compensation begins the
// claim of a refund; a task of its own executes it.
func (r *rails) inspect(ctx context.Context, key claim.Key, home string) (claim.Status, bool, error) {
	r.step()
	rec, now, found, err := r.by(r.region).Get(ctx, key, home)
	p := &r.store.policy
	return claim.Status{Record: rec, Age: rec.Age(p, now), FreeAt: rec.FreeAt(p, now)}, found, err
}

func (r *rails) compensation(_ context.Context, req claim.Request, home string) (claim.Reply, error) {
	r.step()
	i := len(r.tasks) - 1
	t := &r.tasks[i]
	if t.phase != idle {
		return claim.Reply{}, &claim.InUseError{}
	}
	if r.without == "one key for a movement's refund" {
		req.Key.Value += fmt.Sprint(len(r.store.rows))
	}
	t.region, t.node = r.region, r.incarnation(r.node)
	a := claimtest.NewArrival(req.Key, home, string(req.Input.Canonical), t.node, objectID(payment.Compensation, i+len(r.store.rows), home))
	a.Operation, a.Region, a.Provider, a.Providers = req.Operation, regions[r.region], req.Provider, r.names
	got, err := r.claims(r.region).Begin(context.Background(), a)
	if err != nil {
		return claim.Reply{}, err
	}
	reply := claim.Reply{State: got.Record.State, Home: home}
	switch got.Decision {
	case claim.Won, claim.WonUnknown:
		t.body, t.provider = a.Input.Canonical, req.Provider
		r.hold(i, got.Record, got.Decision == claim.WonUnknown)
		r.said = append(r.said, "the refund "+got.Record.Minted.ID+" is begun")
		return claim.Reply{}, &claim.UnknownError{}
	case claim.Replay:
		reply.Response = *got.Record.Response
		return reply, nil
	case claim.Shared:
		reply.Response = got.Record.Refusal.Response
		return reply, nil
	case claim.Mismatch:
		return reply, claim.ErrMismatch
	default:
		return reply, &claim.InUseError{}
	}
}

// objectID is the id that task i mints.
func objectID(op payment.Operation, i int, home string) string {
	bits := bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, 16))
	id, err := claim.NewObjectID(payment.Prefix(op), claim.RegionCode(slices.Index(regions[:], home)+1), bits)
	if err != nil {
		panic(err)
	}
	return id
}

// receiptOf is the receipt number of an object, which claim.Service and a restore derive from its id.
func receiptOf(id string) string {
	_, bits, _ := strings.Cut(strings.ToUpper(id), "_")
	return "R-" + bits[:4] + "-" + bits[4:8] + "-" + bits[8:12]
}

// operation is what ask i asks for.
func (w *world) operation(i int) payment.Operation {
	if w.asks[i].op == "" {
		return payment.Charge
	}
	return w.asks[i].op
}

// heldCharge is the charge that captures and cancellations are about; nil before it begins.
func (w *world) heldCharge() *claim.Record {
	return w.store.rows[claimtest.Place{Home: regions[europe], Key: claim.Key{Tenant: "t", Value: first.key}}]
}

// books are the ledger of a world.
type books struct {
	pureLedger
	*rails
}

func (b books) Transaction(ctx context.Context, region, id string) (ledger.Transaction, bool, error) {
	return pureLedger{s: b.store}.Transaction(ctx, region, id)
}

func (b books) Post(_ context.Context, t ledger.Transaction) (bool, error) {
	b.step()
	if err := t.Validate(); err != nil {
		return false, err
	}
	at := claimtest.Ref{Home: t.Region, ID: t.ID}
	if is, ok := b.store.books[at]; ok {
		if !is.Same(t) {
			return false, ledger.ErrConflict
		}
		return false, nil
	}
	if b.store.incoming(&t) {
		return false, ledger.ErrConflict
	}
	t.At = b.by(b.region).now
	b.store.books[at] = t
	b.said = append(b.said, fmt.Sprintf("%s is booked as %s", t.ProviderRef, t.Kind))
	return true, nil
}

func (b books) Named(ctx context.Context, region string, ids []string) (all []ledger.Transaction, _ error) {
	for _, id := range ids {
		if t, found, _ := b.Transaction(ctx, region, id); found {
			all = append(all, t)
		}
	}
	return all, nil
}

func (b books) Reversals(_ context.Context, ids ...string) (all []ledger.Transaction, _ error) {
	for _, t := range b.store.books {
		if t.Reverses != "" && slices.Contains(ids, t.Reverses) {
			all = append(all, t)
		}
	}
	return all, nil
}

func (b books) ReversalsAt(ctx context.Context, _, id string) ([]ledger.Transaction, error) {
	return b.Reversals(ctx, id)
}

func (b books) GhostRefund(_ context.Context, region, object string) (ledger.Transaction, bool, error) {
	for at, t := range b.store.books {
		if at.Home == region && t.Kind == ledger.GhostRefund && t.Object == object {
			return t, true, nil
		}
	}
	return ledger.Transaction{}, false, nil
}

func (b books) About(_ context.Context, region string, objects ...string) (all []ledger.Transaction, _ error) {
	for at, t := range b.store.books {
		if at.Home == region && slices.Contains(objects, t.Object) && t.Kind != ledger.Charge && t.Kind != ledger.Transfer && t.Kind != ledger.Refund {
			all = append(all, t)
		}
	}
	return all, nil
}

// noBrakes stop no refund, and count none.
type noBrakes struct{}

func (noBrakes) Brakes(context.Context) ([]notice.Brake, time.Time, error) { return nil, dawn, nil }
func (noBrakes) PutBrake(context.Context, notice.Brake) (bool, error)      { return true, nil }

// notices are the rows of notices. A world keeps which of them were closed.
type notices struct {
	notice.Store
}

func (*notices) Close(context.Context, string, string, uint64, notice.Status, string) error {
	return nil
}

// process has the processor handle a notice. It reports whether it closed it.
func (w *world) process(r *run, provider string, n psp.Notice) bool {
	body, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	d := w.rails.processor.Handle(context.Background(), outbox.Message{
		ID: n.ID, Region: regions[r.region], Operation: provider, Payload: body, CreatedAt: dawn,
	})
	r.step() // before it is closed
	return d == outbox.Gone()
}

func (m *movement) notice() psp.Notice {
	n := psp.Notice{
		ID: m.ref, Movement: true, Kind: psp.KindCharge, Reference: m.object, ProviderRef: m.ref, Key: m.key, Outcome: psp.Approved,
		Amount: m.captured, Currency: "usd", At: dawn,
	}
	return n
}

// bank is a provider.
type bank struct {
	*rails
	scene *scene
	name  string
}

func (b bank) Name() string { return b.name }

func (b bank) Capabilities() psp.Capabilities {
	c := psp.Capabilities{Lookup: b.scene.lookup, Captures: true, Timeout: time.Second, SettleWindow: time.Second}
	if b.scene.later {
		c.Lookup, c.Blind, c.Asynchronous = false, true, true
	}
	if b.scene.dedupes {
		c.Dedupe = psp.DedupeKey
	}
	return c
}

// Verify, Signed and Read make b a [psp.Notifier] of JSON.
func (bank) Signed(http.Header) bool { return true }

func (bank) Verify(http.Header, []byte, time.Time) (string, error) { return "", nil }

func (bank) Read(body []byte) (n psp.Notice, err error) { return n, json.Unmarshal(body, &n) }

var lost = psp.Result{Err: errors.New("no answer")}

// arrives reports whether a call that moves money, or a look-up, gets through.
func (b bank) arrives(call bool) bool {
	b.asked, b.called = true, b.called || call
	return !b.fate.silent && !(call && (b.fate.delayed || b.fate.unsent))
}

// away is what b hears of a call that does not arrive now.
func (b bank) away(it call) psp.Result {
	switch {
	case b.fate.unsent:
		return psp.Result{Err: &psp.NotSentError{RetryIn: time.Second, Reason: "refused"}}
	case b.fate.delayed:
		b.calls = append(b.calls, it)
	}
	return lost
}

// heard is an answer on its way back.
func (b bank) heard(r psp.Result) psp.Result {
	if b.fate.lost {
		return lost
	}
	return r
}

// result is what b says of a movement.
func (m *movement) result() psp.Result {
	switch m.state {
	case "paid":
		return psp.Result{Outcome: psp.Approved, ProviderRef: m.ref}
	case "held":
		return psp.Result{Outcome: psp.Authorized, ProviderRef: m.ref}
	case "soft", "late":
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: "insufficient_funds", Message: "No."}}
	case "elsewhere":
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Soft, Code: "elsewhere", Message: "No."}}
	case "canceled":
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: "canceled", Message: "No."}}
	default:
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Hard, Code: "stolen_card", Message: "No."}}
	}
}

// described is the call as it is on its way.
func (b bank) described(c psp.Call) call {
	it := call{task: -1, key: c.Key, object: c.Reference, body: fmt.Sprint(c.Amount), bank: b.name, amount: c.Amount, manual: c.Terms != nil && c.Terms.Manual}
	for at, rec := range b.store.rows {
		if rec.Minted.ID == c.Reference {
			it.idk, it.generation = at.Key.Value, rec.Generation
		}
	}
	return it
}

func (b bank) Charge(_ context.Context, c psp.Call) psp.Result {
	it := b.described(c)
	if !b.arrives(true) {
		return b.away(it)
	}
	return b.heard(b.receive(it, b.fate.decides).result())
}

// receive is a call for a charge that reaches its bank.
func (w *world) receive(it call, decides string) *movement {
	for m := range w.moves {
		if w.dedupes && w.moves[m].key == it.key {
			return &w.moves[m]
		}
	}
	if decides == "elsewhere" && it.bank != w.banks[0] {
		decides = "paid"
	}
	if it.manual && decides == "paid" {
		decides = "held"
	}
	it.task, it.sent = 0, 0
	w.moves = append(w.moves, movement{call: it, state: decides, at: w.time, ref: fmt.Sprintf("%s_%d", it.bank, len(w.moves)+1)})
	m := &w.moves[len(w.moves)-1]
	if decides == "paid" {
		m.captured = 100
	}
	return m
}

func (w *world) movement(bank, ref string) *movement {
	for m := range w.moves {
		if w.moves[m].ref == ref && w.moves[m].bank == bank {
			return &w.moves[m]
		}
	}
	return nil
}

var invalid = psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{Class: psp.Invalid, Code: "invalid_state", Message: "It is over."}}

// order is a call about a movement that is there, which becomes something else.
func (b bank) order(c psp.Call, becomes string) psp.Result {
	it := b.described(c)
	it.of, it.order = c.Source, becomes
	if !b.arrives(true) {
		return b.away(it)
	}
	return b.heard(b.obey(it))
}

// order is what a bank that reports later has been asked to do.
type order struct {
	call
	ended   string // done or failed; "": it is still at it
	noticed bool
}

// notice reports how o ended.
func (o *order) notice(m *movement) psp.Notice {
	n := psp.Notice{
		ID: o.key + o.ended, Movement: true, Held: true, Kind: psp.KindCharge, Reference: m.object, ProviderRef: m.ref, Order: o.object,
		Outcome: psp.Authorized, Amount: 100, Currency: "usd", At: dawn,
	}
	switch {
	case o.ended == "failed":
	case o.order == "paid":
		n.Outcome, n.Amount = psp.Approved, o.amount
	default:
		n.Outcome, n.Decline = psp.Declined, &psp.Decline{Class: psp.Hard, Code: "canceled", Message: "No."}
	}
	return n
}

// orderEvents are what a bank makes of the orders that it has, and its notices.
func (w *world) orderEvents(event func(func(n *world) string)) {
	for o := range w.orders {
		it := w.orders[o]
		if it.ended == "" {
			event(func(n *world) string {
				m := n.movement(it.bank, it.of)
				n.orders[o].ended = "done"
				switch {
				case m.state == "held":
					m.state, m.at = it.order, n.time
				case m.state == it.order && it.order == "paid" && m.captured+it.amount <= 100: // such a bank makes several
				default:
					n.orders[o].ended = "failed"
				}
				if n.orders[o].ended == "done" {
					m.captured += it.amount
				}
				return fmt.Sprintf("%s has %s about %s %s: it is %s", it.bank, it.object, m.ref, n.orders[o].ended, m.state)
			})
			event(func(n *world) string {
				n.orders[o].ended = "failed"
				return fmt.Sprintf("%s has %s failed", it.bank, it.object)
			})
		} else if !it.noticed {
			w.attemptBy(0, europe, event, func(n *world, r *run) string {
				closed := n.process(r, it.bank, n.orders[o].notice(n.movement(it.bank, it.of)))
				n.orders[o].noticed = closed
				return fmt.Sprintf("%s handles the notice that %s has %s; closed: %v", r.node, it.object, it.ended, closed)
			})
		}
	}
}

// obey is a capture, a cancellation or a refund that reaches the bank.
func (w *world) obey(it call) psp.Result {
	m := w.movement(it.bank, it.of)
	switch {
	case m == nil:
		return invalid
	case w.later && it.order != "refunded":
		if !slices.ContainsFunc(w.orders, func(o order) bool { return o.key == it.key }) {
			w.orders = append(w.orders, order{call: it})
		}
		return psp.Result{Outcome: psp.Pending, ProviderRef: m.ref, Wait: &psp.Wait{State: psp.Processing}}
	case it.order == "refunded":
		if !strings.Contains(m.refunds, it.key) {
			m.refunds += it.key + " "
		}
		return psp.Result{Outcome: psp.Approved, ProviderRef: "back_" + m.ref}
	case m.by == it.key:
	case m.state != "held":
		return invalid
	default:
		m.state, m.at, m.by = it.order, w.time, it.key
		if it.order == "paid" {
			m.captured = it.amount
		}
	}
	return psp.Result{Outcome: psp.Approved, ProviderRef: m.ref}
}

func (b bank) Capture(_ context.Context, c psp.Call) psp.Result { return b.order(c, "paid") }
func (b bank) Cancel(_ context.Context, c psp.Call) psp.Result  { return b.order(c, "canceled") }
func (b bank) Refund(_ context.Context, c psp.Call) psp.Result  { return b.order(c, "refunded") }

func (b bank) Transfer(context.Context, psp.Call) psp.Result { return invalid }

func (b bank) Lookup(_ context.Context, c psp.Call) (psp.Found, psp.Result) {
	if !b.arrives(false) {
		return psp.FoundUnknown, lost
	}
	found, r := psp.FoundNo, psp.Result{}
	for m := range b.moves {
		it := &b.moves[m]
		switch {
		case it.bank != b.name:
		case c.Kind == psp.KindRefund && it.ref == c.Source && it.refunds != "":
			return psp.FoundYes, psp.Result{Outcome: psp.Approved, ProviderRef: "back_" + it.ref}
		case c.Kind == psp.KindCharge && it.object == c.Reference && (found == psp.FoundNo || it.state == "paid"):
			found, r = psp.FoundYes, it.result()
		}
	}
	return found, r
}

func (b bank) Show(_ context.Context, kind psp.Kind, _, ref string) (psp.Found, psp.Movement, error) {
	if !b.arrives(false) {
		return psp.FoundUnknown, psp.Movement{}, lost.Err
	}
	m := b.movement(b.name, ref)
	if kind != psp.KindCharge || m == nil {
		return psp.FoundNo, psp.Movement{}, nil
	}
	r := m.result()
	is := psp.Movement{ProviderRef: ref, Reference: m.object, Amount: 100, Currency: "usd", Outcome: r.Outcome, Decline: r.Decline}
	if m.state == "paid" && b.without != "captured amount as the provider shows it" {
		is.Amount = m.captured
	}
	return psp.FoundYes, is, nil
}

// bankEvents are what happens at the banks and on the way there, and the notices of it.
func (w *world) bankEvents(event func(func(n *world) string)) {
	w.orderEvents(event)
	for c := range w.calls {
		it := w.calls[c]
		decides := w.decides
		if it.order != "" {
			decides = decides[:1]
		}
		for _, d := range decides {
			event(func(n *world) string {
				n.calls = slices.Delete(n.calls, c, c+1)
				if it.order == "" {
					return fmt.Sprintf("a delayed call for %s reaches %s: %s", it.object, it.bank, n.receive(it, d).state)
				}
				return fmt.Sprintf("a delayed call for %s reaches %s, about %s: %s", it.object, it.bank, it.of, n.obey(it).Outcome)
			})
		}
	}
	for m := range w.moves {
		it := &w.moves[m]
		if it.state == "late" {
			event(func(n *world) string {
				n.moves[m].state, n.moves[m].at, n.moves[m].captured, n.moves[m].betrayed = "paid", n.time, 100, true
				return it.bank + " moves the money of " + it.ref + ", which it had declined"
			})
		}
		if w.notices && it.state == "paid" && !it.noticed && !it.manual {
			w.attemptBy(0, europe, event, func(n *world, r *run) string {
				closed := n.process(r, it.bank, n.moves[m].notice())
				n.moves[m].noticed = closed
				return fmt.Sprintf("%s handles the notice of %s, which is %s; closed: %v", r.node, it.ref, it.state, closed)
			})
		}
	}
}
