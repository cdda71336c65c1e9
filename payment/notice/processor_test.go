package notice

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

const (
	home   = "us-east1"
	tenant = "acme"
)

var errDied = errors.New("the process died here")

// world is everything that a processor touches, in memory, with a point before and
// after each of its steps at which the process can die.
type world struct {
	*testing.T
	claims map[string]claim.Record // by object
	unpaid map[string]claim.Unpaid
	calls  map[string]outbox.Message
	books  map[string]ledger.Transaction
	closed map[string]Status // notices
	// lookups and moved count how often the provider was asked for each refund, and made it.
	lookups, moved map[string]int
	// refuse is how the provider answers a refund: "" yes, "soft", "hard", "unknown",
	// "pending", or "expired", where the claim has.
	refuse string
	learnt string
	ends   uint32 // the generation that what was learnt ends
	// words are the notices of held money.
	words   []claim.Held
	cancels []psp.Call
	// refused are the recorded declines.
	refused []string
	// keys are the keys of requested refunds; begun are the claims under them.
	keys  []string
	begun map[string]claim.Status
	lease bool // the claim's lease still runs
	// shows is what the provider shows by its own ids; blind: nothing, silent: no answer.
	shows         map[string]psp.Movement
	blind, silent bool
	// aliases: notices call movements by other names than the provider's API.
	aliases bool
	brakes  map[string]Brake
	limits  Limits
	now     time.Time
	events  []outbox.Message // events
	guard   *claim.Guard
	pages   []string
	waited  time.Duration // since the notice was stored
	off     bool          // the node makes no automatic refunds
	fault   *fault.Error  // what a recovery of the claim panics with; nil: it does not

	steps, dieAt int
}

