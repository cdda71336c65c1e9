package notice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/payment"
)

// AllProviders is the name of the brake that holds every provider's refunds.
const AllProviders = ""

// Brake is the row that holds one provider's automatic refunds, and counts those
// admitted recently. All regions share it.
type Brake struct {
	// Provider is its name in the books, or [AllProviders].
	Provider string `json:"-"`
	// Version counts the changes of the row; 0: there is none yet.
	Version uint64 `json:"-"`
	// Held: no compensation is begun or continues until an operator releases the brake.
	Held *Hold `json:"held,omitempty"`
	// ReleasedAt is when an operator last released it. Refunds admitted before no
	// longer count.
	ReleasedAt time.Time `json:"released_at,omitzero"`
	// Doubt is when the provider last did not confirm a movement to refund.
	Doubt *Hold `json:"doubt,omitempty"`
	// Waiting is when a payer had last waited for a day while refunds were held.
	Waiting *Hold `json:"waiting,omitempty"`
	// Admitted are the refunds that were admitted in the last hour, oldest first.
	Admitted []Admission `json:"admitted,omitempty"`
	// Let are the transactions of refunds that exceeded a limit and that an operator
	// let through since, by a release; the latest last. No limit counts them.
	Let []string `json:"let,omitempty"`
}

// Hold is why a brake is on, or why the node paged.
type Hold struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Paged: the page was logged. It is set after the log line, so that a process that dies
	// in between leaves it to the next.
	Paged bool `json:"paged"`
	// Of is the transaction of the refund that exceeded a limit; "" if an operator set
	// the brake.
	Of string `json:"of,omitempty"`
}

// Admission is one admitted refund.
type Admission struct {
	// ID is that of its transaction.
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Amount   int64     `json:"amount"` // minor units of Currency
	Currency string    `json:"currency"`
}

// BrakeStore keeps brakes. There are few, and all are read at once.
type BrakeStore interface {
	// Brakes reads every row, in the order of providers, with the store's clock.
	Brakes(ctx context.Context) (rows []Brake, now time.Time, err error)
	// PutBrake writes b with its Version raised by one. changed is false, and nothing is done,
	// unless b.Version is the row's, or 0 if there is no row. After an error the write may be done
	// or not: read again.
	PutBrake(ctx context.Context, b Brake) (changed bool, err error)
}

// doubted limits the pages about movements that a provider does not show: one per hour
// for all.
func doubted(b Brake, reason string, now time.Time) (next Brake) {
	next = b
	if b.Doubt == nil || now.Sub(b.Doubt.At) >= window {
		next.Doubt = &Hold{At: now, Reason: reason}
	}
	return next
}

// waited limits the pages about held refunds: one per day for all.
func waited(b Brake, reason string, now time.Time) (next Brake) {
	next = b
	if b.Waiting == nil || now.Sub(b.Waiting.At) >= payment.PageAfter {
		next.Waiting = &Hold{At: now, Reason: reason}
	}
	return next
}

// pageAgain is after how long another process pages if the one that set the brake has
// not.
const pageAgain = time.Minute

// Lines that page an operator: once, however many ghosts wait.
const (
	pageHeldLong = "page: payers have waited a day because automatic refunds are stopped; check homeward compensations, as chargebacks may follow"
	pageHeld     = "page: automatic refunds are stopped; check homeward compensations, find out why there are so many, then release them"
	pageDoubt    = "page: the provider does not confirm movements that its notices or statement name; they are parked, and nothing is refunded"
)

// Brakes decide whether a compensation may proceed. They hold no state, since they act
// on the rows alone, and are safe for concurrent use.
//
// # Crash points
//
//	count the refund | (ghost's claim, see Compensator)
//	set the brake, or record what to page about | page | record that it was paged
//
//	before the count        nothing has happened
//	after it                the next try finds itself counted
//	after the brake is set, no refund is made; the next check, a minute later, pages
//	or after the record
//	after the page          it is paged once more
type Brakes struct {
	Store  BrakeStore
	Limits Limits
	// Off: this process makes no automatic refunds, whatever the rows say.
	Off bool
	// Meters count the limits that stop refunds. Nil: none are counted.
	Meters *meter.Set
	Logger *slog.Logger
}

