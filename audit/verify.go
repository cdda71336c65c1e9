package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/ledger"
)

// Class is a kind of failure of a chain.
type Class string

// The classes.
const (
	// Changed: an object differs from what was signed.
	Changed Class = "changed"
	// Foreign: the signing key is not trusted, or the segment is of another deployment.
	Foreign Class = "foreign"
	// Removed: a number has no object.
	Removed Class = "removed"
	// Reordered: an object has the place of another one, or names another predecessor.
	Reordered Class = "reordered"
	// Forked: two objects have one number, and either no successor decides between
	// them, or each has one.
	Forked Class = "forked"
	// Gap: the windows of two segments do not meet.
	Gap Class = "gap"
	// Unbalanced: the books that have left for the segment do not add up, by themselves or with
	// the segments before it.
	Unbalanced Class = "unbalanced"
	// Ended: the chain ends longer ago than it should, so the last segments may have
	// been removed.
	Ended Class = "ended"
	// Unread: an object could not be read, so it may be right or wrong.
	Unread Class = "unread"
)

// Failure is one fault of a chain, or an object that could not be read
// (Unread).
type Failure struct {
	Class  Class  `json:"class"`
	Region string `json:"region"`
	Number uint64 `json:"number"`
	Object string `json:"object,omitempty"`
	Detail string `json:"detail"`
}

func (f Failure) String() string {
	at := f.Object
	if at == "" {
		at = fmt.Sprintf("%s segment %d", f.Region, f.Number)
	}
	return fmt.Sprintf("%s: %s: %s", f.Class, at, f.Detail)
}

// RegionReport is the result for one region's chain.
type RegionReport struct {
	Region   string `json:"region"`
	Segments uint64 `json:"segments"`
	Entries  int64  `json:"entries"`
	// RepliesLost counts the lost audit entries of replies, as the segments
	// record them.
	RepliesLost uint64 `json:"replies_lost"`
	// Books counts the transactions that have left the region's books, and Carried are their
	// balances, if they add up.
	Books   int64       `json:"books,omitempty"`
	Carried ledger.Sums `json:"-"`
	// Spare are objects beside the chain, left by a crash or a rival; the chain has
	// their entries, too.
	Spare int `json:"spare"`
	// From and To are the times that the chain covers, without a gap if there is no
	// failure. Digest is that of its last segment.
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Digest string    `json:"digest"`
}

// Report is the result of [Verify].
type Report struct {
	Regions []RegionReport `json:"regions"`
	// Keys are the signing keys, with their numbers of segments.
	Keys     map[string]int `json:"keys"`
	Failures []Failure      `json:"failures"`
	// Other are objects in the bucket that are no segments.
	Other int `json:"other"`
}

// OK reports that every chain is whole.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// OnlyUnread reports that there are failures, and that all of them are Unread.
func (r *Report) OnlyUnread() bool {
	return !r.OK() && !slices.ContainsFunc(r.Failures, func(f Failure) bool { return f.Class != Unread })
}

// VerifyConfig selects what [Verify] checks; Objects and Trust are required.
type VerifyConfig struct {
	Objects Objects
	// Trust are the public keys that may have signed.
	Trust Trust
	// Deployment is that of the chains; [uuid.Nil]: that of the first segment, since all in
	// one bucket must be of one.
	Deployment uuid.UUID
	// Regions are the regions to verify; none: all that the bucket has.
	Regions []string
	// Now and Stale: a chain that ends more than Stale before Now has [Ended]. 0: the
	// end is not checked.
	Now   time.Time
	Stale time.Duration
	// Progress, if not nil, is called now and then, one call at a time.
	Progress func(done, total int)
	// Parallel is how many objects are read at once; 0 means 8.
	Parallel int
}

