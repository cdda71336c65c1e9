// Package ledger keeps the books: append-only double entry. Every movement of
// money is one [Transaction] with one debit and one credit of the same amount,
// appended by the step that settles it and never changed. A reversing transaction
// corrects a mistake.
//
// A transaction's ID names the business event, not the row: the primary key
// refuses to post the same event twice, whatever the caller does.
//
// The store also refuses to book one incoming movement under two events, as a charge
// and as a ghost: the first booking decides what it is.
//
// Accounts are debit-positive: a balance is the sum of debits less the sum of
// credits, and the balances of one currency sum to zero.
//
//	event                        debit             credit
//	charge                       provider:P        merchant:T
//	transfer                     merchant:T        provider:P
//	refund                       merchant:T        provider:P      reverses the charge
//	ghost                        provider:P        suspense:T      money that no request asks for, or not any more
//	ghost's refund               suspense:T        provider:P      reverses the ghost
//	any of these failed          the opposite of what failed       reverses what failed
//	refund made at the provider  merchant:T        provider:P      reverses the charge
//	                             or suspense:T                     reverses the ghost
//	transfer came back           provider:P        merchant:T      reverses the transfer
//	dispute opened               merchant:T        disputed:T      reverses the charge
//	                             or suspense:T                     reverses the ghost
//	  withdrawn                  withheld:P        provider:P
//	  given back                 provider:P        withheld:P      reverses the withdrawal
//	  won                        disputed:T        merchant:T      reverses the opening
//	                                               or suspense:T
//	  lost                       disputed:T        withheld:P
//	payout                       bank:P            provider:P
//	payout came back             provider:P        bank:P          reverses the payout
//	fee                          fees:P            provider:P      fee refund: the opposite
//	conversion, of one currency  exchange:P        provider:P      of a refund: the opposite
//	  and of the other           provider:P        exchange:P
//	adjustment                   as a person says, who says so and why
//
// P is a provider's name. If a movement is in an account that is not ours, as a direct
// charge is, P is the name, ":" and that account, in all accounts of the transaction: that
// money is on the statement of that account and not on ours ([Where]). Transactions that
// follow from a booking use the same P.
//
// Balances of provider, withheld, bank and fees are debits as a rule, those of merchant,
// suspense and disputed credits. withheld and disputed are zero once all disputes are
// decided, and the balance of provider:P equals what P reports to hold for us, once its
// statement is booked ([FeeOf], [ConversionOf]).
//
// A provider may report that a movement succeeded and, days later, that it failed:
// the payer's bank returns a refund, or does not honour a debit. The booking stays,
// and a failure reverses all of it, once ([FailureOf]).
//
// A suspense account with a balance means that a payer waits for money.
//
// Old transactions may leave the store for the segments of package audit; their sums are carried
// forward ([Store].Carried). Those that could still matter stay, see audit/doc.go.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the business event of a transaction. Stored; values never change.
type Kind string

// The kinds.
const (
	Charge   Kind = "charge"
	Transfer Kind = "transfer"
	Refund   Kind = "refund"
	// Ghost is money that moved at the provider for an object that was refused, expired
	// or given up, or a second time for one that was paid.
	Ghost Kind = "ghost"
	// GhostRefund refunds it.
	GhostRefund Kind = "ghost_refund"
	// These reverse one of the others in full: the provider has reported it as failed
	// after it was booked.
	ChargeFailed      Kind = "charge_failed"
	TransferFailed    Kind = "transfer_failed"
	RefundFailed      Kind = "refund_failed"
	GhostFailed       Kind = "ghost_failed"
	GhostRefundFailed Kind = "ghost_refund_failed"
)

// failures maps the kinds that reverse another one to it.
var failures = map[Kind]Kind{
	Charge: ChargeFailed, Transfer: TransferFailed, Refund: RefundFailed, Ghost: GhostFailed, GhostRefund: GhostRefundFailed,
	ProviderRefund: ProviderRefundFailed,
}

// Failed returns the kind of movement that k reverses, if k is a failure after
// booking.
func (k Kind) Failed() (of Kind, ok bool) {
	for of, failed := range failures {
		if failed == k {
			return of, true
		}
	}
	return "", false
}

// FailedSince reports whether the movement of t has failed after it was booked, by what all has of it.
func FailedSince(all []Transaction, t *Transaction) bool {
	return slices.ContainsFunc(all, func(r Transaction) bool {
		_, failure := r.Kind.Failed()
		return failure && r.Reverses == t.ID
	})
}

