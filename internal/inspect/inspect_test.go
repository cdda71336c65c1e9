package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

const us, eu = "us-east1", "europe-west1"

var regions = []claim.Region{{Name: us, Code: 1}, {Name: eu, Code: 2}}

// world is two regions, seen by an operator in the first.
type world struct {
	*testing.T
	db      *embedded.DB
	view    *embedded.View
	network *wan.Network
	now     time.Time
	policy  claim.Policy
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), policy: claim.DefaultPolicy(), network: wan.New(nil)}
	w.policy.MaxUnknowns = 2
	var err error
	w.db, err = embedded.Open(embedded.Config{
		Dir: "store", FS: vfs.NewMem(), Regions: regions, Policy: w.policy, Network: w.network, ReplicaLag: -1,
		Clock: func() time.Time { return w.now },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	for _, tenant := range []string{"acme", "globex"} {
		require.NoError(t, w.db.PutTenant(t.Context(), claim.Tenant{ID: tenant, Name: tenant, Registrar: us}))
	}
	w.view, err = w.db.Region(us)
	require.NoError(t, err)
	return w
}

func (w *world) reader() *inspect.Reader {
	return &inspect.Reader{Rows: w.view, Regions: regions, Policy: w.policy, Digits: func(string) int { return 2 }, Tenants: func(ctx context.Context, after string, _ int) (page []claim.Tenant, err error) {
		all, err := w.db.Tenants(ctx)
		for _, t := range all {
			if t.ID > after {
				page = append(page, t)
			}
		}
		return page, err
	}}
}

func (w *world) read(of string) inspect.History {
	w.Helper()
	h, err := w.reader().Read(w.Context(), inspect.Query{Of: of})
	require.NoError(w, err)
	return h
}

// begin lets a request for a charge of the given id arrive at home.
func (w *world) begin(tenant, key, home, object string) claim.Record {
	w.Helper()
	a := claimtest.NewArrival(claim.Key{Tenant: tenant, Value: key}, home, `{"amount":4200,"secret":"of the payer"}`, "node-1", object)
	got, err := w.view.Begin(w.Context(), a)
	require.NoError(w, err)
	return got.Record
}

func (w *world) settle(rec claim.Record, v claim.Verdict) claim.Record {
	w.Helper()
	v.ID, v.Node, v.Region = uuid.New(), "node-1", rec.Home
	if unknown, ok := v.Outcome.(*claim.Unknown); ok {
		unknown.GiveUp = &claim.GivenUp{}
	}
	claimtest.Answer(v.Outcome, claim.Response{Status: 200, Body: []byte("the secret body")})
	got, err := w.view.Settle(w.Context(), rec, v)
	require.NoError(w, err)
	return got
}

// charged settles a charge, and returns its booking.
func (w *world) charged(rec claim.Record) ledger.Transaction {
	w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, rec.Minted.ID)}})
	t, found, err := w.view.Transaction(w.Context(), rec.Home, rec.Minted.ID)
	require.NoError(w, err)
	require.True(w, found)
	return t
}

// post books t, a second later.
func (w *world) post(t ledger.Transaction) ledger.Transaction {
	w.Helper()
	w.now = w.now.Add(time.Second)
	_, err := w.view.Post(w.Context(), t)
	require.NoError(w, err)
	return t
}

func (w *world) refund(of ledger.Transaction, id string, amount int64) ledger.Transaction {
	t := of
	t.ID, t.Object, t.Kind, t.Reverses, t.ProviderRef, t.Amount = id, id, ledger.Refund, of.ID, "psp_"+id, amount
	t.Debit, t.Credit = of.Credit, of.Debit
	return w.post(t)
}

func (w *world) reply(rec claim.Record, detail string) {
	w.view.Note(w.Context(), rec.Key, rec.Home, claim.AuditEntry{Event: claim.EventReplied, Region: eu, Node: "node-2", Fence: rec.Fence, Generation: rec.Generation, Detail: detail})
}

func object(t *testing.T, code claim.RegionCode) string {
	id, err := claim.NewObjectID("ch", code, nil)
	require.NoError(t, err)
	return id
}

