// Package account records which account each provider's name stands for, and what is
// still open at a provider that was removed from the settings.
//
// A name is part of the books, of provider keys and of the path of webhooks. With a key
// of another account under the same name, every look-up would find nothing, and
// movements of the first account would be made again in the second. So the first use of
// a name writes the provider's account id into a row. Each start compares, and so does
// each process every [CheckEvery], as an operator may change the account meanwhile: the
// process then sends nothing more under that name ([Keeper]). A provider that does not
// report its account is in use under its name all the same, and is not compared.
//
// Rows are few. Starts and operators read and write them; payments do not. They are
// changed by compare-and-set.
//
// # Crash points
//
//	ask the provider | write the row | call the provider for the first time
//
//	before the row is durable  the next start asks again; nothing was called under the name
//	after it                   the next start finds the row and compares
package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Row is the account of one provider's name.
type Row struct {
	Provider string `json:"-"`
	// Version counts changes; 0 if there is no row.
	Version uint64 `json:"-"`
	// Account is the provider's id of the account; "" if it never reported one.
	Account string `json:"account,omitempty"`
	// Pinned is when Account was written, by the writer's clock; zero without one.
	Pinned time.Time `json:"pinned,omitzero"`
}

// Store keeps rows, for the whole deployment. Implementations are safe for concurrent use.
type Store interface {
	// Accounts reads all rows, by provider.
	Accounts(ctx context.Context) ([]Row, error)
	// PutAccount writes a row if its version has not changed since it was read; 0: if
	// there is none. changed is false if it has. After an error the write may be done or
	// not: read again.
	PutAccount(ctx context.Context, r Row) (changed bool, err error)
}

// Work reads what is open in the regions. Both methods are for starts and for
// operators.
type Work interface {
	// Calls lists up to limit provider calls of home with an id above after, in order
	// of ids, including parked ones.
	Calls(ctx context.Context, home, after string, limit int) ([]outbox.Message, error)
	// Ghosts lists up to limit ghosts that are booked in home at a provider, after an
	// id, in order of ids.
	Ghosts(ctx context.Context, home, provider, after string, limit int) ([]ledger.Transaction, error)
	Get(ctx context.Context, key claim.Key, home string) (rec claim.Record, now time.Time, found bool, err error)
	Transaction(ctx context.Context, home, id string) (t ledger.Transaction, found bool, err error)
	// ReversalsAt lists the reversals of a transaction in the books of home.
	ReversalsAt(ctx context.Context, home, id string) ([]ledger.Transaction, error)
}

// Homes is the Work of a deployment: of the regions in Names, which Codes maps to their
// codes.
type Homes struct {
	Work
	Names []string
	Home  func(claim.RegionCode) (string, bool)
}

// askTime bounds one question for an account: a start waits for it.
const askTime = 5 * time.Second

// maxTries bounds compare-and-set among nodes that start together.
const maxTries = 8

// errRestless: the rows change faster than they can be written.
var errRestless = errors.New("the rows of the providers' accounts keep changing; try again")

// OtherAccountError: a provider's key belongs to another account than its name's.
type OtherAccountError struct {
	Provider, Is, Pinned string
	Since                time.Time
}

func (e *OtherAccountError) Error() string {
	return fmt.Sprintf("the key of the provider %s is of the account %s, and %s has been the account %s since %s; set the key of that one, give the other account a name of its own, or accept it with: homeward account accept --provider %s --account %s",
		e.Provider, e.Is, e.Provider, e.Pinned, e.Since.UTC().Format(time.RFC3339), e.Provider, e.Is)
}

// Pin compares each provider's account with its row, and writes missing rows. doubts
// are lines about providers that did not answer; an error has one line for each
// provider with another account, or without a comparison.
func Pin(ctx context.Context, store Store, providers psp.Providers, now time.Time) (doubts []string, err error) {
	rows, err := store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range providers {
		is, unsaid := ask(ctx, p)
		if unsaid != nil {
			doubts = append(doubts, doubt(p.Name(), unsaid))
		}
		errs = append(errs, pin(ctx, store, rows, p.Name(), is, now))
	}
	return doubts, errors.Join(errs...)
}

func doubt(provider string, unsaid error) string {
	return fmt.Sprintf("the provider %s does not say which account its key opens, so that it cannot be compared: %v", provider, unsaid)
}

