package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/outbox"
)

type outboxCommand struct {
	List  outboxListCommand  `cmd:"" help:"Count the rows in each queue, and list those that are parked."`
	Retry outboxRetryCommand `cmd:"" help:"Requeue parked rows now and reset their attempt count."`
	Park  outboxParkCommand  `cmd:"" help:"Take a row out of its queue until it is retried."`
}

// Help returns the text that homeward outbox --help adds.
func (outboxCommand) Help() string { return liveHelp }

// placeFlags select regions and queues; the zero value selects all.
type placeFlags struct {
	Queue  string `placeholder:"QUEUE" help:"Only this one: provider_calls, events, expiries or notices."`
	Region string `placeholder:"REGION" help:"Only rows whose home is this region."`
}

// stall is one queue of one region.
type stall struct {
	outbox.Store
	queue  outbox.Queue
	region string
}

// Validate is called by kong.
func (f *placeFlags) Validate() error {
	if f.Queue == "" || slices.Contains(outbox.AllQueues(), outbox.Queue(f.Queue)) {
		return nil
	}
	return fmt.Errorf("--queue: there is no queue %q; write provider_calls, events, expiries or notices, or leave it out for all", f.Queue)
}

// stalls returns the stalls that f selects.
func (f *placeFlags) stalls(s *store) ([]stall, error) {
	regions, err := s.chosen(f.Region)
	if err != nil {
		return nil, err
	}
	var all []stall
	for _, q := range outbox.AllQueues() {
		if f.Queue != "" && f.Queue != string(q) {
			continue
		}
		for _, r := range regions {
			store, err := s.Region(r)
			if err != nil {
				return nil, err
			}
			all = append(all, stall{store.Queue(q), q, r})
		}
	}
	return all, nil
}

// find searches all of them for a row.
func find(ctx context.Context, all []stall, id string) (stall, outbox.Message, error) {
	var errs []error
	for _, s := range all {
		m, found, err := s.Message(ctx, s.region, id)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", s.queue, s.region, err))
		}
		if found {
			return s, m, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return stall{}, outbox.Message{}, err
	}
	return stall{}, outbox.Message{}, fmt.Errorf("row %q was not found; it is done, or in another queue or region", id)
}

type outboxListCommand struct {
	liveFlags
	placeFlags
	Limit int    `default:"20" help:"Maximum number of parked rows for each queue and region; 0 prints the counts alone."`
	After string `placeholder:"ID" help:"List parked rows after this id. Needs --queue and --region."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// mostRows bounds the rows of one response of a database: with 64 KiB of payload each,
// 64 MB.
const mostRows = 1000

// queueCount and parkedRow are the JSON of homeward outbox list.
type queueCount struct {
	Queue     outbox.Queue `json:"queue"`
	Region    string       `json:"region"`
	Pending   int          `json:"pending"`
	Due       int          `json:"due"`
	Parked    int          `json:"parked"`
	OldestDue *time.Time   `json:"oldest_due,omitempty"`
}

type parkedRow struct {
	Queue     outbox.Queue `json:"queue"`
	Region    string       `json:"region"`
	ID        string       `json:"id"`
	Kind      outbox.Kind  `json:"kind"`
	Tenant    string       `json:"tenant"`
	Key       string       `json:"key"`
	Attempts  uint32       `json:"attempts"`
	CreatedAt time.Time    `json:"created_at"`
	LastError string       `json:"last_error"`
}

type outboxList struct {
	Queues []queueCount `json:"queues"`
	Parked []parkedRow  `json:"parked"`
	// More holds an id for each queue and region in which there are more.
	More []string `json:"more,omitempty"`
}

func (c *outboxListCommand) Run(ctx context.Context, io streams) error {
	if c.Limit < 0 || c.Limit > mostRows {
		return fmt.Errorf("--limit must be from 0 to %d, is %d", mostRows, c.Limit)
	}
	if c.After != "" && (c.Queue == "" || c.Region == "") {
		return errors.New("--after needs --queue and --region, since ids are ordered within those")
	}
	return c.withStore(ctx, func(s *store) error {
		all, err := c.stalls(s)
		if err != nil {
			return err
		}
		list, err := c.read(ctx, all)
		if c.JSON {
			return errors.Join(err, indented(io, list))
		}
		return errors.Join(err, list.print(io))
	})
}

// read counts and lists. A region that does not answer is an error; the result still
// has the others.
func (c *outboxListCommand) read(ctx context.Context, all []stall) (outboxList, error) {
	list := outboxList{Queues: []queueCount{}, Parked: []parkedRow{}}
	var errs []error
	for _, s := range all {
		depth, err := s.Depth(ctx, s.region)
		var rows []outbox.Message
		if err == nil && c.Limit > 0 {
			rows, err = s.Parked(ctx, s.region, c.After, c.Limit+1) // one more shows whether there are more
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", s.queue, s.region, err))
			continue
		}
		count := queueCount{Queue: s.queue, Region: s.region, Pending: depth.Pending, Due: depth.Due, Parked: depth.Parked}
		if !depth.OldestDue.IsZero() {
			count.OldestDue = &depth.OldestDue
		}
		list.Queues = append(list.Queues, count)
		for _, m := range rows[:min(len(rows), c.Limit)] {
			list.Parked = append(list.Parked, parkedRow{
				Queue: s.queue, Region: s.region, ID: m.ID, Kind: m.Kind, Tenant: m.Tenant, Key: m.Key,
				Attempts: m.Attempts, CreatedAt: m.CreatedAt, LastError: m.LastError,
			})
		}
		if len(rows) > c.Limit {
			list.More = append(list.More, fmt.Sprintf("--queue %s --region %s --after %s", s.queue, s.region, rows[c.Limit-1].ID))
		}
	}
	return list, errors.Join(errs...)
}

func (l outboxList) print(io streams) error {
	t := queueColumns.list(io)
	for _, q := range l.Queues {
		overdue := ""
		if q.OldestDue != nil {
			overdue = age(*q.OldestDue)
		}
		t.row(q.Queue, q.Region, q.Pending, q.Due, overdue, q.Parked)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(l.Parked) > 0 {
		fmt.Fprintln(io.out)
		t = parkedColumns.list(io)
		for _, m := range l.Parked {
			t.row(m.ID, m.Queue, m.Region, m.Tenant, m.Key, age(m.CreatedAt), m.Attempts, m.LastError)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, more := range l.More {
		fmt.Fprintf(io.err, "there are more: homeward outbox list %s\n", more)
	}
	return nil
}

// age is how long ago t was, by this machine's clock; the store's may differ.
func age(t time.Time) string {
	d := max(0, time.Since(t))
	if d >= 48*time.Hour {
		return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
	}
	return d.Truncate(time.Second).String()
}

// visible makes foreign text printable: it cannot move the terminal's cursor or the
// table's columns.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '.'
		}
		return r
	}, s)
}

type outboxRetryCommand struct {
	liveFlags
	placeFlags
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids of parked rows."`
	All    bool     `help:"All parked rows of --queue."`
	Tenant string   `placeholder:"ID" help:"With --all: only those of this tenant."`
}