// offReason is the reason if Off.
const offReason = "automatic refunds are switched off in this node's settings (compensations.on)"

// maxChanges is how often a change of a row is retried: as often as all regions
// together may have changes in progress.
const maxChanges = 64

// errContended: other processes were faster each time.
var errContended = errors.New("webhook: the brake keeps changing; try again")

// Held returns why no compensation of provider may proceed, "" if one may. No brake holds, or counts,
// what moves no money.
func (b *Brakes) Held(ctx context.Context, provider string) (reason string, err error) {
	switch {
	case provider == claim.TestProvider:
		return "", nil
	case b.Off:
		return offReason, nil
	}
	rows, now, err := b.Store.Brakes(ctx)
	if err != nil {
		return "", fmt.Errorf("webhook: the brakes cannot be read: %w", err)
	}
	return b.held(ctx, rows, now, provider), nil
}

func (b *Brakes) held(ctx context.Context, rows []Brake, now time.Time, provider string) string {
	for _, row := range rows {
		if row.Held == nil || row.Provider != AllProviders && row.Provider != provider {
			continue
		}
		if row.Held.overdue(now) {
			b.page(ctx, row)
		}
		return row.Held.Reason
	}
	return ""
}

// brakeOf returns the provider's own brake.
func brakeOf(rows []Brake, provider string) Brake {
	for _, row := range rows {
		if row.Provider == provider {
			return row
		}
	}
	return Brake{Provider: provider}
}

// Admit counts a refund of provider and returns why it may not be made, "" if it may. A
// refund that exceeds a limit sets the brake.
func (b *Brakes) Admit(ctx context.Context, provider string, a Admission) (reason string, err error) {
	switch {
	case provider == claim.TestProvider:
		return "", nil
	case b.Off:
		return offReason, nil
	}
	for range maxChanges {
		rows, now, err := b.Store.Brakes(ctx)
		if err != nil {
			return "", fmt.Errorf("webhook: the brakes cannot be read: %w", err)
		}
		if reason := b.held(ctx, rows, now, provider); reason != "" {
			return reason, nil
		}
		row := brakeOf(rows, provider)
		next, admitted := b.Limits.admit(row, a, now)
		if admitted && len(next.Admitted) == len(row.Admitted) && slices.Equal(next.Admitted, row.Admitted) {
			return "", nil // counted before
		}
		changed, err := b.Store.PutBrake(ctx, next)
		switch {
		case err != nil:
			return "", fmt.Errorf("webhook: the brake cannot be changed: %w", err)
		case !changed:
			continue
		case admitted:
			return "", nil
		}
		b.Meters.Counter(meter.BrakesApplied).Add(1, provider)
		next.Version++
		b.page(ctx, next)
		return next.Held.Reason, nil
	}
	return "", errContended
}

// Doubts pages that provider does not confirm a movement to refund, at most once an hour.
func (b *Brakes) Doubts(ctx context.Context, provider, reason string) error {
	return b.say(ctx, provider, reason, doubted)
}

// Waits pages that a payer has waited for a day for refunds of provider, which are held for
// reason, at most once a day.
func (b *Brakes) Waits(ctx context.Context, provider, reason string) error {
	return b.say(ctx, provider, reason, waited)
}

// say records in the row what rule decides, and pages if that is new.
func (b *Brakes) say(ctx context.Context, provider, reason string, rule func(b Brake, reason string, now time.Time) Brake) error {
	for range maxChanges {
		rows, now, err := b.Store.Brakes(ctx)
		if err != nil {
			return fmt.Errorf("webhook: the brakes cannot be read: %w", err)
		}
		row := brakeOf(rows, provider)
		next := rule(row, reason, now)
		if next.Doubt == row.Doubt && next.Waiting == row.Waiting {
			if row.Doubt.overdue(now) || row.Waiting.overdue(now) {
				b.page(ctx, row)
			}
			return nil
		}
		changed, err := b.Store.PutBrake(ctx, next)
		if err != nil {
			return fmt.Errorf("webhook: the brake cannot be changed: %w", err)
		}
		if changed {
			next.Version++
			b.page(ctx, next)
			return nil
		}
	}
	return errContended
}

