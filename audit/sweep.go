package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sweep deletes rows that are exported and old enough, once a day. It does not rely on
// windows: it looks up each row in the segments of its day, and deletes it only if it
// is found there. Rows in no segment were written after their window was exported;
// sweep writes them to a late segment, and deletes them a day later.
func (x *Exporter) sweep(ctx context.Context, c Chain, now time.Time, status *Status) error {
	until := now.Add(-x.c.Policy.KeepRows)
	if c.From.Before(until) {
		until = c.From
	}
	if until = until.UTC().Truncate(day); !until.After(c.SweptUntil) {
		return nil
	}
	p, err := x.newProof(ctx, c)
	if err != nil {
		return err
	}
	late := map[string][]Entry{} // by day
	count := 0
	for after, more := (Position{}), true; more; {
		page, err := x.c.Store.AuditPage(ctx, x.c.Home, time.Time{}, until, after, x.c.Page)
		if err != nil {
			return err
		}
		after, more = page.Next, page.More
		proven, rest, err := p.divide(ctx, page.Entries)
		if err != nil {
			return err
		}
		n, err := x.c.Store.ForgetAudit(ctx, x.c.Home, proven)
		if err != nil {
			return err
		}
		status.Swept += n
		for i := range rest {
			x.prepare(&rest[i])
			d := rest[i].At.UTC().Format(dayLayout)
			late[d] = append(late[d], rest[i])
		}
		if count += len(rest); count >= x.c.Entries || !more {
			if err := x.late(ctx, &p.chain, late, now, status); err != nil {
				return err
			}
			late, count = map[string][]Entry{}, 0
		}
	}
	next := p.chain
	next.SweptUntil = until
	return x.advance(ctx, p.chain.Version, next)
}

// late writes a segment for each day of entries that no segment has, and advances c.
func (x *Exporter) late(ctx context.Context, c *Chain, late map[string][]Entry, now time.Time, status *Status) error {
	for _, d := range slices.Sorted(maps.Keys(late)) {
		from, err := time.Parse(dayLayout, d)
		if err != nil {
			return err
		}
		m := x.manifest(c, now)
		m.Day, m.From, m.To, m.Part, m.Last, m.Late = d, from, from.Add(day), 1, true, true
		s, err := x.write(ctx, m, late[d], booked{})
		if err != nil {
			return err
		}
		next := *c
		next.Number, next.Digest = s.Number, s.Digest
		if err := x.advance(ctx, c.Version, next); err != nil {
			return err
		}
		next.Version = c.Version + 1
		*c = next
		status.Segments++
		status.Entries += len(late[d])
		status.Late += len(late[d])
		status.RepliesLost += s.RepliesLost
		x.c.Logger.Warn("audit entries arrived after their window was exported; they are in a late segment", "home", x.c.Home, "day", d, "entries", len(late[d]))
	}
	return nil
}

// proof finds rows in segments.
type proof struct {
	x     *Exporter
	chain Chain
	// names are the objects of the region, by day, and numbers how many objects have a
	// number.
	names   map[string][]named
	numbers map[uint64][]named
	// days are the heads of the segments of a day that are in the chain.
	days map[string][]*Segment
	// bodies are the entry ids of the segments that were read last.
	bodies map[string]map[string]bool
	recent []string // their names, the latest last
}

