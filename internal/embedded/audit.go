package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
)

// AuditAge implements [audit.Store].
func (*View) AuditAge() time.Duration { return 0 }

// AuditPage implements [audit.Store]. For each key it merges the audit in the claim's
// row with the rows of its own, by sequence number, as of one moment: an entry that
// moves from one to the other meanwhile is returned once.
func (v *View) AuditPage(ctx context.Context, home string, from, to time.Time, after audit.Position, limit int) (page audit.Page, err error) {
	code, err := v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return page, err
	}
	if err := v.db.enter(ctx); err != nil {
		return page, err
	}
	defer v.db.leave()
	snapshot := v.db.pebble.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	r := auditReader{home: home, from: from, to: to, left: limit, page: &page}
	if err := r.read(ctx, snapshot, code, after); err != nil {
		return page, err
	}
	return page, v.db.afterScan()
}

// auditReader fills a page.
type auditReader struct {
	home     string
	from, to time.Time
	left     int // entries that may still be scanned
	page     *audit.Page
}

// allOf is behind every entry of a key.
const allOf = math.MaxUint64

// read walks the claims and the rows of audit together, as both have one order.
func (r *auditReader) read(ctx context.Context, s *pebble.Snapshot, code claim.RegionCode, after audit.Position) error {
	claims, err := tableOf(s, tableClaim, code)
	if err != nil {
		return err
	}
	defer func() { _ = claims.Close() }()
	rows, err := tableOf(s, tableAudit, code)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var behind uint64
	if after == (audit.Position{}) {
		claims.First()
		rows.First()
	} else {
		if behind, err = strconv.ParseUint(after.ID, 16, 64); err != nil {
			return fmt.Errorf("embedded: %q is not a position in the audit", after.ID)
		}
		key := claim.Key{Tenant: after.Tenant, Value: after.Key}
		claims.SeekGE(appendScoped(nil, tableClaim, code, key.Tenant, key.Value))
		rows.SeekGE(binary.BigEndian.AppendUint64(appendAuditPrefix(nil, code, key), behind))
	}
	for claims.Valid() || rows.Valid() {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := nextName(claims, rows)
		tenant, value, ok := bytes.Cut(name, []byte{nameEnd})
		if !ok {
			return damaged("audit row", string(name), errors.New("its key is truncated"))
		}
		key := claim.Key{Tenant: string(tenant), Value: string(value)}
		seen := uint64(0)
		if key.Tenant == after.Tenant && key.Value == after.Key {
			seen = behind
		}
		if more, err := r.key(key, name, claims, rows, seen); err != nil || more {
			r.page.More = more
			return err
		}
	}
	return unavailableIf(errors.Join(claims.Error(), rows.Error()))
}

func unavailableIf(err error) error {
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// tableOf iterates over a table of a region.
func tableOf(s *pebble.Snapshot, table byte, code claim.RegionCode) (*pebble.Iterator, error) {
	prefix := appendRegion(nil, table, code)
	it, err := s.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return nil, unavailable(err)
	}
	return it, nil
}

// auditTail follows a key's name in the key of a row of audit.
const auditTail = 1 + 8

// rowName is the tenant and key of a row of audit.
func rowName(rows *pebble.Iterator) []byte {
	k := rows.Key()
	if len(k) < keyHead+auditTail {
		return nil
	}
	return k[keyHead : len(k)-auditTail]
}

// nextName is the first tenant and key that either has.
func nextName(claims, rows *pebble.Iterator) []byte {
	var a, b []byte
	if claims.Valid() {
		a = claims.Key()[keyHead:]
	}
	if rows.Valid() {
		b = rowName(rows)
	}
	if !claims.Valid() || rows.Valid() && bytes.Compare(b, a) < 0 {
		a = b
	}
	return bytes.Clone(a)
}

// key reads the entries of one key after a sequence number, and moves both iterators
// past it. more: the page is full before its end.
func (r *auditReader) key(key claim.Key, name []byte, claims, rows *pebble.Iterator, behind uint64) (more bool, err error) {
	var rec *claim.Record
	var own []numbered
	if claims.Valid() && bytes.Equal(claims.Key()[keyHead:], name) {
		if rec, own, err = r.claim(key, claims, behind); err != nil {
			return false, err
		}
		claims.Next()
	}
	counted := false
	for {
		e, ok, err := nextEntry(key, name, &own, rows, behind)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		if r.left == 0 {
			return true, nil
		}
		r.left--
		counted = true
		r.add(key, e, rec)
	}
	if !counted && rec != nil && behind == 0 { // it counts as scanned all the same, once
		if r.left == 0 {
			return true, nil
		}
		r.left--
		r.page.Next = audit.Position{Tenant: key.Tenant, Key: key.Value, ID: entryID(allOf)}
	}
	return false, nil
}

// numbered is an entry with its sequence number.
type numbered struct {
	seq   uint64
	entry claim.AuditEntry
}

// claim decodes the audit in a claim's row.
func (r *auditReader) claim(key claim.Key, claims *pebble.Iterator, behind uint64) (*claim.Record, []numbered, error) {
	value, err := claims.ValueAndErr()
	if err != nil {
		return nil, nil, unavailable(err)
	}
	rec, text, err := decodeClaim(r.home, key, value)
	if err != nil {
		return nil, nil, err
	}
	var all []numbered
	err = auditEntries(text, func(seq uint64, value []byte) error {
		e, err := decodeAudit(key, value)
		if err == nil && seq > behind {
			all = append(all, numbered{seq, e})
		}
		return err
	})
	return rec, all, err
}

