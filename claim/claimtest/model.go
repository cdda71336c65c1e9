package claimtest

import (
	"maps"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// Model is a naive implementation of a claim store. It follows the promises and
// not the transitions, uses plain maps and takes the clock as an argument. Its
// fields are exported so that tests can compare its cells.
type Model struct {
	Policy claim.Policy
	Cells  map[Place]*Cell
	Pins   map[claim.Key]*ModelPin
	// Books, Events, Expiring and Unpaid are the rows that settlements wrote, by home and id.
	Books    map[Ref]ledger.Transaction
	Events   map[Ref]outbox.Message
	Expiring map[Ref]outbox.Message
	Unpaid   map[Ref]claim.Unpaid
}

// Ref names a row that a settlement wrote.
type Ref struct{ Home, ID string }

// Place names a claim by home and key: two homes may hold the same key.
type Place struct {
	Home string
	Key  claim.Key
}

// Cell is one claim as the model sees it.
type Cell struct {
	Body                                     string
	Status                                   Status
	Holder                                   string
	Fence                                    uint64
	Generation, Attempts, Unknowns, NotFound uint32
	First, Held, Lease, Settled              time.Time
	ID, Reply, Reason                        string
	// Declined and DeclinedAt describe the latest release, until an answer is final.
	Declined   string
	DeclinedAt time.Time
	DeclinedTo time.Duration // the provider's own pause
	// Canceled is when the merchant gave the key up while the cell was working.
	Canceled time.Time
	// Interim is the answer while the claim is pending, Waits the state that it waits
	// in.
	Interim, Waits string
}

// ModelPin is one pin as the model sees it.
type ModelPin struct {
	Home string
	At   time.Time
}

// Status is a claim's state in the model.
type Status string

// The model's states.
const (
	Working  Status = "working"
	Paid     Status = "paid"
	Refused  Status = "refused"
	Released Status = "released"
)

// NewModel returns an empty model.
func NewModel(p claim.Policy) *Model {
	return &Model{
		Policy: p, Cells: map[Place]*Cell{}, Pins: map[claim.Key]*ModelPin{},
		Books: map[Ref]ledger.Transaction{}, Events: map[Ref]outbox.Message{}, Expiring: map[Ref]outbox.Message{}, Unpaid: map[Ref]claim.Unpaid{},
	}
}

// GiveUp is the body of a request that gives its key up. The cell of one answers every body.
const GiveUp = "{}"

// of reports whether the cell answers a request with body.
func (c *Cell) of(body string) bool { return c.Body == body || c.Body == GiveUp }

// final reports whether the cell's reply is stored.
func (c *Cell) final() bool { return c.Status == Paid || c.Status == Refused }

// over reports whether d has passed since first use and since the answer. An open cell
// is never over.
func (c *Cell) over(d time.Duration, now time.Time) bool {
	answered := c.Settled
	if c.Status == Released {
		answered = c.DeclinedAt
	}
	return c.Status != Working && now.Sub(c.First) >= d && now.Sub(answered) >= d
}

// gone reports whether the key is free again: a day as a tombstone after the day of
// replays.
func (m *Model) gone(c *Cell, now time.Time) bool {
	return c.over(m.Policy.ReplayFor+m.Policy.TombstoneFor, now)
}

// idle reports whether the holder of the cell may be presumed dead.
func (m *Model) idle(c *Cell, now time.Time) bool {
	return now.Sub(c.Lease) >= m.Policy.ClockOffset || m.beyond(c, now)
}

// beyond reports whether the holder of the cell has it for longer than anybody may.
func (m *Model) beyond(c *Cell, now time.Time) bool {
	return c.Holder != "" && c.Lease.Sub(now) > m.Policy.LeaseCeiling+m.Policy.ClockOffset
}

// Arrive handles a request with body that began underWay ago. pinned is nil for
// a stamped key.
func (m *Model) Arrive(at Place, body, id, holder string, pinned *time.Time, underWay time.Duration, now time.Time) claim.Decision {
	c := m.Cells[at]
	if c == nil || m.gone(c, now) {
		if pinned != nil {
			// The new claim owns its key until the end of its tombstone. The pin must
			// last that long by the slowest clock.
			end := now.Add(m.Policy.ReplayFor + m.Policy.TombstoneFor)
			pinEnd := pinned.Add(m.Policy.ReplayFor + m.Policy.TombstoneFor + m.Policy.PinGrace)
			if !end.Before(pinEnd.Add(-m.Policy.ClockOffset)) {
				return claim.NeedPin
			}
		}
		fence := uint64(1)
		if c != nil {
			fence = c.Fence + 1
		}
		m.Cells[at] = &Cell{
			Body: body, Status: Working, Holder: holder, Fence: fence, Generation: 1, Attempts: 1,
			First: now, Held: now, Lease: now.Add(m.Policy.Lease), ID: id,
		}
		return claim.Won
	}
	if c.over(m.Policy.ReplayFor, now) {
		return claim.TombStone
	}
	if body == GiveUp && c.Body != GiveUp {
		return claim.Used
	}
	if !c.of(body) {
		return claim.Mismatch
	}
	if c.final() {
		return claim.Replay
	}
	if m.Shares(at, body, underWay, now) {
		return claim.Shared // it had begun when the answer came
	}
	if c.Status == Released {
		c.hold(holder, now, m.Policy.Lease)
		c.Status, c.Reason, c.Unknowns, c.NotFound = Working, "", 0, 0
		c.Generation++
		return claim.Won
	}
	if !m.idle(c, now) {
		if c.Waits != "" {
			return claim.Waiting
		}
		return claim.Busy
	}
	c.hold(holder, now, m.Policy.Lease)
	return claim.WonUnknown
}

// Shares reports whether a request with body that began underWay ago reads the
// latest decline.
func (m *Model) Shares(at Place, body string, underWay time.Duration, now time.Time) bool {
	c := m.Cells[at]
	if c == nil || c.over(m.Policy.ReplayFor, now) || !c.of(body) || body == GiveUp && c.Body != GiveUp || c.final() || c.Declined == "" {
		return false
	}
	since := now.Sub(c.DeclinedAt)
	if c.Status != Working { // a later attempt is under way: only what began before it
		since -= m.Policy.ClockOffset + max(m.Policy.DeclinePause, c.DeclinedTo)
	}
	return since <= underWay
}

func (c *Cell) hold(holder string, now time.Time, lease time.Duration) {
	if c.Holder != "" {
		c.NotFound = 0 // that holder may have called
	}
	c.Holder, c.Held, c.Lease = holder, now, now.Add(lease)
	c.Fence++
	c.Attempts++
}

// Cancel marks a claim as given up. It returns nil or the error that the store must return.
func (m *Model) Cancel(at Place, id string, now time.Time) error {
	c := m.Cells[at]
	switch {
	case c == nil || c.Status != Working || c.ID != id:
		return claim.ErrFenced
	case !c.Canceled.IsZero():
		return nil
	}
	c.Canceled = now
	c.Fence++ // whoever does not know of it must not settle
	if c.Waits != "" && c.Holder == "" {
		c.Lease = now // the worker is to call it off
	}
	return nil
}

// Inherit takes a claim over; heard: with news of its generation. It returns nil or the error that the
// store must return.
func (m *Model) Inherit(at Place, id, holder string, heard bool, now time.Time) error {
	c := m.Cells[at]
	if c == nil || c.Status != Working || c.ID != id {
		return claim.ErrFenced
	}
	if !m.idle(c, now) && (c.Holder != "" || c.Waits == "" && !heard) {
		return claim.ErrLeaseHeld
	}
	c.hold(holder, now, m.Policy.Lease)
	return nil
}

// Renew reports whether holder still has the cell under fence and extended its
// lease.
func (m *Model) Renew(at Place, holder string, fence uint64, now time.Time) bool {
	c := m.Cells[at]
	if c == nil || c.Status != Working || c.Holder != holder || c.Fence != fence {
		return false
	}
	until := now.Add(m.Policy.Lease)
	if most := c.Held.Add(m.Policy.LeaseCeiling); until.After(most) {
		until = most
	}
	if c.Lease.After(until) && !m.beyond(c, now) {
		until = c.Lease
	}
	if !now.Before(until) {
		return false
	}
	c.Lease = until
	return true
}

// Learn applies a verdict. For an unknown outcome that is retried, lease is the time
// that the store chose. Learn reports whether the caller was allowed to settle.
func (m *Model) Learn(at Place, held claim.Record, v claim.Verdict, lease, now time.Time) (err error, fair bool) {
	c := m.Cells[at]
	_, refused := v.Outcome.(*claim.Refused)
	switch {
	case c == nil || c.Fence != held.Fence || c.Unknowns != held.Unknowns || c.ID != held.Minted.ID:
		return claim.ErrFenced, true
	case c.Status == Working && held.State == claim.InFlight:
	case c.Status == Released && held.State == claim.FailedRetry && refused && !m.gone(c, now.Add(m.Policy.PinGrace/60+m.Policy.ClockOffset)):
		// It cannot be paid any more.
	default:
		return claim.ErrFenced, true
	}
	end := func(s Status, reply claim.Response, reason string) {
		c.Status, c.Reply, c.Settled, c.Lease, c.Reason = s, string(reply.Body), now, now, reason
		c.Declined, c.DeclinedAt = "", time.Time{}
		c.Interim, c.Waits = "", ""
		m.settled(at, c, &held, &v, now)
	}
	var posting *ledger.Transaction
	switch o := v.Outcome.(type) {
	case *claim.Done:
		posting = o.Posting
	case *claim.Refused:
		posting = o.Posting
	}
	if posting != nil {
		if _, ok := m.Books[Ref{at.Home, posting.ID}]; ok {
			return ledger.ErrConflict, true // money is booked once, whatever else is wrong
		}
		post := *posting
		post.Region, post.At = at.Home, now
		m.Books[Ref{at.Home, post.ID}] = post
	}
	c.Holder = ""
	var wish time.Duration
	switch o := v.Outcome.(type) {
	case *claim.Done:
		end(Paid, o.Response, "")
		return nil, true
	case *claim.Refused:
		end(Refused, o.Response, o.Reason)
		if o.Refund != nil {
			e := *o.Refund
			e.ID, e.Kind, e.CreatedAt = c.ID+"/refund", outbox.KindRefund, now
			e.Region, e.Tenant, e.Key = at.Home, at.Key.Tenant, at.Key.Value
			m.Expiring[Ref{at.Home, e.ID}] = e
		}
		return nil, true
	case *claim.Released:
		if c.Generation == m.Policy.MaxGenerations || !c.Canceled.IsZero() {
			end(Refused, o.Response, o.Reason)
			return nil, true
		}
		c.Status, c.Declined, c.DeclinedAt, c.Lease, c.DeclinedTo, c.Reason = Released, string(o.Response.Body), now, now, o.Pause, o.Reason
		c.Interim, c.Waits = "", ""
		m.settled(at, c, &held, &v, now)
		ref := Ref{at.Home, c.ID}
		if _, ok := m.Expiring[ref]; o.Expiry != nil && !ok {
			e := *o.Expiry
			e.ID, e.Kind, e.CreatedAt = c.ID, outbox.KindExpiry, now
			e.Region, e.Tenant, e.Key = at.Home, at.Key.Tenant, at.Key.Value
			m.Expiring[ref] = e
		}
		return nil, true
	case *claim.Pending:
		c.Fence++
		c.NotFound, c.Lease, c.Reason = 0, lease, o.State
		if c.Waits != o.State+o.By { // written once
			c.Waits, c.Interim = o.State+o.By, string(o.Response.Body)
			m.emit(at, &held, &v, now)
		}
		due := now.Add(max(o.AskIn, m.Policy.BackoffMin))
		return nil, !lease.After(due) && due.Sub(lease) < time.Microsecond
	case *claim.Unsent:
		c.Fence++ // it cannot be repeated, and the outcome is unknown
		c.Reason, wish = o.Reason, o.RetryIn
	case *claim.Fault:
		c.Fence++ // the outcome is unknown too, and it may have called
		c.NotFound = 0
		c.Reason, wish = o.Reason, o.RetryIn
	case *claim.Unknown:
		c.Unknowns++
		if c.NotFound++; !o.NotFound {
			c.NotFound = 0
		}
		c.Reason, wish = o.Reason, o.RetryIn
		if c.Unknowns >= m.Policy.MaxUnknowns && o.GiveUp != nil {
			end(Refused, o.GiveUp.Response, claim.ReasonOutcomeUnknown)
			return nil, true
		}
	}
	most := m.Policy.BackoffMin
	for i := uint32(1); i < c.Unknowns; i++ {
		most = min(2*most, m.Policy.BackoffMax)
	}
	c.Lease = lease
	pause := lease.Sub(now)
	// Stores keep a pause in whole microseconds.
	least := m.Policy.BackoffMin/4 - time.Microsecond
	return nil, pause >= max(wish-time.Microsecond, least) && pause <= max(wish, most)
}

// emit records the events of v, behind earlier events of the same key and sink. The first holder
// has [claim.Policy.EventsFor] to deliver its own.
func (m *Model) emit(at Place, held *claim.Record, v *claim.Verdict, now time.Time) {
	events := maps.Clone(m.Events)
	for _, e := range v.Events() {
		e.Region, e.Tenant, e.Key, e.Operation = at.Home, at.Key.Tenant, at.Key.Value, held.Operation
		e.CreatedAt, e.Due = now, now
		if first(held, v.Events()) {
			e.Due = now.Add(m.Policy.EventsFor())
		}
		for _, o := range events {
			if o.Region == e.Region && o.Tenant == e.Tenant && o.Key == e.Key && o.Kind == e.Kind {
				e.CreatedAt = later(e.CreatedAt, o.CreatedAt.Add(time.Microsecond))
			}
		}
		m.Events[Ref{at.Home, e.ID}] = e
	}
}

// first reports whether held is a claim's first holder, and each event for a sink of its own.
func first(held *claim.Record, events []outbox.Message) bool {
	kinds := map[outbox.Kind]bool{}
	for _, e := range events {
		kinds[e.Kind] = true
	}
	return held.State == claim.InFlight && held.Fence == 1 && len(kinds) == len(events)
}

// settled records the effects of a cell that has no holder any more.
func (m *Model) settled(at Place, c *Cell, held *claim.Record, v *claim.Verdict, now time.Time) {
	m.emit(at, held, v, now)
	ref := Ref{at.Home, c.ID}
	if state, ok := map[Status]claim.State{Refused: claim.FailedTerminal, Released: claim.FailedRetry}[c.Status]; ok && c.Body != GiveUp {
		m.Unpaid[ref] = claim.Unpaid{
			Object: c.ID, Home: at.Home, Tenant: at.Key.Tenant, Operation: "charge", State: state, Reason: c.Reason, At: now,
		}
	}
}

// Pin is a pinning request from entry.
func (m *Model) Pin(key claim.Key, entry string, now time.Time) ModelPin {
	p := m.Pins[key]
	life := m.Policy.ReplayFor + m.Policy.TombstoneFor + m.Policy.PinGrace
	switch {
	case p == nil:
		p = &ModelPin{Home: entry, At: now}
	case now.Sub(p.At) >= life:
		if c := m.Cells[Place{p.Home, key}]; c == nil || m.gone(c, now) {
			p.Home = entry
		}
		p.At = now
	case now.Sub(p.At) >= (m.Policy.PinGrace-m.Policy.ClockOffset)/2:
		p.At = now
	}
	m.Pins[key] = p
	return *p
}

// MayShow reports whether a replica may show the cell as final.
func (m *Model) MayShow(at Place, now time.Time) bool {
	c := m.Cells[at]
	return c != nil && c.final() && !c.over(m.Policy.ReplayFor, now)
}

// Owners lists the homes with a claim that still owns key (live, in flight or a tombstone). More
// than one is a broken promise.
func (m *Model) Owners(key claim.Key, now time.Time) (homes []string) {
	for at, c := range m.Cells {
		if at.Key == key && !m.gone(c, now) {
			homes = append(homes, at.Home)
		}
	}
	return homes
}