// ask returns the account of p, "" if it reports none.
func ask(ctx context.Context, p psp.Provider) (string, error) {
	accounted, ok := p.(psp.Accounted)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return accounted.Account(ctx)
}

// pin compares a provider's account with its row among rows, or writes that.
func pin(ctx context.Context, store Store, rows []Row, provider, is string, now time.Time) error {
	for range maxTries {
		row := rowOf(rows, provider)
		switch {
		case is != "" && row.Account != "" && row.Account != is:
			return &OtherAccountError{provider, is, row.Account, row.Pinned}
		case row.Version != 0 && (is == "" || row.Account == is):
			return nil
		}
		next := row
		if is != "" && row.Account == "" {
			next.Account, next.Pinned = is, now
		}
		changed, err := store.PutAccount(ctx, next)
		if err != nil || changed {
			return err
		}
		if rows, err = store.Accounts(ctx); err != nil {
			return err
		}
	}
	return errRestless
}

func find(ctx context.Context, store Store, provider string) (Row, error) {
	rows, err := store.Accounts(ctx)
	if err != nil {
		return Row{}, err
	}
	return rowOf(rows, provider), nil
}

func rowOf(rows []Row, provider string) Row {
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Provider == provider }); i >= 0 {
		return rows[i]
	}
	return Row{Provider: provider}
}

// ErrUnknown: no provider of that name has been in use.
var ErrUnknown = errors.New("no provider of that name has been used")

// OpenError: the account of a name cannot change while work is open in the former one.
type OpenError struct{ Open }

func (e *OpenError) Error() string {
	return fmt.Sprintf("open in the former account are, at %s; a look-up in another account would find none of them, and it would be charged again. Let nodes with the former key end them first, or add --anyway", e.Open.String())
}

// Accept makes account the one of a provider's name, as an operator decided, unless
// work is open at the former one, which is an [*OpenError]. If work is nil, Accept does
// not check for open work. changed is false if it is the account already.
//
// Accept counts work once, and does not stop the name before. So no process may still
// have a key of the former account: what such a process begins meanwhile would be
// looked up in the new account, and made again.
func Accept(ctx context.Context, store Store, work *Homes, provider, account string, now time.Time) (changed bool, err error) {
	for range maxTries {
		row, err := find(ctx, store, provider)
		switch {
		case err != nil:
			return false, err
		case row.Version == 0:
			return false, ErrUnknown
		case row.Account == account:
			return false, nil
		}
		if work != nil && row.Account != "" {
			o, err := openAt(ctx, work, provider)
			switch {
			case err != nil:
				return false, fmt.Errorf("the open work at the provider %s could not be counted: %w", provider, err)
			case !o.None():
				return false, &OpenError{o}
			}
		}
		row.Account, row.Pinned = account, now
		if changed, err := store.PutAccount(ctx, row); err != nil || changed {
			return changed, err
		}
	}
	return false, errRestless
}

// Open is what is open at one provider.
type Open struct {
	Provider string
	// Claims counts charges, transfers and compensations with an open outcome; Refunds
	// counts refunds of charges that were made there; Ghosts counts ghosts there that
	// are not refunded.
	Claims, Refunds, Ghosts int
}

// None reports whether nothing is open.
func (o *Open) None() bool { return o.Claims == 0 && o.Refunds == 0 && o.Ghosts == 0 }

func (o *Open) String() string {
	return fmt.Sprintf("%s: %d claims, %d refunds and %d ghosts", o.Provider, o.Claims, o.Refunds, o.Ghosts)
}

// page is how many rows are read at once.
const page = 1000

// CheckRemoved counts what is open at providers that have been in use and are not among those
// named. It reads every open call once for each. An error is one line with the numbers.
func CheckRemoved(ctx context.Context, store Store, work *Homes, named []string) error {
	rows, err := store.Accounts(ctx)
	if err != nil {
		return err
	}
	var open []string
	for _, row := range rows {
		if slices.Contains(named, row.Provider) {
			continue
		}
		o, err := openAt(ctx, work, row.Provider)
		if err != nil {
			return fmt.Errorf("the open work at the provider %s could not be counted: %w", row.Provider, err)
		}
		if !o.None() {
			open = append(open, o.String())
		}
	}
	if len(open) == 0 {
		return nil
	}
	return fmt.Errorf("providers that are not in the settings have open work (%s), which only a node that has them can finish; put them back until it is finished, or set leave_providers to %s to leave it open",
		strings.Join(open, "; "), "["+strings.Join(names(open), ", ")+"]")
}

