package inspect

import (
	"fmt"
	"strings"

	"github.com/homeward-io/homeward/ledger"
)

// Summary is one line on what moved for an object or a ghost, in net amounts: what failed is not
// counted. all is as of [ledger.Everything], digits as [Reader].Digits. It is "" without bookings.
func Summary(of string, all []ledger.Transaction, digits func(currency string) int) string {
	m := &money{of, all, digits}
	said := ""
	for i := range m.all {
		if t := &m.all[i]; m.own(t) && done[string(t.Kind)] != "" {
			said = verb(string(t.Kind)) + " " + m.amount(t.Amount, t.Currency)
		}
	}
	return strings.TrimPrefix(said+m.since(), "; ")
}

// money is what is booked about an object.
type money struct {
	of     string
	all    []ledger.Transaction
	digits func(currency string) int
}

// own reports whether t is the booking of the object itself.
func (m *money) own(t *ledger.Transaction) bool {
	return t.ID == m.of && t.Kind != ledger.Ghost || t.Kind == ledger.GhostRefund && t.Object == m.of
}

// total sums bookings of one currency.
type total struct {
	n        int
	sum      int64
	currency string
}

func (t *total) add(b *ledger.Transaction) {
	t.n, t.sum, t.currency = t.n+1, t.sum+b.Amount, b.Currency
}

// refunds are those of one kind of a transaction: what was refunded, and what failed.
func (m *money) refunds(kind ledger.Kind, matches func(*ledger.Transaction) bool) (stand, failed total) {
	for i := range m.all {
		switch t := &m.all[i]; {
		case t.Kind != kind || m.own(t) || !matches(t):
		case ledger.FailedSince(m.all, t):
			failed.add(t)
		default:
			stand.add(t)
		}
	}
	return stand, failed
}

// since describes what is booked besides the object's own booking.
func (m *money) since() string {
	var b strings.Builder
	ghosts := map[string]bool{}
	for i := range m.all {
		if m.all[i].Kind == ledger.Ghost {
			ghosts[m.all[i].ID] = true
		}
	}
	ofObject := func(t *ledger.Transaction) bool { return !ghosts[t.Reverses] }
	stand, failed := m.refunds(ledger.Refund, ofObject)
	switch {
	case stand.n > 0:
		fmt.Fprintf(&b, "; the merchant refunded %s in %s", m.amount(stand.sum, stand.currency), count(stand.n, "refund"))
		b.WriteString(m.ofThese(failed))
	case failed.n > 0:
		fmt.Fprintf(&b, "; the merchant refunded nothing: %s of %s failed", count(failed.n, "refund"), m.amount(failed.sum, failed.currency))
	}
	stand, failed = m.refunds(ledger.ProviderRefund, ofObject)
	switch {
	case stand.n > 0:
		fmt.Fprintf(&b, "; %s was refunded at the provider in %s", m.amount(stand.sum, stand.currency), count(stand.n, "refund"))
		b.WriteString(m.ofThese(failed))
	case failed.n > 0:
		fmt.Fprintf(&b, "; %s of %s at the provider failed", count(failed.n, "refund"), m.amount(failed.sum, failed.currency))
	}
	m.disputes(&b)
	for i := range m.all {
		t := &m.all[i]
		switch of, failure := t.Kind.Failed(); {
		case t.Kind == ledger.TransferReversal:
			fmt.Fprintf(&b, "; %s of the transfer came back", m.amount(t.Amount, t.Currency))
		case t.Kind == ledger.Ghost:
			m.ghost(&b, t)
		case failure && m.ofOwn(t):
			b.WriteString("; the provider took " + strings.ReplaceAll(string(of), "_", " ") + " back as failed")
		}
	}
	return b.String()
}

// ofOwn reports whether t reverses the object's own booking.
func (m *money) ofOwn(t *ledger.Transaction) bool {
	for i := range m.all {
		if m.own(&m.all[i]) && m.all[i].ID == t.Reverses {
			return true
		}
	}
	return false
}

// ofThese describes refunds that failed beside others.
func (m *money) ofThese(failed total) string {
	n := "one"
	switch failed.n {
	case 0:
		return ""
	case 1:
	default:
		n = fmt.Sprint(failed.n)
	}
	return "; " + n + " of " + m.amount(failed.sum, failed.currency) + " failed"
}

// disputes sums the disputes. What is decided is booked under the provider's id of the
// decision, so that the sums say what is not.
func (m *money) disputes(b *strings.Builder) {
	var opened, won, lost total
	for i := range m.all {
		switch t := &m.all[i]; t.Kind {
		case ledger.DisputeOpened:
			opened.add(t)
		case ledger.DisputeWon:
			won.add(t)
		case ledger.DisputeLost:
			lost.add(t)
		default:
		}
	}
	disputes := func(t total) string {
		if t.n == 1 {
			return "a dispute"
		}
		return fmt.Sprintf("%d disputes", t.n)
	}
	if lost.n > 0 {
		fmt.Fprintf(b, "; %s was lost in %s", m.amount(lost.sum, lost.currency), disputes(lost))
	}
	if open := opened.sum - won.sum - lost.sum; open > 0 {
		fmt.Fprintf(b, "; %s is disputed and not decided", m.amount(open, opened.currency))
	}
	if won.n == 1 {
		fmt.Fprintf(b, "; a dispute of %s was won", m.amount(won.sum, won.currency))
	} else if won.n > 1 {
		fmt.Fprintf(b, "; %s of %s were won", disputes(won), m.amount(won.sum, won.currency))
	}
}

// ghost describes a ghost and what became of it.
func (m *money) ghost(b *strings.Builder, ghost *ledger.Transaction) {
	fmt.Fprintf(b, "; the provider moved %s that was not requested", m.amount(ghost.Amount, ghost.Currency))
	if ledger.FailedSince(m.all, ghost) {
		b.WriteString(", and took it back")
		return
	}
	ofGhost := func(t *ledger.Transaction) bool { return t.Reverses == ghost.ID }
	stand, failed := m.refunds(ledger.GhostRefund, ofGhost)
	desk, _ := m.refunds(ledger.ProviderRefund, ofGhost)
	switch {
	case stand.n > 0:
		b.WriteString(", and Homeward refunded that")
	case desk.n > 0:
		fmt.Fprintf(b, ", and %s was refunded at the provider", m.amount(desk.sum, desk.currency))
	case failed.n > 0:
		fmt.Fprintf(b, ", and %s of that failed", count(failed.n, "refund"))
	}
}

// amount formats an amount in minor units for people, as in 42.00 USD.
func (m *money) amount(amount int64, currency string) string {
	name := strings.ToUpper(currency)
	if m.digits == nil {
		return fmt.Sprintf("%d minor units of %s", amount, name)
	}
	digits := m.digits(currency)
	if digits == 0 {
		return fmt.Sprintf("%d %s", amount, name)
	}
	text := fmt.Sprintf("%0*d", digits+1, amount)
	point := len(text) - digits
	return text[:point] + "." + text[point:] + " " + name
}