// Verify verifies the chains of a bucket from its objects alone. It returns an error only
// if it could not list the bucket, or ctx ended.
func Verify(ctx context.Context, c VerifyConfig) (Report, error) {
	r := Report{Keys: map[string]int{}, Failures: []Failure{}, Regions: []RegionReport{}}
	regions := map[string][]named{}
	for _, region := range c.Regions {
		regions[region] = nil // a region without any segment is a failure
	}
	total := 0
	err := c.Objects.List(ctx, "", func(name string) error {
		n, ok := readName(name)
		if !ok {
			r.Other++
			return nil
		}
		if _, wanted := regions[n.region]; wanted || len(c.Regions) == 0 {
			regions[n.region] = append(regions[n.region], n)
			total++
		}
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	v := verification{c: c, total: total, report: &r}
	for _, region := range slices.Sorted(maps.Keys(regions)) {
		if err := v.region(ctx, region, regions[region]); err != nil {
			return r, err
		}
	}
	return r, nil
}

type verification struct {
	c      VerifyConfig
	report *Report
	total  int

	mu   sync.Mutex
	done int
}

func (v *verification) fail(class Class, region string, number uint64, object, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Failures = append(v.report.Failures, Failure{class, region, number, object, fmt.Sprintf(format, args...)})
}

// region verifies one chain.
func (v *verification) region(ctx context.Context, region string, names []named) error {
	slices.SortFunc(names, func(a, b named) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name)) })
	report := RegionReport{Region: region}
	if len(names) == 0 {
		v.fail(Removed, region, 1, "", "the region has no segment at all")
		v.report.Regions = append(v.report.Regions, report)
		return nil
	}
	segments, err := v.read(ctx, names)
	if err != nil {
		return err
	}
	v.ofOne(names, segments)
	books := v.link(&report, byNumber(names, segments), names[len(names)-1].number)
	if err := v.books(ctx, &report, books); err != nil {
		return err
	}
	v.report.Regions = append(v.report.Regions, report)
	return nil
}

// read reads and verifies each object by itself; it leaves out the invalid ones.
func (v *verification) read(ctx context.Context, names []named) ([]*Segment, error) {
	segments := make([]*Segment, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(v.c.Parallel, 8))
	for i, n := range names {
		g.Go(func() error {
			s, _, err := readAll(ctx, v.c.Objects, n.name, v.c.Trust, uuid.Nil)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			v.note(&s, n, err)
			if err == nil {
				s.booked = booked{} // much, and read again
				segments[i] = &s
			}
			return nil
		})
	}
	return segments, g.Wait()
}

// ofOne leaves out the segments of other deployments.
func (v *verification) ofOne(names []named, segments []*Segment) {
	for i, s := range segments {
		if s == nil {
			continue
		}
		if v.c.Deployment == uuid.Nil {
			v.c.Deployment = s.Deployment
		}
		if err := s.checkDeployment(v.c.Deployment); err != nil {
			v.fail(Foreign, names[i].region, names[i].number, names[i].name, "%v", err)
			segments[i] = nil
		}
	}
}

// note records the check of an object by itself.
func (v *verification) note(s *Segment, n named, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrUnknownKey):
		v.fail(Foreign, n.region, n.number, n.name, "%v", err)
	case errors.Is(err, ErrMoved):
		v.fail(Reordered, n.region, n.number, n.name, "%v", err)
	case errors.Is(err, ErrUnbalanced):
		v.fail(Unbalanced, n.region, n.number, n.name, "%v", err)
	case errors.Is(err, ErrChanged):
		v.fail(Changed, n.region, n.number, n.name, "%v", err)
	case errors.Is(err, ErrNoObject):
		v.fail(Removed, n.region, n.number, n.name, "it was removed while the bucket was read")
	default:
		v.fail(Unread, n.region, n.number, n.name, "it cannot be read: %v", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.report.Keys[s.Key]++
	}
	v.done++
	if v.c.Progress != nil {
		v.c.Progress(v.done, v.total)
	}
}

