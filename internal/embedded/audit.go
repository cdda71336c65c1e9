package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
)

// AuditAge implements [audit.Store].
func (*View) AuditAge() time.Duration { return 0 }

// AuditPage implements [audit.Store].
func (v *View) AuditPage(ctx context.Context, home string, from, to time.Time, after audit.Position, limit int) (page audit.Page, err error) {
	err = v.on(ctx, home, func(t *tx) {
		if limit <= 0 {
			return
		}
		start := t.key(tableAudit)
		if after != (audit.Position{}) {
			start = behind(t.auditKey(claim.Key{Tenant: after.Tenant, Value: after.Key}, t.entryID(after.ID)))
		}
		var key claim.Key
		var rec *claim.Record // of the key
		each(t, start, prefixEnd(t.key(tableAudit)), func(k []byte, m *storev1.Audit) bool {
			if page.More = limit == 0; page.More {
				return false
			}
			limit--
			e := t.entry(k, m)
			page.Next = e.Position()
			if e.At.Before(from) || !to.IsZero() && !e.At.Before(to) {
				return true
			}
			if of := (claim.Key{Tenant: e.Tenant, Value: e.Key}); of != key {
				key, rec = of, t.claim(of)
			}
			if rec != nil && !e.At.Before(rec.FirstUse) {
				e.Object, e.ProviderRef, e.Claim = rec.Minted.ID, rec.ProviderRef, rec
			}
			page.Entries = append(page.Entries, e)
			return true
		})
		t.durable()
	})
	return page, err
}

// entry reads a row of audit.
func (t *tx) entry(k []byte, m *storev1.Audit) audit.Entry {
	end := len(k) - 1 - 8
	if end < keyHead {
		t.fail(damaged(k, errTruncated))
		return audit.Entry{}
	}
	key, err := readPair(k[keyHead:end])
	t.fail(err)
	return audit.Entry{
		Tenant: key.Tenant, Key: key.Value, ID: fmt.Sprintf("%016x", binary.BigEndian.Uint64(k[end+1:])),
		At: fromMicros(m.At), Event: claim.Event(m.Event), Region: m.Region,
		Node: m.Node, Fence: m.Fence, Generation: m.Generation, Detail: m.Detail,
	}
}

// entryID reads the sequence number in the id of an entry.
func (t *tx) entryID(id string) uint64 {
	seq, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		t.fail(fmt.Errorf("embedded: %q is not the id of an audit entry", id))
	}
	return seq
}

// AppendAudit implements [audit.Store].
func (v *View) AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return v.on(ctx, home, func(t *tx) {
		e.At = t.clock.now()
		t.putAudit(key, &e)
	})
}

// ForgetAudit implements [audit.Store]. After a crash undoes it, it is repeated.
func (v *View) ForgetAudit(ctx context.Context, home string, entries []audit.Position) (forgotten int, err error) {
	err = v.reach(ctx, home)
	for _, e := range entries {
		if err != nil {
			break
		}
		key := claim.Key{Tenant: e.Tenant, Value: e.Key}
		err = v.in(ctx, home, func(t *tx) {
			t.opts = pebble.NoSync
			t.lock(t.rows, t.rows.index(t.code, key))
			row := t.auditKey(key, t.entryID(e.ID))
			if t.claim(key) == nil && t.clock.now().Sub(e.At) >= audit.MinKeepRows && t.has(row) {
				t.delete(row)
				forgotten++
			}
		})
	}
	return forgotten, err
}

// AuditChain implements [audit.Store].
func (v *View) AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error) {
	err = v.on(ctx, home, func(t *tx) {
		t.hold(t.chain.RLocker())
		c.Version = t.versioned(t.key(tableChain), &c)
	})
	return c, v.clock.now(), c.Version > 0, err
}

// AdvanceAudit implements [audit.Store].
func (v *View) AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (moved bool, err error) {
	next.Version = was + 1
	err = v.on(ctx, home, func(t *tx) {
		t.hold(&t.chain)
		moved = t.putVersioned(t.key(tableChain), was, next)
	})
	return moved && err == nil, err
}
