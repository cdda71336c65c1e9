package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/homeward-io/homeward/claim"
)

// The status of a region decides one thing only: whether a key without a home may get
// its home there. Pin reads it in the step that assigns one. Claims and existing pins
// never read it, so a status cannot move a key or stop a retry.

// Keys of the meta table.
const (
	metaStatus   = "status/"
	metaTopology = "topology"
)

// Regions implements [claim.Regions]: the regions that the store was opened with, in that
// order. It costs no trip, as the table of regions has a copy in each.
func (db *DB) Regions(ctx context.Context) (regions []claim.Region, epoch uint64, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer db.leave()
	db.topologyMu.RLock()
	defer db.topologyMu.RUnlock()
	regions = slices.Clone(db.order)
	for i, r := range regions {
		regions[i].Status = db.statuses[r.Name]
	}
	return regions, db.topology, nil
}

// SetRegionStatus implements [claim.Regions].
func (db *DB) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (epoch uint64, err error) {
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
		db.statuses[name] = claim.RegionStatus(binary.BigEndian.Uint64(value))
		return true, nil
	})
}

// InFlight counts the claims of a region without an outcome, except parked ones: each
// has its provider call's row from Begin to Settle. Beyond 100,000 it stops counting.
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

// Regions is [DB.Regions].
func (v *View) Regions(ctx context.Context) ([]claim.Region, uint64, error) { return v.db.Regions(ctx) }

// SetRegionStatus is [DB.SetRegionStatus].
func (v *View) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (epoch uint64, err error) {
	return v.db.SetRegionStatus(ctx, name, status)
}
