package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // --timezone, in an image that has no zones

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/reconcile"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/recon"
)

type reconcileCommand struct {
	Statement string        `placeholder:"FILE|URL" help:"The provider's statement: a file, - for standard input, or an https URL in which {from} and {to} stand for the period. A URL with a password or token is set in HOMEWARD_STATEMENT_URL instead, or in the file that HOMEWARD_STATEMENT_URL_FILE names."`
	AllowHTTP bool          `name:"allow-http" help:"Allow an http:// statement URL. Anybody on the network can then read it, and forge payments that --heal refunds."`
	Format    string        `enum:",csv,jsonl,stripe,adyen,paypal" default:"" placeholder:"csv|jsonl|stripe|adyen|paypal" help:"Format of the statement: csv, jsonl, or a provider's own. Default: from its name or Content-Type."`
	Mapping   string        `type:"path" placeholder:"FILE" help:"A description (YAML) of a provider's CSV: its columns, numbers, times and kinds. payment/recon/mapping/stripe.yaml explains all of it."`
	Timezone  string        `placeholder:"ZONE" help:"Time zone of --day, of CSV times without one, and of the provider's account where its name of a zone is ambiguous, as CST is. As in Europe/Berlin. Default: from the mapping, else UTC."`
	Day       string        `placeholder:"DATE" help:"The statement's day, as in 2026-03-01, instead of --from and --to."`
	From      time.Time     `placeholder:"TIME" help:"Start of the statement's period, as in 2026-03-01T00:00:00Z. Default: the beginning."`
	To        time.Time     `placeholder:"TIME" help:"End of the statement's period, exclusive. Default: now."`
	Slack     time.Duration `default:"4h" help:"How much later than in the statement a movement may be booked. Movements this close to an edge of the period are not judged."`
	Lag       time.Duration `placeholder:"1m" help:"How much later than its booking a movement may appear in the statement. Movements booked so shortly before the end count as in flight. Default: from the mapping, or a minute."`
	Provider  string        `placeholder:"NAME" help:"The name under which the provider is booked. Default: the default of the settings."`
	Account   string        `placeholder:"ID" help:"Connected account of the statement, as in acct_1NZ…. Default: your own account at the provider."`
	Heal      bool          `help:"Refund refundable mismatches through the configured providers."`
	Book      bool          `help:"Book what only the statement shows: fees, payouts, and conversions into the settlement currency. A second run books nothing twice."`
	Every     time.Duration `placeholder:"24h" help:"Repeat at this interval until stopped, and log each run. {from} and {to} then cover the time since the last success, and the slack before it."`
	Out       string        `type:"path" placeholder:"FILE" help:"Write all mismatches to this file as JSON lines. It is replaced once the comparison is complete."`
	metricsFlags
	runsFlags
	JSON   bool   `name:"json" help:"Print JSON."`
	Data   string `type:"path" placeholder:"DIR" help:"Compare with the --data directory of a stopped demo instead of the database."`
	Config string `type:"path" placeholder:"FILE" help:"Settings file (YAML): of the nodes, or with --data of the demo."`

	fallback string // the bucket of runs of the settings, or of --data
}

// Help returns the text that homeward reconcile --help adds.
func (reconcileCommand) Help() string {
	return `Exit code 0: what was compared agrees, or was healed; 1: there are mismatches; 2: it could not be compared. The last line of the summary says whether anything was left out.

A statement has the members id, kind (charge, transfer or refund), reference (our id), amount (minor units), currency and created, as columns of CSV or on each line as JSON. With --format stripe it is Stripe's report "Balance change from activity", itemized, with --format adyen Adyen's settlement details report, with --format paypal PayPal's settlement report; --mapping describes any other. Kinds that are not known are counted and listed.

` + storeHelp + ` It has no --node: it reads the statement where it is started.`
}

// demoProvider is the name of the provider in the demo's books.
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

// secretName matches names of a URL's parameters that are credentials.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|key|sig|auth|cred`)

// source takes the statement from the flag or from the variable, which alone may hold a secret.
func (c *reconcileCommand) source() error {
	secret, err := node.Secret(os.Environ(), node.StatementURL)
	switch {
	case err != nil:
		return err
	case secret == "" && c.Statement == "":
		return fmt.Errorf("no statement is named; name a file or a URL with --statement, or set a URL that holds a secret in %s", node.StatementURL)
	case secret == "":
		if u, err := url.Parse(c.Statement); err == nil && c.statement().IsURL() {
			for name := range u.Query() {
				if secretName.MatchString(name) {
					return fmt.Errorf("--statement: the parameter %s looks like a secret, and every user of this machine can read command lines; set the URL in %s or in the file that %[2]s_FILE names", name, node.StatementURL)
				}
			}
		}
		return nil
	case c.Statement != "":
		return fmt.Errorf("--statement and %s are both set; keep one", node.StatementURL)
	}
	if c.Statement = secret; !c.statement().IsURL() {
		return fmt.Errorf("%s is not an https URL; name a file with --statement", node.StatementURL)
	}
	return nil
}

