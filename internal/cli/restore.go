package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/restore"
)

type restoreCommand struct {
	Begin   restoreBeginCommand   `cmd:"" help:"Record a database restore before any node starts."`
	Audit   restoreAuditCommand   `cmd:"" help:"Recover lost claims from the exported audit."`
	Show    restoreShowCommand    `cmd:"" help:"Show the lost time, recovered claims and what is left to do."`
	Release restoreReleaseCommand `cmd:"" help:"Stop withholding unknown keys, on your word."`
	Book    restoreBookCommand    `cmd:"" help:"Book lost charges that nobody has asked for again."`
	End     restoreEndCommand     `cmd:"" help:"End the restore once no lost key would be remembered."`
}

// Help is what homeward restore --help adds.
func (restoreCommand) Help() string {
	return "A database that is put back to a backup has forgotten the claims that were begun since. Without begin, retries of those charge again. " +
		"While a restore stands, a key that may be one of them is answered 503 idempotency_key_withheld, unless the audit says what it was used for; keys from POST /v1/idempotency-keys work at once. " +
		"docs/RUNBOOK.md has the whole procedure.\n\n" + storeHelp
}

// plainStore is storeFlags for what is never sealed.
type plainStore struct{ storeFlags }

func (f *plainStore) do(ctx context.Context, do func(*store) error) error {
	return f.with(ctx, node.ToolPool(), false, do)
}

type restoreBeginCommand struct {
	plainStore
	BackupTime     time.Time `required:"" placeholder:"TIME" help:"When the backup was made, as in 2026-03-01T04:00:00Z; in doubt earlier. What came later is lost."`
	StoppedAt      time.Time `placeholder:"TIME" help:"Since when no node has run; in doubt later. Default: now."`
	By             string    `required:"" help:"Who you are, for whoever looks next."`
	Why            string    `required:"" help:"Why the backup is used."`
	IgnoreSessions bool      `help:"None of the other sessions of the database is a node's."`
}

func (c *restoreBeginCommand) Run(ctx context.Context, io streams) error {
	return c.do(ctx, func(s *store) error {
		r, err := restore.Begin(ctx, s, s.rows, restore.Lost{From: c.BackupTime, Until: c.StoppedAt, By: c.By, Why: c.Why, Sessions: c.IgnoreSessions})
		if errors.Is(err, restore.ErrSessions) {
			return fmt.Errorf("%w; if none of them is a node's, add --ignore-sessions", err)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(io.out, "claims that were begun from %s to %s are lost; keys of which nothing is known are withheld\nautomatic refunds are stopped\n", moment(r.From), moment(r.Until))
		fmt.Fprintln(io.out, "next: homeward restore audit, then start the nodes")
		return nil
	})
}

type restoreAuditCommand struct {
	plainStore
	bucketFlags
}

// Help is what homeward restore audit --help adds.
func (restoreAuditCommand) Help() string {
	return bucketHelp + "Claims that it has get their objects and provider keys back when their requests are sent again. It may be repeated. A node exports no audit before this was done."
}

func (c *restoreAuditCommand) Run(ctx context.Context, io streams) error {
	return c.do(ctx, func(s *store) error {
		bucket, trust, err := c.open(ctx, c.Data)
		if err != nil {
			return err
		}
		t := table(io)
		fmt.Fprintln(t, "REGION\tSEGMENTS\tCLAIMS\tTOO LITTLE KNOWN\tREAD UNTIL\tENDS BECAUSE")
		r, err := restore.Audit(ctx, s, s.rows, bucket, trust, func(w restore.Witnessed) {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\n", w.Region, w.Segments, len(w.Witnesses), w.Blind, moment(w.Covered), visible(w.Broken))
		})
		if err := errors.Join(err, t.Flush(), bucket.Close()); err != nil {
			return err
		}
		return sayRestore(io, &r)
	})
}

// sayRestore says in a line what r keeps from being done.
func sayRestore(io streams, r *claim.Restore) error {
	line := "no restore stands"
	switch {
	case r.Stands() && r.Phase == claim.RestoreWitnessed:
		line = "everything that matters of what is lost is known: new keys are begun, lost ones are found again"
	case r.Stands():
		line = "not all of what is lost is known: keys without a claim or a witness are withheld"
	}
	_, err := fmt.Fprintln(io.out, line)
	return err
}

type restoreShowCommand struct {
	plainStore
	JSON bool `name:"json" help:"Print JSON."`
}

// restoreShown is the JSON of homeward restore show.
type restoreShown struct {
	claim.Restore
	// Ends is when homeward restore end will end it, Witnesses how many there are.
	Ends      time.Time `json:"ends"`
	Witnesses int       `json:"witnesses"`
}

func (c *restoreShowCommand) Run(ctx context.Context, io streams) error {
	return c.do(ctx, func(s *store) error {
		r, _, err := s.Restore(ctx)
		if err != nil {
			return err
		}
		if !r.Stands() {
			return sayRestore(io, &r)
		}
		windows, err := s.Windows(ctx)
		if err != nil {
			return err
		}
		shown := restoreShown{Restore: r, Ends: r.ForgottenAt(&windows)}
		for after := (claim.Key{}); ; {
			some, err := s.Witnesses(ctx, after, 1000)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			shown.Witnesses += len(some)
			after = some[len(some)-1].Key
		}
		if c.JSON {
			return indented(io, shown)
		}
		fmt.Fprintf(io.out, "lost: what was begun from %s to %s (%s: %s)\n", moment(r.From), moment(r.Until), visible(r.By), visible(r.Why))
		for _, region := range s.regions {
			fmt.Fprintf(io.out, "audit of %s read until %s\n", region, moment(r.Audited[region]))
		}
		fmt.Fprintf(io.out, "%d claims are known\n", shown.Witnesses)
		if err := sayRestore(io, &r); err != nil {
			return err
		}
		_, err = fmt.Fprintf(io.out, "homeward restore end ends it from %s on\n", moment(shown.Ends))
		return err
	})
}

type restoreReleaseCommand struct {
	plainStore
	By  string `required:"" help:"Who says so."`
	Why string `required:"" help:"How you know, as in: every merchant was asked."`
}

func (c *restoreReleaseCommand) Run(ctx context.Context, io streams) error {
	return c.do(ctx, func(s *store) error {
		r, err := restore.Release(ctx, s, c.By, c.Why)
		if err != nil {
			return err
		}
		return sayRestore(io, &r)
	})
}

type restoreEndCommand struct{ plainStore }

func (c *restoreEndCommand) Run(ctx context.Context, io streams) error {
	return c.do(ctx, func(s *store) error {
		if err := restore.End(ctx, s); err != nil {
			return err
		}
		_, err := fmt.Fprintln(io.out, "the restore has ended; homeward compensations release lets automatic refunds go on, once homeward reconcile agrees")
		return err
	})
}
