// Package verify proves the books from their rows. It is separate from package ledger,
// which settles money and needs no disk.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/internal/spill"
)

// Report is the result of [Books].
type Report struct {
	Regions      []string `json:"regions"`
	Transactions int64    `json:"transactions"`
	// Left counts the transactions that have left the books for segments, with sums that are
	// carried forward; Proved those of them that were proved.
	Left   int64 `json:"left"`
	Proved int64 `json:"proved"`
	// Balances is how many were proved exactly. Moving is how many changed at each read
	// and were proved to lie between the bookings before and after.
	Balances int `json:"balances"`
	Moving   int `json:"moving"`
	// Failed counts the failures; Failures are the first of them.
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures"`
}

// Unproved counts the transactions that have left the books and were not proved: no bucket was named, or
// its segments have faults.
func (r *Report) Unproved() int64 { return r.Left - r.Proved }

// OK reports whether there are no failures.
func (r *Report) OK() bool { return r.Failed == 0 }

// Failure is one error in the books.
type Failure struct {
	Check  Check  `json:"check"`
	Region string `json:"region"`
	// Of is the transaction, the account or the currency that it is about.
	Of     string `json:"of"`
	Detail string `json:"detail"`
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: %s in %s: %s", f.Check, f.Of, f.Region, f.Detail)
}

// Check names a promise of the books. Part of the output; values never change.
type Check string

// The checks.
const (
	// CheckRow: each row is a movement as package ledger describes it.
	CheckRow Check = "row"
	// CheckOrder: rows are listed in order of time, and paging continues.
	CheckOrder Check = "order"
	// CheckUnique: an id exists once in its region.
	CheckUnique Check = "unique"
	// CheckReversal: a reversed transaction exists, has the same currency, and is
	// reversed from the same accounts and not more than once.
	CheckReversal Check = "reversal"
	// CheckBalance: the store's balances are the sums of its rows.
	CheckBalance Check = "balance"
	// CheckLeft: what the store carries forward is what the segments add up to.
	CheckLeft Check = "left"
	// CheckZero: the balances of a currency sum to zero.
	CheckZero Check = "zero"
)

const (
	// maxFailures bounds Failures: if there are more, they have a common cause.
	maxFailures = 1000
	// verifyPage and balancePage are how many rows are read at a time. The store sums
	// all of a region for each page of balances, so those are large.
	verifyPage  = 1000
	balancePage = 10_000
	// idParts is in how many parts ids are compared: of a million, 16,000 at a time.
	idParts = 64
)

// Books proves the books of regions from their rows alone: it reads every transaction
// from the first, checks it, sums it up, and compares the sums with the store's
// balances. Pass all regions, as a reversal may be booked in another one than the
// transaction that it reverses. Memory holds the accounts and a part of the ids, which
// are partitioned into temporary files.
//
// Money may be booked meanwhile: Books compares a balance that differs again, with the
// sums before and after it was read. It must lie between them, since sums only grow.
// The report has the failures; an error means that the books could not be read to their
// end.
func Books(ctx context.Context, store ledger.Store, regions []string) (Report, error) {
	return AllBooks(ctx, store, regions, nil)
}

// Left are the transactions that have left the books, where they can be read.
type Left interface {
	// Carried proves those that have left the books of region, and returns their balances. Each
	// fault is one line.
	Carried(ctx context.Context, region string) (sums ledger.Sums, faults []string, err error)
	// Transaction finds one of them.
	Transaction(ctx context.Context, region, id string) (t ledger.Transaction, found bool, err error)
}