func (c *outboxRetryCommand) Run(ctx context.Context, io streams) error {
	switch {
	case c.All == (len(c.IDs) > 0):
		return errors.New("name the ids of parked rows, or --all with --queue; homeward outbox list shows them")
	case c.All && c.Queue == "":
		return errors.New("--all needs --queue, as in --queue events: rows are parked for different reasons")
	case c.Tenant != "" && !c.All:
		return errors.New("--tenant is for --all")
	}
	return c.withStore(ctx, func(s *store) error {
		all, err := c.stalls(s)
		if err != nil {
			return err
		}
		if c.All {
			return c.retryAll(ctx, io, all)
		}
		var errs []error
		for _, id := range c.IDs {
			errs = append(errs, c.retry(ctx, io, all, id))
		}
		return errors.Join(errs...)
	})
}

func (c *outboxRetryCommand) retry(ctx context.Context, io streams, all []stall, id string) error {
	s, m, err := find(ctx, all, id)
	if err != nil {
		return err
	}
	unparked, err := s.Unpark(ctx, s.region, id)
	if err != nil {
		return err
	}
	if !unparked {
		return fmt.Errorf("row %s of %s in %s is not parked; a worker retries it, next at %s", id, s.queue, s.region, m.Due.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(io.out, "%s is due now in %s of %s; it was parked because: %s\n", id, s.queue, s.region, visible(m.LastError))
	return nil
}

// retryAll pages through the parked rows by id, so that it does not requeue a row for
// ever that is parked again meanwhile.
func (c *outboxRetryCommand) retryAll(ctx context.Context, io streams, all []stall) error {
	var errs []error
	for _, s := range all {
		n, err := c.retryQueue(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", s.queue, s.region, err))
			if n == 0 {
				continue
			}
		}
		fmt.Fprintf(io.out, "%d rows are due now in %s of %s\n", n, s.queue, s.region)
	}
	return errors.Join(errs...)
}

func (c *outboxRetryCommand) retryQueue(ctx context.Context, s stall) (n int, err error) {
	for after := ""; ; {
		rows, err := s.Parked(ctx, s.region, after, mostRows)
		if err != nil || len(rows) == 0 {
			return n, err
		}
		for _, m := range rows {
			if c.Tenant != "" && m.Tenant != c.Tenant {
				continue
			}
			unparked, err := s.Unpark(ctx, s.region, m.ID)
			if err != nil {
				return n, err
			}
			if unparked {
				n++
			}
		}
		after = rows[len(rows)-1].ID
	}
}

type outboxParkCommand struct {
	liveFlags
	placeFlags
	ID     string `arg:"" help:"The row's id."`
	Reason string `default:"parked by hand" help:"The reason, for whoever finds it."`
}

// parkTries bounds the retries for a row that workers keep taking.
const parkTries = 3

func (c *outboxParkCommand) Run(ctx context.Context, io streams) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason is empty; give the reason, for the next operator")
	}
	return c.withStore(ctx, func(s *store) error {
		all, err := c.stalls(s)
		if err != nil {
			return err
		}
		for range parkTries {
			s, m, err := find(ctx, all, c.ID)
			if err != nil {
				return err
			}
			if m.Parked {
				return fmt.Errorf("row %s of %s in %s is parked already: %s", c.ID, s.queue, s.region, visible(m.LastError))
			}
			// A worker that holds the row continues, and its report no longer counts.
			err = s.Park(ctx, s.region, m.Hold(), c.Reason)
			if errors.Is(err, outbox.ErrFenced) {
				continue
			}
			if err == nil {
				fmt.Fprintf(io.out, "%s is parked in %s of %s; homeward outbox retry %s brings it back\n", c.ID, s.queue, s.region, c.ID)
			}
			return err
		}
		return fmt.Errorf("a worker took row %s before each attempt to park it; try again", c.ID)
	})
}
