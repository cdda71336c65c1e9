package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/restore"
)

type restoreCommand struct {
	Begin   restoreBeginCommand   `cmd:"" help:"Record a database restore before any node starts."`
	Audit   restoreAuditCommand   `cmd:"" help:"Recover lost claims from the exported audit."`
	Show    restoreShowCommand    `cmd:"" help:"Show the lost time, recovered claims and what is left to do."`
	Release restoreReleaseCommand `cmd:"" help:"Stop withholding unknown keys, on your word."`
	Book    restoreBookCommand    `cmd:"" help:"Book lost charges that were not requested again."`
	End     restoreEndCommand     `cmd:"" help:"End the restore once no lost key would be remembered."`
}

// Help returns the text that homeward restore --help adds.
func (restoreCommand) Help() string {
	return "A database that is restored from a backup has forgotten the claims that were begun since. Without begin, retries of those charge again. " +
		"While a restore is in effect, a key that may be one of them is answered 503 idempotency_key_withheld, unless the audit says what it was used for; keys from POST /v1/idempotency-keys work at once. " +
		"docs/RUNBOOK.md has the whole procedure.\n\n" + storeHelp
}

type restoreBeginCommand struct {
	storeFlags
	BackupTime     time.Time `required:"" placeholder:"TIME" help:"When the backup was made, as in 2026-03-01T04:00:00Z; in doubt earlier. What came later is lost."`
	StoppedAt      time.Time `placeholder:"TIME" help:"Since when no node has run; in doubt later. Default: now."`
	By             string    `required:"" help:"Note of who you are, for whoever looks next."`
	Why            string    `required:"" help:"Why the backup is used."`
	IgnoreSessions bool      `help:"None of the other sessions of the database is a node's."`
}

func (c *restoreBeginCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		r, err := restore.Begin(ctx, countedSessions{s}, s.rows, restore.Lost{From: c.BackupTime, Until: c.StoppedAt, By: c.By, Why: c.Why, Sessions: c.IgnoreSessions})
		if errors.Is(err, restore.ErrSessions) {
			return fmt.Errorf("%w; if none of them is a node's, add --ignore-sessions", err)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(io.out, "claims that were begun from %s to %s are lost; keys without a witness are withheld\nautomatic refunds are stopped\n", moment(r.From), moment(r.Until))
		fmt.Fprintln(io.out, "next: homeward restore audit, then start the nodes")
		return nil
	})
}

// countedSessions names each kind of session once: a node's pool has many that are alike.
type countedSessions struct{ *store }

func (s countedSessions) Sessions(ctx context.Context) ([]string, error) {
	all, err := s.store.Sessions(ctx)
	return alike(all), err
}

// alike are the sorted names of all, each once and with how often it is there.
func alike(all []string) []string {
	times := map[string]int{}
	for _, name := range all {
		times[name]++
	}
	names := slices.Sorted(maps.Keys(times))
	for i, name := range names {
		if n := times[name]; n > 1 {
			names[i] = fmt.Sprintf("%s (%d times)", name, n)
		}
	}
	return names
}

type restoreAuditCommand struct {
	storeFlags
	bucketFlags
}

// Help returns the text that homeward restore audit --help adds.
func (restoreAuditCommand) Help() string {
	return bucketHelp + "Claims that it has get their objects and provider keys back when their requests are sent again. It may be repeated. A node exports no audit before this was done."
}

func (c *restoreAuditCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		bucket, trust, err := c.open(ctx, c.Data)
		if err != nil {
			return err
		}
		t := witnessColumns.list(io)
		r, err := restore.Audit(ctx, s, s.rows, bucket, trust, func(w restore.Witnessed) {
			t.row(w.Region, w.Segments, len(w.Witnesses), w.Blind, w.Covered, w.Broken)
		})
		if err := errors.Join(err, t.Flush(), bucket.Close()); err != nil {
			return err
		}
		return s.sayRestore(ctx, io, &r)
	})
}

// sayRestore prints in a line what r withholds.
func (s *store) sayRestore(ctx context.Context, io streams, r *claim.Restore) error {
	line := "no restore is in effect"
	switch {
	case r.Withholds() && s.readTo(r, r.Until):
		line = "every lost claim that matters has a witness: new keys are begun, lost ones are found again"
	case r.Withholds() && r.Phase == claim.RestoreWitnessed:
		witnesses, _, err := restore.CountWitnesses(ctx, s)
		if err != nil {
			return err
		}
		line = fmt.Sprintf("released by %s (%s): %s found; any other lost key charges again", visible(r.ReleasedBy), visible(r.ReleasedWhy), counted(witnesses, "claim"))
	case r.Withholds():
		line = "not all lost claims were found: keys without a claim or a witness are withheld"
	}
	_, err := fmt.Fprintln(io.out, line)
	return err
}