func TestARefundNamesItsCharge(t *testing.T) {
	w := newWorld(t)
	a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "refund-1"}, eu, `{"charge":"ch_1"}`, "node-1", object(t, 2))
	a.Operation, a.Reverses = "refund", "ch_1"
	_, err := w.view.Begin(w.Context(), a)
	require.NoError(t, err)
	require.Equal(t, "ch_1", w.read("refund-1").Claim.Reverses)
}

func TestAChargeThatWasReplayed(t *testing.T) {
	w := newWorld(t)
	id := object(t, 2)
	rec := w.begin("acme", "order-1", eu, id)
	w.now = w.now.Add(time.Second)
	rec = w.settle(rec, claim.Verdict{Outcome: &claim.Done{
		ProviderRef: "psp_1", Posting: claimtest.Posting(rec, id), Events: []outbox.Message{{ID: "evt_" + id + "_1/webhook", Kind: outbox.KindWebhook, Payload: []byte("secret payload")}},
	}})
	for range 3 {
		w.reply(rec, "replay")
	}
	w.reply(rec, "mismatch")

	for _, of := range []string{"order-1", id} {
		h := w.read(of)
		require.Equal(t, "charged once, replayed three times, another request under its key refused once; home europe-west1", h.Verdict)
		require.Equal(t, []string{"acme", "order-1", id, eu}, []string{h.Tenant, h.Key, h.Object, h.Home})
		require.Equal(t, 3, h.Replays)
		require.Len(t, h.Timeline, 7)
		require.Empty(t, h.Missing)
		require.Empty(t, h.Deputies, "who reads an answer elsewhere is no deputy")
		require.Len(t, h.Attempts, 1)
		require.Equal(t, inspect.Attempt{
			Generation: 1, Fence: 1, Region: eu, Node: "node-1", Began: w.now.Add(-time.Second), Ended: w.now,
			Outcome: "done", Provider: "sim", ProviderRef: "psp_" + id,
		}, h.Attempts[0])
		require.Len(t, h.Bookings, 1)
		require.Len(t, h.Waiting, 1)
		require.Equal(t, outbox.Events, h.Waiting[0].Queue)
		require.Equal(t, 200, h.Claim.Status)

		text, err := json.Marshal(h)
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret")
		require.NotContains(t, string(text), rec.ProviderKey)
	}
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		do         func(w *world, rec claim.Record)
		want, next string
	}{
		"in flight": {func(*world, claim.Record) {}, "in flight: node-1 has it and may be calling the provider; home europe-west1", "wait: its lease ends at"},
		"its holder died": {
			func(w *world, _ claim.Record) { w.now = w.now.Add(time.Hour) },
			"in flight: node-1 had it and has not settled it, and its lease is over; home europe-west1", "wait: the outbox",
		},
		"unknown": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
			},
			"outcome unknown after one attempt (timeout); home europe-west1", "wait: the outbox",
		},
		"waits for the payer": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Pending{State: "requires_action", AskIn: time.Hour}})
			},
			"the provider has it and waits: requires_action; home europe-west1", "wait: for the payer",
		},
		"given up": {
			func(w *world, rec claim.Record) {
				rec = w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
				w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
			},
			"given up on after one attempt with the outcome unknown; home europe-west1", "compare with the provider's statement",
		},
		"canceled by its merchant": {
			func(w *world, rec claim.Record) {
				rec, err := w.view.Cancel(w.Context(), rec.Key, rec.Home, rec.Minted.ID, uuid.New(), "node-2", rec.Home)
				require.NoError(w, err)
				w.settle(rec, claim.Verdict{Outcome: &claim.Refused{Reason: "key_canceled"}})
			},
			"canceled by its merchant, no money moved; home europe-west1", "",
		},
		"declined for good": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Refused{Reason: "stolen_card"}})
			},
			"declined for good (stolen_card), no money moved; home europe-west1", "",
		},
		"declined for now": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Released{Reason: "insufficient_funds"}})
			},
			"declined once (insufficient_funds), may be tried again, no money moved; home europe-west1", "nothing: the merchant",
		},
		"parked": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Unknown{Reason: "timeout"}})
				w.now = w.now.Add(time.Hour)
				q := w.view.Queue(outbox.ProviderCalls)
				all, err := q.Take(w.Context(), eu, 1, time.Second)
				require.NoError(w, err)
				require.NoError(w, q.Park(w.Context(), eu, all[0].Hold(), "not found twice"))
			},
			"outcome unknown and parked for a person (not found twice); home europe-west1", "find out why, then homeward outbox retry",
		},
		"taken over by a deputy": {
			func(w *world, rec claim.Record) {
				w.now = w.now.Add(time.Hour)
				rec, err := w.view.TakeOver(w.Context(), rec.Key, eu, rec.Minted.ID, "node-3", us, claim.News{})
				require.NoError(w, err)
				w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, rec.Minted.ID)}})
			},
			"charged once, taken over once; home europe-west1, with us-east1 as deputy", "",
		},
		"a ghost": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Refused{Reason: "stolen_card"}})
				ghost := *claimtest.Posting(rec, ledger.GhostID("sim", "psp_9"))
				ghost.Region, ghost.Kind, ghost.Credit, ghost.ProviderRef = eu, ledger.Ghost, ledger.Suspense("acme"), "psp_9"
				back := ghost
				back.ID, back.Kind, back.Object, back.Reverses, back.ProviderRef = ledger.GhostRefundID("sim", "psp_9"), ledger.GhostRefund, "re_1", ghost.ID, "psp_10"
				back.Debit, back.Credit = ghost.Credit, ghost.Debit
				for _, one := range []ledger.Transaction{ghost, back} {
					_, err := w.view.Post(w.Context(), one)
					require.NoError(w, err)
					w.now = w.now.Add(time.Second)
				}
			},
			"declined for good (stolen_card); the provider moved 42.00 USD that was not requested, and Homeward refunded that; home europe-west1", "",
		},
		"a ghost without a refund yet": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Refused{Reason: "stolen_card"}})
				ghost := *claimtest.Posting(rec, ledger.GhostID("sim", "psp_9"))
				ghost.Region, ghost.Kind, ghost.Credit, ghost.ProviderRef = eu, ledger.Ghost, ledger.Suspense("acme"), "psp_9"
				_, err := w.view.Post(w.Context(), ghost)
				require.NoError(w, err)
			},
			"declined for good (stolen_card); the provider moved 42.00 USD that was not requested; home europe-west1", "",
		},
		"a refund": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, rec.Minted.ID)}})
				back := *claimtest.Posting(rec, "re_1")
				back.Region, back.Kind, back.Object, back.Reverses, back.Amount = eu, ledger.Refund, "re_1", rec.Minted.ID, 5
				back.Debit, back.Credit = back.Credit, back.Debit
				_, err := w.view.Post(w.Context(), back)
				require.NoError(w, err)
			},
			"charged once; the merchant refunded 0.05 USD in one refund; home europe-west1", "",
		},
		"a refund that failed, and another": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				w.post(ledger.FailureOf(w.refund(of, "re_1", 600)))
				w.refund(of, "re_2", 1000)
			},
			"charged once; the merchant refunded 10.00 USD in one refund; one of 6.00 USD failed; home europe-west1", "",
		},
		"refunds that all failed": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				w.post(ledger.FailureOf(w.refund(of, "re_1", 600)))
				w.post(ledger.FailureOf(w.refund(of, "re_2", 300)))
			},
			"charged once; the merchant refunded nothing: 2 refunds of 9.00 USD failed; home europe-west1", "",
		},
		"refunds at the provider's desk": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				w.post(ledger.UnaskedOf(of, ledger.ProviderRefund, "r1", 250))
				w.post(ledger.UnaskedOf(of, ledger.ProviderRefund, "r2", 750))
				w.post(ledger.FailureOf(w.post(ledger.UnaskedOf(of, ledger.ProviderRefund, "r3", 100))))
				w.refund(of, "re_1", 500)
			},
			"charged once; the merchant refunded 5.00 USD in one refund; 10.00 USD was refunded at the provider in 2 refunds; one of 1.00 USD failed; home europe-west1", "",
		},
		"disputes": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				for ref, last := range map[string]ledger.Kind{"du_1": ledger.DisputeLost, "du_2": ledger.DisputeWon, "du_3": ledger.Dispute} {
					w.post(ledger.UnaskedOf(of, ledger.DisputeOpened, ref, 1000))
					w.post(ledger.UnaskedOf(of, last, ref, 1000))
				}
			},
			"charged once; 10.00 USD was lost in a dispute; 10.00 USD is disputed and not decided; a dispute of 10.00 USD was won; home europe-west1", "",
		},
		"a second chargeback": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				w.post(ledger.UnaskedOf(of, ledger.DisputeOpened, "du_1", 1000))
				w.post(ledger.UnaskedOf(of, ledger.DisputeLost, "du_1/second", 1000))
			},
			"charged once; 10.00 USD was lost in a dispute; home europe-west1", "",
		},
		"a charge that failed": {
			func(w *world, rec claim.Record) { w.post(ledger.FailureOf(w.charged(rec))) },
			"charged once; the provider took charge back as failed; home europe-west1", "",
		},
		"ghosts": {
			func(w *world, rec claim.Record) {
				of := w.charged(rec)
				for n := range 4 {
					ref := fmt.Sprint("p", n)
					ghost := of
					ghost.ID, ghost.Kind, ghost.Credit, ghost.ProviderRef, ghost.Amount = ledger.GhostID("sim", ref), ledger.Ghost, ledger.Suspense("acme"), ref, int64(100+n)
					w.post(ghost)
					back := func(try int) ledger.Transaction {
						t := ghost
						t.ID, t.Kind, t.Reverses, t.Object, t.ProviderRef = ledger.GhostRefundTryID("sim", ref, try), ledger.GhostRefund, ghost.ID, fmt.Sprint("re_", n, try), fmt.Sprint("b", n, try)
						t.Debit, t.Credit = ghost.Credit, ghost.Debit
						return w.post(t)
					}
					switch n {
					case 0:
						w.post(ledger.FailureOf(back(1)))
						back(2)
					case 1:
						w.post(ledger.FailureOf(back(1)))
					case 2:
						w.post(ledger.UnaskedOf(ghost, ledger.ProviderRefund, "desk", 102))
					case 3:
						w.post(ledger.FailureOf(ghost))
					}
				}
			},
			"charged once; the provider moved 1.00 USD that was not requested, and Homeward refunded that; the provider moved 1.01 USD that was not requested, and one refund of that failed; " +
				"the provider moved 1.02 USD that was not requested, and 1.02 USD was refunded at the provider; the provider moved 1.03 USD that was not requested, and took it back; home europe-west1", "",
		},
		"forgotten": {
			func(w *world, rec claim.Record) {
				w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, rec.Minted.ID)}})
				w.now = w.now.Add(100 * 24 * time.Hour)
				n, err := w.db.Sweep(w.Context(), 10)
				require.NoError(w, err)
				require.Equal(w, 1, n)
			},
			"charged once, its key is free again; home europe-west1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := object(t, 2)
			c.do(w, w.begin("acme", "k", eu, id))
			h := w.read(id)
			require.Equal(t, c.want, h.Verdict)
			if c.next == "" {
				require.Empty(t, h.Next)
			} else {
				require.Contains(t, h.Next, c.next)
			}
		})
	}
}

