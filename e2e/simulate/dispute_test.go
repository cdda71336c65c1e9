package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// dispute is that of a charge by its payer: the provider opens it, withdraws the money, and decides.
type dispute struct {
	at     *judge // its provider
	id     string // the provider's, as the books have it
	charge string // ours
	amount int64
	won    bool
	ghost  bool // the charge is one, as its key was given up: no merchant hears of it
}

// reports is true for a run whose provider loses no notice, and whose nodes believe each, soon or late: no clock is
// wrong for good. In any other run a dispute may stay unknown.
func reports(seed uint64, plan [][]fault) bool {
	return seed/3%8 < 4 && !slices.ContainsFunc(slices.Concat(plan...), func(f fault) bool { return f.kind == clock && f.deafens() })
}

// decideWithin bounds the pauses between the steps of a dispute. Notices take a minute, so some overtake others.
const decideWithin = 2 * time.Minute

// disputed has the payer dispute the charge that the provider makes for one of the amounts, or has it reversed otherwise:
// as soon as it is made, often before its claim is settled, or up to a minute later. over is closed when no such charge
// will be made.
func (l *load) disputed(amounts []int64, over <-chan struct{}, rng *rand.Rand) {
	var made simulator.StatementLine
	var at *judge
	for found := false; !found; {
		select {
		case <-over: // one look more: it may have been made meanwhile
			if at, made, found = l.w.stated(amounts); !found {
				return
			}
		case <-time.After(200 * time.Millisecond):
			at, made, found = l.w.stated(amounts)
		}
	}
	if rng.IntN(2) == 0 {
		time.Sleep(between(rng, time.Minute))
	}
	if rng.IntN(2) == 0 {
		l.reversed(at, &made, rng)
		return
	}
	d := dispute{at: at, charge: made.Reference, amount: made.Amount, won: rng.IntN(2) == 0}
	l.w.open(&d, made.ID)
	l.w.decide(d, rng)
}

// open has the payer open a dispute of a charge, by the provider's id of that.
func (w *world) open(d *dispute, charge string) {
	d.id = w.happens(d.at, simulator.Unasked{Kind: psp.KindDisputeOpened, Of: charge, Reason: "fraudulent"})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disputes = append(w.disputes, *d)
}

// happens has the provider move money by itself, and returns its id of the movement, as the books have it.
func (w *world) happens(at *judge, what simulator.Unasked) string {
	id, err := at.Do(what)
	w.must(err)
	if w.stripe {
		id = strings.NewReplacer("psp_dp_", "du_", "psp_re_", "re_").Replace(id)
	}
	return id
}

// decide has the provider withdraw the money of a dispute, and decide it.
func (w *world) decide(d dispute, rng *rand.Rand) {
	steps := []psp.Kind{psp.KindDispute, psp.KindDisputeLost}
	if d.won {
		steps = []psp.Kind{psp.KindDispute, psp.KindDisputeReversal, psp.KindDisputeWon}
	}
	for _, kind := range steps {
		time.Sleep(between(rng, []time.Duration{time.Second, decideWithin}[rng.IntN(2)]))
		w.happens(d.at, simulator.Unasked{Kind: kind, Of: d.id})
	}
}

// contest is a charge of one of these amounts that its payer disputes once its key is given up, before anybody asks the
// provider for it.
type contest struct {
	amounts []int64
	opened  chan dispute // gets one at most
}

// contested has the payer dispute the charge that the provider makes for one of the amounts, if its key was given up
// before it was answered. Homeward has not booked it then. The dispute is lost: else what the cancellation came to
// would change.
func (l *load) contested(amounts []int64, over <-chan struct{}, rng *rand.Rand) {
	c := &contest{amounts, make(chan dispute, 1)}
	l.w.contesting.Lock()
	l.w.contests = append(l.w.contests, c)
	l.w.contesting.Unlock()
	for waits := true; waits; {
		select {
		case <-over:
			waits = false
		case <-time.After(200 * time.Millisecond):
			waits = len(c.opened) == 0
		}
		l.w.contest()
	}
	if !l.w.withdraw(c) { // else a charge that is made later is not disputed
		d := <-c.opened
		l.w.decide(d, rng)
	}
}

// withdraw ends a contest, and reports whether it was open.
func (w *world) withdraw(c *contest) (open bool) {
	w.contesting.Lock()
	defer w.contesting.Unlock()
	was := len(w.contests)
	w.contests = slices.DeleteFunc(w.contests, func(other *contest) bool { return other == c })
	return len(w.contests) < was
}

// contest opens the disputes of charges whose keys were given up.
func (w *world) contest() {
	w.contesting.Lock()
	all := slices.Clone(w.contests)
	w.contesting.Unlock()
	for _, c := range all {
		at, made, found := w.stated(c.amounts)
		if !found || !w.givenUp(made.Reference) || !w.withdraw(c) {
			continue
		}
		d := dispute{at: at, charge: made.Reference, amount: made.Amount, ghost: true}
		w.open(&d, made.ID)
		c.opened <- d
	}
}

