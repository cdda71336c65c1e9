package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// The first byte of every row's key names its table; doc.go has the layout.
const (
	tableAbout     = 'O'
	tableAPIKey    = 'h'
	tableArrival   = 'A'
	tableAudit     = 'a'
	tableBooks     = 'b'
	tableCarried   = 'D'
	tableChain     = 'H'
	tableCharge    = 'L'
	tableClaim     = 'c'
	tableDocument  = 'B'
	tableLedger    = 'l'
	tableLine      = 'k'
	tableMeta      = 'm'
	tableNotice    = 'n'
	tableObject    = 'j'
	tableOrder     = 'N'
	tablePin       = 'p'
	tableReversal  = 'r'
	tableReversing = 'i'
	tableTenant    = 't'
	tableUnpaid    = 'U'
	tableWitness   = 'W'
)

// queue names the tables of one of the outbox's queues: its rows, and when they are due.
// lines: the queue keeps the order of each key and kind. A provider call is in its claim's row.
type queue struct {
	row, due byte
	lines    bool
}

var (
	providerCalls = &queue{due: 'd'}
	events        = &queue{row: 'e', due: 'f', lines: true}
	expiries      = &queue{row: 'x', due: 'y'}
	notices       = &queue{row: 'u', due: 'v'}
)

// queues are all of them, by name.
var queues = map[outbox.Queue]*queue{
	outbox.ProviderCalls: providerCalls, outbox.Events: events, outbox.Expiries: expiries, outbox.Notices: notices,
}

// nameEnd separates the names in a row's key. None can contain it, see checkName, so no
// two keys read the same and a prefix scan ends where it must.
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

// keyHead is the length of the table and the region in a key.
const keyHead = 1 + 2

// rowKey is the key of a row of a region: its names, separated by nameEnd. Without names
// it is the prefix of the table's rows in the region.
func rowKey(table byte, code claim.RegionCode, names ...string) []byte {
	b := make([]byte, 0, 128)
	b = binary.BigEndian.AppendUint16(append(b, table), uint16(code))
	for i, name := range names {
		if i > 0 {
			b = append(b, nameEnd)
		}
		b = append(b, name...)
	}
	return b
}

// key is rowKey for a row of the call's region.
func (t *tx) key(table byte, names ...string) []byte { return rowKey(table, t.code, names...) }

// scoped is the key of a claim or a pin.
func (t *tx) scoped(table byte, key claim.Key) []byte { return t.key(table, key.Tenant, key.Value) }

// pair is a key as a value, and as the end of a row's key: tenant and key.
func pair(key claim.Key) []byte { return rowKey(0, 0, key.Tenant, key.Value)[keyHead:] }

func readPair(b []byte) (claim.Key, error) {
	tenant, value, ok := strings.Cut(string(b), "\x00")
	if !ok {
		return claim.Key{}, damaged(b, errTruncated)
	}
	return claim.Key{Tenant: tenant, Value: value}, nil
}

// auditKey is the key of an entry of the audit; without seq, the prefix of all entries of key.
func (t *tx) auditKey(key claim.Key, seq ...uint64) []byte {
	b := t.key(tableAudit, key.Tenant, key.Value, "")
	for _, n := range seq {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// timedKey orders rows of a region by a time in microseconds, and then by id. Times before
// 1970 do not occur, so the unsigned order is that of times.
func (t *tx) timedKey(table byte, us int64, id string) []byte {
	return append(binary.BigEndian.AppendUint64(t.key(table), uint64(us)), id...)
}

func readTimed(k []byte) (us int64, id string, err error) {
	if len(k) <= keyHead+8 {
		return 0, "", damaged(k, errTruncated)
	}
	return int64(binary.BigEndian.Uint64(k[keyHead:])), string(k[keyHead+8:]), nil
}

// linePrefix is the prefix of the rows of m's line: those of one key and kind.
func (t *tx) linePrefix(m *outbox.Message) []byte {
	owner := ownerOf(m)
	return t.key(tableLine, owner.Tenant, owner.Value, string(m.Kind), "")
}

// lineKey orders the rows of a line by their creation, then by id.
func (t *tx) lineKey(m *outbox.Message) []byte {
	return append(binary.BigEndian.AppendUint64(t.linePrefix(m), uint64(micros(m.CreatedAt))), m.ID...)
}

// behind is the least key after k.
func behind(k []byte) []byte { return append(k, 0) }

// prefixEnd is the first key after all keys that start with prefix. Every prefix here
// starts with a table's letter, so there always is one.
func prefixEnd(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// stripes is how many locks the rows share. A writer keeps its lock through the
// sync, so a chance collision costs a millisecond: with 64 writers at once one
// in a thousand meets one. The locks take 1.5 MB.
const stripes = 1 << 16

// rowLocks are striped locks by name. A writer holds its row's lock from the read until
// the commit is synced, so the next holder sees only what a crash cannot undo. Waiting
// is bounded by other rows' syncs.
type rowLocks struct {
	seed maphash.Seed
	mu   [stripes]sync.RWMutex
}

func newRowLocks() *rowLocks { return &rowLocks{seed: maphash.MakeSeed()} }

// of is the lock of a name, and index its place among all.
func (l *rowLocks) of(code claim.RegionCode, key claim.Key) *sync.RWMutex {
	return &l.mu[l.index(code, key)]
}

func (l *rowLocks) index(code claim.RegionCode, key claim.Key) int {
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.Write([]byte{byte(code >> 8), byte(code)})
	_, _ = h.WriteString(key.Tenant)
	_ = h.WriteByte(nameEnd)
	_, _ = h.WriteString(key.Value)
	return int(h.Sum64() % stripes)
}
