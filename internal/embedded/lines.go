package embedded

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// lineCounts is how many lines' rows are counted apart. The counts take 2 MB.
const lineCounts = 1 << 18

// lines count the rows of each line of the events, some lines together: by hash.
// Usually an event is alone in its line, and each of its steps would look for others.
// The rows are the truth: they are counted at Open, and with each commit.
type lines struct {
	seed   maphash.Seed
	counts [lineCounts]atomic.Int64
}

func newLines() *lines { return &lines{seed: maphash.MakeSeed()} }

// of returns the count for the line with that prefix, see appendLine.
func (l *lines) of(prefix []byte) *atomic.Int64 {
	return &l.counts[maphash.Bytes(l.seed, prefix)%lineCounts]
}

// wrote counts a commit's change to a row of a line.
func (l *lines) wrote(kind pebble.InternalKeyKind, key []byte) {
	prefix, ok := linePrefix(key)
	switch {
	case !ok: // no line has it
	case kind == pebble.InternalKeyKindSet:
		l.of(prefix).Add(1)
	default:
		l.of(prefix).Add(-1)
	}
}

// linePrefix is what appendLine made of the key of a line's row.
func linePrefix(key []byte) ([]byte, bool) {
	end := keyHead
	for range 3 { // tenant, key, kind
		n := bytes.IndexByte(key[min(end, len(key)):], nameEnd)
		if n < 0 {
			return nil, false
		}
		end += n + 1
	}
	return key[:end], true
}

// load counts the stored rows.
func (l *lines) load(db *DB) error {
	return db.scan([]byte{events.line}, []byte{events.line + 1}, func(k, _ []byte) (bool, error) {
		l.wrote(pebble.InternalKeyKindSet, k)
		return true, nil
	})
}