// Leaves reports whether transactions of k leave the store when they are old. They are nearly
// all; the others are rare, and stay for ever.
func (k Kind) Leaves() bool {
	switch k {
	case Charge, Transfer, Refund, Fee, FeeRefund, Conversion:
		return true
	default:
		return false
	}
}

// Account names one account, "class:owner".
type Account string

// Provider returns the account of the money that a provider holds for us. where is the
// provider's name, with a connected account if the money is in one, see [Where].
func Provider(where string) Account { return Account(classProvider + ":" + where) }

// Where returns the account at a provider that a movement is in, from the provider's
// reference: name alone for our own account, or name, ":" and "acct_…" for a connected one:
// references there end in "@" and the account (psp.AccountOf).
func Where(name, ref string) string {
	if i := strings.LastIndex(ref, "@acct_"); i >= 0 {
		return name + ":" + ref[i+1:]
	}
	return name
}

// Merchant returns the account of the money that we owe a tenant.
func Merchant(tenant string) Account { return Account("merchant:" + tenant) }

// Suspense returns the account of the money that we owe a tenant's payers.
func Suspense(tenant string) Account { return Account("suspense:" + tenant) }

// GhostID and GhostRefundID name the two events of a ghost: a movement at a
// provider without a request that may keep it. They depend only on the
// provider's reference, so a ghost is booked once, however often and wherever it
// is found.
func GhostID(provider, ref string) string       { return "ghost_" + digest(provider, ref) }
func GhostRefundID(provider, ref string) string { return "ghostre_" + digest(provider, ref) }

// GhostRefundTryID names the n-th refund of a ghost, from 1. There is another
// only if the previous one was booked and has since failed.
func GhostRefundTryID(provider, ref string, n int) string {
	if n <= 1 {
		return GhostRefundID(provider, ref)
	}
	return fmt.Sprintf("%s_%d", GhostRefundID(provider, ref), n)
}

// FailureID names the failure of a transaction that is booked under id: a movement
// fails once.
func FailureID(id string) string { return "failed_" + id }

// FailureOf returns the transaction that reverses of, a booked movement that has
// since failed: the whole amount, with debit and credit swapped, in the books of of.
func FailureOf(of Transaction) Transaction {
	t := of
	t.ID, t.Kind, t.Reverses = FailureID(of.ID), failures[of.Kind], of.ID
	t.Debit, t.Credit, t.At, t.Created, t.Order, t.Metadata = of.Credit, of.Debit, time.Time{}, time.Time{}, "", ""
	return t
}

func digest(provider, ref string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "homeward/ghost/v1\x00%d:%s%s", len(provider), provider, ref))
	return hex.EncodeToString(sum[:16])
}

// Transaction is one movement of money. Amounts are minor units of Currency. Its JSON, and
// that of Balance, is the format of segments (package audit): members are only ever added, and none
// has what merchants wrote, as a segment cannot be changed for years.
type Transaction struct {
	// ID is unique within Region, for ever: the object's id of a charge, transfer
	// or refund; [GhostID] and [GhostRefundID] otherwise.
	ID string `json:"id"`
	// Region is the home of the key that caused it.
	Region string  `json:"region"`
	Tenant string  `json:"tenant,omitempty"`
	Kind   Kind    `json:"kind"`
	Debit  Account `json:"debit"`
	Credit Account `json:"credit"`
	// Amount is above 0.
	Amount int64 `json:"amount"`
	// Currency is an ISO 4217 code in lower case.
	Currency string `json:"currency"`
	// Object is our id of the movement, which the provider has as its reference.
	Object string `json:"object"`
	// Reverses is the ID of the transaction that this one reverses, wholly or in
	// part, or "".
	Reverses string `json:"reverses,omitempty"`
	// Provider and ProviderRef name the movement of the money.
	Provider    string `json:"provider,omitempty"`
	ProviderRef string `json:"provider_ref,omitempty"`
	// By and Why name the person who decided an adjustment, and the reason.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// At is the store's clock when it was appended; set by the store.
	At time.Time `json:"at"`
	// Created is when a charge was created, as its merchant reads it. The store sets it: to At where
	// it is zero, and to zero for any other kind.
	Created time.Time `json:"-"`
	// Order and Metadata are the order_id, and the metadata as canonical JSON, that the merchant
	// sent with a charge or a transfer, "" for none. A refund and a ghost have those of their charge.
	Order    string `json:"-"`
	Metadata string `json:"-"`
}

