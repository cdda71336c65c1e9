package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

func (b *books) Named(_ context.Context, region string, ids []string) (all []ledger.Transaction, _ error) {
	for _, t := range b.all {
		if t.Region == region && slices.Contains(ids, t.ID) {
			all = append(all, t)
		}
	}
	return all, b.err
}

func (b *books) About(_ context.Context, region string, objects ...string) (all []ledger.Transaction, _ error) {
	for _, t := range b.all {
		if t.Region == region && slices.Contains(objects, t.Object) && t.Kind != ledger.Charge && t.Kind != ledger.Transfer && t.Kind != ledger.Refund {
			all = append(all, t)
		}
	}
	return all, b.err
}

func (b *books) Reversals(_ context.Context, ids ...string) (all []ledger.Transaction, _ error) {
	for _, t := range b.all {
		if slices.Contains(ids, t.Reverses) {
			all = append(all, t)
		}
	}
	return all, errors.Join(b.err, b.far)
}

// add books t, a second after the last one.
func (b *books) add(t ledger.Transaction) ledger.Transaction {
	t.At = firstUse.Add(time.Duration(len(b.all)) * time.Second)
	b.all[t.Region+"/"+t.ID] = t
	return t
}

// row is the row of a claim, with nil for none, and what is in flight that reverses its object, by region.
type row struct {
	has  *claim.Object
	open map[string][]claim.Reversing
	lost string // the region whose rows cannot be reached
}

func (r row) Reversing(_ context.Context, _, home, _ string, limit int) ([]claim.Reversing, error) {
	if home == r.lost {
		return nil, claim.ErrHomeUnreachable
	}
	return r.open[home][:min(limit, len(r.open[home]))], nil
}

// readOf reads r and b.
func readOf(r row, b *books) *Present {
	p := listing(b)
	p.Claims = r
	return p
}

func (r row) Object(context.Context, string, string, string) (claim.Object, bool, error) {
	if r.has == nil {
		return claim.Object{At: asked}, false, nil
	}
	o := *r.has
	o.At = asked
	return o, true, nil
}

var asked = time.Unix(1900000000, 0)

// answer is the stored answer of a charge of 1999.
func answerOf(id, object, status, more string) *claim.Object {
	return &claim.Object{State: claim.Completed, Response: claim.Response{Status: 201, Body: []byte(
		`{"id":"` + id + `","object":"` + object + `","amount":1999,"currency":"usd","status":"` + status + `","created":7,"order_id":"o-1","metadata":{"status":"a \" b"}` + more + `}`)}}
}

// backTo is a refund of of, booked at region.
func backTo(of ledger.Transaction, id, region string, amount int64) ledger.Transaction {
	t := of
	t.ID, t.Object, t.Region, t.Kind, t.Reverses, t.Amount, t.ProviderRef = id, id, region, ledger.Refund, of.ID, amount, "px_"+id
	t.Debit, t.Credit = of.Credit, of.Debit
	return t
}

func ghostOf(of ledger.Transaction, ref string) ledger.Transaction {
	t := of
	t.ID, t.Kind, t.ProviderRef, t.Credit = ledger.GhostID(of.Provider, ref), ledger.Ghost, ref, ledger.Suspense(of.Tenant)
	return t
}

// atBank is the row of a charge that waits for a bank.
func atBank() *claim.Object {
	o := answerOf(paid, "charge", "processing", `,"client_secret":"s"`)
	o.State, o.Response.Status = claim.InFlight, 202
	return o
}