// readTo reports whether the audit of every region was read up to a time.
func (s *store) readTo(r *claim.Restore, to time.Time) bool {
	return !slices.ContainsFunc(s.regions, func(region string) bool { return r.Audited[region].Before(to) })
}

type restoreShowCommand struct {
	storeFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// restoreShown is the JSON of homeward restore show.
type restoreShown struct {
	claim.Restore
	// Ends is when homeward restore end will end it. Witnesses is how many there are, Open
	// how many of them do not show the claim's end.
	Ends      time.Time `json:"ends"`
	Witnesses int       `json:"witnesses"`
	Open      int       `json:"open"`
}

// witnesses prints how many of the lost claims have a witness, and how many of those are withheld.
func (r *restoreShown) witnesses() string {
	text := strconv.Itoa(r.Witnesses)
	if r.Open > 0 && (r.Partial || r.Phase == claim.RestoreHolding) {
		text += fmt.Sprintf("; %d of them withheld, as the audit does not show their end", r.Open)
	}
	return text
}

func (c *restoreShowCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		r, _, err := s.Restore(ctx)
		if err != nil {
			return err
		}
		if !r.Withholds() {
			if c.JSON {
				return indented(io, restoreShown{Restore: r})
			}
			return s.sayRestore(ctx, io, &r)
		}
		windows, err := s.Windows(ctx)
		if err != nil {
			return err
		}
		shown := restoreShown{Restore: r, Ends: r.ForgottenAt(&windows)}
		if r.Settled {
			shown.Ends = r.ResolvedAt(&windows)
		}
		if shown.Witnesses, shown.Open, err = restore.CountWitnesses(ctx, s); err != nil {
			return err
		}
		if c.JSON {
			return indented(io, shown)
		}
		fmt.Fprintf(io.out, "lost: what was begun from %s to %s (%s: %s)\n", moment(r.From), moment(r.Until), visible(r.By), visible(r.Why))
		for _, region := range s.regions {
			fmt.Fprintf(io.out, "audit of %s read until %s\n", region, moment(r.Audited[region]))
		}
		fmt.Fprintf(io.out, "claims in that audit, lost or not: %s\n", shown.witnesses())
		if err := s.sayRestore(ctx, io, &r); err != nil {
			return err
		}
		_, err = fmt.Fprintf(io.out, "homeward restore end ends it from %s on\n", moment(shown.Ends))
		return err
	})
}

type restoreReleaseCommand struct {
	storeFlags
	By  string `required:"" help:"Note of who says so."`
	Why string `required:"" help:"How you know, as in: every merchant was asked."`
	Yes bool   `help:"Release although the audit of a region was never read."`
}

func (c *restoreReleaseCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		if r, _, err := s.Restore(ctx); err != nil {
			return err
		} else if r.Withholds() && !c.Yes && slices.ContainsFunc(s.regions, r.Unread) {
			return errors.New("the audit of what is lost was never read in every region: without it, retries of lost requests charge again; run homeward restore audit, or add --yes if there is no audit")
		}
		r, err := restore.Release(ctx, s, c.By, c.Why)
		if err != nil {
			return err
		}
		return s.sayRestore(ctx, io, &r)
	})
}

type restoreEndCommand struct {
	storeFlags
	ProcessingFor time.Duration `default:"336h" help:"The longest claim.processing_for or claim.action_for of the nodes: claims that may have been in flight are remembered for as long."`
}

func (c *restoreEndCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		windows, err := s.Windows(ctx)
		if err != nil {
			return err
		}
		windows.ProcessingFor = c.ProcessingFor
		r, kept, err := restore.End(ctx, s, &windows)
		if err != nil {
			return err
		}
		if r.Withholds() {
			_, err = fmt.Fprintf(io.out, "the restore has ended but for %d keys whose payments may have been in flight; run homeward restore end again from %s on\n", kept, moment(r.ResolvedAt(&windows)))
			return err
		}
		_, err = fmt.Fprintln(io.out, "the restore has ended; homeward compensations release lets automatic refunds go on, once homeward reconcile agrees")
		return err
	})
}
