package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// The kinds of movements that we did not request, and of operators' decisions.
const (
	// DisputeOpened: a payer disputes a charge, and our debt to the tenant for it is
	// held back. Dispute: the provider has withdrawn the money. DisputeReversal: it has
	// returned it. DisputeWon: the tenant is owed it again. DisputeLost: the payer
	// keeps it. The five may be booked in any order with the same result.
	DisputeOpened   Kind = "dispute_opened"
	Dispute         Kind = "dispute"
	DisputeReversal Kind = "dispute_reversal"
	DisputeWon      Kind = "dispute_won"
	DisputeLost     Kind = "dispute_lost"
	// ProviderRefund is a refund that a person made at the provider, of a charge or of a
	// ghost.
	ProviderRefund       Kind = "provider_refund"
	ProviderRefundFailed Kind = "provider_refund_failed"
	// TransferReversal is the return of a transfer, or a part of it.
	TransferReversal Kind = "transfer_reversal"
	Payout           Kind = "payout"
	PayoutReversal   Kind = "payout_reversal"
	// TopUp is money that a provider has debited from our bank.
	TopUp     Kind = "top_up"
	Fee       Kind = "fee"
	FeeRefund Kind = "fee_refund"
	// Conversion is one half of an exchange: money of one currency that a provider has
	// converted to another one.
	Conversion Kind = "conversion"
	// Adjustment is a decision of an operator.
	Adjustment Kind = "adjustment"
)

// Disputed returns the account of a tenant's disputed money.
func Disputed(tenant string) Account { return Account("disputed:" + tenant) }

// Withheld returns the account of the money that a provider withdrew for undecided
// disputes. where is as in [Provider].
func Withheld(where string) Account { return Account("withheld:" + where) }

// Bank returns the account of a provider's payouts to our bank, or to that of a
// connected account.
func Bank(where string) Account { return Account("bank:" + where) }

// Fees returns the account of the fees that a provider kept.
func Fees(where string) Account { return Account("fees:" + where) }

// Exchange returns the account that balances a provider's currency conversions: its
// debit in one currency matches its credit in another.
func Exchange(where string) Account { return Account("exchange:" + where) }

const classProvider = "provider"

// classes are those of accounts; the value reports whether a tenant owns them.
var classes = map[string]struct{ tenant bool }{
	classProvider: {}, "withheld": {}, "bank": {}, "fees": {}, "exchange": {},
	"merchant": {true}, "suspense": {true}, "disputed": {true},
}

// ReadAccount splits an account into its class and its owner. ok is false if there is
// no such class, or no owner; tenant is the owner if that is a tenant.
func ReadAccount(a Account) (class, owner, tenant string, ok bool) {
	class, owner, _ = strings.Cut(string(a), ":")
	c, found := classes[class]
	if !found || owner == "" {
		return "", "", "", false
	}
	if c.tenant {
		tenant = owner
	}
	return class, owner, tenant, true
}

// Classes returns the classes of accounts, sorted.
func Classes() []string {
	names := make([]string, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// UnaskedID names a movement that a provider made by itself. It depends only on the
// provider's reference, so the movement is booked once, however often and wherever it
// is reported.
func UnaskedID(kind Kind, provider, ref string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "homeward/unasked/v1\x00%d:%s%d:%s%s", len(kind), kind, len(provider), provider, ref))
	return string(kind) + "_" + hex.EncodeToString(sum[:16])
}

// AdjustmentID names an adjustment by the reference that its author gave it.
func AdjustmentID(reference string) string { return "adjustment_" + reference }

// UnaskedOf returns the transaction for amount of the money of of, a charge, ghost or
// transfer, that its provider moved without a request under the reference ref, in the
// books and the currency of of. kind is one of those of disputes, ProviderRefund or
// TransferReversal.
func UnaskedOf(of Transaction, kind Kind, ref string, amount int64) Transaction {
	t := Transaction{
		ID: UnaskedID(kind, of.Provider, ref), Region: of.Region, Tenant: of.Tenant, Kind: kind, Amount: amount, Currency: of.Currency,
		Object: of.Object, Provider: of.Provider, ProviderRef: ref,
	}
	_, where, _, _ := ReadAccount(of.Held())
	disputed, withheld, provider := Disputed(of.Tenant), Withheld(where), Provider(where)
	switch kind {
	case DisputeOpened: // the creditor of the original: a merchant, or a payer
		t.Debit, t.Credit, t.Reverses = of.Credit, disputed, of.ID
	case DisputeWon:
		t.Debit, t.Credit, t.Reverses = disputed, of.Credit, UnaskedID(DisputeOpened, of.Provider, ref)
	case DisputeLost:
		t.Debit, t.Credit = disputed, withheld
	case Dispute:
		t.Debit, t.Credit = withheld, provider
	case DisputeReversal:
		t.Debit, t.Credit, t.Reverses = provider, withheld, UnaskedID(Dispute, of.Provider, ref)
	default: // a refund or a reversed transfer swaps the accounts
		t.Debit, t.Credit, t.Reverses = of.Credit, of.Debit, of.ID
	}
	return t
}

