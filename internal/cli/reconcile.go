package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homeward-io/homeward/fault"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/webhook"
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

const (
	// fetchTime bounds a download: a million lines are some 100 MB, at 1 Mbit/s a
	// quarter of an hour.
	fetchTime = 30 * time.Minute
	// headTime is how long a provider may think before it begins to answer.
	headTime = 2 * time.Minute
	// healTime bounds one compensation: a provider call, and the wait for whoever has
	// it in hand already. What takes longer is finished by the nodes.
	healTime = 2 * time.Minute
	// shownMismatches is how many are printed.
	shownMismatches = 20
	// demoProvider is the name under which the demo books.
	demoProvider = "simulator"
)

// What became of a refundable mismatch.
const (
	healed      = "healed"
	healPending = "pending"
	healLimbo   = "LIMBO"
	healHeld    = "held"
	healDoubt   = "doubtful"
)

// healings are all of them, in the order of reports.
var healings = []string{healed, healPending, healHeld, healDoubt, healLimbo}

// foundMismatch is a line of --out.
type foundMismatch struct {
	recon.Mismatch
	// Healing is "", healed, pending, held, doubtful or LIMBO, HealDetail one line about it.
	Healing    string `json:"healing,omitempty"`
	HealDetail string `json:"heal_detail,omitempty"`
}

// comparison is what one run came to; it is the JSON of homeward reconcile.
type comparison struct {
	Provider string     `json:"provider"`
	From     *time.Time `json:"from,omitempty"`
	To       *time.Time `json:"to,omitempty"`
	*recon.Report
	// Healing counts what became of refundable mismatches.
	Healing map[string]int `json:"healing,omitempty"`
	// First are the first mismatches.
	First []foundMismatch `json:"first"`
}

// ok reports whether all agree, or were made to.
func (c *comparison) ok() bool { return c.Total() == c.Healing[healed] }

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
	r := &reconciler{reconcileCommand: c, io: io, stdin: os.Stdin, open: (&storeFlags{Data: c.Data, Config: c.Config}).withBooks}
	log := slog.New(slog.NewJSONHandler(io.err, nil))
	provider := demoProvider
	if c.Data == "" {
		settings, secrets, err := node.LoadServeSettings(c.Config, os.Environ())
		if err != nil {
			return err
		}
		provider, log = settings.Provider.Name, jsonLog(io, settings)
		r.open = func(ctx context.Context, do func(*books) error) error {
			return withSQLBooks(ctx, secrets.DatabaseURL, settings.Database.AllowUnverified, do)
		}
		if c.Heal {
			if c.Provider != "" && c.Provider != provider {
				return fmt.Errorf("--provider is %s, but the provider of the settings, which would give money back, is %s; use the settings of the one that the statement is of", c.Provider, provider)
			}
			opening, cancel := context.WithTimeout(ctx, node.StartTime)
			defer cancel()
			healer, herr := node.OpenHealer(opening, settings, secrets, log)
			if herr != nil {
				return herr
			}
			defer func() { err = errors.Join(err, parts.Within(ctx, node.DrainTime, healer.Stop)) }()
			r.heal = healer.Compensate
		}
	}
	if r.provider = c.Provider; r.provider == "" {
		r.provider = provider
	}
	if c.Every > 0 {
		r.repeat(ctx, log)
		return nil
	}
	found, err := r.once(ctx, c.From, c.To)
	if err != nil {
		return err
	}
	if err := r.print(found); err != nil {
		return err
	}
	if !found.ok() {
		return &exitError{exitDiffers, errors.New("the statement does not agree with the books and the claims")}
	}
	return nil
}