func TestAPinWithoutAClaim(t *testing.T) {
	w := newWorld(t)
	_, err := w.view.Pin(t.Context(), claim.Key{Tenant: "acme", Value: "k"}, eu)
	require.NoError(t, err)
	h, err := w.reader().Read(t.Context(), inspect.Query{Of: "k", Tenant: "acme"})
	require.NoError(t, err)
	require.Equal(t, "pinned and never claimed: nothing was sent to the provider; home europe-west1", h.Verdict)
}

// A key that several tenants use needs a tenant. A key without rows is not found.
func TestTheTenantOfAKey(t *testing.T) {
	w := newWorld(t)
	w.begin("acme", "k", us, object(t, 1))
	require.Equal(t, "acme", w.read("k").Tenant)
	w.begin("globex", "k", eu, object(t, 2))
	_, err := w.reader().Read(t.Context(), inspect.Query{Of: "k"})
	require.ErrorIs(t, err, inspect.ErrSeveral)
	require.ErrorContains(t, err, "acme, globex")
	h, err := w.reader().Read(t.Context(), inspect.Query{Of: "k", Tenant: "globex"})
	require.NoError(t, err)
	require.Equal(t, eu, h.Home)
	for _, of := range []string{"other", object(t, 1)} {
		_, err = w.reader().Read(t.Context(), inspect.Query{Of: of})
		require.ErrorIs(t, err, inspect.ErrNotFound)
	}
	_, err = w.reader().Read(t.Context(), inspect.Query{Of: object(t, 9)})
	require.ErrorContains(t, err, "code 9")
}

