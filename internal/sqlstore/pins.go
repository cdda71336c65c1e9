package sqlstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

var (
	pinFix   = declare[pinArgs]("pin")
	pinRead  = declare[pinReadArgs]("pin_read")
	pinWrite = declare[pinWriteArgs]("pin_write")
)

type (
	pinArgs struct {
		Home string
		Keys []keyRow
	}
	pinReadArgs struct {
		keyRow
		Entry string
	}
	pinWriteArgs struct {
		keyRow
		Registrar, NewHome      string
		CreatedAt, OldCreatedAt time.Time
		Taken                   bool
	}
)

// Pin implements [claim.Store].
func (v *View) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	if err := claim.Pinnable(key); err != nil {
		return claim.Pin{}, err
	}
	at := entry
	if entry == "" {
		at = v.name // the statement reads the status of a region, and its result is ignored
	}
	ctx, err := v.reach(ofTenant(ctx, key.Tenant), at)
	if err != nil {
		return claim.Pin{}, err
	}
	t, known := v.db.byID.get(key.Tenant)
	if known {
		ctx = v.toward(ctx, t.Registrar) // where the pins are
	}
	// A pin that may lie in two regions, or in an unknown one, would make others wait
	// for the round trip.
	alone := !known || t.PreviousRegistrar != ""
	for range maxLooks {
		if entry == "" {
			pin, settled, err := v.standingPin(ctx, key, at, false)
			if err != nil || settled {
				return pin, err
			}
			continue
		}
		p := pinning{key: key, entry: entry}
		if alone {
			_, err = v.db.pins.alone(ctx, &p, maxTries)
		} else {
			_, err = v.db.pins.do(ctx, entry, &p)
		}
		if err != nil && !hasCode(err, codeUnique) {
			return claim.Pin{}, claimError(pinFix.name, err)
		}
		if err == nil && !p.created.IsZero() {
			return claim.Pin{Key: key, Home: entry, CreatedAt: p.created}, nil
		}
		pin, settled, err := v.standingPin(ctx, key, entry, true)
		if err != nil || settled {
			return pin, err
		}
	}
	return claim.Pin{}, restless(key)
}

// pinning is a key to pin, and the time at which it was.
type pinning struct {
	key     claim.Key
	entry   string
	created time.Time // zero if it did not
}

func batchedPin(db *DB) *batched[pinning, pinArgs] {
	s := &batched[pinning, pinArgs]{
		statement: pinFix,
		key:       func(p *pinning) claim.Key { return p.key },
		args: func(ps []*pinning) pinArgs {
			args := pinArgs{Home: ps[0].entry}
			for _, p := range ps {
				args.Keys = append(args.Keys, rowOf(p.key))
			}
			return args
		},
		read: func(rows pgx.Rows, ps []*pinning) error {
			for _, p := range ps {
				p.created = time.Time{} // as a try before may have said, which then failed
			}
			var key claim.Key
			var created time.Time
			_, err := pgx.ForEachRow(rows, []any{&key.Tenant, &key.Value, &created}, func() error {
				for _, p := range ps {
					if p.key == key {
						p.created = created.UTC()
					}
				}
				return nil
			})
			return err
		},
	}
	return s.open(db)
}

// standingPin answers a pinning request for which a pin exists. settled is false if it
// changed meanwhile. Unless take is true a key without a home gets none.
func (v *View) standingPin(ctx context.Context, key claim.Key, entry string, take bool) (pin claim.Pin, settled bool, err error) {
	s, known, _, err := one(ctx, v.db, pinRead, repeatable, pinReadArgs{rowOf(key), entry}, scanStanding)
	s.open = s.open && take
	switch {
	case err != nil:
		return claim.Pin{}, false, claimError(pinRead.name, err)
	case !known:
		return claim.Pin{}, false, claim.ErrUnknownTenant
	case s.at == "" && !s.open:
		return claim.Pin{}, false, claim.ErrNoNewHomes
	case s.at == "":
		return claim.Pin{}, false, nil // swept, or moved, meanwhile
	}
	old := claim.Pin{Key: key, Home: s.home, CreatedAt: s.created}
	p := &v.db.policy
	spokenFor := false
	if !s.now.Before(old.CreatedAt.Add(p.PinLife())) {
		// Nobody can make a claim under a pin this old, so the result of this read
		// stays true until the pin is written.
		rec, now, found, err := v.Get(ctx, key, old.Home)
		if err != nil {
			return claim.Pin{}, false, err
		}
		spokenFor = found && rec.Age(p, now) != claim.Gone
	}
	pin, change := claim.PinFor(&old, key, entry, spokenFor, p, s.now)
	switch {
	case change == claim.PinUnchanged:
		return pin, true, nil
	case change == claim.PinTaken && !s.open:
		return claim.Pin{}, false, claim.ErrNoNewHomes
	}
	_, written, _, err := one(ctx, v.db, pinWrite, repeatable, pinWriteArgs{
		keyRow: rowOf(key), Registrar: s.at, NewHome: pin.Home,
		CreatedAt: pin.CreatedAt, OldCreatedAt: old.CreatedAt, Taken: change == claim.PinTaken,
	}, pgx.RowTo[time.Time])
	if err != nil && !hasCode(err, codeUnique) {
		return claim.Pin{}, false, claimError(pinWrite.name, err)
	}
	return pin, err == nil && written, nil
}

// standing is the pin of a key, with its partition; at is "" for none.
type standing struct {
	now, created time.Time
	at, home     string
	open         bool // the region that asks takes new homes
}

func scanStanding(row pgx.CollectableRow) (standing, error) {
	type columns struct {
		at, home zeronull.Text
		created  zeronull.Timestamptz
	}
	var s standing
	var registrar string
	var current, previous columns
	err := row.Scan(&s.now, &registrar, &current.at, &current.home, &current.created, &previous.at, &previous.home, &previous.created, &s.open)
	// Of two the later one: a pin is only ever written anew after both places
	// were read.
	governing := &current
	if time.Time(previous.created).After(time.Time(current.created)) {
		governing = &previous
	}
	s.at, s.home, s.created = string(governing.at), string(governing.home), time.Time(governing.created).UTC()
	return s, err
}
