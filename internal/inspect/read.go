package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Rows is the part of a deployment's stores that a [Reader] reads.
type Rows interface {
	Get(ctx context.Context, key claim.Key, home string) (rec claim.Record, now time.Time, found bool, err error)
	ByObject(ctx context.Context, home, id string) (rec claim.Record, found bool, err error)
	Unpaid(ctx context.Context, home, id string) (u claim.Unpaid, found bool, err error)
	Replica(ctx context.Context, key claim.Key) (claim.Shown, error)
	Timeline(ctx context.Context, key claim.Key, home string, limit int) ([]claim.AuditEntry, error)
	Named(ctx context.Context, region string, ids []string) ([]ledger.Transaction, error)
	About(ctx context.Context, region string, objects ...string) ([]ledger.Transaction, error)
	Reversals(ctx context.Context, ids ...string) ([]ledger.Transaction, error)
	Queue(q outbox.Queue) outbox.Store
	// AuditChain is read with Segments alone.
	AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error)
}

// Reader reads histories. Its fields are set once; it is safe for concurrent use.
type Reader struct {
	Rows Rows
	// Regions are all regions of the deployment.
	Regions []claim.Region
	// Policy is the nodes' policy; it decides when a key expires.
	Policy claim.Policy
	// Tenants lists up to limit tenants with ID > after, in order. Read calls it for a
	// key without a tenant; nil: such keys are refused.
	Tenants func(ctx context.Context, after string, limit int) ([]claim.Tenant, error)
	// Segments searches the exported audit; nil: only rows are read. It reads a bucket,
	// which is slow.
	Segments Segments
	// Digits returns the decimals of a currency's minor unit; nil: a verdict has amounts in
	// minor units.
	Digits func(currency string) int
}

// Query selects a history.
type Query struct {
	// Of is an idempotency key, or the id of an object.
	Of string
	// Tenant is the key's tenant; "" searches all tenants. An object needs none.
	Tenant string
	// Since and Until bound the days of the searched segments; zero: no bound.
	Since, Until time.Time
}

const (
	// maxTimeline bounds the audit entries that are read from rows for one key.
	maxTimeline = 10_000
	// tenantsPage is how many tenants are searched at a time.
	tenantsPage = 1000
	// maxNamed bounds the list of tenants in an error.
	maxNamed = 5
	// maxFences bounds the search for events: each fence may have left some.
	maxFences = 64
)

// Read gathers the history of q. It returns [ErrNotFound], [ErrSeveral], or ctx's
// error; what else fails is named in History.Missing.
func (r *Reader) Read(ctx context.Context, q Query) (History, error) {
	g := gathering{r: r, h: History{Timeline: []Entry{}, Attempts: []Attempt{}, Bookings: []Booking{}, Waiting: []Waiting{}}}
	if err := g.find(ctx, q); err != nil {
		return History{}, err
	}
	if err := g.segments(ctx, &q); err != nil {
		return History{}, err
	}
	g.pin(ctx)
	g.claim()
	g.timeline(ctx)
	g.merge()
	slices.SortStableFunc(g.h.Timeline, func(a, b Entry) int { return a.At.Compare(b.At) })
	g.books(ctx)
	g.queues(ctx)
	if err := ctx.Err(); err != nil {
		return History{}, err
	}
	if !g.found() {
		if len(g.h.Missing) > 0 {
			return History{}, fmt.Errorf("%q: nothing was found, and not everything could be read: %s", q.Of, strings.Join(g.h.Missing, "; "))
		}
		return History{}, fmt.Errorf("%w: %q", ErrNotFound, q.Of)
	}
	g.derive()
	return g.h, nil
}

// gathering is a history under construction.
type gathering struct {
	r      *Reader
	h      History
	rec    *claim.Record
	unpaid *claim.Unpaid
	now    time.Time
	booked []ledger.Transaction
	// claimUnread and booksUnread: rows that were not read may have a claim, or bookings.
	claimUnread, booksUnread bool
	// exported is the audit from segments; segmentsUnread: others may have more.
	exported       []audit.Found
	segmentsUnread bool
}

