package audit_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
)

// memory is a store of one region, as simple as can be.
type memory struct {
	audit.Store // its books have nothing
	mu          sync.Mutex
	now         time.Time
	entries     []audit.Entry
	kept        map[string]bool // keys with a stored claim
	chain       *audit.Chain
	// age is how old pages are; each look at the chain takes a tenth of it.
	age time.Duration
}

func (m *memory) AuditAge() time.Duration { return m.age }

func (m *memory) AuditPage(_ context.Context, _ string, from, to time.Time, after audit.Position, limit int) (page audit.Page, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortFunc(m.entries, func(a, b audit.Entry) int { return before(a.Position(), b.Position()) })
	for i := range m.entries {
		e := m.entries[i]
		if m.age > 0 && e.At.After(m.now.Add(-m.age)) || before(e.Position(), after) <= 0 && after != (audit.Position{}) {
			continue
		}
		if limit == 0 {
			page.More = true
			break
		}
		limit--
		page.Next = e.Position()
		if (from.IsZero() || !e.At.Before(from)) && (to.IsZero() || e.At.Before(to)) {
			page.Entries = append(page.Entries, e)
		}
	}
	return page, nil
}

func before(a, b audit.Position) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
}

func (m *memory) AppendAudit(context.Context, string, claim.Key, claim.AuditEntry) error {
	return errors.New("no exporter appends")
}

func (m *memory) ForgetAudit(_ context.Context, _ string, entries []audit.Position) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(e audit.Entry) bool {
		if m.kept[e.Key] || !slices.ContainsFunc(entries, func(p audit.Position) bool { return before(p, e.Position()) == 0 }) {
			return false
		}
		n++
		return true
	})
	return n, nil
}

func (m *memory) AuditChain(context.Context, string) (audit.Chain, time.Time, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(m.age / 10)
	if m.chain == nil {
		return audit.Chain{}, m.now, false, nil
	}
	return *m.chain, m.now, true, nil
}

func (m *memory) AdvanceAudit(_ context.Context, _ string, was uint64, next audit.Chain) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var stored uint64
	if m.chain != nil {
		stored = m.chain.Version
	}
	if stored != was {
		return false, nil
	}
	next.Version = was + 1
	m.chain = &next
	return true, nil
}