// newProof lists the segments that the chain may have.
func (x *Exporter) newProof(ctx context.Context, c Chain) (*proof, error) {
	p := &proof{
		x: x, chain: c, names: map[string][]named{}, numbers: map[uint64][]named{},
		days: map[string][]*Segment{}, bodies: map[string]map[string]bool{},
	}
	err := x.c.Objects.List(ctx, x.c.Home+"/", func(name string) error {
		if n, ok := readName(name); ok {
			p.numbers[n.number] = append(p.numbers[n.number], n)
			if n.number <= c.Number {
				p.names[n.day] = append(p.names[n.day], n)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit: cannot list the bucket: %w", err)
	}
	return p, nil
}

// maxBodies bounds the segments with their ids in memory, some 5 MB each: rows come in the order in
// which segments were written, so one segment of each day is in use.
const maxBodies = 8

// divide separates entries that a segment has from the others.
func (p *proof) divide(ctx context.Context, entries []Entry) (proven []Position, rest []Entry, err error) {
	for i := range entries {
		in, err := p.has(ctx, &entries[i])
		if err != nil {
			return nil, nil, err
		}
		if in {
			proven = append(proven, entries[i].Position())
		} else {
			rest = append(rest, entries[i])
		}
	}
	return proven, rest, nil
}

// has reports whether a segment of the chain has e.
func (p *proof) has(ctx context.Context, e *Entry) (bool, error) {
	d := e.At.UTC().Format(dayLayout)
	heads, read := p.days[d]
	if !read {
		var err error
		if heads, err = p.read(ctx, d); err != nil {
			return false, err
		}
		p.days[d] = heads
	}
	name := keyName(e.Tenant, e.Key)
	for _, s := range heads {
		if e.At.Before(s.From) || !e.At.Before(s.To) || !s.Filter.has(name) {
			continue
		}
		ids, err := p.body(ctx, s)
		if err != nil {
			return false, err
		}
		if ids[idName(e)] {
			return true, nil
		}
	}
	return false, nil
}

func idName(e *Entry) string { return e.Tenant + "\x00" + e.Key + "\x00" + e.ID }

// read reads the heads of a day's segments. A damaged segment proves nothing: its rows
// are exported once more.
func (p *proof) read(ctx context.Context, d string) ([]*Segment, error) {
	var heads []*Segment
	for _, n := range p.names[d] {
		s, found, err := p.head(ctx, n.name)
		if err != nil {
			return nil, err
		}
		in := found
		if in {
			if in, err = p.inChain(ctx, &s); err != nil {
				return nil, err
			}
		}
		if in {
			heads = append(heads, &s)
		}
	}
	return heads, nil
}

// head reads one manifest; found is false if it is damaged or missing.
func (p *proof) head(ctx context.Context, name string) (s Segment, found bool, err error) {
	s, err = readHead(ctx, p.x.c.Objects, name, p.x.c.Keys.trust, p.x.c.Deployment)
	switch {
	case damaged(err):
		p.complain(name, err)
		return s, false, nil
	case errors.Is(err, ErrNoObject):
		return s, false, nil
	}
	return s, err == nil, err
}

// inChain reports whether a segment is in the chain, and not one that a rival wrote but
// could not add. Of several segments with one number, the next segment names the right
// one, whoever wrote that, since every writer reads it from the row.
func (p *proof) inChain(ctx context.Context, s *Segment) (bool, error) {
	switch {
	case s.Number == p.chain.Number:
		return s.Digest == p.chain.Digest, nil
	case len(p.numbers[s.Number]) == 1:
		return true, nil
	}
	for _, n := range p.numbers[s.Number+1] {
		next, found, err := p.head(ctx, n.name)
		if err != nil {
			return false, err
		}
		if found && next.Previous == s.Digest {
			return true, nil
		}
	}
	return false, nil
}

// body returns the ids of a segment's entries.
func (p *proof) body(ctx context.Context, s *Segment) (map[string]bool, error) {
	if ids, ok := p.bodies[s.Name]; ok {
		return ids, nil
	}
	_, entries, err := readAll(ctx, p.x.c.Objects, s.Name, p.x.c.Keys.trust, p.x.c.Deployment)
	switch {
	case damaged(err), errors.Is(err, ErrNoObject):
		p.complain(s.Name, err)
		entries = nil
	case err != nil:
		return nil, err
	}
	ids := make(map[string]bool, len(entries))
	for i := range entries {
		ids[idName(&entries[i])] = true
	}
	if len(p.recent) == maxBodies {
		delete(p.bodies, p.recent[0])
		p.recent = p.recent[1:]
	}
	p.bodies[s.Name], p.recent = ids, append(p.recent, s.Name)
	return ids, nil
}

func (p *proof) complain(name string, err error) {
	p.x.c.Logger.Error("page: a segment of the audit is damaged; its rows are exported once more where they are still there, homeward audit verify names what is lost",
		"object", name, "error", err)
}