func (g *gathering) missing(what string, err error) {
	g.h.Missing = append(g.h.Missing, fmt.Sprintf("%s: %v", what, err))
}

// doubt adds what was not read, each once.
func (g *gathering) doubt(doubts []string) {
	for _, d := range doubts {
		if !slices.Contains(g.h.Missing, d) {
			g.h.Missing = append(g.h.Missing, d)
		}
	}
}

// home names the region of a code.
func (g *gathering) home(code claim.RegionCode) (string, bool) {
	for _, r := range g.r.Regions {
		if r.Code == code {
			return r.Name, true
		}
	}
	return "", false
}

// find determines the key of the query, and reads its claim.
func (g *gathering) find(ctx context.Context, q Query) error {
	if _, code, ok := claim.ReadObjectID(q.Of); ok {
		return g.findObject(ctx, q, code)
	}
	value := q.Of
	if !claim.ValidKey(value) {
		var err error
		if value, err = claim.ParseKey(q.Of); err != nil {
			return err
		}
	}
	g.h.Key = value
	code, stamped := claim.ReadStamp(value)
	if stamped {
		home, ok := g.home(code)
		if !ok {
			return fmt.Errorf("%q names a region by code %d, which the table of regions does not have", q.Of, code)
		}
		g.h.Home, g.h.Stamped = home, true
	}
	if q.Tenant != "" {
		g.h.Tenant = q.Tenant
		return g.findKey(ctx)
	}
	return g.findTenant(ctx)
}

func (g *gathering) findObject(ctx context.Context, q Query, code claim.RegionCode) error {
	home, ok := g.home(code)
	if !ok {
		return fmt.Errorf("%q names a region by code %d, which the table of regions does not have", q.Of, code)
	}
	g.h.Object, g.h.Home = q.Of, home
	rec, found, err := g.r.Rows.ByObject(ctx, home, q.Of)
	switch {
	case err != nil:
		g.claimUnread = true
		g.missing("claim of "+q.Of+" at "+home, err)
	case found:
		g.h.Tenant, g.h.Key = rec.Key.Tenant, rec.Key.Value
		// Once more by its key, with the store's clock.
		return g.findKey(ctx)
	}
	return nil
}

// findKey reads the claim of a tenant's key at its home if a row names that, else everywhere.
func (g *gathering) findKey(ctx context.Context) error {
	key := claim.Key{Tenant: g.h.Tenant, Value: g.h.Key}
	for _, home := range g.homes() {
		rec, now, found, err := g.r.Rows.Get(ctx, key, home)
		switch {
		case err != nil:
			g.claimUnread = true
			g.missing("claim at "+home, err)
			continue
		case g.now.IsZero():
			g.now = now
		}
		// A key may have had another home before its pin ran out: the latest life counts.
		if found && (g.rec == nil || rec.FirstUse.After(g.rec.FirstUse)) {
			g.rec, g.now = &rec, now
		}
	}
	if g.rec != nil {
		g.h.Home = g.rec.Home
		g.h.Object = orElse(g.h.Object, g.rec.Minted.ID)
	}
	return ctx.Err()
}

// homes returns the regions that may have the key's rows.
func (g *gathering) homes() []string {
	if g.h.Home != "" {
		return []string{g.h.Home}
	}
	names := make([]string, len(g.r.Regions))
	for i, r := range g.r.Regions {
		names[i] = r.Name
	}
	return names
}