// candidates are the valid objects of one number, and whether there are invalid ones.
type candidates struct {
	good []*Segment
	bad  bool
}

func byNumber(names []named, segments []*Segment) map[uint64]candidates {
	all := map[uint64]candidates{}
	for i, n := range names {
		c := all[n.number]
		if segments[i] != nil {
			c.good = append(c.good, segments[i])
		} else {
			c.bad = true
		}
		all[n.number] = c
	}
	return all
}

// link follows the chain, and records where it breaks. It returns its segments of books.
func (v *verification) link(report *RegionReport, all map[uint64]candidates, last uint64) (books []*Segment) {
	var before, window *Segment // the predecessor, and the latest of a window
	for number := uint64(1); number <= last; number++ {
		c := all[number]
		if len(c.good) == 0 {
			if !c.bad { // otherwise its failure is recorded already
				v.fail(Removed, report.Region, number, "", "there is no object of this number; the bucket's versions or a copy may have it")
			}
			before = nil
			continue
		}
		s := v.choose(report, c.good, all[number+1].good, number == last)
		v.join(s, before, number == 1)
		if !s.outside() {
			v.meet(s, window)
			window = s
		}
		if s.Books > 0 {
			books = append(books, s)
		}
		report.Segments++
		report.Entries += int64(s.Entries)
		report.RepliesLost += s.RepliesLost
		report.Digest = s.Digest
		before = s
		if report.From.IsZero() && s.Books == 0 {
			report.From = s.From
		}
		if !s.outside() && s.Last {
			report.To = s.To
		}
	}
	if v.c.Stale > 0 && v.c.Now.Sub(report.To) > v.c.Stale {
		v.fail(Ended, report.Region, last+1, "", "the chain ends at %s: either nothing is exported any more, or what came after was removed", report.To.UTC().Format(time.RFC3339))
	}
	return books
}

// choose returns the one of several objects with one number that the next one names.
func (v *verification) choose(report *RegionReport, of, following []*Segment, last bool) *Segment {
	if len(of) == 1 {
		return of[0]
	}
	var chosen []*Segment
	for _, s := range of {
		if slices.ContainsFunc(following, func(f *Segment) bool { return f.Previous == s.Digest }) {
			chosen = append(chosen, s)
		}
	}
	report.Spare += len(of) - 1
	switch {
	case len(chosen) == 1:
		return chosen[0]
	case len(chosen) == 0 && last: // a crash leaves this: the next segment will decide
		return of[0]
	}
	v.fail(Forked, report.Region, of[0].Number, "", "%d objects have this number, and %d of them are followed", len(of), len(chosen))
	return of[0]
}

// join compares s with its predecessor; nil: there is none to compare with.
func (v *verification) join(s, before *Segment, first bool) {
	switch {
	case first && s.Previous != "":
		v.fail(Reordered, s.Region, s.Number, s.Name, "it is the first, and names one before it")
	case before != nil && s.Previous != before.Digest:
		v.fail(Reordered, s.Region, s.Number, s.Name, "it names another segment before it than %s", before.Name)
	}
}

// meet compares the windows of two segments.
func (v *verification) meet(s, before *Segment) {
	if before == nil || before.Number+1 < s.Number && v.between(before, s) {
		return
	}
	goesOn := s.From.Equal(before.To) && s.After == (Position{})
	if !before.Last {
		goesOn = s.From.Equal(before.From) && !s.To.After(before.To) && s.After.same(before.Until)
	}
	if !goesOn {
		v.fail(Gap, s.Region, s.Number, s.Name, "its window, from %s, does not go on where that of segment %d ended", s.From.UTC().Format(time.RFC3339), before.Number)
	}
}

// between reports whether a segment between two is missing or bad, so that their
// windows need not meet.
func (v *verification) between(a, b *Segment) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.report.Failures, func(f Failure) bool {
		return f.Region == a.Region && f.Number > a.Number && f.Number < b.Number
	})
}
