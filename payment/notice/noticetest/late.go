package noticetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/recon"
)

// Rows are all stores of a backend, as a node sees them.
type Rows interface {
	claim.Store
	outbox.Queues
	ledger.Store
	notice.Store
	notice.BrakeStore
	recon.Claims
}

// LateHarness is one backend with the tenant acme and nothing else.
type LateHarness struct {
	Home   string
	Code   claim.RegionCode
	Policy claim.Policy
	Rows   Rows
	// Pass advances the store's clock, Sweep runs all of its housekeeping, and Now
	// reads the clock.
	Pass  func(t testing.TB, d time.Duration)
	Sweep func(t testing.TB)
	Now   func(t testing.TB) time.Time
}

// later is long after every claim was deleted.
const later = 60 * 24 * time.Hour

// ExerciseLate checks, with the real claims, books and compensations of a backend, that
// a success which a provider reports months after its charge was refused is refunded
// once, whichever path finds it.
func ExerciseLate(t *testing.T, newHarness func(t *testing.T) LateHarness) {
	for name, verdicts := range map[string][]claim.Outcome{
		"refused":  {&claim.Refused{Reason: "stolen_card", Response: claim.Response{Status: 402, Body: []byte("{}")}}},
		"released": {&claim.Released{Reason: "insufficient_funds", Response: claim.Response{Status: 402, Body: []byte("{}")}}},
		"given up": {&claim.Unknown{Reason: "no_answer", GiveUp: &claim.GivenUp{Response: claim.Response{Status: 502, Body: []byte("{}")}}}},
		"closed": {
			&claim.Released{Reason: "insufficient_funds", Response: claim.Response{Status: 402, Body: []byte("{}")}},
			&claim.Refused{Reason: "expired", Response: claim.Response{Status: 402, Body: []byte("{}")}},
		},
	} {
		t.Run("late: found by a notice: "+name, func(t *testing.T) {
			w := newLateWorld(t, newHarness(t))
			id := w.refuse(verdicts)
			require.Equal(w, notice.ProcessedCompensated, w.send("evt_1", id))
			require.Equal(w, notice.ProcessedCompensated, w.send("evt_2", id), "reported again under another id")
			w.requireRefunded(id)
			require.Empty(w, w.reconcile(id, nil), "statement and books agree")
		})
		t.Run("late: found by a statement alone: "+name, func(t *testing.T) {
			w := newLateWorld(t, newHarness(t))
			id := w.refuse(verdicts)
			heal := func(m recon.Mismatch) {
				require.True(w, m.Refundable, "%+v", m)
				require.Equal(w, "acme", m.Tenant)
				progress, detail, err := w.compensator.Compensate(w.Context(), m.Ghost("bank"))
				require.NoError(w, err)
				require.Equal(w, notice.Compensated, progress, detail)
			}
			require.Equal(w, []recon.Class{recon.ChargedButUnknown}, w.reconcile(id, heal))
			require.Empty(w, w.reconcile(id, heal))
			w.requireRefunded(id)
			require.Equal(w, notice.ProcessedCompensated, w.send("evt_1", id), "and a notice of it finds it done")
			w.requireRefunded(id)
		})
		for _, end := range []psp.Kind{psp.KindDisputeLost, psp.KindDisputeWon} {
			t.Run(fmt.Sprintf("late: reported after its dispute, %s: %s", end, name), func(t *testing.T) {
				w := newLateWorld(t, newHarness(t))
				id := w.refuse(verdicts)
				w.bank.shown = &psp.Movement{ProviderRef: "pay_1", Reference: id, Amount: 4200, Currency: "usd", Outcome: psp.Approved, Disputed: 4200}
				unprocessed := func(n psp.Notice) {
					status, disposition := w.handle(n)
					require.Equal(w, notice.Unprocessed, status, "%+v", disposition)
					require.Empty(w, w.requests, "no refund was begun")
				}
				unprocessed(disputed("evt_1", psp.KindDisputeOpened))
				unprocessed(lateSuccess("evt_2", id))
				processed := func(event string, kind psp.Kind, want notice.Status) {
					status, disposition := w.handle(disputed(event, kind))
					require.Equal(w, want, status, "%+v", disposition)
				}
				processed("evt_3", psp.KindDisputeOpened, notice.ProcessedOK)
				require.Equal(w, notice.ProcessedCompensated, w.send("evt_4", id))
				processed("evt_5", psp.KindDispute, notice.ProcessedOK)
				if end == psp.KindDisputeLost {
					processed("evt_6", psp.KindDisputeLost, notice.ProcessedOK)
					require.Empty(w, w.bank.all(), "the payer has the money by the dispute")
					return
				}
				processed("evt_6", psp.KindDisputeReversal, notice.ProcessedOK)
				w.bank.shown.Disputed = 0
				processed("evt_7", psp.KindDisputeWon, notice.ProcessedCompensated)
				w.requireRefunded(id)
			})
		}
	}
}

