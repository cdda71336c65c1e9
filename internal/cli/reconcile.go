package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/reconcile"
	"github.com/homeward-io/homeward/payment/recon"
)

type reconcileCommand struct {
	Statement string        `required:"" placeholder:"FILE|URL" help:"The provider's statement: a file, - for standard input, or an https URL, in which {from} and {to} stand for the period."`
	AllowHTTP bool          `name:"allow-http" help:"Let the URL of the statement be http://: whoever is on the way can then read it, and make up payments that --heal gives back."`
	Format    string        `enum:",csv,jsonl" default:"" placeholder:"csv|jsonl" help:"How it is written. Default: as its name or its Content-Type says."`
	From      time.Time     `placeholder:"TIME" help:"The statement is of movements from this time on, as in 2026-03-01T00:00:00Z. Default: from the beginning."`
	To        time.Time     `placeholder:"TIME" help:"The statement ends before this time. Default: now."`
	Slack     time.Duration `default:"4h" help:"How much later than stated a movement may be booked; what is within it of an edge of the period is not judged."`
	Provider  string        `placeholder:"NAME" help:"The name under which the provider is booked. Default: the one of the settings."`
	Heal      bool          `help:"Give back what nobody is owed, through the provider of the settings."`
	Every     time.Duration `placeholder:"24h" help:"Do it now and again after each such time until stopped, and log each time. {from} and {to} are then the time since the last success, and the slack before it."`
	Out       string        `type:"path" placeholder:"FILE" help:"Write all mismatches there, as JSON lines. The file is replaced when the comparison has come to its end."`
	JSON      bool          `name:"json" help:"Print JSON."`
	Data      string        `type:"path" placeholder:"DIR" help:"Compare with what a stopped demo has left in its --data directory, instead of the database."`
	Config    string        `type:"path" placeholder:"FILE" help:"Settings file (YAML): of the nodes, or with --data of the demo."`
}

// Help is what homeward reconcile --help adds.
func (reconcileCommand) Help() string {
	return `Exit code 0: all agree, or were healed; 1: there are mismatches; 2: it could not be compared.

A statement has the members id, kind (charge, transfer or refund), reference (our id), amount (minor units), currency and created, as columns of CSV or on each line as JSON.

` + storeHelp
}

// demoProvider is the name under which the demo books.
const demoProvider = "simulator"

func (c *reconcileCommand) Run(ctx context.Context, io streams) error {
	if err := c.run(ctx, io); err != nil {
		if coded := (*exitError)(nil); errors.As(err, &coded) {
			return err
		}
		return &exitError{exitUnread, err}
	}
	return nil
}

func (c *reconcileCommand) run(ctx context.Context, io streams) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	r, log, stop, err := c.reconciler(ctx, io)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parts.Within(ctx, node.DrainTime, stop)) }()
	if c.Every > 0 {
		r.Repeat(ctx, c.Every, log)
		return nil
	}
	found, err := r.Once(ctx, c.From, c.To)
	if err != nil {
		return err
	}
	if err := c.print(io, found); err != nil {
		return err
	}
	if !found.OK() {
		return &exitError{exitDiffers, errors.New("the statement does not agree with the books and the claims")}
	}
	return nil
}

// reconciler is what the flags and the settings describe, with its log and what stops it.
func (c *reconcileCommand) reconciler(ctx context.Context, io streams) (r *reconcile.Reconciler, log *slog.Logger, stop func(context.Context) error, err error) {
	r = &reconcile.Reconciler{Statement: c.statement(), Slack: c.Slack, Out: c.Out}
	stop = func(context.Context) error { return nil }
	if c.Data != "" {
		r.Provider, r.Open = cmp.Or(c.Provider, demoProvider), compared((&storeFlags{Data: c.Data, Config: c.Config}).withBooks)
		return r, slog.New(slog.NewJSONHandler(io.err, nil)), stop, nil
	}
	settings, secrets, err := node.LoadServeSettings(c.Config, os.Environ())
	if err != nil {
		return nil, nil, nil, err
	}
	log, r.Provider = jsonLog(io, settings), cmp.Or(c.Provider, settings.Provider.Name)
	r.Open = compared(func(ctx context.Context, do func(*store) error) error {
		pool := booksPool()
		pool.AllowUnverified = settings.Database.AllowUnverified
		return withSQL(ctx, secrets.DatabaseURL, pool, nil, do)
	})
	if !c.Heal {
		return r, log, stop, nil
	}
	if r.Provider != settings.Provider.Name {
		return nil, nil, nil, fmt.Errorf("--provider is %s, but the provider of the settings, which would give money back, is %s; use the settings of the one that the statement is of", c.Provider, settings.Provider.Name)
	}
	opening, cancel := context.WithTimeout(ctx, node.StartTime)
	defer cancel()
	healer, err := node.OpenHealer(opening, settings, secrets, log)
	if err != nil {
		return nil, nil, nil, err
	}
	r.Heal = healer.Compensate
	return r, log, healer.Stop, nil
}

