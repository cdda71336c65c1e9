package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Segments finds exported audit, and books that have left. *audit.Archive does.
type Segments interface {
	Books(ctx context.Context, id string, regions []string) (all []ledger.Transaction, doubts []string, err error)
	Find(ctx context.Context, w audit.Wanted) (found []audit.Found, doubts []string, err error)
}

// segments reads the segments' entries of the key or object. They may name the object's
// key if no row does any more.
func (g *gathering) segments(ctx context.Context, q *Query) error {
	if g.r.Segments == nil {
		return nil
	}
	w := audit.Wanted{Tenant: g.h.Tenant, Key: g.h.Key, Object: g.h.Object, Since: q.Since, Until: q.Until}
	if w.Key != "" && w.Tenant == "" {
		for after := ""; ; {
			page, err := g.r.Tenants(ctx, after, tenantsPage)
			if err != nil {
				return err
			}
			for _, t := range page {
				w.Tenants, after = append(w.Tenants, t.ID), t.ID
			}
			if len(page) < tenantsPage {
				break
			}
		}
	}
	found := g.search(ctx, w)
	if g.h.Key == "" && len(found) > 0 { // by its object: the entries before it, too
		w.Tenant, w.Key = found[0].Tenant, found[0].Key
		found = g.search(ctx, w)
	}
	tenants := map[string]bool{}
	for i := range found {
		tenants[found[i].Tenant] = true
	}
	if len(tenants) > 1 {
		var names []string
		for name := range tenants {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("%w: %s", ErrSeveral, strings.Join(names, ", "))
	}
	for i := range found {
		f := &found[i]
		g.h.Tenant, g.h.Key = orElse(g.h.Tenant, f.Tenant), orElse(g.h.Key, f.Key)
		g.h.Home = orElse(g.h.Home, f.Home)
		if g.rec == nil && q.Of == g.h.Key && f.Object != "" { // of several lives the last one counts
			g.h.Object, g.h.Home = f.Object, f.Home
		}
	}
	g.exported = found
	return nil
}

// search looks in the segments of every region: a key whose pin ran out may have had another home
// before. A stamped key, and an object, have one home.
func (g *gathering) search(ctx context.Context, w audit.Wanted) []audit.Found {
	if _, stamped := claim.ReadStamp(w.Key); stamped || w.Key == "" {
		w.Regions = []string{g.h.Home}
	}
	w.Recorded = map[string]uint64{}
	var doubts []string
	for _, r := range g.r.Regions {
		if len(w.Regions) > 0 && r.Name != g.h.Home {
			continue
		}
		chain, _, _, err := g.r.Rows.AuditChain(ctx, r.Name)
		if err != nil {
			doubts = append(doubts, fmt.Sprintf("how far the audit of %s is exported: %v", r.Name, err))
		}
		w.Recorded[r.Name] = chain.Number
	}
	found, more, err := g.r.Segments.Find(ctx, w)
	if err != nil {
		doubts = append(doubts, fmt.Sprintf("audit segments: %v", err))
	}
	doubts = append(doubts, more...)
	g.segmentsUnread = g.segmentsUnread || len(doubts) > 0
	g.doubt(doubts)
	return found
}

// merge adds to the timeline the entries that only segments have. Rows have no ids, so
// entries are duplicates if all members are equal, as often as both have them.
func (g *gathering) merge() {
	if len(g.exported) == 0 {
		return
	}
	rows := map[Entry]int{}
	for _, e := range g.h.Timeline {
		rows[alike(e)]++
	}
	for i := range g.exported {
		f := &g.exported[i]
		e := Entry{
			At: f.At, Event: f.Event, Region: f.Region, Node: f.Node, Fence: f.Fence, Generation: f.Generation, Detail: f.Detail, Home: f.Home,
		}
		if rows[alike(e)] > 0 {
			rows[alike(e)]--
			continue
		}
		e.Segment = f.Segment
		g.h.Timeline = append(g.h.Timeline, e)
	}
}

// alike returns e with a time that can be compared by ==.
func alike(e Entry) Entry {
	e.At = time.UnixMicro(e.At.UnixMicro()).UTC()
	return e
}

// operation returns the first operation of the key, by its audit.
func (g *gathering) operation() string {
	for i := len(g.h.Timeline) - 1; i >= 0; i-- {
		if e := &g.h.Timeline[i]; e.Event == claim.EventClaimed || e.Event == claim.EventReplaced {
			return e.Detail
		}
	}
	return ""
}
