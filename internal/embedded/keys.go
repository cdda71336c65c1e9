package embedded

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// The first byte of every row's key names its table; doc.go has the layout.
const (
	tableAudit    = 'a'
	tableBooks    = 'b'
	tableClaim    = 'c'
	tableAPIKey   = 'h'
	tableObject   = 'j'
	tableLedger   = 'l'
	tableMeta     = 'm'
	tableNotice   = 'n'
	tableClosing  = 'N'
	tablePin      = 'p'
	tableReversal = 'r'
	tableArrival  = 'A'
	tableBrake    = 'B'
	tableAccount  = 'C'
	tableEvent    = 'e'
	tableEndpoint = 's'
	tableTenant   = 't'
	tableUnpaid   = 'U'
	tableCarried  = 'D'
	tableChain    = 'H'
	tableRestore  = 'R'
	tableWitness  = 'W'
)

// queue names the tables of one of the outbox's queues.
type queue struct {
	// row, due and parked are the tables of the rows and of their indexes; due is 0 if
	// there are no due rows, see calls.
	row, due, parked byte
	// line, in a queue that keeps the order of each key and kind, is the table of
	// their rows in that order; 0 in the others.
	line byte
	// takes is how Take commits, and Finish if no row waits for it: without a sync,
	// unless operators rely on the row. See doc.go.
	takes *pebble.WriteOptions
}

var (
	providerCalls = &queue{row: 'o', parked: 'q', takes: pebble.Sync}
	events        = &queue{row: tableEvent, due: 'f', parked: 'g', line: 'k', takes: pebble.NoSync}
	expiries      = &queue{row: 'x', due: 'y', parked: 'z', takes: pebble.NoSync}
	notices       = &queue{row: 'u', due: 'v', parked: 'w', takes: pebble.NoSync}
)

// queues are all of them, by name.
var queues = map[outbox.Queue]*queue{
	outbox.ProviderCalls: providerCalls, outbox.Events: events, outbox.Expiries: expiries, outbox.Notices: notices,
}

// nameEnd ends a tenant or a key inside a row's key. Neither can contain it, see
// checkName, so no two names read the same and a prefix scan ends where it must.
const nameEnd = 0x00

// checkName refuses names that would make a row's key ambiguous. Idempotency keys and
// object ids are visible ASCII already; this also guards tenant ids.
func checkName(what, s string) error {
	if s == "" || strings.IndexByte(s, nameEnd) >= 0 {
		return fmt.Errorf("embedded: %s %q is empty or has a zero byte; send a non-empty text", what, s)
	}
	return nil
}

func checkKey(k claim.Key) error {
	if err := checkName("tenant", k.Tenant); err != nil {
		return err
	}
	return checkName("idempotency key", k.Value)
}

// appendRegion starts a key of a table that is partitioned by region.
func appendRegion(b []byte, table byte, code claim.RegionCode) []byte {
	b = append(b, table)
	return binary.BigEndian.AppendUint16(b, uint16(code))
}

// appendScoped is a key by region, tenant and name, the name left open: it is
// the last part. Used for claims, pins and objects, and for notices, whose tenant
// is empty.
func appendScoped(b []byte, table byte, code claim.RegionCode, tenant, name string) []byte {
	b = appendRegion(b, table, code)
	b = append(b, tenant...)
	b = append(b, nameEnd)
	return append(b, name...)
}

// appendAuditPrefix is the common start of all audit rows of one key.
func appendAuditPrefix(b []byte, code claim.RegionCode, key claim.Key) []byte {
	return append(appendScoped(b, tableAudit, code, key.Tenant, key.Value), nameEnd)
}

// appendMessage is the key of an outbox or parked row.
func appendMessage(b []byte, table byte, code claim.RegionCode, id string) []byte {
	return append(appendRegion(b, table, code), id...)
}

// appendTimed orders rows of one region by a time, and then by id. Times before 1970 do
// not occur, so the unsigned order is the order of times. Used for due rows and for the
// books.
func appendTimed(b []byte, table byte, code claim.RegionCode, us int64, id string) []byte {
	b = binary.BigEndian.AppendUint64(appendRegion(b, table, code), uint64(us))
	return append(b, id...)
}

// timedHead is the length of such a key before the id.
const timedHead = 1 + 2 + 8

func readTimed(k []byte) (us int64, id string, ok bool) {
	if len(k) <= timedHead {
		return 0, "", false
	}
	return int64(binary.BigEndian.Uint64(k[3:])), string(k[timedHead:]), true
}

// readDue splits what follows the region in such a key.
func readDue(at string) (us int64, id string, ok bool) {
	if len(at) <= timedHead-keyHead {
		return 0, "", false
	}
	return int64(binary.BigEndian.Uint64([]byte(at[:8]))), at[8:], true
}

// appendLine is the common start of the rows of m's line: those of one key and kind.
func appendLine(b []byte, q *queue, code claim.RegionCode, m *outbox.Message) []byte {
	owner := ownerOf(m)
	b = append(appendScoped(b, q.line, code, owner.Tenant, owner.Value), nameEnd)
	b = append(b, m.Kind...)
	return append(b, nameEnd)
}

// appendInLine orders the rows of a line by the time of their creation, then by id.
func appendInLine(b []byte, q *queue, code claim.RegionCode, m *outbox.Message) []byte {
	b = binary.BigEndian.AppendUint64(appendLine(b, q, code, m), uint64(micros(m.CreatedAt)))
	return append(b, m.ID...)
}

// keyHead is the length of a scoped key before the tenant.
const keyHead = 1 + 2

// readScoped splits a key of appendScoped.
func readScoped(k []byte) (code claim.RegionCode, key claim.Key, ok bool) {
	if len(k) <= keyHead {
		return 0, claim.Key{}, false
	}
	tenant, value, ok := strings.Cut(string(k[keyHead:]), string(rune(nameEnd)))
	return claim.RegionCode(binary.BigEndian.Uint16(k[1:])), claim.Key{Tenant: tenant, Value: value}, ok
}

// appendOwner is a claim's key as a value, in due rows: its lock guards them.
func appendOwner(b []byte, owner claim.Key) []byte {
	b = append(b, owner.Tenant...)
	b = append(b, nameEnd)
	return append(b, owner.Value...)
}

func readOwner(v []byte) (claim.Key, bool) {
	tenant, key, ok := strings.Cut(string(v), string(rune(nameEnd)))
	return claim.Key{Tenant: tenant, Value: key}, ok
}

// prefixEnd is the first key after all keys that start with prefix. Every
// prefix here starts with a table's letter, so there always is one.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