// Validate returns an error that names why t cannot be booked.
func (t *Transaction) Validate() error {
	switch {
	case t.ID == "" || t.Tenant == "" && !t.Kind.tenantless() || t.Object == "" || t.Provider == "" && t.Kind != Adjustment:
		return fmt.Errorf("ledger: transaction %q lacks an id, a tenant, an object or a provider", t.ID)
	case (t.By != "" && t.Why != "") != (t.Kind == Adjustment):
		return fmt.Errorf("ledger: transaction %s of kind %s: an adjustment must name who made it and why; no other kind may", t.ID, t.Kind)
	case t.Amount <= 0:
		return fmt.Errorf("ledger: transaction %s has the amount %d; it must be above 0", t.ID, t.Amount)
	case len(t.Currency) != len("usd"):
		return fmt.Errorf("ledger: transaction %s has the currency %q; it must be an ISO 4217 code", t.ID, t.Currency)
	case t.Debit == "" || t.Credit == "" || t.Debit == t.Credit:
		return fmt.Errorf("ledger: transaction %s debits %q and credits %q; it needs two accounts", t.ID, t.Debit, t.Credit)
	case !t.storable():
		return fmt.Errorf("ledger: transaction %q has text that is not UTF-8, or has a NUL, which not every store can keep", t.ID)
	case (t.Reverses != "") != t.reverses():
		return fmt.Errorf("ledger: transaction %s of kind %s reverses %q", t.ID, t.Kind, t.Reverses)
	}
	return nil
}

func (t *Transaction) storable() bool {
	for _, s := range []string{t.ID, t.Region, t.Tenant, string(t.Kind), string(t.Debit), string(t.Credit), t.Currency, t.Object, t.Reverses, t.Provider, t.ProviderRef, t.By, t.Why, t.Order, t.Metadata} {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return false
		}
	}
	return true
}

// reverses reports whether a transaction of t's kind reverses another one.
func (t *Transaction) reverses() bool {
	switch t.Kind {
	case Refund, GhostRefund, ProviderRefund, TransferReversal, DisputeOpened, DisputeWon, DisputeReversal, PayoutReversal:
		return true
	default:
		_, failed := t.Kind.Failed()
		return failed
	}
}

// Held returns the provider account of t, "" if it has none.
func (t *Transaction) Held() Account {
	for _, a := range []Account{t.Debit, t.Credit} {
		if class, _, _, _ := ReadAccount(a); class == classProvider {
			return a
		}
	}
	return ""
}

// Same reports whether t and other book the same event in the same way, whenever
// they did, and whatever its merchant wrote.
func (t Transaction) Same(other Transaction) bool {
	for _, one := range []*Transaction{&t, &other} {
		one.At, one.Created, one.Order, one.Metadata = time.Time{}, time.Time{}, "", ""
	}
	return t == other
}

// Balance is the balance of one account in one currency.
type Balance struct {
	Account  Account `json:"account"`
	Currency string  `json:"currency"`
	// Debits and Credits are sums of minor units, Debits-Credits the balance.
	Debits  int64 `json:"debits"`
	Credits int64 `json:"credits"`
	// Transactions is how many of them touch the account.
	Transactions int64 `json:"transactions"`
}

// Key returns the place of b among the balances of its region.
func (b *Balance) Key() AccountKey { return AccountKey{b.Account, b.Currency} }

// Sums are balances that transactions are added to.
type Sums map[AccountKey]Balance

// Add adds a transaction; an amount that is not above 0 adds nothing. It reports false where a sum
// would be beyond 64 bits, and does not add to that.
func (s Sums) Add(t *Transaction) (fits bool) {
	if t.Amount <= 0 {
		return true
	}
	fits = true
	for _, half := range []Balance{{Account: t.Debit, Debits: t.Amount}, {Account: t.Credit, Credits: t.Amount}} {
		key := AccountKey{half.Account, t.Currency}
		b := s.At(key)
		if b.Debits > math.MaxInt64-half.Debits || b.Credits > math.MaxInt64-half.Credits {
			fits = false
			continue
		}
		b.Debits, b.Credits, b.Transactions = b.Debits+half.Debits, b.Credits+half.Credits, b.Transactions+1
		s[key] = b
	}
	return fits
}