func (c *reconcileCommand) run(ctx context.Context, io streams) (err error) {
	if err := c.source(); err != nil {
		return err
	}
	if err := c.day(); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	mapping, err := c.mapping()
	if err != nil {
		return err
	}
	r, log, stop, err := c.reconciler(ctx, io)
	if err != nil {
		return err
	}
	r.Mapping, r.Book, r.Account = mapping, c.Book, c.Account
	defer func() { err = errors.Join(err, parts.Within(ctx, node.DrainTime, stop)) }()
	v, flush, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush()) }()
	r.Found = func(found *reconcile.Comparison) {
		if err := v.statement(time.Now(), found); err != nil {
			log.Error("the verdict could not be exported as metrics", "error", err)
		}
	}
	var unkept error
	r.Keep = func(compare func() (*reconcile.Comparison, error)) (found *reconcile.Comparison, err error) {
		found, unkept, err = c.kept(ctx, r.Provider, log, compare)
		return found, err
	}
	if c.Every > 0 {
		defer outliveReaders()()
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
		return &exitError{exitDiffers, errors.Join(errors.New("the statement does not agree with the books and the claims"), unkept)}
	}
	return unkept
}

// kept stores a report of one comparison. A repeated comparison runs even if its report
// cannot be stored; the log reports that.
func (c *reconcileCommand) kept(ctx context.Context, provider string, log *slog.Logger, compare func() (*reconcile.Comparison, error)) (*reconcile.Comparison, error, error) {
	compared := false
	found, unkept, err := kept(ctx, c.url(c.fallback), runs.Run{Kind: runs.Reconcile, Of: provider}, func(*runs.Kept) (*reconcile.Comparison, error) {
		compared = true
		return compare()
	}, reportOfComparison)
	if c.Every == 0 {
		return found, unkept, err
	}
	if !compared {
		unkept = err
		found, err = compare()
	}
	if unkept != nil {
		log.Error("the console's bucket did not take the reconciliation report", "error", unkept)
	}
	return found, nil, err
}