func names(open []string) (all []string) {
	for _, line := range open {
		name, _, _ := strings.Cut(line, ":")
		all = append(all, name)
	}
	return all
}

// openAt counts what is open at provider.
func openAt(ctx context.Context, work *Homes, provider string) (o Open, err error) {
	o.Provider = provider
	for _, at := range work.Names {
		for after := ""; ; {
			calls, err := work.Calls(ctx, at, after, page)
			if err != nil {
				return o, err
			}
			for i := range calls {
				if err := o.count(ctx, work, &calls[i]); err != nil {
					return o, err
				}
			}
			if len(calls) < page {
				break
			}
			after = calls[len(calls)-1].ID
		}
		for after := ""; ; {
			ghosts, err := work.Ghosts(ctx, at, provider, after, page)
			if err != nil {
				return o, err
			}
			for i := range ghosts {
				owed, err := isOwed(ctx, work, &ghosts[i])
				if err != nil {
					return o, err
				}
				if owed {
					o.Ghosts++
				}
			}
			if len(ghosts) < page {
				break
			}
			after = ghosts[len(ghosts)-1].ID
		}
	}
	return o, nil
}

// count counts a call if it is the provider's.
func (o *Open) count(ctx context.Context, work *Homes, m *outbox.Message) error {
	rec, _, found, err := work.Get(ctx, claim.Key{Tenant: m.Tenant, Value: m.Key}, m.Region)
	if err != nil || !found || rec.Minted.ID != m.ID || rec.State != claim.InFlight {
		return err
	}
	if !payment.Unbound()[rec.Operation] {
		if with, _ := rec.With([]string{o.Provider}); with == o.Provider {
			o.Claims++
		}
		return nil
	}
	if payment.Operation(rec.Operation).Orders() {
		return nil // of a charge that is counted itself
	}
	in, err := payment.Parse(payment.Operation(m.Operation), m.Payload)
	if err != nil {
		return nil // no node can execute it
	}
	_, code, _ := claim.ReadObjectID(in.Charge)
	at, ok := work.Home(code)
	if !ok {
		return fmt.Errorf("the home of the charge %s has the code %d, which is not in the topology", in.Charge, code)
	}
	charge, found, err := work.Transaction(ctx, at, in.Charge)
	if err == nil && found && charge.Provider == o.Provider {
		o.Refunds++
	}
	return err
}

// Owing lists the ghosts of one region that are still to be refunded.
type Owing struct {
	// Ghosts have not failed, and their payers do not have all of them back.
	Ghosts []ledger.Transaction
	// Looked is how many ghosts were checked; More: there are others.
	Looked int
	More   bool
}

// Owed checks up to limit ghosts of each of some providers, those booked in home, in the order of their
// ids. It is for operators: three or more reads for each ghost.
func Owed(ctx context.Context, work Work, home string, limit int, providers ...string) (o Owing, err error) {
	for _, provider := range providers {
		ghosts, err := work.Ghosts(ctx, home, provider, "", limit+1) // one more shows whether there are more
		if err != nil {
			return o, err
		}
		o.More = o.More || len(ghosts) > limit
		ghosts = ghosts[:min(len(ghosts), limit)]
		o.Looked += len(ghosts)
		for i := range ghosts {
			owed, err := isOwed(ctx, work, &ghosts[i])
			if err != nil {
				return o, err
			}
			if owed {
				o.Ghosts = append(o.Ghosts, ghosts[i])
			}
		}
	}
	return o, nil
}

// isOwed reports whether a ghost is still to be refunded: it has not failed, no refund of it counts, and
// its payer does not have all of it back without us.
func isOwed(ctx context.Context, work Work, ghost *ledger.Transaction) (bool, error) {
	_, failed, err := work.Transaction(ctx, ghost.Region, ledger.FailureID(ghost.ID))
	if err != nil || failed {
		return false, err
	}
	_, refunded, err := ledger.GhostRefunds(ctx, work, ghost.Region, ghost.Provider, ghost.ProviderRef, ledger.MaxGhostRefunds)
	if err != nil || refunded {
		return false, err
	}
	back, err := ledger.ReturnedWithout(ctx, work, ghost.Region, ghost.ID)
	return back < ghost.Amount, err
}