// findTenant searches all tenants for one that has the key: its claim, or where no tenant has one any
// more, its audit.
func (g *gathering) findTenant(ctx context.Context) error {
	if g.r.Tenants == nil {
		return errors.New("inspect: a key needs its tenant; name it")
	}
	var tenants, having []string
	var best gathering
	for after := ""; ; {
		page, err := g.r.Tenants(ctx, after, tenantsPage)
		if err != nil {
			return fmt.Errorf("inspect: cannot list the tenants; name the key's tenant: %w", err)
		}
		for _, t := range page {
			one := gathering{r: g.r, h: g.h}
			one.h.Tenant, one.h.Missing = t.ID, nil
			if err := one.findKey(ctx); err != nil {
				return err
			}
			g.doubt(one.h.Missing)
			g.claimUnread = g.claimUnread || one.claimUnread
			if one.rec != nil {
				having, best = append(having, t.ID), one
			}
			tenants, after = append(tenants, t.ID), t.ID
		}
		if len(page) < tenantsPage {
			break
		}
	}
	if len(having) == 0 {
		having, best = g.noted(ctx, tenants), *g
	}
	switch {
	case len(having) > 1:
		named := having[:min(len(having), maxNamed)]
		return fmt.Errorf("%w: %s%s", ErrSeveral, strings.Join(named, ", "), more(len(having)-len(named)))
	case len(having) == 1:
		missing := g.h.Missing
		*g = best
		g.h.Tenant, g.h.Missing = having[0], missing
	}
	return ctx.Err()
}

