package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// Archive searches the segments of a bucket. It is safe for concurrent use.
type Archive struct {
	Objects Objects
	// Trust verifies the segments; nil accepts every segment.
	Trust Trust
	// Deployment is that of the searched segments; any other's are doubts. [uuid.Nil] searches
	// every one's.
	Deployment uuid.UUID
	// Parallel is how many objects are read at once; 0 means parallelFinds.
	Parallel int
	// Progress, if not nil, is called now and then, one call at a time.
	Progress func(done, total int)
}

const parallelFinds = 16

// Wanted selects the entries of Key, of any tenant unless Tenant is set, or of Object.
type Wanted struct {
	Tenant, Key, Object string
	// Regions are the regions to search; none: all.
	Regions []string
	// Since and Until bound the days to search; zero: no bound.
	Since, Until time.Time
	// Tenants completes a Key that comes without its tenant.
	Tenants []string
	// Recorded are the numbers of the last segments of regions, as the store had them before the
	// search. Up to them a segment that the bucket lacks is a doubt.
	Recorded map[string]uint64
}

// Found is an entry and its segment.
type Found struct {
	Entry
	// Home is the region of the entry's chain, Segment the name of its object.
	Home, Segment string
}

// Find returns the selected entries, each once, in the order of their times. Doubts name the
// segments that are missing, or could not be read or verified; the result lacks their entries.
func (a *Archive) Find(ctx context.Context, w Wanted) (found []Found, doubts []string, err error) {
	names, doubts, err := a.list(ctx, &w)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(a.Parallel, parallelFinds))
	for _, n := range names {
		g.Go(func() error {
			some, err := a.look(ctx, n, &w)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				doubts = append(doubts, fmt.Sprintf("segment %s: %v", n.name, err))
			}
			found = append(found, some...)
			done++
			if a.Progress != nil {
				a.Progress(done, len(names))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	slices.Sort(doubts)
	return once(found), doubts, nil
}

// list returns the segments that can have selected entries. Doubts name those that are missing.
func (a *Archive) list(ctx context.Context, w *Wanted) (names []named, doubts []string, err error) {
	numbers := map[string][]uint64{}
	if err := a.Objects.List(ctx, "", func(name string) error {
		n, ok := readName(name)
		if !ok {
			return nil
		}
		numbers[n.region] = append(numbers[n.region], n.number)
		if w.looksIn(n) {
			names = append(names, n)
		}
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	for region, last := range w.Recorded {
		next, there := uint64(1), numbers[region]
		slices.Sort(there)
		for _, n := range append(there, last+1) {
			switch to := min(n-1, last); {
			case next == to:
				doubts = append(doubts, fmt.Sprintf("segment %d of %s: it is not in the bucket", to, region))
			case next < to:
				doubts = append(doubts, fmt.Sprintf("segments %d to %d of %s: they are not in the bucket", next, to, region))
			}
			next = n + 1
		}
	}
	return names, doubts, nil
}

// looksIn reports whether a segment can have selected entries.
func (w *Wanted) looksIn(n named) bool {
	if len(w.Regions) > 0 && !slices.Contains(w.Regions, n.region) {
		return false
	}
	day, err := time.Parse(dayLayout, n.day)
	return err == nil && (w.Until.IsZero() || day.Before(w.Until)) &&
		(w.Since.IsZero() || day.AddDate(0, 0, 1).After(w.Since))
}

// look reads one segment if it may have selected entries.
func (a *Archive) look(ctx context.Context, n named, w *Wanted) (found []Found, err error) {
	_, entries, err := a.read(ctx, n, w)
	for i := range entries {
		if w.is(&entries[i]) {
			found = append(found, Found{entries[i], n.region, n.name})
		}
	}
	return found, err
}

// read reads one segment whole, and returns nothing of one without selected entries.
func (a *Archive) read(ctx context.Context, n named, w *Wanted) (Segment, []Entry, error) {
	head, err := readHead(ctx, a.Objects, n.name, a.Trust, a.Deployment)
	switch {
	case errors.Is(err, ErrNoObject): // removed meanwhile
		return Segment{}, nil, nil
	case err != nil || !w.mayBeIn(head.Filter):
		return Segment{}, nil, err
	}
	s, entries, err := readAll(ctx, a.Objects, n.name, a.Trust, a.Deployment)
	if err != nil {
		return Segment{}, nil, err
	}
	return s, entries, nil
}

func (w *Wanted) mayBeIn(f filter) bool {
	switch {
	case w.Object != "" && f.has(objectName(w.Object)):
		return true
	case w.Key == "":
		return false
	case w.Tenant != "":
		return f.has(keyName(w.Tenant, w.Key))
	case len(w.Tenants) == 0:
		return len(f) > 0 // nothing is selected
	}
	return slices.ContainsFunc(w.Tenants, func(t string) bool { return f.has(keyName(t, w.Key)) })
}

func (w *Wanted) is(e *Entry) bool {
	if w.Object != "" && e.Object == w.Object {
		return true
	}
	return w.Key != "" && e.Key == w.Key && (w.Tenant == "" || e.Tenant == w.Tenant)
}

// once sorts by time and drops duplicates.
func once(found []Found) []Found {
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Home, b.Home), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Segment, b.Segment))
	})
	return slices.CompactFunc(found, func(a, b Found) bool { return a.Home == b.Home && a.ID == b.ID && a.At.Equal(b.At) })
}
