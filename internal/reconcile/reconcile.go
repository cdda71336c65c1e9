// Package reconcile compares a provider's statement, from a file or a URL, with the books
// and the claims, once or at an interval, and refunds refundable mismatches. It imports
// payment/recon, payment/notice and fault. Its caller passes the books and the refunder.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/recon"
)

const (
	// healTime bounds one compensation: a provider call, and the wait for another
	// holder. The nodes complete what takes longer.
	healTime = 2 * time.Minute
	// Shown is how many mismatches a comparison holds in full.
	Shown = 20
)

// Results for a refundable mismatch.
const (
	healed      = "healed"
	healPending = "pending"
	healLimbo   = "LIMBO"
	healHeld    = "held"
	healDoubt   = "doubtful"
)

// Healings lists all of them, in the order of reports.
var Healings = []string{healed, healPending, healHeld, healDoubt, healLimbo}

// Mismatch is one as it was found, and a line of Out.
type Mismatch struct {
	recon.Mismatch
	// Healing is "", healed, pending, held, doubtful or LIMBO, HealDetail one line about it.
	Healing    string `json:"healing,omitempty"`
	HealDetail string `json:"heal_detail,omitempty"`
}

// Comparison is the result of one run.
type Comparison struct {
	Provider string     `json:"provider"`
	Account  string     `json:"account,omitempty"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	*recon.Report
	// Healing counts refundable mismatches by their outcome.
	Healing map[string]int `json:"healing,omitempty"`
	// First are the first mismatches.
	First []Mismatch `json:"first"`
}

// Of names the provider of the statement, as the books do.
func (c *Comparison) Of() string {
	if c.Account == "" {
		return c.Provider
	}
	return c.Provider + ":" + c.Account
}

// OK reports whether all agree, or were healed.
func (c *Comparison) OK() bool { return c.Unhealed() == 0 }

// Unhealed is how many mismatches were not healed.
func (c *Comparison) Unhealed() int { return c.Total() - c.Healing[healed] }

// Sentence sums it up for people. It reports that the statement agrees only if every line was
// judged.
func (c *Comparison) Sentence() string {
	var said string
	out := c.Unjudged()
	switch {
	case !c.OK():
		said = "The statement does not agree: " + mismatches(c.Unhealed()) + " left."
	case c.Total() > 0:
		said = "What did not agree was healed: " + mismatches(c.Total()) + "."
	case out != "":
		said = "What was compared agrees."
	default:
		said = "The statement agrees with the books and the claims."
	}
	if out != "" {
		said += " Left out: " + out + "."
	}
	return said
}

func mismatches(n int) string {
	if n == 1 {
		return "1 mismatch"
	}
	return fmt.Sprintf("%d mismatches", n)
}

// Reconciler compares the statements of one provider.
type Reconciler struct {
	Statement Statement
	Provider  string // the name under which it is booked
	Account   string // the connected account that the statements are of, "" for our own
	// Slack is how much later than stated a movement may be booked, Lag how much later than
	// booked it may be stated; 0: as of recon.Config.
	Slack, Lag time.Duration
	// Mapping is the format of the statement; nil: it is in Statement.Format.
	Mapping *recon.Mapping
	// Book: movements that only the statement has are booked, through the store that
	// Open opens.
	Book bool
	// Out is a file for all mismatches, as JSON lines; "": there is none.
	Out string
	// Open opens the store to compare with while do runs: its books, claims and
	// regions.
	Open func(ctx context.Context, do func(recon.Config) error) error
	// Heal refunds a ghost; nil: nothing is healed.
	Heal func(context.Context, notice.Ghost) (notice.Progress, string, error)
	// Keep runs each comparison and stores its report. Nil: no report is stored.
	Keep func(compare func() (*Comparison, error)) (*Comparison, error)
	// Found receives the result of each completed comparison. Nil: it is not called.
	Found func(*Comparison)
}

// Repeat compares periodically until ctx ends, and logs. The next round repeats a
// comparison that failed.
func (r *Reconciler) Repeat(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for since := time.Now().UTC().Truncate(time.Second).Add(-every); ; {
		var from, to time.Time
		now := time.Now().UTC().Truncate(time.Second) // as it is in the URL
		if strings.Contains(r.Statement.Name, "{from}") {
			// Movements too near the end of the last period are well within this one.
			from, to = since.Add(-2*r.Slack-recon.LagOf(r.Lag, r.Mapping, recon.Format(r.Statement.Format))), now
		}
		found, err := r.Once(ctx, from, to)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if caught := (*fault.Error)(nil); errors.As(err, &caught) {
				log.Error("reconciliation panicked", "fault", caught)
			}
			log.Error("reconciliation failed; the next run retries it", "statement", r.Statement.display(), "error", err, "next", every)
		default:
			since = now
			found.log(log)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Comparison) log(log *slog.Logger) {
	attrs := []any{"provider", c.Of(), "lines", c.Lines, "bookings", c.Bookings, "claims", c.Claims, "agree", c.Agree, "outside", c.Outside, "other_account", c.OtherAccount, "undecided", c.Undecided}
	for _, class := range recon.Classes() {
		if n := c.Mismatches[class]; n > 0 {
			attrs = append(attrs, string(class), n)
		}
	}
	for _, state := range Healings {
		if n := c.Healing[state]; n > 0 {
			attrs = append(attrs, state, n)
		}
	}
	if len(c.Unknown) > 0 {
		attrs = append(attrs, "unknown_kinds", c.Unknown)
	}
	if out := c.Unjudged(); out != "" {
		attrs = append(attrs, "left_out", out)
		if c.OK() {
			log.Info("what was compared agrees, and something was left out", attrs...)
			return
		}
	}
	if c.OK() {
		log.Info("the statement agrees with the books and the claims", attrs...)
		return
	}
	log.Error("the statement does not agree with the books and the claims", attrs...)
	for _, m := range c.First {
		log.Warn("mismatch", "mismatch", m)
	}
}

// Once compares the statement of a period. A panic becomes its error: the next round
// finds the rest.
func (r *Reconciler) Once(ctx context.Context, from, to time.Time) (*Comparison, error) {
	compare := func() (*Comparison, error) { return r.once(ctx, from, to) }
	if r.Keep == nil {
		return compare()
	}
	return r.Keep(compare)
}

func (r *Reconciler) once(ctx context.Context, from, to time.Time) (_ *Comparison, err error) {
	defer fault.Recover(&err)
	statement, format, err := r.Statement.open(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	found := &Comparison{Provider: r.Provider, Account: r.Account, Healing: map[string]int{}, First: []Mismatch{}}
	if !from.IsZero() {
		found.From = &from
	}
	if !to.IsZero() {
		found.To = &to
	}
	out, err := newOutFile(r.Out)
	if err != nil {
		return nil, err
	}
	defer func() { err = out.finish(err) }()
	err = r.Open(ctx, func(c recon.Config) error {
		c.Account = r.Account
		c.Provider, c.From, c.To, c.Slack, c.Lag, c.Mapping = r.Provider, from, to, r.Slack, r.Lag, r.Mapping
		if !r.Book {
			c.Book = nil
		}
		c.Found = func(ctx context.Context, m recon.Mismatch) error {
			one := r.treat(ctx, m)
			if one.Healing != "" {
				found.Healing[one.Healing]++
			}
			if len(found.First) < Shown {
				found.First = append(found.First, one)
			}
			return out.write(one)
		}
		found.Report, err = recon.Run(ctx, c, statement, format)
		return err
	})
	if err != nil && found.Healing[healed] > 0 {
		err = fmt.Errorf("%w; %d mismatches were healed before that", err, found.Healing[healed])
	}
	if err == nil && r.Found != nil {
		r.Found(found)
	}
	return found, err
}

// treat heals m if it is refundable and healing is on.
func (r *Reconciler) treat(ctx context.Context, m recon.Mismatch) Mismatch {
	one := Mismatch{Mismatch: m}
	if r.Heal == nil || !m.Refundable {
		return one
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	progress, detail, err := r.give(ctx, m.Ghost(r.Provider))
	switch {
	case err != nil:
		one.Healing, one.HealDetail = healPending, err.Error()
	case progress == notice.Compensated:
		one.Healing, one.HealDetail = healed, detail
	case progress == notice.Limbo:
		one.Healing, one.HealDetail = healLimbo, detail
	case progress == notice.Held:
		one.Healing, one.HealDetail = healHeld, detail
	case progress == notice.Doubtful:
		one.Healing, one.HealDetail = healDoubt, detail
	default:
		one.Healing, one.HealDetail = healPending, detail
	}
	return one
}

// give refunds a ghost. A panic over it leaves it to the next run, and the others
// continue.
func (r *Reconciler) give(ctx context.Context, g notice.Ghost) (p notice.Progress, detail string, err error) {
	defer fault.Recover(&err)
	return r.Heal(ctx, g)
}