// At returns the balance of an account, which may be zero.
func (s Sums) At(key AccountKey) Balance {
	b := s[key]
	b.Account, b.Currency = key.Account, key.Currency
	return b
}

// Page returns up to limit balances after a key, in their order.
func (s Sums) Page(after AccountKey, limit int) []Balance {
	keys := slices.SortedFunc(maps.Keys(s), AccountKey.compare)
	at, found := slices.BinarySearchFunc(keys, after, AccountKey.compare)
	if found {
		at++
	}
	page := make([]Balance, 0, min(limit, len(keys)-at))
	for _, key := range keys[at:min(len(keys), at+limit)] {
		page = append(page, s[key])
	}
	return page
}

// carriedPage is how many balances Carried reads at a time.
const carriedPage = 10_000

// Carried reads all that the transactions have left behind that left the books of region.
func Carried(ctx context.Context, books interface {
	Carried(ctx context.Context, region string, after AccountKey, limit int) ([]Balance, error)
}, region string,
) (Sums, error) {
	sums := Sums{}
	for after := (AccountKey{}); ; {
		page, err := books.Carried(ctx, region, after, carriedPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			after = page[i].Key()
			sums[after] = page[i]
		}
		if len(page) < carriedPage {
			return sums, nil
		}
	}
}

func (b Balance) String() string {
	return fmt.Sprintf("%d - %d in %d transactions", b.Debits, b.Credits, b.Transactions)
}

// Incoming reports whether t is incoming money. Stores book one (Region, Provider,
// ProviderRef) of those once, unless ProviderRef is "".
func (t *Transaction) Incoming() bool {
	return (t.Kind == Charge || t.Kind == Ghost) && t.ProviderRef != ""
}

// Position is a place in a region's transactions, which are in the order of At and
// then of ID. The zero Position is before all of them.
type Position struct {
	At time.Time `json:"at"`
	ID string    `json:"id"`
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.At.Before(q.At) || p.At.Equal(q.At) && p.ID < q.ID
}

// Position returns the position of t.
func (t *Transaction) Position() Position { return Position{t.At, t.ID} }

// Charges are those of a tenant that [Store].Charges lists, in the order of Created and then of ID.
type Charges struct {
	// Order is their Order; "" for any.
	Tenant, Order string
	// After and Before are the positions between which they are, neither included, by Created. The
	// zero position is no bound.
	After, Before Position
	// Latest lists the latest first, else the earliest.
	Latest bool
	// Limit is how many are listed at most.
	Limit int
}

// Has reports whether t is one of them.
func (c *Charges) Has(t *Transaction) bool {
	at := Position{t.Created, t.ID}
	return t.Kind == Charge && t.Tenant == c.Tenant && (c.Order == "" || t.Order == c.Order) &&
		(c.After.At.IsZero() || c.After.Before(at)) && (c.Before.At.IsZero() || at.Before(c.Before))
}

// Compare orders two as they are listed.
func (c *Charges) Compare(a, b *Transaction) int {
	if c.Latest {
		a, b = b, a
	}
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
}

// AccountKey is a place in a region's balances, which are in the order of account
// and then of currency.
type AccountKey struct {
	Account  Account
	Currency string
}

func (k AccountKey) compare(other AccountKey) int {
	return cmp.Or(cmp.Compare(k.Account, other.Account), cmp.Compare(k.Currency, other.Currency))
}

// ErrConflict: another transaction has the same ID, or has booked the same incoming payment.
var ErrConflict = errors.New("ledger: another transaction has this id or books this movement")

