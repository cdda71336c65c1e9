package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// MinKeepBooks is the least that [Policy.KeepBooks] may be, and the stores' own bound: longer
// than a card payment can be disputed or a provider reports its failure.
const MinKeepBooks = claim.MinRememberFor

// booksInSegment bounds the transactions of a segment, which one step of the store deletes.
const booksInSegment = 5000

// booked are the lines of a segment of books: its transactions, and the accounts that they touch.
type booked struct {
	transactions []ledger.Transaction
	accounts     []account
}

// account is what an account had before and after the transactions of a segment, summed over all
// that have left the region's books.
type account struct {
	Opening ledger.Balance `json:"opening"`
	Closing ledger.Balance `json:"closing"`
}

// outside reports whether the segment is outside the windows of its chain: late, or of books.
func (m *Manifest) outside() bool { return m.Late || m.Books > 0 }

// leave has the books of the region leave that are older than the policy keeps them, up to the
// end of a day.
func (x *Exporter) leave(ctx context.Context, now time.Time, status *Status) error {
	if x.c.Policy.KeepBooks == 0 {
		return nil
	}
	before := now.Add(-x.c.Policy.KeepBooks).UTC().Truncate(day)
	c, _, _, err := x.c.Store.AuditChain(ctx, x.c.Home)
	if err != nil || !before.After(c.Books.At) {
		return err
	}
	// Read after the chain: whoever carries more forward moves that, too.
	carried, err := ledger.Carried(ctx, x.c.Store, x.c.Home)
	if err != nil {
		return err
	}
	for next := c; c.Books.At.Before(before); c = next {
		var leaving []ledger.Transaction
		for more := true; more && len(leaving) < min(booksInSegment, x.c.Entries); {
			page, err := x.c.Store.LeavingBooks(ctx, x.c.Home, next.Books, before, min(booksInSegment, x.c.Page))
			if err != nil {
				return err
			}
			leaving, more = append(leaving, provable(page.Transactions)...), page.More
			if next.Books = page.Next; !more {
				next.Books = ledger.Position{At: before}
			}
		}
		var ids []string
		if len(leaving) > 0 {
			s, err := x.writeBooks(ctx, &next, now, leaving, carried)
			if err != nil {
				return err
			}
			next.Number, next.Digest = s.Number, s.Digest
			for i := range leaving {
				ids = append(ids, leaving[i].ID)
			}
			status.Segments++
		}
		moved, err := x.c.Store.ForgetBooks(ctx, x.c.Home, c.Version, next, ids)
		if err != nil {
			return err
		}
		if !moved {
			return x.whyKept(ctx, c)
		}
		status.Left += len(leaving)
		next.Version = c.Version + 1
	}
	return nil
}

// whyKept returns why no books left: another exporter was faster, which serves as well, or they
// are not what they were.
func (x *Exporter) whyKept(ctx context.Context, c Chain) error {
	now, _, _, err := x.c.Store.AuditChain(ctx, x.c.Home)
	if err == nil && now.Version == c.Version {
		err = fmt.Errorf("audit: the old books of %s changed while they were exported; the next round reads them again", x.c.Home)
	}
	return err
}

// writeBooks makes a segment of transactions durable, and adds them to carried.
func (x *Exporter) writeBooks(ctx context.Context, next *Chain, now time.Time, leaving []ledger.Transaction, carried ledger.Sums) (Segment, error) {
	slices.SortFunc(leaving, func(a, b ledger.Transaction) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	b := booked{transactions: leaving}
	opening := ledger.Sums{}
	for i := range leaving {
		t := &leaving[i]
		for _, key := range []ledger.AccountKey{{Account: t.Debit, Currency: t.Currency}, {Account: t.Credit, Currency: t.Currency}} {
			if _, seen := opening[key]; !seen {
				opening[key] = carried.At(key)
			}
		}
		if !carried.Add(t) {
			return Segment{}, fmt.Errorf("audit: the sums of the accounts of %s are beyond 64 bits", t.ID)
		}
	}
	for key, was := range opening {
		b.accounts = append(b.accounts, account{was, carried[key]})
	}
	slices.SortFunc(b.accounts, func(a, b account) int {
		return cmp.Or(cmp.Compare(a.Opening.Account, b.Opening.Account), cmp.Compare(a.Opening.Currency, b.Opening.Currency))
	})
	m := x.manifest(next, now)
	first, last := leaving[0].At, leaving[len(leaving)-1].At
	m.Day, m.From, m.To, m.Part, m.Last, m.BooksUntil = last.UTC().Format(dayLayout), first, last.Add(time.Microsecond), 1, true, next.Books
	return x.write(ctx, m, nil, b)
}

// provable leaves out the families that do not add up: a segment that has one is refused by all
// who read it.
func provable(all []ledger.Transaction) (some []ledger.Transaction) {
	families := map[string][]ledger.Transaction{}
	for i := range all {
		head := cmp.Or(all[i].Reverses, all[i].ID)
		families[head] = append(families[head], all[i])
	}
	for _, family := range families {
		if addUp(family) == nil {
			some = append(some, family...)
		}
	}
	return some
}

// checkBooks compares the transactions of s with its manifest and with each other.
func (s *Segment) checkBooks() error {
	for i := range s.booked.transactions {
		if t := &s.booked.transactions[i]; t.Region != s.Region || t.At.Before(s.From) || !t.At.Before(s.To) {
			return fmt.Errorf("%w: transaction %s is outside its region or window", ErrUnbalanced, t.ID)
		}
	}
	return addUp(s.booked.transactions)
}

// addUp compares transactions with each other: each is balanced, and what it reverses is among
// them.
func addUp(all []ledger.Transaction) error {
	seen := map[string]*ledger.Transaction{}
	for i := range all {
		t := &all[i]
		if seen[t.ID] != nil {
			return fmt.Errorf("%w: two transactions have the id %s", ErrUnbalanced, t.ID)
		}
		seen[t.ID] = t
	}
	reversed := map[string]int64{}
	for i := range all {
		t := &all[i]
		of := seen[t.Reverses]
		if of != nil {
			reversed[t.Reverses] += t.Amount
		}
		switch err := t.Validate(); {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrUnbalanced, err)
		case t.Reverses != "" && (of == nil || of.Debit != t.Credit || of.Credit != t.Debit || of.Currency != t.Currency || reversed[t.Reverses] > of.Amount):
			return fmt.Errorf("%w: transaction %s reverses more or other than what is booked under %s", ErrUnbalanced, t.ID, t.Reverses)
		}
	}
	return nil
}

