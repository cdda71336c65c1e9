package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Lost reads from a bucket the claims that a store has lost, because it was restored
// from a backup. The bucket is the witness: its segments are signed, each names the one
// before, and the restored chain row names the last one of that time.
type Lost struct {
	Objects Objects
	Trust   Trust
	// Deployment is the store's. Segments of another are an error.
	Deployment uuid.UUID
	// Home is the region of the chain that Lost follows.
	Home string
	// Before is when the store was restored: a later segment has rows of the restored
	// store, and none of the lost writes. It is by that store's clock, and Manifest.Written by
	// the clock of the store that the segment is of; no node's clock is compared. Where the lost
	// store's clock was ahead of this one's, its last segments count as later, and less is
	// covered. Where it was behind they count as what they are, since all of them are older.
	Before time.Time
}

// Followed is the result of [Lost].Follow.
type Followed struct {
	// Chain is the row with the bucket's last segment at its end.
	Chain Chain
	// Covered is until when the segments hold all writes.
	Covered time.Time
	// Segments is how many follow the restored row.
	Segments int
	// Left are the books that had left for segments, and that have not left the restored store
	// yet.
	Left []Left
	// Broken is why the chain was not followed further, "" if it ends there.
	Broken string
	// Witnesses has one witness for each key.
	Witnesses []claim.Witness
	// Blind counts the witnesses that lack what is needed to begin the claim again:
	// their keys stay withheld.
	Blind int
}

// Left are the transactions that left the books for one segment. Until is its BooksUntil.
type Left struct {
	IDs   []string
	Until ledger.Position
}

// codeRead bounds the segments of a region that Codes reads: an idle one's may name no object.
const codeRead = 8