// An unreachable store is named, and never reported as not found.
func TestAHomeThatCannotBeReached(t *testing.T) {
	w := newWorld(t)
	id := object(t, 2)
	rec := w.begin("acme", "k", eu, id)
	w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, id)}})
	w.network.Cut(us, eu)
	_, err := w.reader().Read(t.Context(), inspect.Query{Of: id})
	require.Error(t, err)
	require.NotErrorIs(t, err, inspect.ErrNotFound)
	require.ErrorContains(t, err, fmt.Sprintf("claim of %s at europe-west1", id))
}

// A verdict says nothing about rows that were not read: neither that there was no claim, nor that no
// money moved.
func TestWhatWasNotReadIsNotDenied(t *testing.T) {
	const end = "; not everything could be read"
	for name, c := range map[string]struct {
		home          string
		outcome       claim.Outcome // nil: the claim is in flight
		later         time.Duration // then the key's home sweeps what is older than its windows
		verdict, next string
	}{
		"the claim of a pinned key": {eu, nil, 0,
			"pinned, and whether it was claimed could not be read; home europe-west1", "inspect it again once everything can be read"},
		"books beside a hard decline": {us, &claim.Refused{Reason: "stolen_card"}, 0,
			"declined for good (stolen_card), and what moved could not be read; home us-east1", ""},
		"books beside a soft decline": {us, &claim.Released{Reason: "insufficient_funds"}, 0,
			"declined once (insufficient_funds), may be tried again, and what moved could not be read; home us-east1", "nothing: the merchant may send the same request again"},
		"books of an old decline": {us, &claim.Refused{Reason: "stolen_card"}, 10 * 24 * time.Hour,
			"declined (stolen_card), its key is free again, and what moved could not be read; home us-east1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			code := claim.RegionCode(1)
			if c.home == eu {
				code = 2
			}
			key := claim.Key{Tenant: "acme", Value: "k"}
			_, err := w.view.Pin(t.Context(), key, c.home)
			require.NoError(t, err)
			id := object(t, code)
			if rec := w.begin("acme", "k", c.home, id); c.outcome != nil {
				w.settle(rec, claim.Verdict{Outcome: c.outcome})
			}
			of := "k"
			if c.later > 0 {
				of = id
			}
			for ; c.later > 0; c.later -= 24 * time.Hour {
				w.now = w.now.Add(24 * time.Hour)
				_, err := w.db.Sweep(t.Context(), 100)
				require.NoError(t, err)
			}
			w.network.Cut(us, eu)
			h, err := w.reader().Read(t.Context(), inspect.Query{Of: of, Tenant: "acme"})
			require.NoError(t, err)
			require.Equal(t, c.verdict+end, h.Verdict)
			require.Equal(t, c.next, h.Next)
		})
	}
}