// page pages an operator about holds in row that were not paged yet, and records it.
func (b *Brakes) page(ctx context.Context, row Brake) {
	held, doubt, waiting := row.Held.unpaged(), row.Doubt.unpaged(), row.Waiting.unpaged()
	if held != nil {
		b.log().Error(pageHeld, "provider", row.Provider, "reason", held.Reason)
	}
	if doubt != nil {
		b.log().Error(pageDoubt, "provider", row.Provider, "first", doubt.Reason)
	}
	if waiting != nil {
		b.log().Error(pageHeldLong, "provider", row.Provider, "reason", waiting.Reason)
	}
	for range maxChanges {
		row.Held, row.Doubt, row.Waiting = row.Held.withPaged(held), row.Doubt.withPaged(doubt), row.Waiting.withPaged(waiting)
		// If recording fails, the next check, a minute later, pages again.
		if changed, err := b.Store.PutBrake(ctx, row); err != nil || changed {
			return
		}
		rows, _, err := b.Store.Brakes(ctx)
		if err != nil {
			return
		}
		row = brakeOf(rows, row.Provider)
	}
}

// overdue reports whether the process that should have paged about h has not.
func (h *Hold) overdue(now time.Time) bool {
	return h.unpaged() != nil && now.Sub(h.At) >= pageAgain
}

// unpaged returns h if it was not paged yet.
func (h *Hold) unpaged() *Hold {
	if h == nil || h.Paged {
		return nil
	}
	return h
}

// withPaged marks h as paged if it is the hold that was.
func (h *Hold) withPaged(said *Hold) *Hold {
	if h == nil || said == nil || !h.At.Equal(said.At) {
		return h
	}
	withPaged := *h
	withPaged.Paged = true
	return &withPaged
}

func (b *Brakes) log() *slog.Logger { return cmp.Or(b.Logger, slog.Default()) }

// Stop sets the brake of provider for an operator, who gives the reason; of
// [AllProviders] for every one. changed is false if it is set already. The row is written in any
// case, so that a Release that has read it before releases nothing, and reads it again.
func Stop(ctx context.Context, s BrakeStore, provider, reason string) (changed bool, err error) {
	_, err = change(ctx, s, provider, func(b *Brake, now time.Time) (bool, error) {
		if changed = b.Held == nil; changed {
			b.Held = &Hold{At: now, Reason: "stopped by a person: " + reason, Paged: true}
		}
		return true, nil
	})
	return changed && err == nil, err
}

// Release releases the brake. Waiting refunds continue, counted from now, and the refund that
// exceeded the limit is not counted at all: if it exceeds a limit by itself, it would set the brake
// again. changed is false if the brake is not set. If the brake is set, Release calls allow first,
// after it read the brake. Its error keeps the brake. nil allows.
func Release(ctx context.Context, s BrakeStore, provider string, allow func(context.Context) error) (changed bool, err error) {
	return change(ctx, s, provider, func(b *Brake, now time.Time) (bool, error) {
		if b.Held == nil {
			return false, nil
		}
		if allow != nil {
			if err := allow(ctx); err != nil {
				return false, err
			}
		}
		if b.Held.Of != "" {
			b.Let = append(slices.Clone(b.Let), b.Held.Of)
			b.Let = b.Let[max(0, len(b.Let)-maxLet):]
		}
		b.Held, b.ReleasedAt, b.Admitted = nil, now, nil
		return true, nil
	})
}

func change(ctx context.Context, s BrakeStore, provider string, how func(*Brake, time.Time) (bool, error)) (bool, error) {
	for range maxChanges {
		rows, now, err := s.Brakes(ctx)
		if err != nil {
			return false, err
		}
		row := brakeOf(rows, provider)
		if differs, err := how(&row, now); err != nil || !differs {
			return false, err
		}
		if changed, err := s.PutBrake(ctx, row); err != nil || changed {
			return changed, err
		}
	}
	return false, fmt.Errorf("%w: %w", claim.ErrUnavailable, errContended)
}
