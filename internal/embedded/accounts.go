package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
)

// Accounts implements [account.Store]. Rows are stored as those of brakes are.
func (db *DB) Accounts(ctx context.Context) ([]account.Row, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	db.accountMu.Lock()
	defer db.accountMu.Unlock()
	return db.readAccounts()
}

// readAccounts reads every row, by provider. accountMu must be held.
func (db *DB) readAccounts() (rows []account.Row, err error) {
	prefix := []byte{tableAccount}
	err = db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		var r account.Row
		if len(value) < brakeHead {
			return false, damaged("account", string(k[1:]), errors.New("it is truncated"))
		}
		if err := json.Unmarshal(value[brakeHead:], &r); err != nil {
			return false, damaged("account", string(k[1:]), err)
		}
		r.Provider, r.Version = string(k[1:]), binary.BigEndian.Uint64(value)
		rows = append(rows, r)
		return true, nil
	})
	return rows, err
}

// PutAccount implements [account.Store].
func (db *DB) PutAccount(ctx context.Context, r account.Row) (changed bool, err error) {
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	defer db.leave()
	db.accountMu.Lock()
	defer db.accountMu.Unlock()
	rows, err := db.readAccounts()
	if err != nil {
		return false, err
	}
	var version uint64
	for _, row := range rows {
		if row.Provider == r.Provider {
			version = row.Version
		}
	}
	if version != r.Version {
		return false, nil
	}
	state, err := json.Marshal(r)
	if err != nil {
		return false, err
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	key := append([]byte{tableAccount}, r.Provider...)
	if err := b.Set(key, append(binary.BigEndian.AppendUint64(nil, version+1), state...), nil); err != nil {
		return false, unavailable(err)
	}
	err = db.commit(b, pebble.Sync)
	return err == nil, err
}

// Calls implements [account.Work].
func (v *View) Calls(ctx context.Context, home, after string, limit int) (calls []outbox.Message, err error) {
	code, err := v.reach(ctx, home)
	if err != nil {
		return nil, err
	}
	if err := v.db.enter(ctx); err != nil {
		return nil, err
	}
	defer v.db.leave()
	prefix := appendRegion(nil, providerCalls.row, code)
	from := prefix
	if after != "" {
		from = append(appendMessage(nil, providerCalls.row, code, after), 0) // the next possible key
	}
	err = v.db.scan(from, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		m, err := decodeMessage(home, string(k[len(prefix):]), value)
		if err != nil {
			return false, err
		}
		calls = append(calls, *m)
		return len(calls) < limit, ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return calls, v.db.afterScan()
}

// Ghosts implements [account.Work]. It scans the region's books: it is called when a
// provider was removed from the settings, and an index would be written with each
// ghost.
func (v *View) Ghosts(ctx context.Context, home, provider, after string, limit int) ([]ledger.Transaction, error) {
	return v.booked(ctx, home, limit, func(t *ledger.Transaction) bool {
		return t.Kind == ledger.Ghost && t.Provider == provider && t.ID > after
	})
}

// Accounts is [DB.Accounts].
func (v *View) Accounts(ctx context.Context) ([]account.Row, error) { return v.db.Accounts(ctx) }

// PutAccount is [DB.PutAccount].
func (v *View) PutAccount(ctx context.Context, r account.Row) (bool, error) {
	return v.db.PutAccount(ctx, r)
}