// claimless fails each read of a claim.
type claimless struct{ inspect.Rows }

func (claimless) Get(context.Context, claim.Key, string) (rec claim.Record, now time.Time, found bool, err error) {
	return rec, now, false, context.DeadlineExceeded
}

func (claimless) ByObject(context.Context, string, string) (rec claim.Record, found bool, err error) {
	return rec, false, context.DeadlineExceeded
}

// A claim that was not read makes no key free: by its audit, its bookings, and what is remembered of it.
func TestAnUnreadClaimFreesNoKey(t *testing.T) {
	w := newWorld(t)
	paid, refused := object(t, 2), object(t, 2)
	w.charged(w.begin("acme", "paid", eu, paid))
	w.settle(w.begin("acme", "refused", eu, refused), claim.Verdict{Outcome: &claim.Refused{Reason: "stolen_card"}})
	r := w.reader()
	r.Rows = claimless{r.Rows}
	for of, verdict := range map[string]string{
		"paid": "charged once", paid: "charged once", "refused": "declined (stolen_card)", refused: "declined (stolen_card)",
	} {
		h, err := r.Read(t.Context(), inspect.Query{Of: of, Tenant: "acme"})
		require.NoError(t, err)
		require.Contains(t, h.Verdict, verdict+", and its claim could not be read")
		require.NotContains(t, h.Verdict, "free")
	}
}