func (c *reconcileCommand) statement() reconcile.Statement {
	return reconcile.Statement{Name: c.Statement, Format: c.Format, AllowHTTP: c.AllowHTTP, Stdin: os.Stdin}
}

// compared hands the store that open opens to a comparison.
func compared(open func(context.Context, func(*store) error) error) func(context.Context, func(recon.Config) error) error {
	return func(ctx context.Context, do func(recon.Config) error) error {
		return open(ctx, func(s *store) error {
			return do(recon.Config{Books: s.rows, Claims: s.rows, Regions: s.regions, Home: s.home})
		})
	}
}

func (c *reconcileCommand) check() error {
	placeholders := strings.Contains(c.Statement, "{from}") || strings.Contains(c.Statement, "{to}")
	switch {
	case !c.From.IsZero() && !c.To.IsZero() && !c.From.Before(c.To):
		return fmt.Errorf("--from %s must be before --to %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	case c.statement().Validate() != nil:
		return c.statement().Validate()
	case c.Slack <= 0:
		return fmt.Errorf("--slack must be above 0, is %v", c.Slack)
	case c.Every < 0:
		return fmt.Errorf("--every must be above 0, is %v", c.Every)
	case c.Every > 0 && c.Statement == "-":
		return errors.New("--every needs a statement that can be read again; name a file or a URL")
	case c.Every > 0 && (!c.From.IsZero() || !c.To.IsZero()):
		return errors.New("--every compares a later period each time; leave --from and --to out, and write {from} and {to} into the URL")
	case c.statement().IsURL() && placeholders && c.Every == 0 && (c.From.IsZero() || c.To.IsZero()):
		return errors.New("the URL has a place for the period; give --from and --to")
	case c.Heal && c.Data != "":
		return errors.New("--heal needs the database of running nodes, which finish what is begun; leave --data out")
	case c.JSON && c.Every > 0:
		return errors.New("--every logs, as JSON, and prints nothing; leave --json out")
	}
	return nil
}

func (c *reconcileCommand) print(io streams, found *reconcile.Comparison) error {
	if c.JSON {
		return indented(io, found)
	}
	fmt.Fprintf(io.out, "%d lines, %d bookings and %d claims of %s: %d movements agree, %d lines are of another period, %d are undecided\n",
		found.Lines, found.Bookings, found.Claims, found.Provider, found.Agree, found.Outside, found.Undecided)
	t := table(io)
	for _, class := range recon.Classes() {
		fmt.Fprintf(t, "%s\t%d\n", class, found.Mismatches[class])
	}
	for _, state := range reconcile.Healings {
		if n := found.Healing[state]; n > 0 {
			fmt.Fprintf(t, "%s\t%d\n", state, n)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(found.First) == 0 {
		return nil
	}
	fmt.Fprintln(io.out)
	fmt.Fprintln(t, "MISMATCH\tREFERENCE\tPROVIDER REF\tTENANT\tSTATED\tBOOKED\tHEALING\tDETAIL")
	for _, m := range found.First {
		detail := m.Detail
		if m.HealDetail != "" {
			detail += "; " + m.HealDetail
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Class, visible(m.Reference), visible(m.ProviderRef), m.Tenant,
			visible(money(m.Stated, m.StatedCurrency)), visible(money(m.Booked, m.BookedCurrency)), m.Healing, visible(detail))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := found.Total() - len(found.First); more > 0 {
		fmt.Fprintf(io.err, "there are %d more: --out FILE has all of them\n", more)
	}
	return nil
}

// money is an amount in minor units, "" for none.
func money(amount int64, currency string) string {
	if currency == "" {
		return ""
	}
	return fmt.Sprintf("%d %s", amount, currency)
}