// noted returns the tenants of some that have the key in their audit.
func (g *gathering) noted(ctx context.Context, tenants []string) (having []string) {
	for _, t := range tenants {
		for _, home := range g.homes() {
			line, err := g.r.Rows.Timeline(ctx, claim.Key{Tenant: t, Value: g.h.Key}, home, 1)
			if err != nil {
				g.doubt([]string{fmt.Sprintf("audit at %s: %v", home, err)})
			}
			if len(line) > 0 {
				having = append(having, t)
				break
			}
		}
	}
	return having
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// pin reads the pin of an opaque key from the nearest replica: asking the registrar
// could write. A pin that the replica does not show may still exist.
func (g *gathering) pin(ctx context.Context) {
	if g.h.Stamped || g.h.Tenant == "" || g.h.Key == "" {
		return
	}
	shown, err := g.r.Rows.Replica(ctx, claim.Key{Tenant: g.h.Tenant, Value: g.h.Key})
	switch {
	case err != nil:
		g.missing("pin", err)
	case shown.Pin != nil:
		g.h.PinnedAt = shown.Pin.CreatedAt
		g.h.Home = orElse(g.h.Home, shown.Pin.Home)
	}
}

// claim renders the row.
func (g *gathering) claim() {
	if g.rec == nil {
		return
	}
	r, p := g.rec, &g.r.Policy
	c := &Claim{
		Operation: r.Operation, State: r.State.String(), Age: ages[r.Age(p, g.now)], Fence: r.Fence, Generation: r.Generation,
		Attempts: r.Attempts, Unknowns: r.Unknowns, Holder: r.Holder, FirstUse: r.FirstUse, SettledAt: r.SettledAt,
		Reason: r.Reason, ProviderRef: r.ProviderRef, Reverses: r.Reverses, state: r.State,
	}
	if r.State == claim.InFlight {
		c.LeaseUntil = r.LeaseUntil
		if r.Waits() {
			c.WaitsFor = r.Interim.State
		}
	} else {
		c.ExpiresAt, c.FreeAt = r.ExpiresAt(p, g.now), r.FreeAt(p, g.now)
	}
	if r.Response != nil {
		c.Status = r.Response.Status
	}
	g.h.Claim = c
}

var ages = map[claim.Age]string{claim.Live: "live", claim.Expired: "expired", claim.Gone: "gone"}

// timeline reads the audit of the key in every region: a key whose pin ran out may have
// had another home before, and a deputy writes at home.
func (g *gathering) timeline(ctx context.Context) {
	if g.h.Tenant == "" || g.h.Key == "" {
		return
	}
	key := claim.Key{Tenant: g.h.Tenant, Value: g.h.Key}
	for _, r := range g.r.Regions {
		if g.h.Stamped && r.Name != g.h.Home {
			continue
		}
		line, err := g.r.Rows.Timeline(ctx, key, r.Name, maxTimeline)
		if err != nil {
			g.doubt([]string{fmt.Sprintf("audit at %s: %v", r.Name, err)})
			continue
		}
		g.h.Truncated = g.h.Truncated || len(line) == maxTimeline
		for _, e := range line {
			g.h.Timeline = append(g.h.Timeline, Entry{
				At: e.At, Event: e.Event, Region: e.Region, Node: e.Node, Fence: e.Fence, Generation: e.Generation, Detail: e.Detail, Home: r.Name,
			})
		}
	}
}

// books reads the bookings of the object. Those of ghosts are in the books of the region that
// found them.
func (g *gathering) books(ctx context.Context) {
	if g.h.Object == "" || g.h.Home == "" {
		return
	}
	regions := make([]string, len(g.r.Regions))
	for i, r := range g.r.Regions {
		regions[i] = r.Name
	}
	all, missing := ledger.Everything(ctx, g.r.Rows, regions, g.h.Object)
	g.booksUnread = len(missing) > 0
	for _, err := range missing {
		g.h.Missing = append(g.h.Missing, err.Error())
	}
	if own := func(t ledger.Transaction) bool { return t.ID == g.h.Object }; g.r.Segments != nil && !slices.ContainsFunc(all, own) {
		left, doubts, err := g.r.Segments.Books(ctx, g.h.Object, []string{g.h.Home})
		if err != nil {
			g.missing("books in segments", err)
		}
		g.booksUnread = g.booksUnread || g.segmentsUnread || err != nil || len(doubts) > 0
		g.doubt(doubts)
		all = append(left, all...) // what has left is older
	}
	for i := range all {
		g.h.Tenant = orElse(g.h.Tenant, all[i].Tenant)
	}
	g.booked, g.h.Bookings = all, bookingsOf(all)
	u, found, err := g.r.Rows.Unpaid(ctx, g.h.Home, g.h.Object)
	switch {
	case err != nil:
		g.missing("what is remembered of it", err)
	case found:
		g.unpaid, g.h.Tenant = &u, orElse(g.h.Tenant, u.Tenant)
	}
}

// queues reads the queued rows of the object, by the ids that they would have.
func (g *gathering) queues(ctx context.Context) {
	if g.h.Object == "" || g.h.Home == "" {
		return
	}
	g.row(ctx, outbox.ProviderCalls, g.h.Object)
	g.row(ctx, outbox.Expiries, g.h.Object)
	if g.rec == nil {
		return
	}
	last := g.rec.Fence + 1 // closing has a number of its own
	first := uint64(1)
	if last > maxFences {
		first = last - maxFences
	}
	for fence := first; fence <= last; fence++ {
		g.events(ctx, strconv.FormatUint(fence, 10))
	}
	g.events(ctx, "failed")
}

// events reads the rows of one event, one for each sink; see payment's events.
func (g *gathering) events(ctx context.Context, of string) {
	for _, sink := range []outbox.Kind{outbox.KindNATS, outbox.KindWebhook, outbox.KindLog} {
		g.row(ctx, outbox.Events, "evt_"+g.h.Object+"_"+of+"/"+strings.TrimPrefix(string(sink), "event_"))
	}
}

func (g *gathering) row(ctx context.Context, q outbox.Queue, id string) {
	m, found, err := g.r.Rows.Queue(q).Message(ctx, g.h.Home, id)
	if err != nil {
		g.missing(string(q), err)
		return
	}
	if !found {
		return
	}
	if q == outbox.ProviderCalls {
		g.h.Tenant, g.h.Key = orElse(g.h.Tenant, m.Tenant), orElse(g.h.Key, m.Key)
		// W3C: version-traceid-parentid-flags.
		if parts := strings.Split(m.TraceParent, "-"); len(parts) == 4 {
			g.h.TraceID = parts[1]
		}
	}
	g.h.Waiting = append(g.h.Waiting, Waiting{
		Queue: q, ID: m.ID, Kind: m.Kind, Due: m.Due, Attempts: m.Attempts, Parked: m.Parked, LastError: m.LastError,
	})
}

// found reports whether anything was found at all.
func (g *gathering) found() bool {
	return g.rec != nil || g.unpaid != nil || !g.h.PinnedAt.IsZero() || len(g.h.Timeline)+len(g.h.Bookings)+len(g.h.Waiting) > 0
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