// carry adds the transactions of s to those of the segments before it, and compares the accounts
// of s with both sums.
func (s *Segment) carry(sums ledger.Sums) error {
	for _, a := range s.booked.accounts {
		if is := sums.At(a.Opening.Key()); is != a.Opening {
			return fmt.Errorf("%w: %s in %s opens with %v, and the segments before it close with %v", ErrUnbalanced, a.Opening.Account, a.Opening.Currency, a.Opening, is)
		}
	}
	touched := map[ledger.AccountKey]bool{}
	for i := range s.booked.transactions {
		t := &s.booked.transactions[i]
		if !sums.Add(t) {
			return fmt.Errorf("%w: the sums of the accounts of %s are beyond 64 bits", ErrUnbalanced, t.ID)
		}
		touched[ledger.AccountKey{Account: t.Debit, Currency: t.Currency}], touched[ledger.AccountKey{Account: t.Credit, Currency: t.Currency}] = true, true
	}
	for _, a := range s.booked.accounts {
		key := a.Closing.Key()
		if is := sums.At(key); is != a.Closing || !touched[key] {
			return fmt.Errorf("%w: %s in %s closes with %v, and its transactions with %v", ErrUnbalanced, key.Account, key.Currency, a.Closing, is)
		}
		delete(touched, key)
	}
	if len(touched) > 0 {
		return fmt.Errorf("%w: %d accounts of its transactions have no balance", ErrUnbalanced, len(touched))
	}
	return nil
}

// ErrUnbalanced: the books of the segment do not add up.
var ErrUnbalanced = errors.New("audit: the books of the segment do not add up")

// books proves the books that have left a region: one after the other, each segment opens as the
// ones before it close, and closes as its transactions say.
func (v *verification) books(ctx context.Context, report *RegionReport, segments []*Segment) error {
	report.Carried = ledger.Sums{}
	for _, s := range segments {
		whole, _, err := readAll(ctx, v.c.Objects, s.Name, v.c.Trust, s.Deployment)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			report.Books += int64(whole.Books)
			err = whole.carry(report.Carried)
		}
		if err != nil { // the rest would differ by as much
			class := Unbalanced
			if !errors.Is(err, ErrUnbalanced) {
				class = Unread
			}
			v.fail(class, s.Region, s.Number, s.Name, "%v", err)
			return nil
		}
	}
	return nil
}

// Books returns the transactions in segments that have the id, or are of the object of that id,
// or reverse one of those, in the order of At and ID. Doubts are as of Find.
func (a *Archive) Books(ctx context.Context, id string, regions []string) (all []ledger.Transaction, doubts []string, err error) {
	w := Wanted{Object: id, Regions: regions}
	var mu sync.Mutex
	names, _, err := a.list(ctx, &w)
	if err != nil {
		return nil, nil, err
	}
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(a.Parallel, parallelFinds))
	for _, n := range names {
		g.Go(func() error {
			s, _, err := a.read(within, n, &w)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				doubts = append(doubts, fmt.Sprintf("segment %s: %v", n.name, err))
			}
			for i := range s.booked.transactions {
				if t := &s.booked.transactions[i]; t.ID == id || t.Object == id || t.Reverses == id {
					all = append(all, *t)
				}
			}
			return within.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	slices.Sort(doubts)
	slices.SortFunc(all, func(a, b ledger.Transaction) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Region, b.Region), strings.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(all, func(a, b ledger.Transaction) bool { return a.Region == b.Region && a.ID == b.ID }), doubts, nil
}