// ExerciseKeys checks that no merchant can use the key of a compensation, and that one
// which has begun continues under its key. It needs no Sweep.
func ExerciseKeys(t *testing.T, newHarness func(t *testing.T) LateHarness) {
	refused := []claim.Outcome{&claim.Refused{Reason: "stolen_card", Response: claim.Response{Status: 402, Body: []byte("{}")}}}
	t.Run("keys: a merchant cannot spell the key of a compensation", func(t *testing.T) {
		w := newLateWorld(t, newHarness(t))
		spent := w.settled(w.begin(stampedKey(t, w.Code), "charge", http.MethodPost, "/v1/charges", []byte(`{"amount":1}`)), refused)
		id := w.settled(w.charge(), refused).Minted.ID
		require.Equal(w, notice.ProcessedCompensated, w.send("evt_1", id))
		w.requireRefunded(id)
		own := w.requests[0].Key
		code, ok := claim.ReadStamp(own.Value)
		require.True(w, ok && code == w.Code, "it names its home")
		for _, header := range []string{own.Value, claim.FormatKey(own.Value)} {
			_, err := claim.ParseKey(header)
			require.ErrorIs(w, err, claim.ErrKeyInvalid)
		}
		rec, now, found, err := w.Rows.Get(w.Context(), own, w.Home)
		require.NoError(w, err)
		require.True(w, found)
		require.Equal(w, own, rec.Key)
		byObject, found, err := w.Rows.ByObject(w.Context(), w.Home, rec.Minted.ID)
		require.NoError(w, err)
		require.True(w, found)
		require.Equal(w, own, byObject.Key)
		line, err := w.Rows.Timeline(w.Context(), own, w.Home, 10)
		require.NoError(w, err)
		require.Len(w, line, 3)
		require.False(w, now.IsZero())
		kept, _, _, err := w.Rows.Get(w.Context(), spent.Key, w.Home)
		require.NoError(w, err)
		require.Equal(w, spent.Minted.ID, kept.Minted.ID, "the merchant's own request is left alone")
	})
	for name, c := range map[string]struct {
		verdicts []claim.Outcome
		want     notice.Progress
		refunds  int
	}{
		"in flight": {nil, notice.Pending, 0},
		"refused": {[]claim.Outcome{&claim.Refused{Reason: "charge_disputed", Response: claim.Response{Status: 402, Body: []byte("{}")}}},
			notice.Limbo, 0},
		"refused for now": {[]claim.Outcome{&claim.Released{
			Reason: "insufficient_balance", Response: claim.Response{Status: 402, Body: []byte("{}")},
		}},
			notice.Compensated, 1},
	} {
		t.Run("keys: a compensation that has begun continues: "+name, func(t *testing.T) {
			w := newLateWorld(t, newHarness(t))
			id := w.settled(w.charge(), refused).Minted.ID
			g := notice.Ghost{Tenant: "acme", Object: id, Home: w.Home, Provider: "bank", ProviderRef: "pay_1", Amount: 4200, Currency: "usd"}
			old := w.begin(claim.OwnKey(stampedKey(t, w.Code)), string(payment.Compensation), http.MethodPost, "compensations",
				fmt.Appendf(nil, `{"amount":4200,"charge":%q,"currency":"usd","provider_ref":"pay_1","reason":"ghost_payment"}`, id))
			if c.verdicts != nil {
				w.settled(old, c.verdicts)
				w.Pass(w, w.Policy.ClockOffset+w.Policy.DeclinePause+w.Policy.ReplayFor/8)
			}
			progress, detail, err := w.compensator.Compensate(w.Context(), g)
			require.NoError(w, err)
			require.Equal(w, c.want, progress, detail)
			require.Len(w, w.bank.all(), c.refunds)
			require.Equal(w, old.Key, w.requests[0].Key)
		})
	}
}

