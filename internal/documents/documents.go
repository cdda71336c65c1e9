// Package documents keeps the small rows of a deployment that every region reads and that seldom
// change: the brakes of refunds, the accounts of providers, tenants' endpoints, the row of a
// restore, and the windows that keys were promised. A store keeps documents, as [Store] says, and
// embeds [Contracts], which makes these rows of them in the same way on each store:
//
//	type DB struct {
//		documents.Contracts
//		…
//	}
//	db.Contracts = documents.In(db)
//
// A document is JSON, and has a version that counts its changes. Who changes one compares the
// version that it read, so no change undoes another. No document is deleted, since the versions of
// the next one of that name would begin anew: a change that comes late could find the version that
// it compares. So an endpoint that was removed is a document without a URL.
//
// # Crash points
//
//	read | PutDocument   nothing has changed; whoever reads next decides anew
//
// # Lost replies
//
// After an error of PutDocument the change may be made or not, or be made later, if no other is
// made before it. Each row's user reads again and decides by what there is: a brake at the next
// refund or check, an account and the windows when the node starts again, the row of a restore at
// the operator's next command, an endpoint as the methods of [Contracts] say.
package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
)

// The kinds of documents.
const (
	accounts  = "account"  // [account.Row], by the provider's name
	brakes    = "brake"    // [notice.Brake], by the provider's name, "" for all
	endpoints = "endpoint" // [relay.Endpoint], by the tenant
	windows   = "windows"  // the windows that keys were promised, one, whose name is ""

	// Restores is the kind of [claim.Restore], one, whose name is "". Stores compare its version.
	Restores = "restore"
)

// Document is one row.
type Document struct {
	Name string
	// Version counts the changes, from 1.
	Version uint64
	// State is JSON.
	State []byte
}

// Store keeps documents for the whole deployment. Implementations are safe for concurrent use;
// reads are authoritative, and near in every region.
type Store interface {
	// Documents lists up to limit documents of a kind whose name is from or comes after it, in the
	// order of their names, and returns the store's clock.
	Documents(ctx context.Context, kind, from string, limit int) ([]Document, time.Time, error)
	// PutDocument writes a document with its Version raised by one. changed is false, and nothing
	// is done, unless d.Version is that of the stored one, 0 if there is none. After an error the
	// write may be done or not, or be done later: read again.
	PutDocument(ctx context.Context, kind string, d Document) (changed bool, err error)
}

// Contracts implements the contracts of the rows that are documents, over any [Store]:
// [notice.BrakeStore], [account.Store], [relay.Endpoints], [relay.Secrets], and the row of
// [claim.Restores]. It is safe for concurrent use.
type Contracts struct{ store Store }

var (
	_ notice.BrakeStore = Contracts{}
	_ account.Store     = Contracts{}
	_ relay.Endpoints   = Contracts{}
	_ relay.Secrets     = Contracts{}
)

// In returns the contracts over what s keeps.
func In(s Store) Contracts { return Contracts{s} }

// every is the limit of a list that is read whole: there are as many brakes and accounts as
// providers.
const every = math.MaxInt32

// Brakes implements [notice.BrakeStore].
func (c Contracts) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return list(ctx, c, brakes, func(b *notice.Brake, d *Document) { b.Provider, b.Version = d.Name, d.Version })
}

// PutBrake implements [notice.BrakeStore].
func (c Contracts) PutBrake(ctx context.Context, b notice.Brake) (changed bool, err error) {
	return c.put(ctx, brakes, b.Provider, b.Version, b)
}

// Accounts implements [account.Store].
func (c Contracts) Accounts(ctx context.Context) ([]account.Row, error) {
	rows, _, err := list(ctx, c, accounts, func(a *account.Row, d *Document) { a.Provider, a.Version = d.Name, d.Version })
	return rows, err
}

// PutAccount implements [account.Store].
func (c Contracts) PutAccount(ctx context.Context, a account.Row) (changed bool, err error) {
	return c.put(ctx, accounts, a.Provider, a.Version, a)
}

// Restore implements [claim.Restores].
func (c Contracts) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	all, now, err := c.store.Documents(ctx, Restores, "", 1)
	if err != nil || len(all) == 0 {
		return claim.Restore{}, now, err
	}
	row, err := claim.ParseRestore(all[0].Version, all[0].State)
	return row, now, err
}

// PutRestore implements [claim.Restores].
func (c Contracts) PutRestore(ctx context.Context, row claim.Restore) (changed bool, err error) {
	return c.put(ctx, Restores, "", row.Version, row)
}

// list reads all documents of a kind; named sets what the document has beside its state.
func list[T any](ctx context.Context, c Contracts, kind string, named func(row *T, d *Document)) (rows []T, now time.Time, err error) {
	all, now, err := c.store.Documents(ctx, kind, "", every)
	for i := range all {
		var row T
		if err := decode(kind, &all[i], &row); err != nil {
			return nil, time.Time{}, err
		}
		named(&row, &all[i])
		rows = append(rows, row)
	}
	return rows, now, err
}

func decode(kind string, d *Document, row any) error {
	if err := json.Unmarshal(d.State, row); err != nil {
		return fmt.Errorf("%w: the document %s %q cannot be decoded (%v); its row is damaged", claim.ErrUnavailable, kind, d.Name, err)
	}
	return nil
}

func (c Contracts) put(ctx context.Context, kind, name string, version uint64, row any) (changed bool, err error) {
	state, err := json.Marshal(row)
	if err != nil {
		return false, err
	}
	return c.store.PutDocument(ctx, kind, Document{name, version, state})
}