func newWorld(t *testing.T) *world {
	return &world{
		T: t, claims: map[string]claim.Record{}, unpaid: map[string]claim.Unpaid{}, calls: map[string]outbox.Message{}, books: map[string]ledger.Transaction{},
		closed: map[string]Status{}, lookups: map[string]int{}, moved: map[string]int{}, begun: map[string]claim.Status{},
		shows: map[string]psp.Movement{}, brakes: map[string]Brake{}, limits: DefaultLimits(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// point dies at the chosen one.
func (w *world) point() error {
	if w.steps++; w.steps == w.dieAt {
		return errDied
	}
	return nil
}

func (w *world) ByObject(_ context.Context, _, id string) (claim.Record, bool, error) {
	rec, ok := w.claims[id]
	return rec, ok, w.point()
}

func (w *world) Unpaid(_ context.Context, _, id string) (claim.Unpaid, bool, error) {
	u, ok := w.unpaid[id]
	return u, ok, w.point()
}

// forget lets a claim that was not paid go; what is remembered of it stays.
func (w *world) forget(id string) {
	rec := w.claims[id]
	delete(w.claims, id)
	w.unpaid[id] = claim.Unpaid{Object: id, Home: home, Tenant: tenant, Operation: rec.Operation, State: rec.State}
}

func (w *world) inspect(_ context.Context, key claim.Key, hint string) (claim.Status, bool, error) {
	require.Equal(w, []string{tenant, home}, []string{key.Tenant, hint})
	s, ok := w.begun[key.Value]
	return s, ok, w.point()
}

// do is a compensation's claim and its provider, which dedupes.
func (w *world) do(_ context.Context, req claim.Request, _ string) (claim.Reply, error) {
	if err := w.point(); err != nil {
		return claim.Reply{}, err
	}
	code, ok := claim.ReadStamp(req.Key.Value)
	require.True(w, ok && code == 1 && req.Stamp == code, "the key names the charge's home")
	in, err := payment.Parse(payment.Operation(req.Operation), req.Input.Canonical)
	require.NoError(w, err)
	require.Equal(w, payment.Compensation, in.Operation)
	var body struct {
		ProviderRef string `json:"provider_ref"`
		Amount      int64
		Currency    string
		Failed      int `json:"failed_before"`
	}
	require.NoError(w, json.Unmarshal(req.Input.Canonical, &body))
	w.lookups[body.ProviderRef]++
	w.keys = append(w.keys, req.Key.Value)
	state := map[string]claim.State{"soft": claim.FailedRetry, "hard": claim.FailedTerminal, "unknown": claim.InFlight, "pending": claim.InFlight, "": claim.Completed}[w.refuse]
	w.begun[req.Key.Value] = claim.Status{Record: claim.Record{Operation: req.Operation, State: state}}
	switch w.refuse {
	case "soft":
		return claim.Reply{State: claim.FailedRetry, Response: claim.Response{Status: 402, Body: []byte(`{"code":"insufficient_balance"}`)}}, nil
	case "hard":
		return claim.Reply{State: claim.FailedTerminal, Response: claim.Response{Status: 402, Body: []byte(`{"code":"charge_disputed","detail":"No."}`)}}, nil
	case "unknown":
		return claim.Reply{}, &claim.UnknownError{}
	case "pending":
		return claim.Reply{State: claim.InFlight, Response: claim.Response{Status: http.StatusAccepted}}, nil
	case "expired":
		return claim.Reply{}, &claim.ExpiredError{FirstUse: w.now}
	}
	if w.moved[req.Key.Value] == 1 {
		return claim.Reply{State: claim.Completed, Response: claim.Response{Status: http.StatusCreated}}, w.point()
	}
	w.moved[req.Key.Value] = 1
	id := ledger.GhostRefundTryID("sim", body.ProviderRef, body.Failed+1)
	object, ref := objectID(w, "re", 100+len(w.moved)), fmt.Sprint("r", len(w.moved))
	w.shows[ref] = psp.Movement{ProviderRef: ref, Reference: object, Amount: body.Amount, Currency: body.Currency, Outcome: psp.Approved}
	w.books[id] = ledger.Transaction{
		ID: id, Region: home, Tenant: req.Key.Tenant, Kind: ledger.GhostRefund, Debit: ledger.Suspense(tenant), Credit: ledger.Provider("sim"),
		Amount: body.Amount, Currency: body.Currency, Object: object, Reverses: ledger.GhostID("sim", body.ProviderRef), Provider: "sim", ProviderRef: ref,
	}
	return claim.Reply{State: claim.Completed, Response: claim.Response{Status: http.StatusCreated}}, w.point()
}

func (w *world) processor() *Processor {
	p, err := NewProcessor(ProcessorConfig{
		Store: shelves{world: w}, Notifiers: map[string]psp.Notifier{"sim": reader{}}, Claims: w.behind(), Calls: queue{world: w}, Books: bookkeeper{world: w},
		Learn: func(_ context.Context, m outbox.Message, _, ref string, generation uint32) outbox.Disposition {
			switch {
			case w.lease:
				return outbox.Later(leaseRest)
			case w.fault != nil:
				return outbox.Faulted(w.fault)
			}
			w.learnt, w.ends = ref, generation
			rec := w.claims[m.ID]
			rec.State, rec.ProviderRef = claim.Completed, ref
			w.claims[m.ID] = rec
			w.books[m.ID] = ledger.Transaction{ID: m.ID, Tenant: tenant, Amount: 100, Currency: "usd", Provider: "sim", ProviderRef: ref}
			return outbox.Gone()
		},
		LearnRefusal: func(_ context.Context, m outbox.Message, by, code string, _ uint32) outbox.Disposition {
			w.refused = append(w.refused, by+" "+code)
			rec := w.claims[m.ID]
			rec.State, rec.Interim = claim.FailedRetry, nil
			w.claims[m.ID] = rec
			return outbox.Gone()
		},
		LearnHeld: func(_ context.Context, m outbox.Message, h claim.Held) outbox.Disposition {
			if w.lease {
				return outbox.Later(leaseRest)
			}
			w.words = append(w.words, h)
			rec := w.claims[m.ID]
			if rec.Operation == "capture" {
				rec.State, rec.Interim = claim.Completed, nil
				w.claims[m.ID] = rec
				return outbox.Gone()
			}
			switch h.Word {
			case claim.HeldStill:
				rec.Interim = &claim.Interim{State: "requires_capture"}
			case claim.HeldCaptured:
				rec.State, rec.ProviderRef, rec.Interim = claim.Completed, h.Ref, nil
				w.books[m.ID] = ledger.Transaction{ID: m.ID, Tenant: tenant, Amount: h.Amount, Currency: "usd", Provider: "sim", ProviderRef: h.Ref}
			case claim.HeldReleased:
				rec.State, rec.Interim = claim.FailedTerminal, nil
			}
			w.claims[m.ID] = rec
			return outbox.Gone()
		},
		Home: func(c claim.RegionCode) (string, bool) { return home, c == 1 }, Homes: func() []string { return []string{home} },
		Compensator: &Compensator{
			Books: bookkeeper{world: w}, Do: w.do, Inspect: w.inspect,
			Code:      func(h string) (claim.RegionCode, bool) { return 1, h == home },
			Providers: psp.Providers{provider{world: w}},
			Brakes:    &Brakes{Store: brakeRows{w}, Limits: w.limits, Off: w.off, Logger: slog.New(pager{world: w})},
		},
		Sinks: []outbox.Kind{outbox.KindLog, outbox.KindNATS}, Logger: slog.New(pager{world: w}),
	})
	require.NoError(w, err)
	return p
}

func objectID(t testing.TB, prefix string, n int) string {
	id, err := claim.NewObjectID(prefix, 1, bytes.NewReader(fmt.Appendf(nil, "%010d", n)))
	require.NoError(t, err)
	return id
}

func charged(reference, ref string) psp.Notice {
	return psp.Notice{ID: "e", Movement: true, Kind: psp.KindCharge, Reference: reference, ProviderRef: ref, Outcome: psp.Approved, Amount: 100, Currency: "usd"}
}

func (w *world) deliver(n psp.Notice) outbox.Disposition {
	if _, ok := w.shows[n.ProviderRef]; !ok && !w.aliases {
		w.shows[n.ProviderRef] = psp.Movement{ProviderRef: n.ProviderRef, Reference: n.Reference, Amount: n.Amount, Currency: n.Currency, Outcome: n.Outcome}
	}
	body, err := json.Marshal(n)
	require.NoError(w, err)
	return w.handle(w.processor(), body, n.ID)
}

func (w *world) handle(p *Processor, body []byte, id string) outbox.Disposition {
	rest := p.CloseBooked(w.Context(), []outbox.Message{w.row(body, id)})
	if len(rest) == 0 {
		return outbox.Gone()
	}
	return p.Handle(w.Context(), rest[0])
}

func (w *world) row(body []byte, id string) outbox.Message {
	return outbox.Message{ID: ID("sim", id), Region: "eu", Kind: outbox.KindNotice, Operation: "sim", Payload: body, Fence: 1, CreatedAt: time.Now().Add(-w.waited)}
}

func (w *world) have(id string, state claim.State, ref string) {
	w.claims[id] = claim.Record{Key: claim.Key{Tenant: tenant, Value: "k"}, Home: home, Operation: "charge", State: state, ProviderRef: ref, Minted: claim.Minted{ID: id}}
	if state == claim.Completed {
		w.books[id] = ledger.Transaction{
			ID: id, Region: home, Tenant: tenant, Kind: ledger.Charge, Debit: ledger.Provider("sim"), Credit: ledger.Merchant(tenant),
			Amount: 100, Currency: "usd", Object: id, Provider: "sim", ProviderRef: ref,
		}
		w.shows[ref] = psp.Movement{ProviderRef: ref, Reference: id, Amount: 100, Currency: "usd", Outcome: psp.Approved}
	}
}

// leaseRest is how long a lease runs that runs.
const leaseRest = 300 * time.Millisecond

const payload = `{"amount":100,"currency":"usd","payment_method":"pm_card_visa"}`

// What each notice comes to. A ghost is refunded once and booked; everything else
// moves nothing.
func TestWhatANoticeComesTo(t *testing.T) {
	id, transfer, refund := objectID(t, "ch", 1), objectID(t, "tr", 1), objectID(t, "re", 1)
	of := func(kind psp.Kind, reference, ref string) psp.Notice {
		n := charged(reference, ref)
		n.Kind = kind
		return n
	}
	const status, ghost, parked, again = "closed", "ghost", "parked", "again"
	for name, c := range map[string]struct {
		have   func(w *world)
		notice psp.Notice
		want   string
		status Status
	}{
		"a charge that is booked":           {func(w *world) { w.have(id, claim.Completed, "p1") }, charged(id, "p1"), status, ProcessedOK},
		"a second movement":                 {func(w *world) { w.have(id, claim.Completed, "p1") }, charged(id, "p2"), ghost, ProcessedCompensated},
		"late, after a refusal":             {func(w *world) { w.have(id, claim.FailedTerminal, "") }, charged(id, "p1"), ghost, ProcessedCompensated},
		"late, after a soft decline":        {func(w *world) { w.have(id, claim.FailedRetry, "") }, charged(id, "p1"), ghost, ProcessedCompensated},
		"booked, and its claim was deleted": {func(w *world) { w.have(id, claim.Completed, "p1"); delete(w.claims, id) }, charged(id, "p1"), status, ProcessedOK},
		"a second one, and its claim was deleted": {func(w *world) { w.have(id, claim.Completed, "p1"); delete(w.claims, id) },
			charged(id, "p2"), ghost, ProcessedCompensated},
		"late, after a refusal that is forgotten": {func(w *world) { w.have(id, claim.FailedTerminal, ""); w.forget(id) },
			charged(id, "p1"), ghost, ProcessedCompensated},
		"late, after a soft decline that is forgotten": {func(w *world) { w.have(id, claim.FailedRetry, ""); w.forget(id) },
			charged(id, "p1"), ghost, ProcessedCompensated},
		"a transfer made late, and its claim forgotten": {func(w *world) { w.have(transfer, claim.FailedTerminal, ""); w.forget(transfer) },
			of(psp.KindTransfer, transfer, "p1"), status, ProcessedOK},
		"a transfer made late that cannot be tried again": {func(w *world) { w.have(transfer, claim.FailedRetry, ""); w.forget(transfer) },
			of(psp.KindTransfer, transfer, "p1"), status, ProcessedOK},
		"a refund made late, and its claim forgotten": {func(w *world) { w.have(refund, claim.FailedTerminal, ""); w.forget(refund) },
			of(psp.KindRefund, refund, "p1"), parked, ""},
		"of a charge without a record":  {func(*world) {}, charged(id, "p1"), parked, ""},
		"of an unreadable id":           {func(*world) {}, charged("order-7", "p1"), parked, ""},
		"of another amount than booked": {func(w *world) { w.have(id, claim.Completed, "p1") }, func() psp.Notice { n := charged(id, "p1"); n.Amount++; return n }(), parked, ""},
		"of nothing that concerns us":   {func(*world) {}, psp.Notice{ID: "e"}, status, Ignored},
		"of a decline":                  {func(*world) {}, psp.Notice{ID: "e", Movement: true, Kind: psp.KindCharge, Reference: id, Outcome: psp.Declined}, status, Ignored},
		"while the lease runs":          {func(w *world) { w.have(id, claim.InFlight, ""); w.lease = true }, charged(id, "p1"), again, ""},
		"a refund made late":            {func(w *world) { w.have(refund, claim.FailedTerminal, "") }, of(psp.KindRefund, refund, "p1"), parked, ""},
		"a transfer made twice":         {func(w *world) { w.have(transfer, claim.Completed, "p1") }, of(psp.KindTransfer, transfer, "p2"), parked, ""},
		"a transfer made late":          {func(w *world) { w.have(transfer, claim.FailedTerminal, "") }, of(psp.KindTransfer, transfer, "p1"), status, ProcessedOK},
		"a transfer that may be tried again": {func(w *world) { w.have(transfer, claim.FailedRetry, "") },
			of(psp.KindTransfer, transfer, "p1"), parked, ""},
		"a refund under a charge's id": {func(w *world) { w.have(id, claim.FailedTerminal, "") }, of(psp.KindRefund, id, "p1"), parked, ""},
		"a charge under a refund's id": {func(w *world) { w.have(refund, claim.FailedTerminal, "") }, charged(refund, "p1"), parked, ""},
		"more than a request can say": {func(w *world) { w.have(id, claim.FailedTerminal, "") },
			func() psp.Notice { n := charged(id, "p1"); n.Amount = payment.MaxAmount + 1; return n }(), parked, ""},
		"an unsupported currency": {func(w *world) { w.have(id, claim.FailedTerminal, "") },
			func() psp.Notice { n := charged(id, "p1"); n.Currency = "USD"; return n }(), parked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payload)}
			c.have(w)
			verdict := w.deliver(c.notice)
			require.Equal(t, c.status, w.closed["sim:e"])
			switch c.want {
			case ghost:
				require.Len(t, w.moved, 1)
				for _, id := range []string{ledger.GhostID("sim", c.notice.ProviderRef), ledger.GhostRefundID("sim", c.notice.ProviderRef)} {
					require.Contains(t, w.books, id)
				}
			case again:
				// Not later: the claim's own recovery takes the lease anew when it lapses.
				require.Equal(t, outbox.Later(leaseRest), verdict)
				require.Empty(t, w.moved)
			case parked:
				require.Contains(t, fmt.Sprint(verdict), "Parked", "%v", verdict)
				fallthrough
			default:
				require.Empty(t, w.moved)
				require.NotContains(t, w.books, ledger.GhostID("sim", c.notice.ProviderRef))
			}
			// A repeat with another event id changes nothing.
			before := len(w.books)
			again := c.notice
			again.ID = "f"
			w.deliver(again)
			require.Len(t, w.books, before)
			require.LessOrEqual(t, len(w.moved), 1)
		})
	}
}