// nextEntry takes the next entry of a key, from its claim's row or its own.
func nextEntry(key claim.Key, name []byte, own *[]numbered, rows *pebble.Iterator, behind uint64) (e numbered, ok bool, err error) {
	for rows.Valid() && bytes.Equal(rowName(rows), name) {
		k := rows.Key()
		seq := binary.BigEndian.Uint64(k[len(k)-8:])
		if seq <= behind {
			rows.Next()
			continue
		}
		if len(*own) > 0 && (*own)[0].seq < seq {
			break
		}
		value, err := rows.ValueAndErr()
		if err != nil {
			return e, false, unavailable(err)
		}
		e.seq = seq
		if e.entry, err = decodeAudit(key, value); err != nil {
			return e, false, err
		}
		rows.Next()
		return e, true, nil
	}
	if len(*own) == 0 {
		return e, false, nil
	}
	e, *own = (*own)[0], (*own)[1:]
	return e, true, nil
}

func entryID(seq uint64) string { return fmt.Sprintf("%016x", seq) }

// add adds an entry to the page, if it is in the window.
func (r *auditReader) add(key claim.Key, e numbered, rec *claim.Record) {
	entry := audit.Entry{
		Tenant: key.Tenant, Key: key.Value, ID: entryID(e.seq), At: e.entry.At, Event: e.entry.Event, Region: e.entry.Region,
		Node: e.entry.Node, Fence: e.entry.Fence, Generation: e.entry.Generation, Detail: e.entry.Detail,
	}
	r.page.Next = entry.Position()
	if entry.At.Before(r.from) || !r.to.IsZero() && !entry.At.Before(r.to) {
		return
	}
	if rec != nil && !entry.At.Before(rec.FirstUse) {
		entry.Object, entry.ProviderRef, entry.Claim = rec.Minted.ID, rec.ProviderRef, rec
	}
	r.page.Entries = append(r.page.Entries, entry)
}

// ForgetAudit implements [audit.Store]. After a crash undoes it, it is repeated.
func (v *View) ForgetAudit(ctx context.Context, home string, entries []audit.Position) (forgotten int, err error) {
	code, err := v.reach(ctx, home)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	if err := v.db.enter(ctx); err != nil {
		return 0, err
	}
	defer v.db.leave()
	for i := range entries {
		n, err := v.db.forgetAudit(home, code, &entries[i])
		if err != nil {
			return forgotten, err
		}
		forgotten += n
	}
	return forgotten, ctx.Err()
}

func (db *DB) forgetAudit(home string, code claim.RegionCode, p *audit.Position) (n int, err error) {
	key := claim.Key{Tenant: p.Tenant, Value: p.Key}
	lock := db.rows.of(code, key)
	lock.Lock()
	defer lock.Unlock()
	seq, err := strconv.ParseUint(p.ID, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("embedded: %q is not an audit entry", p.ID)
	}
	rec, err := db.readClaim(home, code, key)
	if err != nil || rec != nil {
		return 0, err
	}
	if db.clock.now().Sub(p.At) < audit.MinKeepRows {
		return 0, nil
	}
	row := binary.BigEndian.AppendUint64(appendAuditPrefix(nil, code, key), seq)
	found, err := db.get(row, func([]byte) error { return nil })
	if err != nil || !found {
		return 0, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := b.Delete(row, nil); err != nil {
		return 0, unavailable(err)
	}
	return 1, db.commit(b, pebble.NoSync)
}

// A chain's value is its version and then the rest as JSON.
const chainHead = 8 // bytes of the version

// AuditChain implements [audit.Store].
func (v *View) AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return c, now, false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return c, now, false, err
	}
	defer v.db.leave()
	v.db.auditMu.RLock()
	defer v.db.auditMu.RUnlock()
	c, found, err = v.db.readChain(home, code)
	return c, v.db.clock.now(), found, err
}

func (db *DB) readChain(home string, code claim.RegionCode) (c audit.Chain, found bool, err error) {
	found, err = db.get(appendRegion(nil, tableChain, code), func(value []byte) error {
		if len(value) < chainHead {
			return damaged("audit chain", home, errors.New("it is truncated"))
		}
		if err := json.Unmarshal(value[chainHead:], &c); err != nil {
			return damaged("audit chain", home, err)
		}
		c.Version = binary.BigEndian.Uint64(value)
		return nil
	})
	return c, found, err
}

// AdvanceAudit implements [audit.Store].
func (v *View) AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (moved bool, err error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return false, err
	}
	if err := v.db.enter(ctx); err != nil {
		return false, err
	}
	defer v.db.leave()
	v.db.auditMu.Lock()
	defer v.db.auditMu.Unlock()
	stands, _, err := v.db.readChain(home, code)
	if err != nil || stands.Version != was {
		return false, err
	}
	next.Version = was + 1
	b := v.db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	if err := putChain(b, code, &next); err != nil {
		return false, err
	}
	err = v.db.commit(b, pebble.Sync)
	return err == nil, err
}

func putChain(b *pebble.Batch, code claim.RegionCode, c *audit.Chain) error {
	state, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return unavailableIf(b.Set(appendRegion(nil, tableChain, code), append(binary.BigEndian.AppendUint64(nil, c.Version), state...), nil))
}
