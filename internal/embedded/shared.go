package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
	"github.com/homeward-io/homeward/outbox"
)

// Documents and witnesses are rows of the deployment, as tenants are. Documents, and the chains of
// audit, change by compare-and-set: a value is the row's version and then its JSON. A version of 0
// is that of a row that is not there.

const versionBytes = 8

// versioned reads a row and returns its version. Its lock must be held.
func (t *tx) versioned(key []byte, into any) (version uint64) {
	t.read(key, func(value []byte) (err error) {
		version, err = decodeVersioned(key, value, into)
		return err
	})
	return version
}

func decodeVersioned(key, value []byte, into any) (version uint64, err error) {
	if len(value) < versionBytes {
		return 0, damaged(key, errTruncated)
	}
	if err := json.Unmarshal(value[versionBytes:], into); err != nil {
		return 0, damaged(key, err)
	}
	return binary.BigEndian.Uint64(value), nil
}

// putVersioned replaces a row if its version is was. Its lock must be held.
func (t *tx) putVersioned(key []byte, was uint64, row any) (changed bool) {
	if t.versioned(key, &json.RawMessage{}) != was {
		return false
	}
	state, err := json.Marshal(row)
	t.fail(err)
	t.set(key, append(binary.BigEndian.AppendUint64(nil, was+1), state...))
	return true
}

// documentKey is the key of a document; without a name it is the prefix of its kind.
func documentKey(kind, name string) []byte {
	return slices.Concat([]byte{tableDocument}, []byte(kind), []byte{nameEnd}, []byte(name))
}

// Documents implements [documents.Store].
func (db *DB) Documents(ctx context.Context, kind, from string, limit int) (all []documents.Document, now time.Time, err error) {
	prefix := documentKey(kind, "")
	err = db.do(ctx, func(t *tx) {
		t.hold(t.shared.RLocker())
		t.scan(documentKey(kind, from), prefixEnd(prefix), func(k, value []byte) bool {
			var state json.RawMessage
			version, err := decodeVersioned(k, value, &state)
			t.fail(err)
			all = append(all, documents.Document{Name: string(k[len(prefix):]), Version: version, State: state})
			return len(all) < limit
		})
	})
	return all, db.clock.now(), err
}

// PutDocument implements [documents.Store].
func (db *DB) PutDocument(ctx context.Context, kind string, d documents.Document) (changed bool, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		changed = t.putVersioned(documentKey(kind, d.Name), d.Version, json.RawMessage(d.State))
	})
	return changed && err == nil, err
}

// Calls implements [account.Work]. Calls are few beside claims: each page reads all due rows.
func (v *View) Calls(ctx context.Context, home, after string, limit int) ([]outbox.Message, error) {
	return page(ctx, v, home, limit, func(t *tx, add func(*outbox.Message) bool) {
		var ids []string
		prefix := t.key(providerCalls.due)
		t.eachPlace(prefix, prefixEnd(prefix), func(d due) bool {
			ids = append(ids, d.id)
			return true
		})
		slices.Sort(ids)
		for _, id := range ids {
			if id > after && !add(t.message(providerCalls, id)) {
				break
			}
		}
	})
}

// witnessKey is the key of the row of a witness. The row's value is JSON.
func witnessKey(key claim.Key) []byte { return append([]byte{tableWitness}, pair(key)...) }

func readWitness(k, value []byte) (w claim.Witness, err error) {
	if err := json.Unmarshal(value, &w); err != nil {
		return w, damaged(k, err)
	}
	w.Key, err = readPair(k[1:])
	return w, err
}

// Witness implements [claim.Restores].
func (db *DB) Witness(ctx context.Context, key claim.Key) (w claim.Witness, found bool, err error) {
	if err := checkKey(key); err != nil {
		return w, false, err
	}
	err = db.do(ctx, func(t *tx) {
		t.hold(t.shared.RLocker())
		k := witnessKey(key)
		found = t.read(k, func(value []byte) (err error) {
			w, err = readWitness(k, value)
			return err
		})
	})
	return w, found, err
}

// PutWitnesses implements [claim.Restores].
func (db *DB) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		for i := range all {
			state, err := json.Marshal(all[i])
			t.fail(err)
			t.fail(checkKey(all[i].Key))
			t.set(witnessKey(all[i].Key), state)
		}
	})
}

// Witnesses implements [claim.Restores].
func (db *DB) Witnesses(ctx context.Context, after claim.Key, limit int) (all []claim.Witness, err error) {
	err = db.do(ctx, func(t *tx) {
		from := []byte{tableWitness}
		if after != (claim.Key{}) {
			from = behind(witnessKey(after))
		}
		t.scan(from, []byte{tableWitness + 1}, func(k, value []byte) bool {
			w, err := readWitness(k, value)
			t.fail(err)
			all = append(all, w)
			return len(all) < limit
		})
		t.durable()
	})
	return all, err
}

// DropWitnesses implements [claim.Restores].
func (db *DB) DropWitnesses(ctx context.Context, version uint64, limit int) (dropped int, err error) {
	err = db.do(ctx, func(t *tx) {
		t.hold(&t.shared)
		if t.versioned(documentKey(documents.Restores, ""), &json.RawMessage{}) != version {
			return
		}
		t.scan([]byte{tableWitness}, []byte{tableWitness + 1}, func(k, _ []byte) bool {
			if dropped < limit {
				t.delete(k)
				dropped++
			}
			return dropped < limit
		})
	})
	return dropped, err
}