func TestANoticeSettlesAClaimInFlight(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.InFlight, "")
	w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payload)}
	other := charged(id, "p9")
	other.Amount++
	w.deliver(other)
	require.Empty(t, w.learnt, "another amount than requested settles nothing")
	require.Empty(t, w.closed)
	w.deliver(charged(id, "p1"))
	require.Equal(t, "p1", w.learnt)
	require.Equal(t, ProcessedOK, w.closed["sim:e"])
	require.Empty(t, w.moved)
}

// A success that may be an earlier generation's has to be asked about, and so has what a captured hold
// amounts to: these wait for the claim's next attempt.
func TestWhichNoticesEndAClaimByThemselves(t *testing.T) {
	id := objectID(t, "ch", 1)
	hold := `{"amount":100,"capture":"manual","currency":"usd","off_session":false,"payment_method":"pm_1"}`
	for name, c := range map[string]struct {
		generation uint32
		blind      bool
		payload    string
		ref        string
		ends       uint32
	}{
		"of the only generation":                      {1, false, payload, "p1", 1},
		"of one of two":                               {2, false, payload, "p1", 0},
		"of one of two, by whom nobody can ask":       {2, true, payload, "p1", 2},
		"of a hold, which may be captured for a part": {1, false, hold, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.blind = c.blind
			w.have(id, claim.InFlight, "")
			rec := w.claims[id]
			rec.Generation = c.generation
			w.claims[id] = rec
			w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(c.payload)}
			w.deliver(charged(id, "p1"))
			require.Equal(t, c.ref, w.learnt)
			require.Equal(t, c.ends, w.ends)
		})
	}
}