// later lets days pass, with housekeeping.
func (w *world) later(days int, also ...func()) {
	w.Helper()
	for range days {
		w.now = w.now.Add(24 * time.Hour)
		_, err := w.db.Sweep(w.Context(), 100)
		require.NoError(w, err)
		for _, do := range also {
			do()
		}
	}
}

// archive is an empty bucket for segments, who reads it, and what exports the audit of homes into it.
func (w *world) archive(homes ...string) (bucket *audittest.Bucket, archive *audit.Archive, export func()) {
	w.Helper()
	text, err := audit.NewKey()
	require.NoError(w, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(w, err)
	bucket = audittest.NewBucket()
	return bucket, &audit.Archive{Objects: bucket, Trust: keys.Trust()}, func() {
		for _, home := range homes {
			x, err := audit.NewExporter(audit.Config{Store: w.view, Objects: bucket, Keys: keys, Deployment: uuid.NameSpaceOID, Policy: audit.DefaultPolicy(), Home: home, Node: "node-1"})
			require.NoError(w, err)
			_, err = x.Round(w.Context())
			require.NoError(w, err)
		}
	}
}

// The audit of a claim that housekeeping has deleted is in rows for days, or for 400 without an export:
// it names the tenant of a key that comes without.
func TestAKeyIsFoundByItsAudit(t *testing.T) {
	w := newWorld(t)
	w.charged(w.begin("acme", "order-1", eu, object(t, 2)))
	w.later(4)
	want, err := w.reader().Read(t.Context(), inspect.Query{Of: "order-1", Tenant: "acme"})
	require.NoError(t, err)
	require.Nil(t, want.Claim)
	require.Equal(t, "charged once, its key is free again", want.Verdict)
	require.Equal(t, want, w.read("order-1"))
	w.charged(w.begin("globex", "order-1", us, object(t, 1)))
	require.Equal(t, "globex", w.read("order-1").Tenant, "a claim comes before")
	w.later(4)
	_, err = w.reader().Read(t.Context(), inspect.Query{Of: "order-1"})
	require.ErrorIs(t, err, inspect.ErrSeveral)
	w.network.Cut(us, eu)
	h, err := w.reader().Read(t.Context(), inspect.Query{Of: "order-1"})
	require.NoError(t, err)
	require.Equal(t, "globex", h.Tenant)
	require.Contains(t, h.Verdict, "not everything could be read")
	require.NotContains(t, h.Verdict, "free")
}

// A key whose pin ran out may get another home: its segments are in both.
func TestSegmentsOfAFormerHome(t *testing.T) {
	w := newWorld(t)
	bucket, archive, export := w.archive(eu, us)
	r := w.reader()
	r.Segments = archive
	first, second := object(t, 2), object(t, 1)
	w.settle(w.begin("acme", "order-1", eu, first), claim.Verdict{Outcome: &claim.Refused{Reason: "stolen_card"}})
	w.later(11, export)
	w.charged(w.begin("acme", "order-1", us, second))
	for _, verdict := range []string{"charged once; home us-east1", "charged once, its key is free again; home us-east1"} {
		for _, q := range []inspect.Query{{Of: "order-1"}, {Of: "order-1", Tenant: "acme"}, {Of: second}} {
			h, err := r.Read(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, verdict, h.Verdict)
			require.Equal(t, []string{us, second}, []string{h.Home, h.Object})
			var homes []string
			for _, e := range h.Timeline {
				homes = append(homes, e.Home)
			}
			require.Equal(t, []string{eu, eu, eu, us, us, us}, homes)
		}
		w.later(11, export)
	}

	// A segment that the bucket lacks, as another bucket does, is named, and nothing is denied.
	for _, archive := range []*audit.Archive{{Objects: audittest.NewBucket(), Trust: archive.Trust}, archive} {
		for _, name := range bucket.Names() {
			if strings.HasSuffix(path.Dir(name), "/2026-03-01") {
				bucket.Remove(name)
			}
		}
		r.Segments = archive
		for _, of := range []string{"order-1", first} {
			h, err := r.Read(t.Context(), inspect.Query{Of: of, Tenant: "acme", Until: w.now.AddDate(0, 0, -20)})
			if err == nil {
				require.Contains(t, h.Verdict, "not everything could be read")
				err = errors.New(strings.Join(h.Missing, "; "))
			}
			require.NotErrorIs(t, err, inspect.ErrNotFound)
			require.ErrorContains(t, err, "of europe-west1")
			require.ErrorContains(t, err, "not in the bucket")
		}
	}
}

// What rows have forgotten segments still have: by key, by object, with its tenant or
// without. What both have is shown once.
func TestSegments(t *testing.T) {
	w := newWorld(t)
	bucket, archive, export := w.archive(eu)
	id := object(t, 2)
	rec := w.begin("acme", "order-1", eu, id)
	rec = w.settle(rec, claim.Verdict{Outcome: &claim.Done{Posting: claimtest.Posting(rec, id)}})
	w.reply(rec, "replay")
	w.now = w.now.Add(24 * time.Hour)
	_, err := w.view.Timeline(t.Context(), rec.Key, eu, 1)
	require.NoError(t, err)
	export()

	r := w.reader()
	r.Segments = archive
	want := "charged once, replayed once; home europe-west1"
	for _, q := range []inspect.Query{{Of: "order-1"}, {Of: id}, {Of: "order-1", Tenant: "acme"}} {
		h, err := r.Read(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, h.Verdict)
		require.Len(t, h.Timeline, 4)
		for _, e := range h.Timeline {
			require.Empty(t, e.Segment, "a row that is there is shown")
		}
	}

	w.later(10, export) // until the claim is swept, and the rows after it
	line, err := w.view.Timeline(t.Context(), rec.Key, eu, 10)
	require.NoError(t, err)
	require.Empty(t, line)
	for _, q := range []inspect.Query{{Of: "order-1"}, {Of: id}, {Of: "order-1", Tenant: "acme"}, {Of: id, Until: w.now, Since: rec.FirstUse}} {
		h, err := r.Read(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, "charged once, its key is free again, replayed once; home europe-west1", h.Verdict)
		require.Equal(t, []string{"acme", "order-1", id}, []string{h.Tenant, h.Key, h.Object})
		require.Len(t, h.Timeline, 4)
		for _, e := range h.Timeline {
			require.Equal(t, bucket.Names()[0], e.Segment)
		}
	}
	_, err = r.Read(t.Context(), inspect.Query{Of: "order-1", Until: rec.FirstUse.Add(-48 * time.Hour)})
	require.ErrorIs(t, err, inspect.ErrNotFound)

	// A damaged segment is named, and nothing is reported as not found.
	name := bucket.Names()[0]
	data := bucket.Remove(name)
	data[len(data)-1] ^= 1
	require.NoError(t, bucket.Put(t.Context(), name, data))
	_, err = r.Read(t.Context(), inspect.Query{Of: "order-1", Tenant: "acme"})
	require.NotErrorIs(t, err, inspect.ErrNotFound)
	require.ErrorContains(t, err, name)
}
