package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/payment/notice"
)

type compensationsCommand struct {
	Show    compensationsShowCommand    `cmd:"" default:"withargs" help:"Show which brakes hold automatic refunds, and how many were made in the last hour."`
	Stop    compensationsStopCommand    `cmd:"" help:"Stop automatic refunds at every node, at once."`
	Release compensationsReleaseCommand `cmd:"" help:"Resume automatic refunds, and restart the count."`
}

// Help returns the text that homeward compensations --help adds.
func (compensationsCommand) Help() string {
	return "What is stopped is not lost: the money stays in the books as owed to its payers, and is given back within a minute or two of a release.\n\n" +
		liveHelp
}

type compensationsShowCommand struct {
	liveFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// brakeShown is the JSON of one row of homeward compensations show.
type brakeShown struct {
	// Provider is the name of the provider; "" for the brake of all.
	Provider string `json:"provider"`
	// Status is flowing, or held if this brake or that of all is set.
	Status string `json:"status"`
	// Held is the hold in effect: this brake's, or else that of all.
	Held *notice.Hold `json:"held,omitempty"`
	// Doubt is when the provider last did not confirm a movement to refund, Waiting when a
	// payer had last waited a day for a release.
	Doubt      *notice.Hold `json:"doubt,omitempty"`
	Waiting    *notice.Hold `json:"waiting,omitempty"`
	ReleasedAt *time.Time   `json:"released_at,omitempty"`
	// LastHour is how many refunds were admitted.
	LastHour int `json:"last_hour"`
	// Sums is their sum, in minor units by currency.
	Sums map[string]int64 `json:"sums"`
}

// shownBrake renders b; all is the brake of all providers.
func shownBrake(b notice.Brake, all *notice.Hold, now time.Time) brakeShown {
	s := brakeShown{Provider: b.Provider, Status: "flowing", Held: cmp.Or(b.Held, all), Doubt: b.Doubt, Waiting: b.Waiting, Sums: map[string]int64{}}
	if s.Held != nil {
		s.Status = "held"
	}
	if !b.ReleasedAt.IsZero() {
		s.ReleasedAt = &b.ReleasedAt
	}
	for _, a := range b.Admitted {
		if now.Sub(a.At) < time.Hour {
			s.LastHour++
			s.Sums[a.Currency] += a.Amount
		}
	}
	return s
}

func (c *compensationsShowCommand) Run(ctx context.Context, io streams) error {
	return c.withStore(ctx, func(s *store) error {
		rows, now, err := s.Brakes(ctx)
		if err != nil {
			return err
		}
		all := []brakeShown{}
		var ofAll *notice.Hold
		for _, b := range rows {
			if b.Provider == notice.AllProviders {
				ofAll = b.Held
			}
		}
		for _, b := range rows {
			all = append(all, shownBrake(b, ofAll, now))
		}
		if c.JSON {
			return indented(io, all)
		}
		if len(all) == 0 {
			fmt.Fprintln(io.out, "nothing is stopped, and nothing was given back yet")
			return nil
		}
		t := brakeColumns.list(io)
		for _, b := range all {
			t.row(orAll(b.Provider), b.Status, b.LastHour, holdLine(b.Held), holdLine(b.Doubt))
		}
		return t.Flush()
	})
}

func orAll(provider string) string {
	if provider == notice.AllProviders {
		return "(all)"
	}
	return visible(provider)
}

func holdLine(h *notice.Hold) string {
	if h == nil {
		return ""
	}
	return moment(h.At) + " " + h.Reason
}

type compensationsStopCommand struct {
	liveFlags
	Provider string `placeholder:"NAME" help:"Only those of this provider. Default: all."`
	Reason   string `required:"" help:"The reason, for whoever looks next."`
}

func (c *compensationsStopCommand) Run(ctx context.Context, io streams) error {
	if c.Reason == "" {
		return errors.New("--reason is empty; give the reason, for the next operator")
	}
	return c.withStore(ctx, func(s *store) error {
		changed, err := notice.Stop(ctx, s, c.Provider, c.Reason)
		if err != nil {
			return err
		}
		what := "automatic refunds of " + orAll(c.Provider)
		if !changed {
			fmt.Fprintf(io.out, "nothing to do: %s are stopped already; homeward compensations show says why\n", what)
			return nil
		}
		fmt.Fprintf(io.out, "%s are stopped in every region; calls that are under way at this moment still end\n", what)
		return nil
	})
}

type compensationsReleaseCommand struct {
	liveFlags
	Provider string `placeholder:"NAME" help:"Brakes of this provider. Default: the brake of all providers; brakes of single ones stay."`
	Yes      bool   `help:"Release although a restore is in effect: what looks like a ghost may be a charge whose record is lost."`
}

func (c *compensationsReleaseCommand) Run(ctx context.Context, io streams) error {
	return c.withStore(ctx, func(s *store) error {
		allow := func(ctx context.Context) error { return restore.AllowRefunds(ctx, s) }
		if c.Yes {
			allow = nil
		}
		changed, err := notice.Release(ctx, s, c.Provider, allow)
		if errors.Is(err, restore.ErrUnreleased) {
			return fmt.Errorf("%w; look at homeward restore show, and release after homeward restore end, or add --yes", err)
		}
		if err != nil {
			return err
		}
		what := "automatic refunds of " + orAll(c.Provider)
		if !changed {
			fmt.Fprintf(io.out, "nothing to do: %s are not stopped by that brake; homeward compensations show has them all\n", what)
			return nil
		}
		fmt.Fprintf(io.out, "%s go on, counted anew from now\n", what)
		return nil
	})
}
