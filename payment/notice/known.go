package notice

import (
	"context"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// cohort identifies notices that are compared with the books of one home, or with none if
// home is "": nothing follows from them.
type cohort struct{ region, provider, home string }

// CloseBooked parses readAtOnce notices, at some 20 µs each, and pauses for readPause, the least
// that a sleep takes: charges beside it do not wait for all notices of a look.
const (
	readAtOnce = 16
	readPause  = time.Millisecond
)

// plainNotice is a notice that reports only that a movement of ours succeeded.
type plainNotice struct {
	row   int // in the list that it came in
	hold  outbox.Hold
	moved psp.Notice
}

// CloseBooked closes the notices among rows from which nothing follows: of movements that are
// booked as they say, and of events that are no movements. It returns the others, for
// [Processor.Handle]. Most notices are such: their call has settled the claim by the time
// the provider reports it. For each home one statement reads the bookings and one closes
// the notices, however many there are, so that a flood of notices costs the charges
// beside it little. It closes nothing that Handle would not close in the same way, and
// its crash points are Handle's: before the close and after it.
func (p *Processor) CloseBooked(ctx context.Context, rows []outbox.Message) (rest []outbox.Message) {
	cohorts := map[cohort][]plainNotice{}
	for i := range rows {
		if i > 0 && i%readAtOnce == 0 {
			select {
			case <-time.After(readPause):
			case <-ctx.Done(): // the leases end
				return rows
			}
		}
		if n, home, ok := p.plain(ctx, &rows[i]); ok {
			c := cohort{rows[i].Region, rows[i].Operation, home}
			cohorts[c] = append(cohorts[c], plainNotice{i, rows[i].Hold(), n})
		}
	}
	var all sync.WaitGroup
	ended := make([]bool, len(rows)) // each by one cohort
	for c, notices := range cohorts {
		all.Go(func() {
			caught := fault.Caught(func() {
				for _, n := range p.closeCohort(ctx, c, notices) {
					ended[n.row] = true
				}
			})
			if caught != nil {
				p.c.Logger.Error("closing notices together panicked; each is processed alone", "home", c.home, "notices", len(notices), "fault", caught)
			}
		})
	}
	all.Wait()
	for i := range rows {
		if !ended[i] {
			rest = append(rest, rows[i])
		}
	}
	return rest
}

// plain reads a notice, and returns it if it is one that Handle closes at once, or
// compares with the books first; then with the home of its object.
func (p *Processor) plain(ctx context.Context, m *outbox.Message) (n psp.Notice, home string, ok bool) {
	notifier, here := p.c.Notifiers[m.Operation]
	if !here {
		return n, "", false
	}
	body, err := p.c.Seal.Open(ctx, rowOf(m.Region, m.ID), m.Payload)
	if err != nil {
		return n, "", false
	}
	n, err = psp.ReadNotice(notifier, body)
	switch {
	case err != nil, n.After > 0:
		return n, "", false
	case p.idle(&n):
		return n, "", true
	case !n.Movement || n.Held || n.Outcome != psp.Approved || n.ProviderRef == "" || n.Amount <= 0:
		return n, "", false
	}
	prefix, code, ours := claim.ReadObjectID(n.Reference)
	if !ours || prefix != payment.Prefix(payment.Operation(n.Kind)) {
		return n, "", false
	}
	home, here = p.c.Home(code)
	_, silent := p.silent.Load(home)
	return n, home, here && !silent
}

// idle reports whether n alone shows that nothing follows from it: it is no movement, or one that
// did not succeed, of no object of ours.
func (p *Processor) idle(n *psp.Notice) bool {
	switch {
	case len(n.Unasked) > 0:
		return false
	case !n.Movement:
		return true
	case n.Outcome == psp.Approved, n.Outcome == psp.Declined && n.ProviderRef != "":
		return false
	}
	_, _, ok := p.homeOf(n.Reference)
	return !ok
}

// closeCohort closes those of notices from which nothing follows, and returns them.
func (p *Processor) closeCohort(ctx context.Context, c cohort, notices []plainNotice) (ended []plainNotice) {
	status, detail := Ignored, noMoney
	if c.home != "" {
		status, detail = ProcessedOK, detailBooked
		notices = p.matched(ctx, c, notices)
	}
	if len(notices) == 0 {
		return nil
	}
	holds := make([]outbox.Hold, len(notices))
	for i := range notices {
		holds[i] = notices[i].hold
	}
	closed, err := p.c.Store.CloseAll(ctx, c.region, holds, status, detail)
	if err != nil { // they are due again when their leases end
		p.c.Logger.Warn("notices are processed again: they could not be closed", "notices", len(holds), "first", holds[0].ID, "error", err)
		return notices
	}
	p.closed(closed, c.provider, status)
	return notices
}

// matched returns those of notices whose movement is booked.
func (p *Processor) matched(ctx context.Context, c cohort, notices []plainNotice) (matched []plainNotice) {
	ids := make([]string, 0, len(notices))
	booked := make(map[string]ledger.Transaction, len(notices))
	for i := range notices {
		id := notices[i].moved.Reference
		if _, there := booked[id]; !there {
			booked[id] = ledger.Transaction{}
			ids = append(ids, id)
		}
	}
	found, err := p.c.Books.Named(ctx, c.home, ids)
	if err != nil {
		// A home that does not answer would hold up the notices of others.
		p.silent.Store(c.home, true)
		p.c.Logger.Warn("notices are processed one by one: the books cannot be read", "home", c.home, "notices", len(notices), "error", err)
		return nil
	}
	for _, t := range found {
		booked[t.ID] = t
	}
	for _, n := range notices {
		if t := booked[n.moved.Reference]; reportedAs(&t, c.provider, &n.moved) {
			matched = append(matched, n)
		}
	}
	return matched
}

// reportedAs reports whether t is the movement of n, as n reports it.
func reportedAs(t *ledger.Transaction, provider string, n *psp.Notice) bool {
	return t.Provider == provider && t.ProviderRef == n.ProviderRef && t.Amount == n.Amount && t.Currency == n.Currency
}