// The payload of a partial refund names no currency, that of a full one no amount
// either: both are learnt of all the same, and nothing else is.
func TestANoticeSettlesARefundInFlight(t *testing.T) {
	id, of := objectID(t, "re", 1), objectID(t, "ch", 1)
	for payload, settles := range map[string]bool{
		`{"amount":100,"charge":"` + of + `"}`: true, `{"charge":"` + of + `"}`: true, `{"amount":99,"charge":"` + of + `"}`: false,
	} {
		w := newWorld(t)
		w.have(id, claim.InFlight, "")
		rec := w.claims[id]
		rec.Operation = string(payment.Refund)
		w.claims[id] = rec
		w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payload)}
		n := charged(id, "r1")
		n.Kind = psp.KindRefund
		w.deliver(n)
		require.Equal(t, settles, w.learnt == "r1", payload)
		require.Equal(t, settles, w.closed["sim:e"] == ProcessedOK, payload)
	}
}

// The movement of an earlier generation is being refunded, and reported once more while the next
// generation is in flight: the processor does not touch that one's lease.
func TestAGhostSettlesNoLaterGeneration(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.FailedRetry, "")
	w.refuse = "unknown"
	w.deliver(charged(id, "p1"))
	w.have(id, claim.InFlight, "")
	w.calls[id] = outbox.Message{ID: id, Region: home, Payload: []byte(payload)}
	w.refuse = ""
	w.deliver(charged(id, "p1"))
	require.Empty(t, w.learnt)
	require.Equal(t, claim.InFlight, w.claims[id].State)
	require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
	require.Len(t, w.moved, 1)
}

