package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
)

// Money is the console's source for money that must be refunded to payers.
type Money interface {
	account.Store
	account.Work
	// Brakes are those of automatic refunds, as of notice.BrakeStore.
	Brakes(ctx context.Context) (rows []notice.Brake, now time.Time, err error)
}

const (
	// ghostsLooked is how many ghosts of each region and provider are checked, with two
	// or more reads each; a deployment has few.
	ghostsLooked = 100
	// ghostsShown is how many unrefunded ghosts are listed.
	ghostsShown = 50
	// suspenseFor is how long one reading is cached for all viewers.
	suspenseFor = 15 * time.Second
)

// ghostView is a ghost that is not refunded.
type ghostView struct {
	At                            time.Time
	Home, Tenant, Object          string
	Provider, ProviderRef, Amount string
}

// owedView is the debt to the payers of a tenant, by the ghosts that were checked.
type owedView struct {
	Tenant, Amount string
	Ghosts         int

	sum      int64
	currency string
}

// brakeView is why automatic refunds are held.
type brakeView struct {
	Provider, Reason string
	Since            time.Time
}

// suspenseView is the body of the page.
type suspenseView struct {
	Ghosts []ghostView
	// Count is how many of the Looked ghosts are unrefunded; More: there may be others.
	Count, Looked int
	More          bool
	Owed          []owedView
	Held          []brakeView
	Parked        []rowView

	trouble []string
	// test is what the Test side shows: the ghosts of test tenants.
	test *suspenseView
	// Proof is the last verification of the books, which sums all suspense accounts,
	// and Proved its sums; nil: there is none.
	Proof  *runView
	Proved []runs.Figure
}

// suspensePage shows ghosts and suspense.
func (s *console) suspensePage(r *http.Request, p *page) error {
	shared, err := s.suspense.look(r.Context())
	if err != nil {
		return err
	}
	v := *shared // of all viewers
	if p.Test {
		v = *shared.test
	}
	p.Trouble = append(p.Trouble, shared.trouble...)
	v.Parked = ofSide(p, shared.Parked, (*rowView).tenant)
	proofs, err := s.proofs.look(r.Context())
	if err != nil {
		p.Trouble = append(p.Trouble, "The reports cannot be read now: "+oneLine(err))
	}
	for i := range proofs {
		if proofs[i].Kind != runs.Verify || proofs[i].Verdict == runs.Open || proofs[i].Verdict == runs.Unknown {
			continue
		}
		v.Proof = &proofs[i]
		for _, f := range proofs[i].Figures {
			if currency, ok := strings.CutPrefix(f.Name, runs.Suspense); ok {
				v.Proved = append(v.Proved, runs.Figure{Name: currency, Value: f.Value})
			}
		}
		break
	}
	p.Body = &v
	return nil
}

// readSuspense reads every region.
func (s *console) readSuspense(ctx context.Context) (*suspenseView, error) {
	regions, err := s.regions(ctx)
	if err != nil {
		return nil, err
	}
	v := &suspenseView{test: &suspenseView{}} // no brake holds a test side's refunds
	brakes, _, err := s.Money.Brakes(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range brakes {
		if b.Held != nil {
			v.Held = append(v.Held, brakeView{b.Provider, b.Held.Reason, b.Held.At})
		}
	}
	rows, err := s.Money.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	var providers []string // which have ever been in use
	for i := range rows {
		providers = append(providers, rows[i].Provider)
	}
	read, errs := inEach(regions, func(region string) (account.Owing, error) {
		return account.Owed(ctx, s.Money, region, ghostsLooked, providers...)
	})
	tried, terrs := inEach(regions, func(region string) (account.Owing, error) {
		return account.Owed(ctx, s.Money, region, ghostsLooked, claim.TestProvider)
	})
	parked, perrs := inEach(regions, func(region string) ([]outbox.Message, error) {
		return s.Queues.Queue(outbox.Notices).Parked(ctx, region, "", queueRows)
	})
	p := &page{}
	for i := range regions {
		p.trouble(regions[i:i+1], []error{cmp.Or(errs[i], terrs[i], perrs[i])})
		v.add(read[i])
		v.test.add(tried[i])
		for _, m := range parked[i] {
			v.Parked = append(v.Parked, newRowView(outbox.Notices, m))
		}
	}
	v.trouble = p.Trouble
	v.sort()
	v.test.sort()
	return v, nil
}

func (v *suspenseView) add(o account.Owing) {
	v.Looked += o.Looked
	v.More = v.More || o.More
	for _, t := range o.Ghosts {
		v.Count++
		v.Ghosts = append(v.Ghosts, ghostView{t.At, t.Region, t.Tenant, t.Object, t.Provider, t.ProviderRef, moneyText(t.Amount, t.Currency)})
		i := slices.IndexFunc(v.Owed, func(o owedView) bool { return o.Tenant == t.Tenant && o.currency == t.Currency })
		if i < 0 {
			i = len(v.Owed)
			v.Owed = append(v.Owed, owedView{Tenant: t.Tenant, currency: t.Currency})
		}
		v.Owed[i].Ghosts++
		v.Owed[i].sum += t.Amount
	}
}

// sort puts the oldest ghost first, and cuts the list.
func (v *suspenseView) sort() {
	slices.SortStableFunc(v.Ghosts, func(a, b ghostView) int { return a.At.Compare(b.At) })
	v.Ghosts = v.Ghosts[:min(len(v.Ghosts), ghostsShown)]
	slices.SortFunc(v.Owed, func(a, b owedView) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.currency, b.currency))
	})
	for i := range v.Owed {
		v.Owed[i].Amount = moneyText(v.Owed[i].sum, v.Owed[i].currency)
	}
	slices.SortStableFunc(v.Parked, func(a, b rowView) int { return a.CreatedAt.Compare(b.CreatedAt) })
}