// ExerciseHeld checks that a refund which the provider refused for now, and which was
// held for longer than a claim answers, is retried once its key is free; and that one
// which was refused for good is left to an operator. It needs no Sweep.
func ExerciseHeld(t *testing.T, newHarness func(t *testing.T) LateHarness) {
	refused := []claim.Outcome{&claim.Refused{Reason: "stolen_card", Response: claim.Response{Status: 402, Body: []byte("{}")}}}
	for name, c := range map[string]struct {
		decline psp.Class
		want    notice.Progress
		refunds int
	}{
		"for now":  {psp.Soft, notice.Pending, 1},
		"for good": {psp.Hard, notice.Limbo, 0},
	} {
		t.Run("held: refused "+name, func(t *testing.T) {
			w := newLateWorld(t, newHarness(t))
			id := w.settled(w.charge(), refused).Minted.ID
			look := func(want notice.Progress) string {
				progress, detail, err := w.compensator.Compensate(w.Context(), notice.Ghost{
					Tenant: "acme", Object: id, Home: w.Home, Provider: "bank", ProviderRef: "pay_1", Amount: 4200, Currency: "usd",
				})
				require.NoError(w, err)
				require.Equal(w, want, progress, detail)
				return detail
			}
			w.bank.decline = &psp.Decline{Class: c.decline, Code: "insufficient_balance"}
			look(c.want)
			_, err := notice.Stop(w.Context(), w.Rows, "bank", "a weekend")
			require.NoError(w, err)
			w.Pass(w, w.Policy.ReplayFor+w.Policy.TombstoneFor/4)
			look(notice.Held)
			_, err = notice.Release(w.Context(), w.Rows, "bank", nil)
			require.NoError(w, err)
			before := len(w.requests)
			require.Contains(w, look(c.want), "the provider refused the refund")
			require.Len(w, w.requests, before, "the key is not free")
			w.bank.decline = nil
			if c.decline == psp.Soft {
				w.Pass(w, w.Policy.TombstoneFor)
				require.Equal(w, "refunded", look(notice.Compensated))
				w.requireRefunded(id)
			}
			require.Len(w, w.bank.all(), c.refunds)
		})
	}
}

// stampedKey is the key from which that of the compensation of pay_1 at bank derives. A merchant
// can compute and use it.
func stampedKey(t *testing.T, code claim.RegionCode) string {
	seed := sha256.Sum256([]byte("homeward/refund/v1\x004:bankpay_1\x00REFUND"))
	key, err := claim.Stamp(code, bytes.NewReader(seed[:]))
	require.NoError(t, err)
	return key
}

type lateWorld struct {
	LateHarness
	*testing.T
	bank        *bank
	processor   *notice.Processor
	compensator *notice.Compensator
	requests    []claim.Request // of the service, by the compensator
}

func newLateWorld(t *testing.T, h LateHarness) *lateWorld {
	w := &lateWorld{LateHarness: h, T: t, bank: &bank{refunds: map[string]string{}}}
	code := func(home string) (claim.RegionCode, bool) { return h.Code, home == h.Home }
	home := func(c claim.RegionCode) (string, bool) { return h.Home, c == h.Code }
	impatient := h.Policy
	impatient.WaitPoll, impatient.WaitMax = time.Millisecond, 10*time.Millisecond
	service, err := claim.NewService(claim.Config{
		Store: h.Rows, Executor: payment.NewExecutor(psp.Providers{w.bank}, payment.Options{Books: h.Rows, Home: home}), Blobs: noBlobs{},
		Policy: impatient, Node: "node", Region: h.Home, Code: code, Operations: payment.Operations(),
	})
	require.NoError(t, err)
	service.Start()
	t.Cleanup(service.Stop)
	w.compensator = &notice.Compensator{
		Books: h.Rows, Code: code, Providers: psp.Providers{w.bank}, Brakes: &notice.Brakes{Store: h.Rows, Limits: notice.DefaultLimits()},
		Do: func(ctx context.Context, req claim.Request, _ string) (claim.Reply, error) {
			w.requests = append(w.requests, req)
			return service.Do(ctx, h.Home, &req)
		},
		Inspect: func(ctx context.Context, key claim.Key, _ string) (claim.Status, bool, error) {
			return service.Inspect(ctx, h.Home, key)
		},
	}
	w.processor, err = notice.NewProcessor(notice.ProcessorConfig{
		Store: h.Rows, Notifiers: map[string]psp.Notifier{"bank": plain{}}, Claims: h.Rows, Calls: h.Rows.Queue(outbox.ProviderCalls),
		Books: h.Rows, Learn: service.Learn, LearnRefusal: service.LearnRefusal, LearnHeld: service.LearnHeld, Home: home, Homes: func() []string { return []string{w.Home} }, Compensator: w.compensator,
		Sinks: []outbox.Kind{outbox.KindLog}, Now: func() time.Time { return h.Now(t) },
	})
	require.NoError(t, err)
	return w
}