// AllBooks is Books, and proves what has left them, too, unless left is nil.
func AllBooks(ctx context.Context, store ledger.Store, regions []string, segments Left) (_ Report, err error) {
	dir, err := os.MkdirTemp("", "homeward-verify-")
	if err != nil {
		return Report{}, fmt.Errorf("ledger: make a directory for temporary files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	v := &verifier{store: store, segments: segments, dir: dir, report: Report{Regions: regions, Failures: []Failure{}}}
	for _, region := range regions {
		if err := v.region(ctx, region); err != nil {
			return v.report, fmt.Errorf("ledger: the books of %s cannot be read: %w", region, err)
		}
	}
	return v.report, nil
}

type verifier struct {
	store    ledger.Store
	segments Left
	dir      string
	report   Report
}

func (v *verifier) fail(c Check, region, of, format string, args ...any) {
	v.report.Failed++
	if len(v.report.Failures) < maxFailures {
		v.report.Failures = append(v.report.Failures, Failure{c, region, of, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) region(ctx context.Context, region string) error {
	ids, err := spill.New[string](v.dir, "ids", idParts)
	if err != nil {
		return err
	}
	defer ids.Close()
	before, err := v.carried(ctx, region)
	if err != nil {
		return err
	}
	if err := v.walk(ctx, region, func(last ledger.Position, t *ledger.Transaction) error {
		v.report.Transactions++
		v.row(region, t)
		if !last.Before(t.Position()) {
			v.fail(CheckOrder, region, t.ID, "it is listed after %s of %v", last.ID, last.At)
		}
		if t.Reverses != "" {
			if err := v.reversal(ctx, region, t); err != nil {
				return err
			}
		}
		if !before.Add(t) {
			v.fail(CheckRow, region, t.ID, "the sums of its accounts are beyond 64 bits")
		}
		return ids.Put(t.ID, t.ID)
	}); err != nil {
		return err
	}
	for i := range ids.Len() {
		seen := map[string]bool{}
		if err := ids.Each(i, func(id string) {
			if seen[id] {
				v.fail(CheckUnique, region, id, "two transactions have this id")
			}
			seen[id] = true
		}); err != nil {
			return err
		}
	}
	return v.balances(ctx, region, before)
}

// carried reads what the books of region begin with, and proves it.
func (v *verifier) carried(ctx context.Context, region string) (ledger.Sums, error) {
	sums, err := ledger.Carried(ctx, v.store, region)
	if err != nil {
		return nil, err
	}
	touched := int64(0)
	for _, b := range sums {
		touched += b.Transactions
	}
	v.report.Left += touched / 2
	if v.segments == nil {
		return sums, nil
	}
	proved, faults, err := v.segments.Carried(ctx, region)
	if err != nil {
		return nil, err
	}
	after, err := ledger.Carried(ctx, v.store, region) // more may have left meanwhile
	if err != nil {
		return nil, err
	}
	for _, key := range keysOf(after, proved) {
		low, is, high := sums.At(key), proved.At(key), after.At(key)
		if !within(low, is, high) {
			faults = append(faults, fmt.Sprintf("the store carries %v forward for %s in %s, and the segments add up to %v", high, key.Account, key.Currency, is))
		}
	}
	for _, f := range faults {
		v.fail(CheckLeft, region, "what has left", "%s", f)
	}
	if len(faults) == 0 {
		v.report.Proved += touched / 2
	}
	return sums, nil
}

// walk passes every transaction of region with the position of the one before it.
func (v *verifier) walk(ctx context.Context, region string, each func(last ledger.Position, t *ledger.Transaction) error) error {
	last := ledger.Position{}
	for {
		rows, err := v.store.Transactions(ctx, region, last, time.Time{}, verifyPage)
		if err != nil {
			return err
		}
		after := last
		for i := range rows {
			if err := each(last, &rows[i]); err != nil {
				return err
			}
			last = rows[i].Position()
		}
		if len(rows) < verifyPage {
			return nil
		}
		if !after.Before(last) {
			return fmt.Errorf("the list does not continue after %s", after.ID)
		}
	}
}

// accounts returns the accounts of a kind of transaction. If a kind has one of several,
// such as the debt to a merchant or to a payer, they follow from the transaction that
// it reverses, and ok is false. where is as in ledger.Where.
func accounts(t *ledger.Transaction, where string) (debit, credit ledger.Account, ok bool) {
	provider, withheld := ledger.Provider(where), ledger.Withheld(where)
	switch t.Kind {
	case ledger.Charge:
		return provider, ledger.Merchant(t.Tenant), true
	case ledger.Transfer, ledger.Refund:
		return ledger.Merchant(t.Tenant), provider, true
	case ledger.Ghost:
		return provider, ledger.Suspense(t.Tenant), true
	case ledger.GhostRefund:
		return ledger.Suspense(t.Tenant), provider, true
	case ledger.TransferReversal:
		return provider, ledger.Merchant(t.Tenant), true
	case ledger.Dispute:
		return withheld, provider, true
	case ledger.DisputeReversal:
		return provider, withheld, true
	case ledger.DisputeLost:
		return ledger.Disputed(t.Tenant), withheld, true
	case ledger.Payout:
		return ledger.Bank(where), provider, true
	case ledger.PayoutReversal, ledger.TopUp:
		return provider, ledger.Bank(where), true
	case ledger.Fee:
		return ledger.Fees(where), provider, true
	case ledger.FeeRefund:
		return provider, ledger.Fees(where), true
	default:
		return "", "", false
	}
}

// free reports whether a kind's accounts depend on more than the kind.
func free(t *ledger.Transaction, where string) bool {
	switch t.Kind {
	case ledger.DisputeOpened:
		return t.Credit == ledger.Disputed(t.Tenant)
	case ledger.DisputeWon:
		return t.Debit == ledger.Disputed(t.Tenant)
	case ledger.ProviderRefund:
		return t.Credit == ledger.Provider(where)
	case ledger.Conversion:
		p, x := ledger.Provider(where), ledger.Exchange(where)
		return t.Debit == p && t.Credit == x || t.Debit == x && t.Credit == p
	case ledger.Adjustment:
		_, _, _, debit := ledger.ReadAccount(t.Debit)
		_, _, _, credit := ledger.ReadAccount(t.Credit)
		return debit && credit
	default:
		return failed(t) // they follow from what failed
	}
}

func (v *verifier) row(region string, t *ledger.Transaction) {
	where := ledger.Where(t.Provider, t.ProviderRef)
	debit, credit, ok := accounts(t, where)
	switch err := t.Validate(); {
	case err != nil:
		v.fail(CheckRow, region, t.ID, "%v", err)
	case t.Region != region:
		v.fail(CheckRow, region, t.ID, "it is of region %q", t.Region)
	case t.At.IsZero():
		v.fail(CheckRow, region, t.ID, "it has no time")
	case !ok && free(t, where):
	case !ok:
		v.fail(CheckRow, region, t.ID, "there is no kind %q with the accounts %s and %s", t.Kind, t.Debit, t.Credit)
	case t.Debit != debit || t.Credit != credit:
		v.fail(CheckRow, region, t.ID, "a %s debits %s and credits %s, this one %s and %s", t.Kind, debit, credit, t.Debit, t.Credit)
	case unasked(t) && t.ID != ledger.UnaskedID(t.Kind, t.Provider, t.ProviderRef):
		v.fail(CheckRow, region, t.ID, "the %s %s has the id %s", t.Kind, t.ProviderRef, ledger.UnaskedID(t.Kind, t.Provider, t.ProviderRef))
	case t.Kind == ledger.Ghost && t.ID != ledger.GhostID(t.Provider, t.ProviderRef):
		v.fail(CheckRow, region, t.ID, "the ghost of the movement %s has the id %s", t.ProviderRef, ledger.GhostID(t.Provider, t.ProviderRef))
	}
}

// unasked reports whether t is named by the provider's own id.
func unasked(t *ledger.Transaction) bool {
	switch t.Kind {
	case ledger.DisputeOpened, ledger.Dispute, ledger.DisputeReversal, ledger.DisputeWon, ledger.DisputeLost,
		ledger.ProviderRefund, ledger.TransferReversal, ledger.Payout, ledger.PayoutReversal, ledger.TopUp, ledger.Fee, ledger.FeeRefund:
		return true
	default:
		return false
	}
}

// takesBack returns the kinds that t's kind reverses.
func takesBack(t *ledger.Transaction) []ledger.Kind {
	if of, ok := t.Kind.Failed(); ok {
		return []ledger.Kind{of}
	}
	switch t.Kind {
	case ledger.GhostRefund:
		return []ledger.Kind{ledger.Ghost}
	case ledger.ProviderRefund, ledger.DisputeOpened:
		return []ledger.Kind{ledger.Charge, ledger.Ghost}
	case ledger.TransferReversal:
		return []ledger.Kind{ledger.Transfer}
	case ledger.DisputeWon:
		return []ledger.Kind{ledger.DisputeOpened}
	case ledger.DisputeReversal:
		return []ledger.Kind{ledger.Dispute}
	case ledger.PayoutReversal:
		return []ledger.Kind{ledger.Payout}
	default:
		return []ledger.Kind{ledger.Charge}
	}
}

// reversal checks what t reverses, and, if t is the first to do so, all of its
// reversals.
func (v *verifier) reversal(ctx context.Context, region string, t *ledger.Transaction) error {
	of, found, err := v.reversed(ctx, region, t.Reverses)
	if err != nil {
		return err
	}
	wants := takesBack(t)
	_, isFailure := t.Kind.Failed()
	switch {
	case !found:
		return v.unlessLeft(ctx, region, t, "it reverses %s, which is not booked", t.Reverses)
	case !slices.Contains(wants, of.Kind):
		v.fail(CheckReversal, region, t.ID, "a %s reverses a %s, this one the %s %s", t.Kind, wants[0], of.Kind, of.ID)
	case of.Currency != t.Currency:
		v.fail(CheckReversal, region, t.ID, "it is in %s, and what it reverses, %s, in %s", t.Currency, of.ID, of.Currency)
	case isFailure && !t.Same(ledger.FailureOf(of)):
		v.fail(CheckReversal, region, t.ID, "it is not the whole of %s, which it reports as failed, under the id %s in the same books", of.ID, ledger.FailureID(of.ID))
	case t.Kind == ledger.GhostRefund && !isGhostRefundID(t.ID, &of):
		v.fail(CheckReversal, region, t.ID, "the refund of the ghost %s has the id %s", of.ID, ledger.GhostRefundID(of.Provider, of.ProviderRef))
	case of.Credit != t.Debit || of.Debit != t.Credit && t.Kind != ledger.DisputeOpened:
		v.fail(CheckReversal, region, t.ID, "its accounts are not the opposite of those of %s, which it reverses", of.ID)
	}
	all, err := v.store.Reversals(ctx, of.ID)
	if err != nil {
		return err
	}
	listed, first, sum := false, true, int64(0)
	for i := range all {
		if all[i].Region == t.Region && all[i].ID == t.ID {
			listed = true
		}
		if !givesBack(&all[i]) {
			continue // a refund of a movement that failed is money all the same
		}
		if cmp.Or(cmp.Compare(all[i].ID, t.ID), cmp.Compare(all[i].Region, t.Region)) < 0 {
			first = false
		}
		if all[i].Amount <= math.MaxInt64-sum {
			sum += all[i].Amount
		} else {
			sum = math.MaxInt64
		}
	}
	if !listed {
		if err := v.unlessLeft(ctx, region, t, "it is not among the reversals of %s, which it reverses", of.ID); err != nil {
			return err
		}
	}
	first = first && givesBack(t)
	if sum > of.Amount && first {
		if sum, err = v.standing(ctx, all); err != nil {
			return err
		}
	}
	if sum > of.Amount && first {
		v.fail(CheckReversal, of.Region, of.ID, "%d were booked, and %d are taken back", of.Amount, sum)
	}
	return nil
}

// unlessLeft is fail for a transaction that has not left since, with what it reverses.
func (v *verifier) unlessLeft(ctx context.Context, region string, t *ledger.Transaction, format string, args ...any) error {
	_, stays, err := v.store.Transaction(ctx, region, t.ID)
	if stays {
		v.fail(CheckReversal, region, t.ID, format, args...)
	}
	return err
}

// givesBack reports whether t reverses a part of a transaction. A dispute does not: a
// payer may dispute a refunded payment.
func givesBack(t *ledger.Transaction) bool { return !failed(t) && t.Kind != ledger.DisputeOpened }

func failed(t *ledger.Transaction) bool {
	_, ok := t.Kind.Failed()
	return ok
}

// isGhostRefundID reports whether id names a refund of a ghost.
func isGhostRefundID(id string, of *ledger.Transaction) bool {
	for n := range ledger.MaxGhostRefunds {
		if id == ledger.GhostRefundTryID(of.Provider, of.ProviderRef, n+1) {
			return true
		}
	}
	return false
}

// standing sums the reversals that have not failed since.
func (v *verifier) standing(ctx context.Context, all []ledger.Transaction) (sum int64, err error) {
	for i := range all {
		if !givesBack(&all[i]) {
			continue
		}
		_, failed, err := v.store.Transaction(ctx, all[i].Region, ledger.FailureID(all[i].ID))
		if err != nil {
			return 0, err
		}
		if failed {
			continue
		}
		if all[i].Amount > math.MaxInt64-sum {
			return math.MaxInt64, nil
		}
		sum += all[i].Amount
	}
	return sum, nil
}

// reversed finds the transaction that t reverses, wherever it is booked.
func (v *verifier) reversed(ctx context.Context, region, id string) (ledger.Transaction, bool, error) {
	t, found, err := v.store.Transaction(ctx, region, id)
	for _, other := range v.report.Regions {
		if found || err != nil {
			break
		}
		if other != region {
			t, found, err = v.store.Transaction(ctx, other, id)
		}
	}
	if !found && err == nil && v.segments != nil { // it left while this was booked
		return v.segments.Transaction(ctx, region, id)
	}
	return t, found, err
}

// balances compares the store's balances with the sums of the bookings before they are
// read, and if that does not agree, with those of the bookings afterwards.
func (v *verifier) balances(ctx context.Context, region string, before ledger.Sums) error {
	stored, err := v.stored(ctx, region)
	if err != nil {
		return err
	}
	after := before
	if !maps.Equal(before, stored) {
		// In this order, what leaves between the two is counted twice, and not missed: after is a
		// bound. In the other order before is one, too.
		rows := ledger.Sums{}
		if err := v.walk(ctx, region, func(_ ledger.Position, t *ledger.Transaction) error { rows.Add(t); return nil }); err != nil {
			return err
		}
		if after, err = ledger.Carried(ctx, v.store, region); err != nil {
			return err
		}
		for key, b := range rows {
			sum := after.At(key)
			sum.Debits, sum.Credits, sum.Transactions = sum.Debits+b.Debits, sum.Credits+b.Credits, sum.Transactions+b.Transactions
			after[key] = sum
		}
	}
	zero, moving := map[string]int64{}, map[string]bool{} // by currency
	for _, key := range keysOf(after, stored) {
		low, high, have := before[key], after[key], stored[key]
		zero[key.Currency] += have.Debits - have.Credits // 64 bits that overflow back to zero are still zero
		of := string(key.Account) + " " + key.Currency
		switch {
		case low == high && have == low:
			v.report.Balances++
		case low == high:
			v.fail(CheckBalance, region, of, "the store says %v, its rows %v", have, low)
		case within(low, have, high):
			v.report.Moving++
			moving[key.Currency] = true
		default:
			v.fail(CheckBalance, region, of, "the store says %v, its rows %v before and %v after", have, low, high)
			moving[key.Currency] = true
		}
	}
	for currency, sum := range zero {
		// Pages of changing balances are of different moments.
		if sum != 0 && !moving[currency] {
			v.fail(CheckZero, region, currency, "the balances sum to %d", sum)
		}
	}
	return nil
}

// within reports whether is lies between two balances of the same account, which only grow.
func within(low, is, high ledger.Balance) bool {
	return low.Debits <= is.Debits && is.Debits <= high.Debits && low.Credits <= is.Credits && is.Credits <= high.Credits &&
		low.Transactions <= is.Transactions && is.Transactions <= high.Transactions
}

// stored reads the store's balances.
func (v *verifier) stored(ctx context.Context, region string) (ledger.Sums, error) {
	all := ledger.Sums{}
	for after := (ledger.AccountKey{}); ; {
		page, err := v.store.Balances(ctx, region, after, balancePage)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			key := ledger.AccountKey{Account: b.Account, Currency: b.Currency}
			if compareKeys(key, after) <= 0 {
				return nil, fmt.Errorf("the balance of %s in %s is listed after that of %s in %s", key.Account, key.Currency, after.Account, after.Currency)
			}
			all[key], after = b, key
		}
		if len(page) < balancePage {
			return all, nil
		}
	}
}

// keysOf returns the keys of both, in order.
func keysOf(a, b ledger.Sums) []ledger.AccountKey {
	keys := make([]ledger.AccountKey, 0, max(len(a), len(b)))
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

func compareKeys(a, b ledger.AccountKey) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Currency, b.Currency))
}