func TestAnObjectIsReadAsItIsNow(t *testing.T) {
	transfer := strings.Replace(paid, "ch_", "tr_", 1)
	refund := strings.Replace(paid, "ch_", "re_", 1)
	charge := booked(paid, "acme", "px")
	ghostBack := func(ghost ledger.Transaction, n int) ledger.Transaction {
		back := backTo(ghost, ledger.GhostRefundTryID("px", ghost.ProviderRef, n), "europe", ghost.Amount)
		back.Kind, back.Object = ledger.GhostRefund, "re_g"
		return back
	}
	const start = `{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":7,"order_id":"o-1","metadata":{"status":"a \" b"}`
	const provider = `,"provider":{"name":"px","reference":"`
	for name, c := range map[string]struct {
		id    string
		row   *claim.Object
		books []ledger.Transaction
		want  string // without as_of; CH is the charge's id
	}{
		"nothing since": {paid, answerOf(paid, "charge", "succeeded", ""), []ledger.Transaction{charge}, start + `,"amount_captured":1999,"amount_refunded":0`},
		"a part was captured": {
			paid, answerOf(paid, "charge", "succeeded", `,"amount_captured":600,"receipt_number":"R"`),
			[]ledger.Transaction{func() ledger.Transaction { t := charge; t.Amount = 600; return t }()},
			start + `,"receipt_number":"R","amount_captured":600,"amount_refunded":0`,
		},
		"refunded in two regions, once in vain, and at the provider": {
			paid, answerOf(paid, "charge", "succeeded", ""),
			[]ledger.Transaction{
				charge, backTo(charge, "re_1", "europe", 500), backTo(charge, "re_2", "asia", 300), ledger.FailureOf(backTo(charge, "re_2", "asia", 300)),
				ledger.UnaskedOf(charge, ledger.ProviderRefund, "px_desk", 9), backTo(charge, "re_3", "asia", 1),
			},
			start + `,"amount_captured":1999,"amount_refunded":510,"refunds":[` +
				`{"id":"re_3","object":"refund","amount":1,"currency":"usd","status":"succeeded","created":AT5,"livemode":true,"charge":"CH"` + provider + `px_re_3"}},` +
				`{"id":"DESK","object":"refund","amount":9,"currency":"usd","status":"succeeded","created":AT4,"livemode":true,"charge":"CH","reason":"made_at_provider"` + provider + `px_desk"}},` +
				`{"id":"re_2","object":"refund","amount":300,"currency":"usd","status":"failed","created":AT2,"livemode":true,"charge":"CH"` + provider + `px_re_2"}},` +
				`{"id":"re_1","object":"refund","amount":500,"currency":"usd","status":"succeeded","created":AT1,"livemode":true,"charge":"CH"` + provider + `px_re_1"}}]`,
		},
		"disputed": {
			paid, answerOf(paid, "charge", "succeeded", ""),
			[]ledger.Transaction{
				charge, ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_1", 100), ledger.UnaskedOf(charge, ledger.Dispute, "du_1", 100),
				ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_2", 200), ledger.UnaskedOf(charge, ledger.DisputeWon, "du_2", 200),
				ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_3", 300), ledger.UnaskedOf(charge, ledger.DisputeLost, "du_3", 300),
				ledger.UnaskedOf(charge, ledger.DisputeOpened, "du_4", 400), ledger.UnaskedOf(charge, ledger.DisputeWon, "du_4", 400), ledger.UnaskedOf(charge, ledger.DisputeLost, "du_4/second", 400),
			},
			start + `,"amount_captured":1999,"amount_refunded":0,"disputes":[` +
				`{"id":"DU4","object":"dispute","amount":400,"currency":"usd","status":"lost","created":AT7,"livemode":true` + provider + `du_4"}},` +
				`{"id":"DU3","object":"dispute","amount":300,"currency":"usd","status":"lost","created":AT5,"livemode":true` + provider + `du_3"}},` +
				`{"id":"DU2","object":"dispute","amount":200,"currency":"usd","status":"won","created":AT3,"livemode":true` + provider + `du_2"}},` +
				`{"id":"DU1","object":"dispute","amount":100,"currency":"usd","status":"open","created":AT1,"livemode":true` + provider + `du_1"}}]`,
		},
		"failed since": {
			paid, answerOf(paid, "charge", "succeeded", ""), []ledger.Transaction{charge, ledger.FailureOf(charge)},
			strings.Replace(start, "succeeded", "failed", 1) + `,"amount_captured":0,"amount_refunded":0`,
		},
		"compensated": {
			paid, answerOf(paid, "charge", "succeeded", ""),
			[]ledger.Transaction{
				charge, ghostOf(charge, "g1"), ghostOf(charge, "g2"), ghostBack(ghostOf(charge, "g2"), 1), ledger.FailureOf(ghostBack(ghostOf(charge, "g2"), 1)),
				ghostOf(charge, "g3"), ghostBack(ghostOf(charge, "g3"), 1), ledger.FailureOf(ghostBack(ghostOf(charge, "g3"), 1)), ghostBack(ghostOf(charge, "g3"), 2),
				ghostOf(charge, "g4"), ledger.FailureOf(ghostOf(charge, "g4")), ghostOf(charge, "g5"), ledger.UnaskedOf(ghostOf(charge, "g5"), ledger.ProviderRefund, "px_desk", 1999),
			},
			start + `,"amount_captured":1999,"amount_refunded":0,"compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"pending","created":AT1,"livemode":true` + provider + `g1"}},` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"pending","created":AT2,"livemode":true` + provider + `g2"}},` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"refunded","created":AT5,"livemode":true` + provider + `g3"}},` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"failed","created":AT9,"livemode":true` + provider + `g4"}},` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"refunded","created":AT11,"livemode":true` + provider + `g5"}}]`,
		},
		"given up, and compensated": {
			paid, &claim.Object{State: claim.FailedTerminal, Response: claim.Response{Status: 503}},
			[]ledger.Transaction{ghostOf(charge, "g1"), ghostBack(ghostOf(charge, "g1"), 1)},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"failed","created":AT0,"livemode":true` + provider + `g1"},"compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"refunded","created":AT0,"livemode":true` + provider + `g1"}}]`,
		},
		"declined for now, and money moved all the same": {
			paid, &claim.Object{State: claim.FailedRetry}, []ledger.Transaction{ghostOf(charge, "g1")},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"failed","created":AT0,"livemode":true` + provider + `g1"},"compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"pending","created":AT0,"livemode":true` + provider + `g1"}}]`,
		},
		"given up, and the payer has it back by a dispute": {
			paid, &claim.Object{State: claim.FailedTerminal, Response: claim.Response{Status: 503}},
			[]ledger.Transaction{ghostOf(charge, "g1"), ledger.UnaskedOf(ghostOf(charge, "g1"), ledger.DisputeOpened, "d1", 1999)},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"failed","created":AT0,"livemode":true` + provider + `g1"},"compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"refunded","created":AT0,"livemode":true` + provider + `g1"}}]`,
		},
		"given up, and a dispute of it was won": {
			paid, &claim.Object{State: claim.FailedTerminal, Response: claim.Response{Status: 503}},
			[]ledger.Transaction{
				ghostOf(charge, "g1"), ledger.UnaskedOf(ghostOf(charge, "g1"), ledger.DisputeOpened, "d1", 1999), ledger.UnaskedOf(ghostOf(charge, "g1"), ledger.DisputeWon, "d1", 1999),
			},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"failed","created":AT0,"livemode":true` + provider + `g1"},"compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"pending","created":AT0,"livemode":true` + provider + `g1"}}]`,
		},
		"its claim is gone": {
			paid, nil, []ledger.Transaction{charge, backTo(charge, "re_1", "asia", 500)},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":AT0,"livemode":true` + provider + `px_charge"},"amount_captured":1999,"amount_refunded":500,"refunds":[` +
				`{"id":"re_1","object":"refund","amount":500,"currency":"usd","status":"succeeded","created":AT1,"livemode":true,"charge":"CH"` + provider + `px_re_1"}}]`,
		},
		"its claim is gone, and the books have the order": {
			paid, nil, []ledger.Transaction{func() ledger.Transaction {
				t := charge
				t.Created, t.Order, t.Metadata = time.Unix(7, 0), "o-\"1\"", `{"color":"red"}`
				return t
			}()},
			`{"id":"CH","object":"charge","amount":1999,"currency":"usd","status":"succeeded","created":7,"livemode":true,"order_id":"o-\"1\"","metadata":{"color":"red"}` + provider + `px_charge"},"amount_captured":1999,"amount_refunded":0`,
		},
		"a refund that failed": {
			refund, answerOf(refund, "refund", "succeeded", `,"charge":"`+paid+`"`), []ledger.Transaction{charge, backTo(charge, refund, "europe", 5), ledger.FailureOf(backTo(charge, refund, "europe", 5))},
			strings.Replace(strings.Replace(strings.Replace(start, "succeeded", "failed", 1), "CH", refund, 1), `"charge"`, `"refund"`, 1) + `,"charge":"CH"`,
		},
		"a refund that failed, without its claim": {
			refund, nil, []ledger.Transaction{charge, backTo(charge, refund, "europe", 5), ledger.FailureOf(backTo(charge, refund, "europe", 5))},
			`{"id":"` + refund + `","object":"refund","amount":5,"currency":"usd","status":"failed","created":AT1,"livemode":true,"charge":"CH"` + provider + "px_" + refund + `"}`,
		},
		"a transfer that came back": {
			transfer, nil, func() []ledger.Transaction {
				t := charge
				t.ID, t.Object, t.Kind, t.Debit, t.Credit = transfer, transfer, ledger.Transfer, charge.Credit, charge.Debit
				return []ledger.Transaction{t, ledger.UnaskedOf(t, ledger.TransferReversal, "px_back", 99)}
			}(),
			`{"id":"` + transfer + `","object":"transfer","amount":1999,"currency":"usd","status":"succeeded","created":AT0,"livemode":true` + provider + `px_charge"},"amount_reversed":99,"reversals":[` +
				`{"id":"TRR","object":"transfer_reversal","amount":99,"currency":"usd","status":"succeeded","created":AT1,"livemode":true}]`,
		},
		"the refund of a ghost, without its claim": {
			refund, nil, []ledger.Transaction{ghostOf(charge, "g1"), func() ledger.Transaction {
				t := ghostBack(ghostOf(charge, "g1"), 1)
				t.Object = refund
				return t
			}()},
			`{"id":"` + refund + `","object":"refund","amount":1999,"currency":"usd","status":"succeeded","created":AT1,"livemode":true,"charge":"CH"` + provider + "px_" + ledger.GhostRefundID("px", "g1") + `"}`,
		},
		"the refund of a ghost that failed, without its claim": {
			refund, nil, func() []ledger.Transaction {
				t := ghostBack(ghostOf(charge, "g1"), 1)
				t.Object = refund
				return []ledger.Transaction{ghostOf(charge, "g1"), t, ledger.FailureOf(t), ghostBack(ghostOf(charge, "g1"), 2)}
			}(),
			`{"id":"` + refund + `","object":"refund","amount":1999,"currency":"usd","status":"failed","created":AT1,"livemode":true,"charge":"CH"` + provider + "px_" + ledger.GhostRefundID("px", "g1") + `"}`,
		},
		"in flight": {
			paid, atBank(), nil, strings.Replace(start, "succeeded", "processing", 1) + `,"client_secret":"s"`,
		},
		"in flight again, and an earlier try moved money all the same": {
			paid, atBank(), []ledger.Transaction{ghostOf(charge, "g1"), ghostBack(ghostOf(charge, "g1"), 1)},
			strings.Replace(start, "succeeded", "processing", 1) + `,"client_secret":"s","compensations":[` +
				`{"object":"compensation","amount":1999,"currency":"usd","status":"refunded","created":AT0,"livemode":true` + provider + `g1"}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &books{all: map[string]ledger.Transaction{}}
			times := []string{}
			for i, one := range c.books {
				times = append(times, "AT"+digits(i)+",", digits(int(b.add(one).At.Unix()))+",", "AT"+digits(i)+"}", digits(int(firstUse.Unix())+i)+"}")
			}
			want := strings.NewReplacer(append(times, "CH", paid, "DESK", nameOf("re", ledger.UnaskedID(ledger.ProviderRefund, "px", "px_desk")),
				"DU1", dispute("du_1"), "DU2", dispute("du_2"), "DU3", dispute("du_3"), "DU4", dispute("du_4"),
				"TRR", nameOf("trr", ledger.UnaskedID(ledger.TransferReversal, "px", "px_back")))...).Replace(c.want)
			p := readOf(row{has: c.row}, b)
			state, resp, found, err := p.Object(t.Context(), "acme", "europe", c.id)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, 200, resp.Status)
			require.Equal(t, want+`,"as_of":1900000000}`, string(resp.Body))
			require.True(t, json.Valid(resp.Body))
			require.Equal(t, c.row != nil && c.row.State == claim.InFlight, state == claim.InFlight)
			require.Regexp(t, `^W/"[0-9a-f]{32}"$`, resp.Field("Etag"))

			asked = asked.Add(time.Second)
			_, again, _, err := p.Object(t.Context(), "acme", "europe", c.id)
			asked = asked.Add(-time.Second)
			require.NoError(t, err)
			require.NotEqual(t, string(resp.Body), string(again.Body))
			require.Equal(t, resp.Field("Etag"), again.Field("Etag"), "only the time has changed")

			if c.row == nil {
				_, _, found, err := p.Object(t.Context(), "globex", "europe", c.id)
				require.NoError(t, err)
				require.False(t, found, "another tenant's")
			}
			if b.far = claim.ErrHomeUnreachable; len(c.books) > 0 {
				_, _, found, err = p.Object(t.Context(), "acme", "europe", c.id)
				if strings.HasPrefix(c.id, "ch_") {
					require.ErrorIs(t, err, claim.ErrHomeUnreachable, "what is refunded elsewhere is not known")
					require.False(t, found)
				} else {
					require.NoError(t, err, "all of it is booked at its home")
				}
			}
		})
	}
}

// A charge that is booked while it is read, in flight beside a ghost, is shown as the books have it.
func TestWhatIsBookedMeanwhileIsNotInFlight(t *testing.T) {
	b := &books{all: map[string]ledger.Transaction{}}
	charge := b.add(booked(paid, "acme", "px"))
	b.add(ghostOf(charge, "g1"))
	state, resp, found, err := readOf(row{has: atBank()}, b).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, claim.Completed, state)
	require.Contains(t, string(resp.Body), `"status":"succeeded"`)
	require.Contains(t, string(resp.Body), `"amount_captured":1999,"amount_refunded":0,"compensations":[`)
}

// Refunds in flight in any region are in front of the booked ones, and in no sum. One that was booked
// while they were listed is there once.
func TestAReadHasWhatIsInFlight(t *testing.T) {
	b := &books{all: map[string]ledger.Transaction{}}
	charge := b.add(booked(paid, "acme", "px"))
	done := b.add(backTo(charge, "re_done", "asia", 5))
	begun := func(id string, second int, body string) claim.Reversing {
		return claim.Reversing{ID: id, Created: firstUse.Add(time.Duration(second) * time.Second), Payload: []byte(body)}
	}
	r := row{has: answerOf(paid, "charge", "succeeded", ""), open: map[string][]claim.Reversing{
		"europe": {begun("re_whole", 2, `{"charge":"`+paid+`"}`)},
		"asia":   {begun("re_part", 7, `{"amount":100,"charge":"`+paid+`","reason":"damaged"}`), begun(done.ID, 1, `{"amount":5,"charge":"`+paid+`"}`)},
	}}
	_, resp, found, err := readOf(r, b).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	require.True(t, found)
	inFlight := func(id string, amount, second int) string {
		return fmt.Sprintf(`{"id":%q,"object":"refund","amount":%d,"currency":"usd","status":"processing","created":%d,"livemode":true,"charge":%q}`, id, amount, firstUse.Unix()+int64(second), paid)
	}
	require.Contains(t, string(resp.Body), `,"amount_captured":1999,"amount_refunded":5,"refunds":[`+inFlight("re_part", 100, 7)+`,`+inFlight("re_whole", 1999, 2)+`,{"id":"re_done","object":"refund","amount":5,"currency":"usd","status":"succeeded",`)
	require.Equal(t, 1, strings.Count(string(resp.Body), `"id":"re_done"`))

	delete(r.open, "europe")
	_, later, _, err := readOf(r, b).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	require.NotContains(t, string(later.Body), "re_whole")
	require.NotEqual(t, resp.Field("Etag"), later.Field("Etag"))

	var many []claim.Reversing
	for i := range maxInFlight + 1 {
		many = append(many, begun(fmt.Sprint("re_", i), 0, `{"charge":"`+paid+`"}`))
	}
	_, bounded, _, err := readOf(row{has: r.has, open: map[string][]claim.Reversing{"america": many}}, b).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	require.Equal(t, maxInFlight, strings.Count(string(bounded.Body), `"processing"`))

	r.lost = "america"
	_, _, found, err = readOf(r, b).Object(t.Context(), "acme", "europe", paid)
	require.ErrorIs(t, err, claim.ErrHomeUnreachable, "what is in flight there is not known")
	require.False(t, found)
	r.lost, r.open["asia"] = "", []claim.Reversing{begun("re_odd", 0, `{}`)}
	_, _, found, err = readOf(r, b).Object(t.Context(), "acme", "europe", paid)
	require.ErrorContains(t, err, "the stored request of re_odd")
	require.False(t, found)

	// A charge that is not booked has none: they will be refused.
	_, resp, _, err = readOf(r, &books{all: map[string]ledger.Transaction{}}).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	require.NotContains(t, string(resp.Body), "refunds")
}

// What is left of a charge is without what has gone back and what is on its way, but for the refund that
// asks.
func TestWhatIsLeftOfACharge(t *testing.T) {
	b := &books{all: map[string]ledger.Transaction{}}
	charge := b.add(booked(paid, "acme", "px"))
	b.add(backTo(charge, "re_done", "asia", 500))
	r := row{open: map[string][]claim.Reversing{
		"europe": {{ID: "re_a", Payload: []byte(`{"amount":300,"charge":"` + paid + `"}`)}},
		"asia":   {{ID: "re_b", Payload: []byte(`{"amount":100,"charge":"` + paid + `"}`)}},
	}}
	of := func(b *books) *Present {
		p := readOf(r, b)
		p.Home = func(claim.RegionCode) (string, bool) { return "europe", true }
		return p
	}
	for but, want := range map[string]int64{"": 1099, "re_a": 1399, "re_b": 1199, "re_done": 1099} {
		left, open, found, err := of(b).Left(t.Context(), "acme", paid, but)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, left, but)
		require.Contains(t, []string{"re_a", "re_b"}, open)
		require.NotEqual(t, but, open)
	}
	b.add(ledger.FailureOf(charge))
	left, open, found, err := of(b).Left(t.Context(), "acme", paid, "")
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, left, "all of it has gone back")
	require.Empty(t, open, "it will be refused")

	whole := &books{all: map[string]ledger.Transaction{}}
	charge = whole.add(booked(paid, "acme", "px"))
	whole.add(backTo(charge, "re_whole", "asia", charge.Amount))
	left, open, _, err = of(whole).Left(t.Context(), "acme", paid, "")
	require.NoError(t, err)
	require.Zero(t, left)
	require.Empty(t, open, "it will be refused")
	whole = &books{all: map[string]ledger.Transaction{}}
	whole.add(booked(paid, "acme", "px"))
	r.open = map[string][]claim.Reversing{"asia": {{ID: "re_whole", Payload: []byte(`{"charge":"` + paid + `"}`)}}}
	left, open, _, err = of(whole).Left(t.Context(), "acme", paid, "")
	require.NoError(t, err)
	require.Zero(t, left)
	require.Equal(t, "re_whole", open)
	_, _, found, err = of(&books{all: map[string]ledger.Transaction{}}).Left(t.Context(), "acme", paid, "")
	require.NoError(t, err)
	require.False(t, found)
}

func digits(n int) string { return fmt.Sprint(n) }

func dispute(ref string) string {
	return nameOf("dp", ledger.UnaskedID(ledger.DisputeOpened, "px", ref))
}

// However many refunds a charge has, all are summed and the latest are listed.
func TestAReadIsBounded(t *testing.T) {
	b := &books{all: map[string]ledger.Transaction{}}
	charge := b.add(booked(paid, "acme", "px"))
	for i := range maxRefunds + 1 {
		b.add(backTo(charge, fmt.Sprint("re_", i), "europe", 1))
	}
	_, resp, _, err := readOf(row{}, b).Object(t.Context(), "acme", "europe", paid)
	require.NoError(t, err)
	var got struct {
		Refunded int `json:"amount_refunded"`
		Refunds  []struct{ ID string }
	}
	require.NoError(t, json.Unmarshal(resp.Body, &got))
	require.Equal(t, maxRefunds+1, got.Refunded)
	require.Len(t, got.Refunds, maxRefunds)
	require.Equal(t, fmt.Sprint("re_", maxRefunds), got.Refunds[0].ID)
	require.Less(t, len(resp.Body), 300<<10)
}

// An answer without an object stays as it is, and nothing is made of nothing.
func TestWhatHasNoObjectToRead(t *testing.T) {
	b := &books{all: map[string]ledger.Transaction{}}
	for _, o := range []*claim.Object{
		nil, {State: claim.InFlight}, {State: claim.FailedRetry}, {State: claim.FailedTerminal, Response: claim.Response{Status: 402, Body: []byte("{}")}},
	} {
		p := readOf(row{has: o}, b)
		state, resp, found, err := p.Object(t.Context(), "acme", "europe", paid)
		require.NoError(t, err)
		require.Equal(t, o != nil, found)
		if o != nil {
			require.Equal(t, o.State, state)
			require.Equal(t, o.Response, resp)
		}
	}
	o := answerOf(paid, "charge", "succeeded", "")
	for _, body := range []string{``, `[]`, `{"id"`, `{"id":`} {
		o.Response.Body = []byte(body)
		_, _, found, err := readOf(row{has: o}, b).Object(t.Context(), "acme", "europe", paid)
		require.Error(t, err, body)
		require.False(t, found)
	}
}