// The process dies before and after each step of a compensation, and the notice is
// worked off again when its lease has run out.
func TestCompensationSurvivesADeathAtEachStep(t *testing.T) {
	id := objectID(t, "ch", 1)
	for _, state := range []claim.State{claim.FailedTerminal, claim.FailedRetry, claim.Completed} {
		points := 0
		for die := 1; ; die++ {
			w := newWorld(t)
			w.have(id, state, map[bool]string{true: "p0"}[state == claim.Completed])
			w.dieAt = die
			w.deliver(charged(id, "p1"))
			died := w.steps >= die
			w.deliver(charged(id, "p1"))
			require.Equal(t, ProcessedCompensated, w.closed["sim:e"], "death at point %d", die)
			require.Len(t, w.moved, 1, "death at point %d", die)
			ghost, back := w.books[ledger.GhostID("sim", "p1")], w.books[ledger.GhostRefundID("sim", "p1")]
			require.Equal(t, ghost.Amount, back.Amount)
			require.Equal(t, ghost.Credit, back.Debit)
			if !died {
				break
			}
			points++
		}
		require.Greater(t, points, 6, "a run has that many points at which it can die")
	}
}

// The ghost beside a paid charge is booked with what finds the charge's order: the event of its
// refund is made from that.
func TestAGhostHasTheOrderOfItsCharge(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.Completed, "p0")
	charge := w.books[id]
	charge.Order, charge.Metadata = "order-17", `{"color":"red"}`
	w.books[id] = charge
	w.deliver(charged(id, "p1"))
	ghost := w.books[ledger.GhostID("sim", "p1")]
	require.Equal(t, []string{"order-17", `{"color":"red"}`}, []string{ghost.Order, ghost.Metadata})
}

