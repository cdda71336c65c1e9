package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// AheadError: the bucket has a segment that an exporter wrote from rows that the store lacks.
// The store was restored from a backup, or it is another one than the bucket's.
type AheadError struct {
	Home string
	// Segment names the object that proves it, and Written is when it was written.
	Segment string
	Written time.Time
	// Stored is the number of the last segment that the store has recorded. All that was written
	// before From is in recorded segments: nothing from before is lost.
	Stored uint64
	From   time.Time
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("audit: the bucket has %s, written at %s, but the database has no record of it: it has the segments of %s up to number %d; it was restored from a backup, or is another one than the bucket's",
		e.Segment, e.Written.UTC().Format(time.RFC3339), e.Home, e.Stored)
}

const (
	// aheadDays are the days in which the next two segments are, from that of the window that is
	// exported, as a window is a day at most; or from where rows are swept, and books leave, next.
	aheadDays = 3
	// aheadRead bounds how many objects Compare reads.
	aheadRead = 8
	// aheadAge is more than a rival takes between the bucket and the row.
	aheadAge = 10 * time.Second
)

// Compare fails with an *[AheadError] if the bucket proves that the store was put back to a
// backup. It lists a few days of the bucket, and reads no rows as a rule. What was
// written before since is not looked at; zero: all is.
//
// An exporter puts segment n+1 into the bucket when the row is at n, and raises the row
// next. So the bucket is ahead by one at most, and two or more prove that the row is an old
// one. One alone may be of an exporter that died between its two writes: its entries are
// then rows of the store. Entries that are not prove the same.
//
// Nothing is proven where no segment was written between the backup and the loss.
func (x *Exporter) Compare(ctx context.Context, since time.Time) error {
	for {
		c, _, found, err := x.c.Store.AuditChain(ctx, x.c.Home)
		if err != nil {
			return err
		}
		ahead, err := x.ahead(ctx, &c, found)
		if err != nil || len(ahead) == 0 {
			return err
		}
		again, now, _, err := x.c.Store.AuditChain(ctx, x.c.Home)
		if err != nil {
			return err
		}
		if again.Version == c.Version { // else a rival was at work between the two looks
			return x.prove(ctx, &c, ahead, since, now)
		}
	}
}

// errEnough ends a listing.
var errEnough = errors.New("audit: stop listing")

// ahead lists the objects behind c: those that follow it, and the last of the others.
func (x *Exporter) ahead(ctx context.Context, c *Chain, found bool) ([]named, error) {
	folders := x.aheadIn(c, found)
	var next, behind []named
	for _, prefix := range folders {
		err := x.c.Objects.List(ctx, prefix, func(name string) error {
			switch n, ok := readName(name); {
			case !ok || n.number <= c.Number:
			case n.number == c.Number+1:
				next = append(next, n)
			default:
				if behind = append(behind, n); !found && len(behind) >= aheadRead {
					return errEnough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, fmt.Errorf("audit: cannot list the bucket: %w", err)
		}
	}
	slices.SortFunc(behind, func(a, b named) int { return cmp.Compare(b.number, a.number) })
	return append(behind[:min(len(behind), aheadRead)], next[:min(len(next), aheadRead)]...), nil
}

// aheadIn are the folders in which the next segments behind c are. Those of windows are near the
// present, late ones near where rows are swept, and books near where they leave. All of the region is
// listed where c does not say where that is: by a store that has exported nothing, and before the
// first sweep, or the first books that leave.
func (x *Exporter) aheadIn(c *Chain, found bool) []string {
	from := []time.Time{c.From, c.SweptUntil}
	if x.c.Policy.KeepBooks > 0 {
		from = append(from, c.Books.At)
	}
	if !found || slices.ContainsFunc(from, time.Time.IsZero) {
		return []string{x.c.Home + "/"}
	}
	var folders []string
	for _, day := range from {
		for i := range aheadDays {
			folders = append(folders, folder(x.c.Home, day.UTC().AddDate(0, 0, i).Format(dayLayout)))
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// prove reads what is ahead of c.
func (x *Exporter) prove(ctx context.Context, c *Chain, ahead []named, since, now time.Time) error {
	for _, n := range ahead {
		s, err := readHead(ctx, x.c.Objects, n.name, x.c.Keys.trust, x.c.Deployment)
		switch {
		case damaged(err) || errors.Is(err, ErrNoObject):
			continue // it proves nothing; homeward audit verify names it
		case err != nil:
			return fmt.Errorf("audit: cannot read segment %s: %w", n.name, err)
		case s.name(s.Digest) != n.name || s.Region != x.c.Home || s.Written.Before(since):
			continue
		case s.Number == c.Number+1:
			lacks, err := x.lacks(ctx, c, &s, now)
			if err != nil {
				return err
			}
			if !lacks {
				continue
			}
		}
		from := c.From
		if from.IsZero() {
			from = s.From
		}
		return &AheadError{Home: x.c.Home, Segment: s.Name, Written: s.Written, Stored: c.Number, From: from}
	}
	return nil
}

// lacks reports whether s, which follows c, has entries that are no rows of the store.
func (x *Exporter) lacks(ctx context.Context, c *Chain, s *Segment, now time.Time) (bool, error) {
	if s.Previous != c.Digest || now.Sub(s.Written) < max(aheadAge, x.c.Store.AuditAge()) {
		return false, nil
	}
	_, entries, err := readAll(ctx, x.c.Objects, s.Name, x.c.Keys.trust, x.c.Deployment)
	switch {
	case damaged(err) || errors.Is(err, ErrNoObject):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("audit: cannot read segment %s: %w", s.Name, err)
	}
	type place struct {
		Position
		at int64
	}
	of := func(e *Entry) place {
		p := place{e.Position(), e.At.UnixNano()}
		p.At = time.Time{} // equal times may differ in how they are held
		return p
	}
	missing := make(map[place]bool, len(entries))
	for i := range entries {
		missing[of(&entries[i])] = true
	}
	for after, more := s.After, true; more && len(missing) > 0; {
		page, err := x.c.Store.AuditPage(ctx, x.c.Home, s.From, s.To, after, x.c.Page)
		if err != nil {
			return false, err
		}
		for i := range page.Entries {
			delete(missing, of(&page.Entries[i]))
		}
		after, more = page.Next, page.More
	}
	return len(missing) > 0, nil
}