func (c *reconcileCommand) check() error {
	placeholders := strings.Contains(c.Statement, "{from}") || strings.Contains(c.Statement, "{to}")
	switch {
	case !c.From.IsZero() && !c.To.IsZero() && !c.From.Before(c.To):
		return fmt.Errorf("--from %s must be before --to %s", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	case strings.HasPrefix(strings.ToLower(c.Statement), "http://") && !c.AllowHTTP:
		return fmt.Errorf("--statement: %s is asked without encryption, so that anybody on the way could write the statement; use https, or add --allow-http if that is wanted", display(c.Statement))
	case c.Slack <= 0:
		return fmt.Errorf("--slack must be above 0, is %v", c.Slack)
	case c.Every < 0:
		return fmt.Errorf("--every must be above 0, is %v", c.Every)
	case c.Every > 0 && c.Statement == "-":
		return errors.New("--every needs a statement that can be read again; name a file or a URL")
	case c.Every > 0 && (!c.From.IsZero() || !c.To.IsZero()):
		return errors.New("--every compares a later period each time; leave --from and --to out, and write {from} and {to} into the URL")
	case isURL(c.Statement) && placeholders && c.Every == 0 && (c.From.IsZero() || c.To.IsZero()):
		return errors.New("the URL has a place for the period; give --from and --to")
	case c.Heal && c.Data != "":
		return errors.New("--heal needs the database of running nodes, which finish what is begun; leave --data out")
	case c.JSON && c.Every > 0:
		return errors.New("--every logs, as JSON, and prints nothing; leave --json out")
	}
	return nil
}

func isURL(name string) bool {
	scheme, _, found := strings.Cut(strings.ToLower(name), "://")
	return found && (scheme == "http" || scheme == "https")
}

// reconciler is a command with what it works on.
type reconciler struct {
	*reconcileCommand
	io       streams
	stdin    io.Reader
	provider string
	open     func(context.Context, func(*books) error) error
	// heal gives a ghost back; nil: nothing is to be healed.
	heal func(context.Context, webhook.Ghost) (webhook.Progress, string, error)
}

// repeat compares until ctx ends. What cannot be compared now is the next round's.
func (r *reconciler) repeat(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for since := time.Now().UTC().Truncate(time.Second).Add(-r.Every); ; {
		var from, to time.Time
		now := time.Now().UTC().Truncate(time.Second) // as it stands in the URL
		if strings.Contains(r.Statement, "{from}") {
			// What was too near the end of the last period is well within this one.
			from, to = since.Add(-2*r.Slack), now
		}
		found, err := r.once(ctx, from, to)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if caught := (*fault.Error)(nil); errors.As(err, &caught) {
				log.Error("the comparison of the statement panicked", "fault", caught)
			}
			log.Error("the statement could not be compared; it is tried again at the next round", "statement", display(r.Statement), "error", err, "next", r.Every)
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

func (c *comparison) log(log *slog.Logger) {
	attrs := []any{"provider", c.Provider, "lines", c.Lines, "bookings", c.Bookings, "claims", c.Claims, "agree", c.Agree, "outside", c.Outside, "undecided", c.Undecided}
	for _, class := range recon.Classes() {
		if n := c.Mismatches[class]; n > 0 {
			attrs = append(attrs, string(class), n)
		}
	}
	for _, state := range healings {
		if n := c.Healing[state]; n > 0 {
			attrs = append(attrs, state, n)
		}
	}
	if c.ok() {
		log.Info("the statement agrees with the books and the claims", attrs...)
		return
	}
	log.Error("the statement does not agree with the books and the claims", attrs...)
	for _, m := range c.First {
		log.Warn("mismatch", "mismatch", m)
	}
}

// once compares the statement of a period. A panic is its error: what it would have
// found is the next round's.
func (r *reconciler) once(ctx context.Context, from, to time.Time) (_ *comparison, err error) {
	defer fault.Recover(&err)
	statement, format, err := r.fetch(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	found := &comparison{Provider: r.provider, Healing: map[string]int{}, First: []foundMismatch{}}
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
	err = r.open(ctx, func(b *books) error {
		found.Report, err = recon.Run(ctx, recon.Config{
			Books: b, Claims: b, Provider: r.provider, Regions: b.regions, Home: b.home, From: from, To: to, Slack: r.Slack,
			Found: func(ctx context.Context, m recon.Mismatch) error {
				one := r.treat(ctx, m)
				if one.Healing != "" {
					found.Healing[one.Healing]++
				}
				if len(found.First) < shownMismatches {
					found.First = append(found.First, one)
				}
				return out.write(one)
			},
		}, statement, format)
		return err
	})
	if err != nil && found.Healing[healed] > 0 {
		err = fmt.Errorf("%w; %d mismatches were healed before that", err, found.Healing[healed])
	}
	return found, err
}

// treat heals m if it may and is to.
func (r *reconciler) treat(ctx context.Context, m recon.Mismatch) foundMismatch {
	one := foundMismatch{Mismatch: m}
	if r.heal == nil || !m.Refundable {
		return one
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	progress, detail, err := r.give(ctx, m.Ghost(r.provider))
	switch {
	case err != nil:
		one.Healing, one.HealDetail = healPending, err.Error()
	case progress == webhook.Compensated:
		one.Healing, one.HealDetail = healed, detail
	case progress == webhook.Limbo:
		one.Healing, one.HealDetail = healLimbo, detail
	case progress == webhook.Held:
		one.Healing, one.HealDetail = healHeld, detail
	case progress == webhook.Doubtful:
		one.Healing, one.HealDetail = healDoubt, detail
	default:
		one.Healing, one.HealDetail = healPending, detail
	}
	return one
}

// give heals a ghost. A panic over it leaves it to the next run, and the others healed.
func (r *reconciler) give(ctx context.Context, g webhook.Ghost) (p webhook.Progress, detail string, err error) {
	defer fault.Recover(&err)
	return r.heal(ctx, g)
}

// fetch opens the statement.
func (r *reconciler) fetch(ctx context.Context, from, to time.Time) (io.ReadCloser, recon.Format, error) {
	format, known := recon.Format(r.Format), r.Format != ""
	if isURL(r.Statement) {
		return r.download(ctx, from, to, format)
	}
	if !known {
		if format, known = recon.FormatOf(r.Statement); !known {
			return nil, "", fmt.Errorf("%s does not say how it is written; add --format csv or --format jsonl", r.Statement)
		}
	}
	if r.Statement == "-" {
		return io.NopCloser(r.stdin), format, nil
	}
	f, err := os.Open(r.Statement)
	if err != nil {
		return nil, "", fmt.Errorf("the statement cannot be read: %w", err)
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, "", errors.Join(fmt.Errorf("the statement cannot be read: %s is a directory", r.Statement), err, f.Close())
	}
	return f, format, nil
}

// download streams the statement; it is never in memory as a whole.
func (r *reconciler) download(ctx context.Context, from, to time.Time, format recon.Format) (_ io.ReadCloser, _ recon.Format, err error) {
	at := func(t time.Time) string { return url.QueryEscape(t.UTC().Format(time.RFC3339Nano)) }
	where := strings.NewReplacer("{from}", at(from), "{to}", at(to)).Replace(r.Statement)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, "", errors.New("--statement is no URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headTime
	client := &http.Client{Transport: transport, Timeout: fetchTime, CheckRedirect: r.follow}
	defer func() {
		if err != nil {
			transport.CloseIdleConnections()
		}
	}()
	res, err := client.Do(req)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) { // its text has the URL, and that may have a password
			err = inner.Err
		}
		return nil, "", fmt.Errorf("the statement cannot be fetched from %s: %w", display(r.Statement), err)
	}
	body := &download{res.Body, transport}
	if res.StatusCode != http.StatusOK {
		return nil, "", errors.Join(fmt.Errorf("the statement cannot be fetched: %s answered %s", display(r.Statement), res.Status), body.Close())
	}
	if format == "" {
		var known bool
		if format, known = formatOfType(res.Header.Get("Content-Type")); !known {
			if format, known = recon.FormatOf(req.URL.Path); !known {
				return nil, "", errors.Join(fmt.Errorf("%s does not say how its statement is written; add --format csv or --format jsonl", display(r.Statement)), body.Close())
			}
		}
	}
	return body, format, nil
}

// errClearRedirect: what was asked for safely would be answered by anybody.
var errClearRedirect = errors.New("it redirects to http, without encryption; have it redirect to https, or add --allow-http if that is wanted")

// follow decides about a redirect.
func (r *reconciler) follow(req *http.Request, via []*http.Request) error {
	const most = 10 // as http.Client's own
	switch {
	case req.URL.Scheme != "https" && !r.AllowHTTP:
		return errClearRedirect
	case len(via) >= most:
		return fmt.Errorf("it redirects more than %d times", most)
	}
	return nil
}

// download is a body whose connection goes with it.
type download struct {
	io.ReadCloser
	transport *http.Transport
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.transport.CloseIdleConnections()
	return err
}

func formatOfType(contentType string) (recon.Format, bool) {
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "text/csv":
		return recon.CSV, true
	case "application/x-ndjson", "application/jsonl", "application/json-lines":
		return recon.JSONLines, true
	default:
		return "", false
	}
}

// display is a statement's name without what may be secret: of a URL, the host.
func display(statement string) string {
	if !isURL(statement) {
		return statement
	}
	u, err := url.Parse(statement)
	if err != nil {
		return "its URL"
	}
	return u.Host
}

// outFile is --out: beside its place until it is whole. Without a name it takes
// everything and keeps nothing.
type outFile struct {
	name string
	f    *os.File
	buf  *bufio.Writer
}

func newOutFile(name string) (*outFile, error) {
	if name == "" {
		return &outFile{}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &outFile{name, f, bufio.NewWriter(f)}, nil
}

func (o *outFile) write(m foundMismatch) error {
	if o.f == nil {
		return nil
	}
	if err := json.NewEncoder(o.buf).Encode(m); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// finish puts the file into its place, unless there was an error.
func (o *outFile) finish(failed error) error {
	if o.f == nil {
		return failed
	}
	err := errors.Join(o.buf.Flush(), o.f.Close())
	if err == nil && failed == nil {
		err = os.Rename(o.f.Name(), o.name)
	}
	if err != nil {
		err = fmt.Errorf("--out: %w", err)
	}
	if err != nil || failed != nil {
		_ = os.Remove(o.f.Name()) // the other error says more
	}
	return errors.Join(failed, err)
}

func (r *reconciler) print(c *comparison) error {
	if r.JSON {
		return indented(r.io, c)
	}
	fmt.Fprintf(r.io.out, "%d lines, %d bookings and %d claims of %s: %d movements agree, %d lines are of another period, %d are undecided\n",
		c.Lines, c.Bookings, c.Claims, c.Provider, c.Agree, c.Outside, c.Undecided)
	t := table(r.io)
	for _, class := range recon.Classes() {
		fmt.Fprintf(t, "%s\t%d\n", class, c.Mismatches[class])
	}
	for _, state := range healings {
		if n := c.Healing[state]; n > 0 {
			fmt.Fprintf(t, "%s\t%d\n", state, n)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(c.First) == 0 {
		return nil
	}
	fmt.Fprintln(r.io.out)
	fmt.Fprintln(t, "MISMATCH\tREFERENCE\tPROVIDER REF\tTENANT\tSTATED\tBOOKED\tHEALING\tDETAIL")
	for _, m := range c.First {
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
	if more := c.Total() - len(c.First); more > 0 {
		fmt.Fprintf(r.io.err, "there are %d more: --out FILE has all of them\n", more)
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
