package account

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// CheckEvery is how often a process compares its providers' accounts with their rows.
const CheckEvery = time.Minute

// Operators watch for pageAccount.
const pageAccount = "page: a provider's key belongs to another account than the stored one; this node sends the provider nothing until it is restarted with the key of the stored account"

// Keeper keeps the providers of a process to the accounts that their names stand for. It is
// safe for concurrent use.
type Keeper struct {
	store Store
	kept  []*kept
	log   *slog.Logger
}

// NewKeeper returns a Keeper of providers. Call them through [Keeper.Providers] alone.
func NewKeeper(store Store, providers psp.Providers, log *slog.Logger) *Keeper {
	k := &Keeper{store: store, log: log}
	for _, p := range providers {
		k.kept = append(k.kept, &kept{Provider: p})
	}
	return k
}

// Providers returns the kept providers, in their order.
func (k *Keeper) Providers() psp.Providers {
	all := make(psp.Providers, len(k.kept))
	for i, p := range k.kept {
		all[i] = p
	}
	return all
}

// Pin calls [Pin] at the start of a process.
func (k *Keeper) Pin(ctx context.Context, now time.Time) (doubts []string, err error) {
	return Pin(ctx, k.store, k.Providers(), now)
}

// Check compares again, for a running process. If a key belongs to another account than its name's,
// the Keeper sends nothing more to that provider until the two agree again: each call returns
// [psp.NotSentError]. The keeper retries a provider that did not report its account. If the rows
// cannot be read, nothing changes: claims cannot be read, either. Unless a row is missing it reads
// the rows once, and nothing else.
func (k *Keeper) Check(ctx context.Context, now time.Time) error {
	rows, err := k.store.Accounts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range k.kept {
		is, unsaid := p.Account(ctx)
		if unsaid != nil {
			continue // in use under its name, and retried
		}
		err := pin(ctx, k.store, rows, p.Name(), is, now)
		var other *OtherAccountError
		switch {
		case errors.As(err, &other):
			if p.other.Swap(other) == nil {
				k.log.Error(pageAccount, "provider", other.Provider, "key_is_of", other.Is, "name_stands_for", other.Pinned, "since", other.Since)
			}
		case err != nil:
			errs = append(errs, err)
		case p.other.Swap(nil) != nil:
			k.log.Info("the provider's key belongs to the stored account again; calls to the provider resume", "provider", p.Name(), "account", is)
		}
	}
	return errors.Join(errs...)
}

// kept is a provider that receives nothing while its key belongs to another account. It
// caches the account: a key belongs to one account for ever.
type kept struct {
	psp.Provider
	other atomic.Pointer[OtherAccountError]
	mu    sync.Mutex
	said  string
}

// Account implements [psp.Accounted].
func (p *kept) Account(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said != "" {
		return p.said, nil
	}
	is, err := ask(ctx, p.Provider)
	if err == nil {
		p.said = is
	}
	return is, err
}

// stopped is the result of a call that is not made.
func (p *kept) stopped() (err error, stopped bool) {
	if p.other.Load() == nil {
		return nil, false
	}
	return &psp.NotSentError{RetryIn: CheckEvery, Reason: "the provider's key is of another account than its name stands for"}, true
}

func (p *kept) call(ctx context.Context, call psp.Call, move func(context.Context, psp.Call) psp.Result) psp.Result {
	if err, stopped := p.stopped(); stopped {
		return psp.Result{Err: err}
	}
	return move(ctx, call)
}

// Charge implements [psp.Provider].
func (p *kept) Charge(ctx context.Context, call psp.Call) psp.Result {
	return p.call(ctx, call, p.Provider.Charge)
}

// Transfer implements [psp.Provider].
func (p *kept) Transfer(ctx context.Context, call psp.Call) psp.Result {
	return p.call(ctx, call, p.Provider.Transfer)
}

// Refund implements [psp.Provider].
func (p *kept) Refund(ctx context.Context, call psp.Call) psp.Result {
	return p.call(ctx, call, p.Provider.Refund)
}

// Capture implements [psp.Provider].
func (p *kept) Capture(ctx context.Context, call psp.Call) psp.Result {
	return p.call(ctx, call, p.Provider.Capture)
}

// Cancel implements [psp.Provider].
func (p *kept) Cancel(ctx context.Context, call psp.Call) psp.Result {
	return p.call(ctx, call, p.Provider.Cancel)
}

// Lookup implements [psp.Provider]. Another account finds nothing, which proves
// nothing.
func (p *kept) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	if err, stopped := p.stopped(); stopped {
		return psp.FoundUnknown, psp.Result{Err: err}
	}
	return p.Provider.Lookup(ctx, call)
}

// Show implements [psp.Provider], as Lookup.
func (p *kept) Show(ctx context.Context, kind psp.Kind, reference, providerRef string) (psp.Found, psp.Movement, error) {
	if err, stopped := p.stopped(); stopped {
		return psp.FoundUnknown, psp.Movement{}, err
	}
	return p.Provider.Show(ctx, kind, reference, providerRef)
}