// givenUp reports whether the key of a charge was given up before it was answered; false while nobody can tell.
func (w *world) givenUp(charge string) bool {
	db := w.database()
	if db == nil {
		return false
	}
	_, code, _ := claim.ReadObjectID(charge)
	home := w.regions()[code-1]
	rows, err := deployment.Embedded(db).Region(home)
	w.must(err)
	rec, found, err := rows.ByObject(w.ctx, home, charge)
	return err == nil && found && (rec.Canceled() || rec.Reason == payment.ReasonKeyCanceled)
}

// contesters is a provider whose payers dispute contested charges before it shows them.
func (w *world) contesters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/movements" {
			w.contest()
		}
		next.ServeHTTP(rw, r)
	})
}

// withDisputes is what the provider moved, and the disputes by which payers of given-up keys have their money.
func (w *world) withDisputes(moved []history.Movement) []history.Movement {
	for _, d := range w.disputes {
		if d.ghost {
			moved = append(moved, history.Movement{Kind: "dispute", Reference: d.charge, Amount: d.amount})
		}
	}
	return moved
}

// stated is the charge of one of these amounts in a provider's statement.
func (w *world) stated(amounts []int64) (at *judge, line simulator.StatementLine, found bool) {
	for _, j := range w.judges {
		for _, l := range w.statement(j) {
			if l.Kind == psp.KindCharge && slices.Contains(amounts, l.Amount) {
				return j, l, true
			}
		}
	}
	return nil, line, false
}

func (w *world) statement(of *judge) (all []simulator.StatementLine) {
	var text bytes.Buffer
	w.must(of.WriteStatement(&text, simulator.Statement{Format: "jsonl", Stripe: w.stripe}))
	for dec := json.NewDecoder(&text); dec.More(); {
		var l simulator.StatementLine
		w.must(dec.Decode(&l))
		all = append(all, l)
	}
	return all
}

// name is the dispute's id, as merchants have it.
func (d dispute) name() string {
	return nameOf("dp", ledger.UnaskedID(ledger.DisputeOpened, d.at.name, d.id))
}

// nameOf is what merchants call what is booked under an id that is not theirs.
func nameOf(prefix, booked string) string {
	return prefix + booked[strings.LastIndexByte(booked, '_'):]
}

func (d dispute) status() string { return map[bool]string{true: "won", false: "lost"}[d.won] }

// steps are how the books have it.
func (d dispute) steps() []ledger.Kind {
	if d.won {
		return []ledger.Kind{ledger.DisputeOpened, ledger.Dispute, ledger.DisputeReversal, ledger.DisputeWon}
	}
	return []ledger.Kind{ledger.DisputeOpened, ledger.Dispute, ledger.DisputeLost}
}

// events are those that its merchant gets.
func (d dispute) events() (all []string) {
	for _, kind := range []string{"created", "funds_withdrawn", "funds_reinstated", "closed"} {
		if kind != "funds_reinstated" || d.won {
			all = append(all, "charge.dispute."+kind+" "+d.name())
		}
	}
	return all
}

// disputeBreaks compares all disputes with what their merchants read in each region, and the accounts of disputes with
// each other.
func (w *world) disputeBreaks() (wrong []string) {
	breaks := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	rows, err := deployment.Embedded(w.db).Region(regions[0])
	w.must(err)
	for _, d := range w.disputes {
		t, booked := w.booked(d.charge, ledger.UnaskedID(ledger.DisputeOpened, d.at.name, d.id))
		for i, r := range w.regions() {
			if booked && !d.ghost {
				wrong = append(wrong, w.shows(d, t.Tenant, w.nodes()[i*perRegion], r)...)
			}
		}
	}
	for _, r := range w.regions() {
		for after := (ledger.AccountKey{}); ; {
			page, err := rows.Balances(w.ctx, r, after, 100)
			w.must(err)
			if len(page) == 0 {
				break
			}
			for _, b := range page {
				if after = b.Key(); (strings.HasPrefix(string(b.Account), "disputed:") || strings.HasPrefix(string(b.Account), "withheld:")) && b.Debits != b.Credits {
					breaks("all disputes are decided, and %s has %d debits and %d credits in %s", b.Account, b.Debits, b.Credits, r)
				}
			}
		}
	}
	return wrong
}

// shows compares what a node answers about a disputed charge with the dispute.
func (w *world) shows(d dispute, tenant string, m *machine, in string) (wrong []string) {
	var a *answer.Answer
	for range 60 {
		req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, m.base()+"/v1/charges/"+d.charge, nil)
		w.must(err)
		w.from(req, tenant)
		if a = answer.To(req, w.client[m.region]); a.Status == http.StatusOK {
			break
		}
		time.Sleep(time.Second)
	}
	var got struct {
		Disputes []struct {
			ID     string
			Amount int64
			Status string
		}
	}
	if err := json.Unmarshal(a.Body, &got); err != nil || len(got.Disputes) != 1 || got.Disputes[0].Amount != d.amount || got.Disputes[0].Status != d.status() {
		return []string{fmt.Sprintf("the dispute %s of %d is %s, and %s reads %v", d.name(), d.amount, d.status(), in, a)}
	}
	return nil
}