// Codes returns the regions of which the bucket has segments, each with its code as its latest objects
// have it, 0 if those segments name none. It says nothing of Home.
func (l *Lost) Codes(ctx context.Context) (map[string]claim.RegionCode, error) {
	regions := map[string][]named{}
	if err := l.Objects.List(ctx, "", func(name string) error {
		if n, ok := readName(name); ok {
			regions[n.region] = append(regions[n.region], n)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	codes := map[string]claim.RegionCode{}
	for region, names := range regions {
		slices.SortFunc(names, func(a, b named) int { return cmp.Compare(b.number, a.number) })
		for _, n := range names[:min(len(names), codeRead)] {
			_, entries, err := readAll(ctx, l.Objects, n.name, l.Trust, l.Deployment)
			switch {
			case errors.Is(err, ErrOtherDeployment):
				continue
			case err != nil && !damaged(err) && !errors.Is(err, ErrNoObject):
				return nil, fmt.Errorf("audit: cannot read segment %s: %w", n.name, err)
			}
			if codes[region] = codeOf(entries); codes[region] != 0 {
				break
			}
		}
	}
	return codes, nil
}

// codeOf returns the code of the first object that entries name, 0 if they name none.
func codeOf(entries []Entry) claim.RegionCode {
	for i := range entries {
		if _, code, ok := claim.ReadObjectID(entries[i].Object); ok {
			return code
		}
	}
	return 0
}

// Follow follows the chain from the end of was, the restored row. After an error the result is
// unknown, as something could not be read.
func (l *Lost) Follow(ctx context.Context, was Chain) (f Followed, err error) {
	numbers := map[uint64][]named{}
	last := uint64(0)
	if err := l.Objects.List(ctx, l.Home+"/", func(name string) error {
		if n, ok := readName(name); ok && n.region == l.Home && n.number > was.Number {
			numbers[n.number] = append(numbers[n.number], n)
			last = max(last, n.number)
		}
		return nil
	}); err != nil {
		return f, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	f.Chain, f.Covered = was, was.From
	since := false // segments of the restored store follow
	lives := map[claim.Key][]Entry{}
	for number := was.Number + 1; number <= last; number++ {
		s, entries, why, err := l.next(ctx, &f.Chain, numbers[number], numbers[number+1])
		if err != nil {
			return f, err
		}
		if why != "" {
			f.Broken = fmt.Sprintf("segment %d of %s: %s", number, l.Home, why)
			break
		}
		f.Chain, f.Segments = f.Chain.behind(&s), f.Segments+1
		if s.Books > 0 && was.Books.Before(s.BooksUntil) { // else an earlier try had them leave
			left := Left{Until: s.BooksUntil}
			for i := range s.booked.transactions {
				left.IDs = append(left.IDs, s.booked.transactions[i].ID)
			}
			f.Left = append(f.Left, left)
		}
		if since = since || !s.Written.Before(l.Before); !since {
			f.Covered = f.Chain.From
		}
		for i := range entries {
			if e := &entries[i]; e.Key != "" {
				key := claim.Key{Tenant: e.Tenant, Value: e.Key}
				lives[key] = append(lives[key], *e)
			}
		}
	}
	for key, entries := range lives {
		if w, began := l.witness(key, entries); began {
			f.Witnesses = append(f.Witnesses, w)
			if w.Object == "" {
				f.Blind++
			}
		}
	}
	slices.SortFunc(f.Witnesses, func(a, b claim.Witness) int {
		return cmp.Or(cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.Value, b.Key.Value))
	})
	return f, nil
}

// next reads the segment that follows c, with the entries of all objects that could be it.
// why is one line if there is none.
func (l *Lost) next(ctx context.Context, c *Chain, names, following []named) (s Segment, entries []Entry, why string, err error) {
	var fit []Segment
	why = "there is no object of this number"
	for _, n := range names {
		s, some, err := readAll(ctx, l.Objects, n.name, l.Trust, l.Deployment)
		switch {
		case damaged(err):
			why = err.Error()
		case errors.Is(err, ErrNoObject):
		case err != nil:
			return s, nil, "", fmt.Errorf("audit: cannot read segment %s: %w", n.name, err)
		case s.Previous != c.Digest:
			why = "it names another one before it than " + cmp.Or(c.Digest, "none")
		case s.overreaches(c):
			why = "its window ends later than that of the part before it, which lacks the rest"
		default: // a spare one has no other entries than the chain, or more
			fit, entries = append(fit, s), append(entries, some...)
		}
	}
	if len(fit) == 0 {
		return s, nil, why, nil
	}
	if len(fit) > 1 {
		if fit, err = l.named(ctx, l.lost(fit), following); err != nil {
			return s, nil, "", err
		}
	}
	chosen := &fit[0]
	for i := range fit {
		if fit[i].furtherThan(chosen, c) {
			chosen = &fit[i]
		}
	}
	return *chosen, entries, "", nil
}

// lost returns those of some segments that are of the lost store, or all if none is.
func (l *Lost) lost(some []Segment) []Segment {
	of := slices.DeleteFunc(slices.Clone(some), func(s Segment) bool { return !s.Written.Before(l.Before) })
	if len(of) == 0 {
		return some
	}
	return of
}

// named returns those of some segments that a following one names, or all if none does. It skips
// segments of the restored store when it selects among those of the lost one: the restored store
// may have gone on from a spare one of them, as an exporter does that finds one, which may end
// earlier than the last that the lost store wrote.
func (l *Lost) named(ctx context.Context, some []Segment, following []named) ([]Segment, error) {
	of := map[string]bool{}
	for _, n := range following {
		head, err := readHead(ctx, l.Objects, n.name, l.Trust, l.Deployment)
		if err != nil && !damaged(err) && !errors.Is(err, ErrNoObject) {
			return nil, fmt.Errorf("audit: cannot read segment %s: %w", n.name, err)
		}
		if err == nil && head.Written.Before(l.Before) == some[0].Written.Before(l.Before) {
			of[head.Previous] = true
		}
	}
	if chosen := slices.DeleteFunc(slices.Clone(some), func(s Segment) bool { return !of[s.Digest] }); len(chosen) > 0 {
		return chosen, nil
	}
	return some, nil
}

// witness summarises the entries of a key's latest life. began: one of them began a
// generation. A claim that was begun earlier is in the backup and only needs recovery;
// a witness of a claim that is stored is never read.
func (l *Lost) witness(key claim.Key, entries []Entry) (w claim.Witness, began bool) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Fence, b.Fence)) })
	blind := claim.Witness{Key: key, Home: l.Home}
	w = blind
	ok := false
	for i := range entries {
		e := &entries[i]
		if slices.Contains(begins, e.Event) {
			if e.Event == claim.EventClaimed || e.Event == claim.EventReplaced {
				w = blind
			}
			w.Generation, w.Done, w.Answered, ok, began = e.Generation, false, false, lived(&w, e), true
		}
		w.Fence = max(w.Fence, e.Fence)
		w.Object, w.ProviderRef = cmp.Or(e.Object, w.Object), cmp.Or(e.ProviderRef, w.ProviderRef)
		w.Canceled = w.Canceled || e.Event == claim.EventCanceled
		w.Done = w.Done || e.Event == claim.EventAttempt && e.Detail == claim.OutcomeDone
		// Not EventGivenUp: the claim has its answer, but its provider may yet say what it did.
		w.Answered = w.Answered || e.Event == claim.EventSettled && e.Generation == w.Generation
	}
	if !ok || w.Object == "" {
		return blind, began
	}
	return w, began
}

// lived sets the facts from the entry that began a generation.
func lived(w *claim.Witness, e *Entry) bool {
	if e.Event == claim.EventClaimed || e.Event == claim.EventReplaced || e.Event == claim.EventRestored {
		w.Operation = e.Detail
	}
	if e.Life == nil {
		return false
	}
	sum, err := hex.DecodeString(e.Life.Fingerprint)
	if err != nil || len(sum) != len(w.Fingerprint.Sum) {
		return false
	}
	copy(w.Fingerprint.Sum[:], sum)
	w.Fingerprint.Version = claim.FingerprintVersion(e.Life.Version)
	w.FirstUse, w.Provider = e.Life.FirstUse, e.Life.Provider
	return true
}