// reconciler is the Reconciler of the flags and the settings, with its log and a
// function to stop it.
func (c *reconcileCommand) reconciler(ctx context.Context, io streams) (r *reconcile.Reconciler, log *slog.Logger, stop func(context.Context) error, err error) {
	r = &reconcile.Reconciler{Statement: c.statement(), Slack: c.Slack, Lag: c.Lag, Out: c.Out}
	stop = func(context.Context) error { return nil }
	c.fallback = runsOf(c.Data)
	if c.Data != "" {
		r.Provider, r.Open = cmp.Or(c.Provider, demoProvider), c.compared(io, (&storeFlags{Data: c.Data, Config: c.Config}).withBooks)
		return r, slog.New(slog.NewJSONHandler(io.err, nil)), stop, nil
	}
	settings, secrets, err := node.LoadServeSettings(c.Config, os.Environ())
	if err != nil {
		return nil, nil, nil, err
	}
	c.fallback = settings.Runs
	log, r.Provider = jsonLog(io, settings), cmp.Or(c.Provider, settings.ProviderNames()[0])
	r.Open = c.compared(io, func(ctx context.Context, do func(*store) error) error {
		pool := booksPool()
		pool.AllowUnverified = settings.Database.AllowUnverified
		return withSQL(ctx, secrets.DatabaseURL, pool, nil, do)
	})
	if !c.Heal {
		return r, log, stop, nil
	}
	if names := settings.ProviderNames(); !slices.Contains(names, r.Provider) {
		return nil, nil, nil, fmt.Errorf("--provider %s is not one of the settings' providers, %s, so nothing can be refunded through it; name the provider of the statement", c.Provider, strings.Join(names, ", "))
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

// zone returns the zone of --timezone.
func (c *reconcileCommand) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil || c.Timezone == "Local" {
		return nil, fmt.Errorf("--timezone: there is no time zone %q; write one as Europe/Berlin", c.Timezone)
	}
	return zone, nil
}

// day converts --day to --from and --to. A day on which clocks change has 23 or 25
// hours.
func (c *reconcileCommand) day() error {
	if c.Day == "" {
		return nil
	}
	if !c.From.IsZero() || !c.To.IsZero() {
		return errors.New("--day is from midnight to midnight; leave --from and --to out")
	}
	zone, err := c.zone()
	if err != nil {
		return err
	}
	if c.From, err = time.ParseInLocation(time.DateOnly, c.Day, zone); err != nil {
		return fmt.Errorf("--day must be a date as 2026-03-01, is %q", c.Day)
	}
	y, m, d := c.From.Date()
	c.To = time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	return nil
}

// mapping returns the mapping of --mapping or --format; nil if the statement is in a
// format of ours.
func (c *reconcileCommand) mapping() (m *recon.Mapping, err error) {
	switch format := recon.Format(c.Format); {
	case c.Mapping != "" && c.Format != "":
		return nil, errors.New("--mapping describes how the statement is written; leave --format out")
	case c.Mapping != "":
		m, err = recon.OpenMapping(c.Mapping)
	case format == "" || format == recon.CSV || format == recon.JSONLines:
		return nil, nil
	default:
		m, err = recon.MappingOf(c.Format)
	}
	if err != nil || c.Timezone == "" {
		return m, err
	}
	zone, err := c.zone()
	if err != nil {
		return nil, err
	}
	return m.In(zone), nil
}

func (c *reconcileCommand) statement() reconcile.Statement {
	format := c.Format
	if c.Mapping != "" {
		format = string(recon.CSV)
	}
	return reconcile.Statement{Name: c.Statement, Format: format, AllowHTTP: c.AllowHTTP, Stdin: os.Stdin}
}

// compared passes the store that open opens to a comparison. Progress is printed to a
// terminal only, beside the log, which is JSON, and never for repeated comparisons.
func (c *reconcileCommand) compared(io streams, open func(context.Context, func(*store) error) error) func(context.Context, func(recon.Config) error) error {
	return func(ctx context.Context, do func(recon.Config) error) error {
		return open(ctx, func(s *store) error {
			left, err := s.leftBefore(ctx, s.regions...)
			if err != nil {
				return err
			}
			books := &countedBooks{Store: s.rows}
			if c.Every == 0 && terminal(io.err) {
				defer io.progress(books.String)()
			}
			return do(recon.Config{
				Books: books, Claims: s.rows, Regions: s.regions, Home: s.home, Common: s.homes()[0],
				Book: s.rows.Post, Left: left,
			})
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
	case c.Account != "" && !strings.HasPrefix(c.Account, psp.AccountPrefix):
		return fmt.Errorf("--account must be the id of a connected account, which starts with %s, is %q; leave it out for your own", psp.AccountPrefix, c.Account)
	case c.Lag < 0:
		return fmt.Errorf("--lag must be above 0, is %v", c.Lag)
	case c.Slack <= 0:
		return fmt.Errorf("--slack must be above 0, is %v", c.Slack)
	case c.Every < 0:
		return fmt.Errorf("--every must be above 0, is %v", c.Every)
	case c.Every > 0 && c.Statement == "-":
		return errors.New("--every needs a statement that can be read again; name a file or a URL")
	case c.Every > 0 && (!c.From.IsZero() || !c.To.IsZero()):
		return errors.New("--every compares a later period each time; leave --from, --to and --day out, and write {from} and {to} into the URL")
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
	fmt.Fprintf(io.out, "%d lines, %d bookings and %d claims of %s: %d movements agree, %d lines are of another period, %d of the account's own business, %d movements are undecided\n",
		found.Lines, found.Bookings, found.Claims, found.Of(), found.Agree, found.Outside, found.OtherAccount, found.Undecided)
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
	printBeside(io, found.Report)
	if err := printUnknown(io, found.Unknown); err != nil {
		return err
	}
	if found.OK() {
		fmt.Fprintln(io.out, found.Sentence())
	}
	if len(found.First) == 0 {
		return nil
	}
	fmt.Fprintln(io.out)
	first := mismatchColumns.list(io)
	for _, m := range found.First {
		detail := m.Detail
		if m.HealDetail != "" {
			detail += "; " + m.HealDetail
		}
		first.row(m.Class, m.Reference, m.ProviderRef, m.Tenant, money(m.Stated, m.StatedCurrency), money(m.Booked, m.BookedCurrency), m.Healing, detail)
	}
	if err := first.Flush(); err != nil {
		return err
	}
	if more := found.Total() - len(found.First); more > 0 {
		fmt.Fprintf(io.err, "there are %d more: --out FILE has all of them\n", more)
	}
	return nil
}

// printBeside prints what only the statement has: what this run booked, and what is not
// booked.
func printBeside(io streams, found *recon.Report) {
	for _, what := range []struct {
		said   string
		counts map[psp.Kind]int
	}{{"booked from the statement", found.Posted}, {"stated and not booked, which --book does", found.NotBooked}} {
		for _, kind := range slices.Sorted(maps.Keys(what.counts)) {
			fmt.Fprintf(io.out, "%d of kind %s %s\n", what.counts[kind], kind, what.said)
		}
	}
}

// printUnknown lists the ignored kinds of lines.
func printUnknown(io streams, kinds map[string]int) error {
	if len(kinds) == 0 {
		return nil
	}
	fmt.Fprintln(io.out)
	t := unknownColumns.list(io)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.row(kind, kinds[kind])
	}
	return t.Flush()
}

// money formats an amount in minor units, "" for none.
func money(amount int64, currency string) string {
	if currency == "" {
		return ""
	}
	return fmt.Sprintf("%d %s", amount, currency)
}