// PayoutOf returns the transaction in region for a payout of amount by provider,
// under its reference ref. [PayoutBackOf] reverses it.
func PayoutOf(region, provider, ref string, amount int64, currency string) Transaction {
	where := Where(provider, ref)
	return Transaction{
		ID: UnaskedID(Payout, provider, ref), Region: region, Kind: Payout, Debit: Bank(where), Credit: Provider(where),
		Amount: amount, Currency: currency, Object: ref, Provider: provider, ProviderRef: ref,
	}
}

// PayoutBackOf returns the transaction for the return of payout, under the provider's
// reference ref, which may be the reference of the payout.
func PayoutBackOf(payout Transaction, ref string) Transaction {
	t := payout
	t.ID, t.Kind, t.Reverses, t.ProviderRef = UnaskedID(PayoutReversal, payout.Provider, ref), PayoutReversal, payout.ID, ref
	t.Debit, t.Credit = payout.Credit, payout.Debit
	return t
}

// TopUpOf returns the transaction in region for amount that provider debited from our bank,
// under its reference ref.
func TopUpOf(region, provider, ref string, amount int64, currency string) Transaction {
	t := PayoutOf(region, provider, ref, amount, currency)
	t.ID, t.Kind, t.Debit, t.Credit = UnaskedID(TopUp, provider, ref), TopUp, t.Credit, t.Debit
	return t
}

// FeeOf returns the transaction in region for a fee that provider kept, by the entry of
// its statement: for tenant's object, or for none if those are "". An amount below 0 is
// a returned fee.
func FeeOf(region, tenant, object, provider, entry string, amount int64, currency string) Transaction {
	where := Where(provider, entry)
	t := Transaction{
		ID: UnaskedID(Fee, provider, entry), Region: region, Tenant: tenant, Kind: Fee, Debit: Fees(where), Credit: Provider(where),
		Amount: amount, Currency: currency, Object: object, Provider: provider, ProviderRef: entry,
	}
	if object == "" {
		t.Object = entry
	}
	if amount < 0 {
		t.ID, t.Kind, t.Debit, t.Credit, t.Amount = UnaskedID(FeeRefund, provider, entry), FeeRefund, t.Credit, t.Debit, -amount
	}
	return t
}

// ConversionOf returns the two transactions of a currency conversion, by the entry of a
// statement: amount of currency was converted into gross of settled. Amounts below 0,
// as for a refund, swap debits and credits.
func ConversionOf(region, tenant, object, provider, entry string, amount int64, currency string, gross int64, settled string) (halves [2]Transaction) {
	where := Where(provider, entry)
	t := Transaction{
		Region: region, Tenant: tenant, Kind: Conversion, Object: object, Provider: provider, ProviderRef: entry,
		Debit: Exchange(where), Credit: Provider(where), Amount: amount, Currency: currency,
	}
	if t.Object == "" {
		t.Object = entry
	}
	from, to := t, t
	from.ID = UnaskedID(Conversion, provider, entry) + "_from"
	to.ID = UnaskedID(Conversion, provider, entry) + "_to"
	to.Debit, to.Credit, to.Amount, to.Currency = t.Credit, t.Debit, gross, settled
	if amount < 0 {
		from.Debit, from.Credit, from.Amount = from.Credit, from.Debit, -amount
		to.Debit, to.Credit, to.Amount = to.Credit, to.Debit, -gross
	}
	return [2]Transaction{from, to}
}

// tenantless reports whether a kind may have no tenant, because it concerns all the
// money that a provider holds for us.
func (k Kind) tenantless() bool {
	switch k {
	case Payout, PayoutReversal, TopUp, Fee, FeeRefund, Conversion, Adjustment:
		return true
	default:
		return false
	}
}

// Undone returns the ID of the transaction that would reverse all of t.
func (t *Transaction) Undone() string {
	if t.Kind == DisputeOpened {
		return UnaskedID(DisputeWon, t.Provider, t.ProviderRef)
	}
	return FailureID(t.ID)
}

// Unprompted reports whether k returns money to payers without a request of ours.
func (k Kind) Unprompted() bool { return k == ProviderRefund || k == DisputeOpened }

// ReturnedWithout sums what payers of a charge or ghost got back without a request of ours.
// It reads one region's books, and one more row for each refund and dispute there.
func ReturnedWithout(ctx context.Context, books interface {
	Reader
	ReversalsAt(ctx context.Context, region, id string) ([]Transaction, error)
}, region, id string,
) (int64, error) {
	all, err := books.ReversalsAt(ctx, region, id)
	if err != nil {
		return 0, err
	}
	return Returned(ctx, books, slices.DeleteFunc(all, func(t Transaction) bool { return !t.Kind.Unprompted() }))
}

// Returned sums the reversals of one transaction that returned money: refunds that have
// not since failed, disputes that were not won, and reversals of transfers. It reads one
// row for each.
func Returned(ctx context.Context, books Reader, reversals []Transaction) (sum int64, err error) {
	for i := range reversals {
		t := &reversals[i]
		if _, failure := t.Kind.Failed(); failure {
			continue
		}
		_, undone, err := books.Transaction(ctx, t.Region, t.Undone())
		if err != nil {
			return 0, err
		}
		if !undone {
			sum += t.Amount
		}
	}
	return sum, nil
}