// refuse refuses a charge and waits until its claim is deleted.
func (w *lateWorld) refuse(verdicts []claim.Outcome) (id string) {
	w.Helper()
	id = w.settled(w.charge(), verdicts).Minted.ID
	w.forget(id)
	return id
}

// forget waits until the claim of id is deleted.
func (w *lateWorld) forget(id string) {
	w.Helper()
	w.Pass(w, later)
	w.Sweep(w)
	_, found, err := w.Rows.ByObject(w.Context(), w.Home, id)
	require.NoError(w, err)
	require.False(w, found, "the claim is forgotten")
}

func (w *lateWorld) charge() claim.Record {
	w.Helper()
	return w.begin("order-7", "charge", http.MethodPost, "/v1/charges", []byte(`{"amount":4200,"currency":"usd","payment_method":"pm"}`))
}

// begin is a request that a node holds.
func (w *lateWorld) begin(value, operation, method, path string, body []byte) claim.Record {
	w.Helper()
	id, err := claim.NewObjectID(payment.Operations()[operation], w.Code, nil)
	require.NoError(w, err)
	key := claim.Key{Tenant: "acme", Value: value}
	in := claim.FingerprintInput{Method: method, Path: path, Tenant: key.Tenant, ContentType: "application/json", Canonical: body}
	fingerprint, err := in.Fingerprint(claim.CurrentFingerprint)
	require.NoError(w, err)
	begun, err := w.Rows.Begin(w.Context(), claim.Arrival{
		Content: claim.Content{Key: key, Operation: operation, Input: in, Print: fingerprint, Mint: claim.Minted{ID: id, Receipt: "R"}},
		Route:   claim.Route{Home: w.Home, Stamped: true},
		Holder:  claim.Holder{Node: "n", Region: w.Home},
	})
	require.NoError(w, err)
	require.Equal(w, claim.Won, begun.Decision)
	return begun.Record
}

// settled records one verdict after the other, the last one until the claim has ended.
func (w *lateWorld) settled(rec claim.Record, verdicts []claim.Outcome) claim.Record {
	w.Helper()
	var err error
	for i := 0; rec.State == claim.InFlight || i < len(verdicts); i++ {
		rec, err = w.Rows.Settle(w.Context(), rec, claim.Verdict{Outcome: verdicts[min(i, len(verdicts)-1)]})
		require.NoError(w, err)
	}
	return rec
}

// send processes a notice of the late success, and returns its result.
func (w *lateWorld) send(event, id string) notice.Status {
	w.Helper()
	status, disposition := w.handle(lateSuccess(event, id))
	require.NotEqual(w, notice.Unprocessed, status, "%+v", disposition)
	return status
}

// lateSuccess is a notice of it.
func lateSuccess(event, id string) psp.Notice {
	return psp.Notice{ID: event, Movement: true, Kind: psp.KindCharge, Reference: id, ProviderRef: "pay_1", Outcome: psp.Approved, Amount: 4200, Currency: "usd"}
}

// disputed is a notice of a step of the dispute of that payment.
func disputed(event string, kind psp.Kind) psp.Notice {
	return psp.Notice{ID: event, Unasked: []psp.Unasked{{Kind: kind, ProviderRef: "dp_1", Of: "pay_1", Amount: 4200, Currency: "usd"}}}
}

// handle processes a notice once, and returns its result. One that is left unprocessed is sent again
// as another.
func (w *lateWorld) handle(reports psp.Notice) (notice.Status, outbox.Disposition) {
	w.Helper()
	body, err := json.Marshal(reports)
	require.NoError(w, err)
	n := notice.Notice{ID: notice.ID("bank", reports.ID), Provider: "bank", Body: body}
	_, err = w.Rows.Keep(w.Context(), w.Home, []notice.Notice{n})
	require.NoError(w, err)
	var rows []outbox.Message
	for deadline := time.Now().Add(patience); len(rows) == 0 && time.Now().Before(deadline); {
		rows, err = w.Rows.Queue(outbox.Notices).Take(w.Context(), w.Home, 10, time.Minute)
		require.NoError(w, err)
	}
	require.Len(w, rows, 1)
	disposition := w.processor.Handle(w.Context(), rows[0])
	kept, found, err := w.Rows.Notice(w.Context(), w.Home, n.ID)
	require.NoError(w, err)
	require.True(w, found)
	return kept.Status, disposition
}