// Store keeps the books of every region. Transactions of claims are appended by claim.Store's
// Settle. Nothing changes one, and only its export to segments removes one (audit.Store).
// Implementations are safe for concurrent use; errors wrap claim.ErrUnavailable or
// claim.ErrHomeUnreachable if the step may be done or not.
type Store interface {
	// Post validates t and appends it. posted is false if the same transaction is
	// already booked. It fails with ErrConflict if another one has its ID or its
	// incoming payment.
	Post(ctx context.Context, t Transaction) (posted bool, err error)
	// Transaction reads one transaction with authority.
	Transaction(ctx context.Context, region, id string) (t Transaction, found bool, err error)
	// Named reads the transactions that have one of ids, with authority and in no order.
	// Each id is named once.
	Named(ctx context.Context, region string, ids []string) ([]Transaction, error)
	// Transactions lists up to limit transactions of region after a position, and,
	// unless it is zero, before a time.
	Transactions(ctx context.Context, region string, after Position, before time.Time, limit int) ([]Transaction, error)
	// Reversals lists the transactions that reverse one of ids, in the books of all
	// regions, in no order. Each id is named once.
	Reversals(ctx context.Context, ids ...string) ([]Transaction, error)
	// ReversalsAt lists the transactions in the books of region that reverse one, in no
	// order.
	ReversalsAt(ctx context.Context, region, id string) ([]Transaction, error)
	// Charges lists charges in the books of region, by an index.
	Charges(ctx context.Context, region string, c Charges) ([]Transaction, error)
	// Incoming lists the bookings of an incoming movement in the books of all regions, by
	// the provider's reference.
	Incoming(ctx context.Context, provider, ref string) ([]Transaction, error)
	// GhostRefund finds the refund of a ghost by its object, in the books of region.
	GhostRefund(ctx context.Context, region, object string) (t Transaction, found bool, err error)
	// About lists the transactions about one of some objects, as charges, that are no charge,
	// transfer or refund, in the books of region, by id: ghosts, disputes, failures, fees. Each
	// object is named once.
	About(ctx context.Context, region string, objects ...string) ([]Transaction, error)
	// Balances lists up to limit balances of region's transactions after a key,
	// summed by the store from all transactions of the region, and what it has Carried. It
	// scans.
	Balances(ctx context.Context, region string, after AccountKey, limit int) ([]Balance, error)
	// Carried lists up to limit balances, after a key, of the transactions that have left the
	// books of region; see [Carried].
	Carried(ctx context.Context, region string, after AccountKey, limit int) ([]Balance, error)
}

// Reader is the part of [Store] that reads one transaction.
type Reader interface {
	Transaction(ctx context.Context, region, id string) (t Transaction, found bool, err error)
}

// GhostRefunds returns how many refunds of a ghost the books of region hold that have since failed,
// and whether one has not failed (refunded). It reads two rows for each failed refund, and at most
// limit refunds.
func GhostRefunds(ctx context.Context, books Reader, region, provider, ref string, limit int) (failed int, refunded bool, err error) {
	for ; failed < limit; failed++ {
		id := GhostRefundTryID(provider, ref, failed+1)
		if _, found, err := books.Transaction(ctx, region, id); err != nil || !found {
			return failed, false, err
		}
		if _, undone, err := books.Transaction(ctx, region, FailureID(id)); err != nil || !undone {
			return failed, err == nil, err
		}
	}
	return failed, false, nil
}

// Everything returns what the books of regions have about some objects or transactions, in the
// order of At and ID: what has their ids, what is about them, and what reverses any of these, to the
// end. It reads the books of each of regions twice, and those of all regions once for each link of
// the longest chain: a refund that failed is two. Each read finds its rows by an index. missing has
// an error for each read that failed; the rest is there. Each id is named once.
func Everything(ctx context.Context, books interface {
	Named(ctx context.Context, region string, ids []string) ([]Transaction, error)
	About(ctx context.Context, region string, objects ...string) ([]Transaction, error)
	Reversals(ctx context.Context, ids ...string) ([]Transaction, error)
}, regions []string, ids ...string,
) (all []Transaction, missing []error) {
	seen := map[[2]string]bool{}
	add := func(some []Transaction, err error, what string) {
		if err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", what, err))
		}
		for i := range some {
			if key := [2]string{some[i].Region, some[i].ID}; !seen[key] {
				seen[key] = true
				all = append(all, some[i])
			}
		}
	}
	for _, region := range regions {
		some, err := books.Named(ctx, region, ids)
		add(some, err, "booking at "+region)
		some, err = books.About(ctx, region, ids...)
		add(some, err, "bookings about it at "+region)
	}
	for from := 0; from < len(all); { // a reversal may itself be reversed
		var ids []string
		for ; from < len(all); from++ {
			if !slices.Contains(ids, all[from].ID) {
				ids = append(ids, all[from].ID)
			}
		}
		some, err := books.Reversals(ctx, ids...)
		add(some, err, "what reverses "+strings.Join(ids, ", "))
	}
	slices.SortFunc(all, func(a, b Transaction) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	return all, missing
}

// MaxGhostRefunds bounds the refunds of a ghost when one after the other fails: then an
// operator decides. A card that is closed stays closed.
const MaxGhostRefunds = 3
