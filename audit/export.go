package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Policy sets how a region's audit is exported. All nodes of a deployment should use the
// same one; a difference only changes when segments are written.
type Policy struct {
	// Window is the length of a window: a day, or an even part of one. The exporter reads
	// all stored rows of the region once for each window.
	Window time.Duration `koanf:"window"`
	// Settle is how long after its end a window is exported. Rows that arrive later
	// still go into a segment, but only when they are swept.
	Settle time.Duration `koanf:"settle"`
	// KeepRows is how long exported rows stay in the store, or longer if their claim is
	// kept longer.
	KeepRows time.Duration `koanf:"keep_rows"`
	// KeepBooks is how long transactions stay in the store before they leave for a segment;
	// 0: for ever.
	KeepBooks time.Duration `koanf:"keep_books"`
}

// DefaultPolicy exports one window a day.
func DefaultPolicy() Policy {
	return Policy{Window: day, Settle: 15 * time.Minute, KeepRows: 7 * day}
}

const (
	day = 24 * time.Hour
	// MinKeepRows exceeds the life of a claim: its merchant reads the timeline in rows.
	MinKeepRows = 3 * day
	// MaxKeepRows leaves an export that is behind a month before the store drops rows that
	// are 400 days old whether or not they were exported.
	MaxKeepRows = 365 * day
)

// refundsEnd is how long a refund may be under way: twice as long as a payment method may take
// before a person is paged (claim.Policy.ProcessingFor).
const refundsEnd = 30 * day

// RefundFor is how old a charge may be when its refund begins, so that its booking stays until
// the refund ends; 0: any age.
func (p Policy) RefundFor() time.Duration { return max(0, p.KeepBooks-refundsEnd) }

// Validate returns an error that names every invalid setting.
func (p Policy) Validate() error {
	var errs []error
	if p.Window < time.Second || p.Window > day || day%p.Window != 0 {
		errs = append(errs, fmt.Errorf("audit policy: window must be 24h or divide it evenly, is %v", p.Window))
	}
	if p.Settle < 0 || p.Settle > day {
		errs = append(errs, fmt.Errorf("audit policy: settle must be from 0 to 24h, is %v", p.Settle))
	}
	if p.KeepRows < MinKeepRows || p.KeepRows > MaxKeepRows {
		errs = append(errs, fmt.Errorf("audit policy: keep_rows must be from %v to %v, is %v", MinKeepRows, MaxKeepRows, p.KeepRows))
	}
	if p.KeepBooks != 0 && p.KeepBooks < MinKeepBooks {
		errs = append(errs, fmt.Errorf("audit policy: keep_books must be at least %v, or 0 to keep them for ever, is %v", MinKeepBooks, p.KeepBooks))
	}
	return errors.Join(errs...)
}

// Config assembles an [Exporter]. All fields but Mask and Logger are required.
type Config struct {
	Store   Store
	Objects Objects
	Keys    *Keys
	// Deployment is the store's. An exporter writes nothing beside segments of another.
	Deployment uuid.UUID
	Policy     Policy
	// Home is the region of the exported audit, and Node the node that exports it.
	Home, Node string
	// Providers are the names of the providers that claims may have.
	Providers []string
	// Mask masks card numbers in a text; nil changes nothing.
	Mask   func(string) string
	Logger *slog.Logger
	// Entries is the most that a segment has; 0 means 50,000. Page is how many rows one
	// statement scans; 0 means 2,000.
	Entries, Page int
}

// Exporter writes the audit of one region to objects. It keeps no state between two
// rounds. Any number of exporters may work on a region at once; at most one of them
// makes progress.
type Exporter struct{ c Config }

// maxSegment bounds the text of a segment, in bytes, not counting fixed members.
const maxSegment = 24 << 20