// The claim settles on the movement between the look at it and the booking of the
// ghost: the books refuse the ghost, and the next look finds a charge.
func TestAMovementIsAChargeOrAGhost(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.FailedRetry, "")
	w.books["elsewhere"] = ledger.Transaction{ID: "elsewhere", Kind: ledger.Charge, Provider: "sim", ProviderRef: "p1"}
	require.Contains(t, fmt.Sprint(w.deliver(charged(id, "p1"))), "Failed: the movement has been booked as a charge")
	require.Empty(t, w.moved)
	delete(w.books, "elsewhere")
	w.have(id, claim.Completed, "p1")
	w.deliver(charged(id, "p1"))
	require.Equal(t, ProcessedOK, w.closed["sim:e"])
	require.Empty(t, w.moved)
}

func TestCompensationThatCannotFinish(t *testing.T) {
	id := objectID(t, "ch", 1)
	for refuse, c := range map[string]struct{ verdict, detail string }{
		"soft":    {"Failed", "insufficient_balance"},
		"unknown": {"Failed", "has not answered"},
		"hard":    {"Parked", "LIMBO: the provider refused the refund: charge_disputed"},
	} {
		t.Run(refuse, func(t *testing.T) {
			w := newWorld(t)
			w.have(id, claim.FailedTerminal, "")
			w.refuse = refuse
			verdict := fmt.Sprint(w.deliver(charged(id, "p1")))
			require.Contains(t, verdict, c.verdict)
			require.Contains(t, verdict, c.detail)
			require.Empty(t, w.closed)
			require.Contains(t, w.books, ledger.GhostID("sim", "p1"), "suspense shows the debt")
			w.refuse = ""
			w.deliver(charged(id, "p1"))
			require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
			require.Len(t, w.moved, 1)
		})
	}
}

