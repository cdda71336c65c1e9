package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/payment/psp"
)

// subjectFlags select the key or object.
type subjectFlags struct {
	Of     string `arg:"" name:"key-or-object" help:"An idempotency key, or the id of an object, as in ch_…"`
	Tenant string `placeholder:"ID" help:"Tenant of the key, where several have it. An object needs none."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

type inspectCommand struct {
	liveFlags
	subjectFlags
}

// Help returns the text that homeward inspect --help adds.
func (inspectCommand) Help() string {
	return "One sentence says what happened, and the timeline how. Entries and old bookings whose rows were deleted are in the audit segments, which homeward audit show reads. " + liveHelp
}

func (c *inspectCommand) Run(ctx context.Context, io streams) error {
	return c.withBooks(ctx, func(s *store) error { return c.show(ctx, io, s, inspect.Query{}, nil) })
}

type auditShowCommand struct {
	storeFlags
	bucketFlags
	subjectFlags
	Since string `placeholder:"DATE" help:"Search segments from this day on, as in 2026-03-01."`
	Until string `placeholder:"DATE" help:"Search segments before this day."`
}

// Help returns the text that homeward audit show --help adds.
func (auditShowCommand) Help() string {
	return "As homeward inspect, with what segments have. All of them are looked through, of a stamped key and of an object those of its home: --since and --until shorten that. " + bucketHelp + storeHelp
}

func (c *auditShowCommand) Run(ctx context.Context, io streams) error {
	var q inspect.Query
	for _, day := range []struct {
		flag, text string
		into       *time.Time
	}{{"--since", c.Since, &q.Since}, {"--until", c.Until, &q.Until}} {
		if day.text == "" {
			continue
		}
		var err error
		if *day.into, err = time.Parse(time.DateOnly, day.text); err != nil {
			return fmt.Errorf("%s %q is not a date; write one as 2026-03-01", day.flag, day.text)
		}
	}
	bucket, trust, err := c.open(ctx, c.Data)
	if err != nil {
		return err
	}
	read := &countedParts{what: "segments read"}
	archive := &audit.Archive{Objects: bucket, Trust: trust, Progress: read.set}
	err = c.withBooks(ctx, func(s *store) (err error) {
		defer io.progress(read.String)()
		if archive.Deployment, err = s.DeploymentID(ctx); err != nil {
			return err
		}
		return c.show(ctx, io, s, q, archive)
	})
	return errors.Join(err, bucket.Close())
}

// noTenant: a tenant is named, and there is none of that id.
func (c *subjectFlags) noTenant(ctx context.Context, s *store) bool {
	if c.Tenant == "" {
		return false
	}
	_, err := s.Tenant(ctx, c.Tenant)
	return errors.Is(err, claim.ErrUnknownTenant)
}

// show prints a history.
func (c *subjectFlags) show(ctx context.Context, io streams, s *store, q inspect.Query, segments inspect.Segments) error {
	regions, _, err := s.Regions(ctx)
	if err != nil {
		return err
	}
	windows, err := s.Windows(ctx)
	if err != nil {
		return err
	}
	r := inspect.Reader{Rows: s.rows, Regions: regions, Policy: windows, Tenants: s.Tenants, Segments: segments, Digits: psp.MinorDigits}
	q.Of, q.Tenant = c.Of, c.Tenant
	h, err := r.Read(ctx, q)
	switch {
	case errors.Is(err, inspect.ErrNotFound) && c.noTenant(ctx, s):
		return unknownTenant(c.Tenant, claim.ErrUnknownTenant)
	case errors.Is(err, inspect.ErrNotFound):
		return fmt.Errorf("%s was not found in any region%s", visible(c.Of), whereElse(c.Of, segments))
	case errors.Is(err, inspect.ErrSeveral):
		return fmt.Errorf("%w; name one with --tenant", err)
	case err != nil:
		return err
	}
	if c.JSON {
		return indented(io, h)
	}
	return printHistory(io, &h)
}

func whereElse(of string, segments inspect.Segments) string {
	if segments == nil {
		return fmt.Sprintf("; entries and bookings whose rows were deleted are in the audit segments: homeward audit show %s", visible(of))
	}
	return ""
}

func printHistory(io streams, h *inspect.History) error {
	fmt.Fprintln(io.out, visible(h.Verdict))
	if h.Next != "" {
		fmt.Fprintln(io.out, "next:", visible(h.Next))
	}
	t := table(io)
	for _, line := range facts(h) {
		fmt.Fprintf(t, "%s\t%s\n", line[0], visible(line[1]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(io.out)
	events := historyColumns.list(io)
	for _, e := range h.Timeline {
		events.row(e.At.UTC().Format("2006-01-02T15:04:05.000Z"), e.Event, e.Detail, e.Region, e.Node, e.Fence, e.Generation, cmp.Or(e.Segment, "row"))
	}
	if err := events.Flush(); err != nil {
		return err
	}
	if h.Truncated {
		fmt.Fprintln(io.err, "there is more, older; homeward audit show has what was exported")
	}
	for _, missing := range h.Missing {
		fmt.Fprintln(io.err, "not read:", visible(missing))
	}
	return nil
}

// facts are the names and values beside the timeline.
func facts(h *inspect.History) (lines [][2]string) {
	add := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.TrimSpace(text) != "" {
			lines = append(lines, [2]string{name, text})
		}
	}
	add("tenant", "%s", h.Tenant)
	add("key", "%s", h.Key)
	add("object", "%s", h.Object)
	add("home", "%s", h.Home)
	if c := h.Claim; c != nil {
		add("claim", "%s, %s, fence %d, generation %d, %d attempts", c.State, c.Age, c.Fence, c.Generation, c.Attempts)
		if c.Holder != "" {
			add("holder", "%s, until %s", c.Holder, moment(c.LeaseUntil))
		}
		add("provider reference", "%s", c.ProviderRef)
		add("refund of", "%s", c.Reverses)
	}
	for _, b := range h.Bookings {
		add("booked", "%s %s %s %d %s, %s to %s, %s %s", moment(b.At), b.ID, b.Kind, b.Amount, b.Currency, b.Credit, b.Debit, b.Provider, b.ProviderRef)
	}
	for _, w := range h.Waiting {
		state := "due " + moment(w.Due)
		if w.Parked {
			state = "parked: " + w.LastError
		}
		add("waits", "%s %s, %s", w.Queue, w.ID, state)
	}
	add("trace", "%s", h.TraceID)
	return lines
}