// NewExporter returns an Exporter, or an error if the configuration is invalid.
func NewExporter(c Config) (*Exporter, error) {
	if c.Store == nil || c.Objects == nil || c.Keys == nil || c.Deployment == uuid.Nil || c.Home == "" || c.Node == "" {
		return nil, errors.New("audit: an exporter needs Store, Objects, Keys, Deployment, Home and Node")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Entries, c.Page = cmp.Or(c.Entries, 50_000), cmp.Or(c.Page, 2000)
	return &Exporter{c}, nil
}

// Status is the progress of an export.
type Status struct {
	// Exported is until when all entries are in segments.
	Exported time.Time
	// Lag is the age of the oldest window that is due and not exported; 0: none is.
	Lag time.Duration
	// Segments and Entries count what this round wrote, Late the entries written after
	// their window, and Swept the deleted rows.
	Segments, Entries, Late, Swept int
	// Left counts the transactions that left the books.
	Left int
	// RepliesLost counts the lost audit entries of replies, as the segments of
	// this round record them.
	RepliesLost uint64
}

// errRival: another exporter has advanced the chain, which serves as well.
var errRival = errors.New("audit: another exporter has advanced the chain")

// Round exports every due window, and then sweeps the rows that were exported long
// enough ago, and has old books leave. It returns its progress, also with an error.
func (x *Exporter) Round(ctx context.Context) (s Status, err error) {
	for {
		c, now, found, err := x.c.Store.AuditChain(ctx, x.c.Home)
		if err != nil {
			return s, err
		}
		if !found {
			if err := x.begin(ctx, now); err != nil && !errors.Is(err, errRival) {
				return s, err
			}
			continue
		}
		to := x.end(&c)
		due := x.due(&c)
		s.Exported, s.Lag = c.From, max(0, now.Sub(due))
		if now.Before(due) {
			if err = x.sweep(ctx, c, now, &s); err == nil {
				err = x.leave(ctx, now, &s)
			}
			return s, err
		}
		if err := x.segment(ctx, &c, to, now, &s); err != nil && !errors.Is(err, errRival) {
			return s, err
		}
	}
}

// due returns when the window that c is in is exported.
func (x *Exporter) due(c *Chain) time.Time {
	return x.end(c).Add(max(x.c.Policy.Settle, x.c.Store.AuditAge()))
}

// Behind returns the progress of the export as the store has it, for a caller that could not begin a
// round. It writes nothing, and needs no bucket.
func (x *Exporter) Behind(ctx context.Context) (s Status, err error) {
	c, now, found, err := x.c.Store.AuditChain(ctx, x.c.Home)
	if err == nil && !found {
		c.From, err = x.oldest(ctx, now)
	}
	if err != nil {
		return s, err
	}
	return Status{Exported: c.From, Lag: max(0, now.Sub(x.due(&c)))}, nil
}

// Finish exports all rows, in a window that ends now. No node may run, as its later
// commits would come after their window. It first waits until pages have what they wrote.
// It sweeps nothing.
func (x *Exporter) Finish(ctx context.Context) (s Status, err error) {
	var until time.Time
	for {
		c, now, found, err := x.c.Store.AuditChain(ctx, x.c.Home)
		if err != nil {
			return s, err
		}
		if until.IsZero() {
			until = now
		}
		s.Exported = c.From
		if young := until.Add(x.c.Store.AuditAge()).Sub(now); young > 0 {
			if err := pause(ctx, young); err != nil {
				return s, err
			}
			continue
		}
		switch to := x.end(&c); {
		case !found:
			err = x.begin(ctx, until)
		case !c.From.Before(until):
			return s, nil
		case to.Before(until):
			err = x.segment(ctx, &c, to, now, &s)
		default:
			err = x.segment(ctx, &c, until, now, &s)
		}
		if err != nil && !errors.Is(err, errRival) {
			return s, err
		}
	}
}

// pause waits for d, which the store's clock takes, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// end returns the end of the window that c is in, at midnight at the latest. A window that
// has a part keeps its end whoever goes on with it, under whichever policy: a part has the
// times of the whole window for some of the keys, and a later end would leave out what those
// keys have after the first.
func (x *Exporter) end(c *Chain) time.Time {
	if c.Part > 0 {
		return c.To
	}
	return c.From.UTC().Truncate(x.c.Policy.Window).Add(x.c.Policy.Window)
}

// oldest returns the beginning of the window of the oldest row. Pages may lack rows that are younger
// than AuditAge: their windows are after it in any case.
func (x *Exporter) oldest(ctx context.Context, now time.Time) (time.Time, error) {
	oldest := now.Add(-x.c.Store.AuditAge())
	for after, more := (Position{}), true; more; {
		page, err := x.c.Store.AuditPage(ctx, x.c.Home, time.Time{}, oldest, after, x.c.Page)
		if err != nil {
			return oldest, err
		}
		for i := range page.Entries {
			if at := page.Entries[i].At; at.Before(oldest) {
				oldest = at
			}
		}
		after, more = page.Next, page.More
	}
	return oldest.UTC().Truncate(x.c.Policy.Window), nil
}

// begin creates the chain, from the window of the oldest row on.
func (x *Exporter) begin(ctx context.Context, now time.Time) error {
	from, err := x.oldest(ctx, now)
	if err != nil {
		return err
	}
	x.c.Logger.Info("the audit export begins", "home", x.c.Home, "from", from)
	return x.advance(ctx, 0, Chain{From: from})
}

// advance moves the chain; errRival if another exporter has.
func (x *Exporter) advance(ctx context.Context, was uint64, next Chain) error {
	moved, err := x.c.Store.AdvanceAudit(ctx, x.c.Home, was, next)
	if err == nil && !moved {
		return errRival
	}
	return err
}

// segment writes the next segment of the window that c is in, which ends at to, or adopts one of a
// writer that died before it advanced the chain.
func (x *Exporter) segment(ctx context.Context, c *Chain, to, now time.Time, status *Status) error {
	s, found, err := x.leftover(ctx, c, now)
	if err != nil {
		return err
	}
	if !found {
		entries, next, more, err := x.read(ctx, c.From, to, c.After)
		if err != nil {
			return err
		}
		m := x.manifest(c, now)
		m.From, m.To, m.Part, m.After, m.Last = c.From, to, c.Part+1, c.After, !more
		if more {
			m.Until = next
		}
		if s, err = x.write(ctx, m, entries, booked{}); err != nil {
			return err
		}
	}
	if err := x.advance(ctx, c.Version, c.behind(&s)); err != nil {
		return err
	}
	status.Segments++
	status.Entries += s.Entries
	status.RepliesLost += s.RepliesLost
	return nil
}

// behind returns the chain c with the segment s at its end.
func (c Chain) behind(s *Segment) Chain {
	c.Number, c.Digest = s.Number, s.Digest
	switch {
	case s.Late: // a late segment does not move the window
	case s.Books > 0:
		c.Books = s.BooksUntil
	case s.Last:
		c.From, c.To, c.After, c.Part = s.To, time.Time{}, Position{}, 0
	default:
		c.From, c.To, c.After, c.Part = s.From, s.To, s.Until, s.Part
	}
	return c
}

// manifest is that of the segment that follows c.
func (x *Exporter) manifest(c *Chain, now time.Time) Manifest {
	return Manifest{
		Deployment: x.c.Deployment, Region: x.c.Home, Number: c.Number + 1, Previous: c.Digest, Day: c.From.UTC().Format(dayLayout), Written: now, By: x.c.Node,
	}
}

// write makes a segment durable.
func (x *Exporter) write(ctx context.Context, m Manifest, entries []Entry, b booked) (Segment, error) {
	s, data, err := seal(m, entries, b, x.c.Keys)
	if err != nil {
		return s, err
	}
	if err := x.c.Objects.Put(ctx, s.Name, data); err != nil {
		return s, fmt.Errorf("audit: cannot write segment %s: %w", s.Name, err)
	}
	return s, nil
}

// leftover finds a segment that fits c: its writer was stopped before it advanced the chain. Of
// several it takes the one that goes furthest. The writer decided where the first part of a window
// ends, and had its reasons: it may have had another policy, or have finished the export of a store
// that was restored from a backup since.
func (x *Exporter) leftover(ctx context.Context, c *Chain, now time.Time) (s Segment, found bool, err error) {
	var names []string
	err = x.c.Objects.List(ctx, folder(x.c.Home, c.From.UTC().Format(dayLayout)), func(name string) error {
		if n, ok := readName(name); ok && n.number == c.Number+1 {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return s, false, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	for _, name := range names {
		one, _, err := readAll(ctx, x.c.Objects, name, x.c.Keys.trust, x.c.Deployment)
		switch {
		case damaged(err): // incomplete, as after a power loss: it is written anew
			x.c.Logger.Warn("an object in the audit bucket is incomplete; it is not in the chain", "object", name, "error", err)
		case err != nil && !errors.Is(err, ErrNoObject):
			return s, false, err
		case err == nil && one.continues(c) && !one.To.After(now) && (!found || one.furtherThan(&s, c)):
			s, found = one, true
		}
	}
	return s, found, nil
}

// continues reports whether s is the next part of the window that c is in.
func (s *Segment) continues(c *Chain) bool {
	return s.Previous == c.Digest && !s.outside() && s.From.Equal(c.From) && s.Part == c.Part+1 && s.After.same(c.After) &&
		(c.Part == 0 || s.To.Equal(c.To))
}

// overreaches reports whether s ends the window that c is in later than the parts before it,
// which no exporter does. Some entries are in neither.
func (s *Segment) overreaches(c *Chain) bool {
	return !s.outside() && c.Part > 0 && s.To.After(c.To)
}

// furtherThan reports whether c ends later with s than with other. Two parts of a window that are
// not its last do not compare.
func (s *Segment) furtherThan(other *Segment, c *Chain) bool {
	return c.behind(s).From.After(c.behind(other).From)
}

// read collects the entries of a segment: those of a window after the position after,
// as many as fit.
func (x *Exporter) read(ctx context.Context, from, to time.Time, after Position) (entries []Entry, next Position, more bool, err error) {
	size := 0
	for more = true; more && len(entries) < x.c.Entries && size < maxSegment; {
		page, err := x.c.Store.AuditPage(ctx, x.c.Home, from, to, after, min(x.c.Page, x.c.Entries))
		if err != nil {
			return nil, after, false, err
		}
		for i := range page.Entries {
			x.prepare(&page.Entries[i])
			size += page.Entries[i].size()
		}
		entries, after, more = append(entries, page.Entries...), page.Next, page.More
	}
	return entries, after, more, nil
}

// entrySize is roughly the size of an entry without its variable members.
const entrySize = 200

func (e *Entry) size() int {
	return entrySize + len(e.Tenant) + len(e.Key) + len(e.Object) + len(e.ProviderRef) + len(e.Node) + len(e.Detail)
}

// prepare converts e to the form of segments.
func (x *Exporter) prepare(e *Entry) {
	e.live(x.c.Providers)
	if x.c.Mask != nil {
		e.Detail = x.c.Mask(e.Detail) // identifiers are never taken for cards
	}
}