// reconcile compares a statement that has the late charge and every refund, and returns
// the mismatches; heal receives each.
func (w *lateWorld) reconcile(id string, heal func(recon.Mismatch)) (classes []recon.Class) {
	w.Helper()
	at := w.Now(w).Unix()
	var statement strings.Builder
	fmt.Fprintf(&statement, "id,kind,reference,amount,currency,created\npay_1,charge,%s,4200,usd,%d\n", id, at)
	for _, ref := range w.bank.all() {
		fmt.Fprintf(&statement, "%s,refund,%s,4200,usd,%d\n", ref.id, ref.reference, at)
	}
	_, err := recon.Run(w.Context(), recon.Config{
		Books: w.Rows, Claims: w.Rows, Provider: "bank", Regions: []string{w.Home}, Dir: w.TempDir(),
		Home: func(c claim.RegionCode) (string, bool) { return w.Home, c == w.Code },
		Now:  func() time.Time { return w.Now(w) },
		Found: func(_ context.Context, m recon.Mismatch) error {
			classes = append(classes, m.Class)
			if heal != nil {
				heal(m)
			}
			return nil
		},
	}, strings.NewReader(statement.String()), recon.CSV)
	require.NoError(w, err)
	return classes
}

// requireRefunded checks that the late charge was refunded once, and booked so.
func (w *lateWorld) requireRefunded(id string) {
	w.Helper()
	require.Len(w, w.bank.all(), 1, "one refund")
	ghost, found, err := w.Rows.Transaction(w.Context(), w.Home, ledger.GhostID("bank", "pay_1"))
	require.NoError(w, err)
	require.True(w, found)
	require.Equal(w, []any{"acme", id, int64(4200)}, []any{ghost.Tenant, ghost.Object, ghost.Amount})
	back, found, err := w.Rows.Transaction(w.Context(), w.Home, ledger.GhostRefundID("bank", "pay_1"))
	require.NoError(w, err)
	require.True(w, found)
	require.Equal(w, []any{"acme", int64(4200), ghost.Credit}, []any{back.Tenant, back.Amount, back.Debit})
}

// plain is a notifier that reads psp.Notice as JSON.
type plain struct{}

func (plain) Signed(http.Header) bool { return true }

func (plain) Verify(http.Header, []byte, time.Time) (string, error) { return "", psp.ErrForged }

func (plain) Read(body []byte) (n psp.Notice, err error) {
	err = json.Unmarshal(body, &n)
	return n, err
}

// bank is a provider that only refunds, once for each key.
type bank struct {
	psp.NoCapture
	mu      sync.Mutex
	refunds map[string]string // references, by key
	decline *psp.Decline      // its answer, if not nil
	shown   *psp.Movement     // what it shows; nil: it is blind
}

type refund struct{ id, reference string }

// Show is not called of a blind bank.
func (b *bank) Show(context.Context, psp.Kind, string, string) (psp.Found, psp.Movement, error) {
	return psp.FoundYes, *b.shown, nil
}

func (b *bank) all() (all []refund) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, reference := range b.refunds {
		all = append(all, refund{"r_" + key, reference})
	}
	return all
}

func (b *bank) Name() string { return "bank" }

func (b *bank) Capabilities() psp.Capabilities {
	return psp.Capabilities{Dedupe: psp.DedupeKey, Blind: b.shown == nil, Timeout: time.Minute}
}

func (b *bank) Charge(context.Context, psp.Call) psp.Result {
	return psp.Result{Err: errors.New("it only refunds")}
}

func (b *bank) Transfer(context.Context, psp.Call) psp.Result {
	return psp.Result{Err: errors.New("it only refunds")}
}

func (b *bank) Refund(_ context.Context, call psp.Call) psp.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.decline != nil {
		return psp.Result{Outcome: psp.Declined, Decline: b.decline}
	}
	b.refunds[call.Key] = call.Reference
	return psp.Result{Outcome: psp.Approved, ProviderRef: "r_" + call.Key}
}

func (b *bank) Lookup(context.Context, psp.Call) (psp.Found, psp.Result) {
	return psp.FoundUnknown, psp.Result{}
}

// noBlobs: no body is that large.
type noBlobs struct{}

func (noBlobs) Put(context.Context, []byte) (string, error) { return "", errors.New("no objects here") }

func (noBlobs) Get(context.Context, string) ([]byte, error) {
	return nil, errors.New("no objects here")
}