// The key of a compensation lies where no merchant can spell it.
func TestNobodySpendsTheKeyOfACompensation(t *testing.T) {
	id := objectID(t, "ch", 1)
	w := newWorld(t)
	w.have(id, claim.FailedTerminal, "")
	w.deliver(charged(id, "p1"))
	require.Equal(t, ProcessedCompensated, w.closed["sim:e"])
	require.Len(t, w.keys, 1)
	for _, header := range []string{w.keys[0], claim.FormatKey(w.keys[0])} {
		_, err := claim.ParseKey(header)
		require.ErrorIs(t, err, claim.ErrKeyInvalid, "%q", header)
	}
}

// A compensation that has begun under its key goes on there, in flight or refused, and is not
// counted again. One past its tombstone counts as absent, though its row may still be stored.
func TestACompensationGoesOnUnderItsKey(t *testing.T) {
	id := objectID(t, "ch", 1)
	first := newWorld(t)
	first.have(id, claim.FailedTerminal, "")
	first.deliver(charged(id, "p1"))
	key := first.keys[0]
	for _, s := range []claim.Status{
		{Record: claim.Record{State: claim.InFlight}}, {Record: claim.Record{State: claim.FailedRetry}}, {Record: claim.Record{State: claim.FailedTerminal}},
		{Record: claim.Record{State: claim.FailedTerminal}, Age: claim.Gone},
	} {
		w := newWorld(t)
		w.have(id, claim.FailedTerminal, "")
		s.Record.Operation = string(payment.Compensation)
		w.begun = map[string]claim.Status{key: s}
		w.refuse = "unknown"
		w.deliver(charged(id, "p1"))
		w.refuse = ""
		w.deliver(charged(id, "p1"))
		require.Equal(t, []string{key, key}, w.keys, "%v", s.Record.State)
	}
}

// A notice whose claim makes our code panic counts as failed. The worker parks it after some tries.
func TestAPanicOverTheClaimCountsAgainstTheNotice(t *testing.T) {
	w := newWorld(t)
	w.fault = &fault.Error{Value: "adapter"}
	id := objectID(t, "ch", 1)
	w.have(id, claim.InFlight, "")
	w.calls[id] = outbox.Message{ID: id, Payload: []byte(payload)}
	require.Equal(t, outbox.Faulted(w.fault), w.deliver(charged(id, "pr_1")))
	require.Empty(t, w.closed)
	w.fault = nil
	require.Equal(t, outbox.Gone(), w.deliver(charged(id, "pr_1")))
	require.Equal(t, map[string]Status{"sim:e": ProcessedOK}, w.closed)
}
