package embedded

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// The status of a region decides one thing only: whether a key that has no home
// may get its home there. Pin looks at it in the step that gives one. Claims and
// existing pins never look, so that a status cannot move a key or stop a retry.

// Keys of the meta table.
const (
	metaStatus   = "status/"
	metaTopology = "topology"
)

// statusActive is the only status in which a region takes new homes. The numbers
// are package region's: 0 active, 1 draining, 2 down.
const statusActive = 0

// TopologyRow is one region as the store knows it.
type TopologyRow struct {
	Name   string
	Code   claim.RegionCode
	Status uint8
}

// Topology returns the regions that the store was opened with, in that order, and
// how often a status has changed, from 1. It costs no trip, as the table of
// regions has a copy in each.
func (db *DB) Topology(ctx context.Context) (rows []TopologyRow, epoch uint64, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer db.leave()
	db.topologyMu.RLock()
	defer db.topologyMu.RUnlock()
	rows = make([]TopologyRow, len(db.order))
	for i, r := range db.order {
		rows[i] = TopologyRow{Name: r.Name, Code: r.Code, Status: db.statuses[r.Name]}
	}
	return rows, db.topology, nil
}

// SetRegionStatus sets what an operator says of a region: 0 active, 1 draining,
// 2 down. It returns the epoch of the table in which the region has that status,
// and changes nothing where it has it already. After it has returned no key gets
// its home in a region that is not active.
func (db *DB) SetRegionStatus(ctx context.Context, name string, status uint8) (epoch uint64, err error) {
	if _, ok := db.regions[name]; !ok {
		return 0, fmt.Errorf("embedded store: there is no region %q; name one of those it was opened with", name)
	}
	if err := db.enter(ctx); err != nil {
		return 0, err
	}
	defer db.leave()
	db.topologyMu.Lock()
	defer db.topologyMu.Unlock()
	if db.statuses[name] == status {
		return db.topology, nil
	}
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()
	setMeta(b, metaStatus+name, uint64(status))
	setMeta(b, metaTopology, db.topology+1)
	if err := db.commit(b, pebble.Sync); err != nil {
		return 0, err
	}
	db.statuses[name] = status
	db.topology++
	return db.topology, nil
}

func (db *DB) loadTopology() error {
	epoch, found, err := db.meta(metaTopology)
	if err != nil {
		return err
	}
	if found {
		db.topology = epoch
	}
	prefix := metaKey(metaStatus)
	return db.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		name := string(key[len(prefix):])
		if len(value) != 8 {
			return false, damaged("meta row", name, fmt.Errorf("%d bytes", len(value)))
		}
		db.statuses[name] = uint8(binary.BigEndian.Uint64(value))
		return true, nil
	})
}

// InFlight counts the claims of a region whose outcome is still to come, without
// those that are parked for a person: each has its provider call's row from Begin to Settle.
// Beyond 100,000 it stops counting.
func (v *View) InFlight(ctx context.Context, region string) (n int, err error) {
	code, err := v.reach(ctx, region)
	if err != nil {
		return 0, err
	}
	if err := v.db.enter(ctx); err != nil {
		return 0, err
	}
	defer v.db.leave()
	prefix := appendRegion(nil, providerCalls.row, code)
	err = v.db.scan(prefix, prefixEnd(prefix), func(k, value []byte) (bool, error) {
		d, is, err := callOf(k[len(prefix):], value)
		if err != nil {
			return false, damaged("outbox row", string(k[len(prefix):]), err)
		}
		owner, _ := readOwner([]byte(d.owner))
		if !is {
			return true, nil
		}
		rec, err := v.db.readSynced(region, code, owner)
		if err != nil {
			return false, err
		}
		if rec != nil && rec.State == claim.InFlight && rec.Minted.ID == d.id() {
			n++
		}
		return n < depthLimit, nil
	})
	return n, err
}
