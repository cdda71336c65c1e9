package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	// leaseTime bounds how long leases of new tables take to reach their regions.
	leaseTime = 3 * time.Minute
	// leasePause is between two rounds of the queue that moves them.
	leasePause = 2 * time.Second
)

// placeLeases has a CockroachDB cluster move the leases of new tables to the regions that
// their zones prefer, and returns when no lease moves any more and each region has some.
// The cluster does so by itself, one lease a second and each range about once in ten
// minutes; until then a statement of one region is evaluated in another.
func placeLeases(ctx context.Context, s *localdb.Server, databases ...string) error {
	if s.Kind() != localdb.CockroachDB || len(s.Regions()) < 2 {
		return nil
	}
	if err := configure(ctx, s, []string{"kv.allocator.min_lease_transfer_interval='0s'"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	var before map[int64]int64
	for {
		after := map[int64]int64{}
		for _, region := range s.Regions() {
			for _, database := range databases {
				if err := queueLeases(ctx, s.URL(region, database), after); err != nil {
					return fmt.Errorf("leases of %s: %w", database, err)
				}
			}
		}
		held := map[int64]bool{}
		for _, node := range after {
			held[node] = true
		}
		if len(held) == len(s.Regions()) && maps.Equal(before, after) {
			return nil
		}
		if before = after; sleepUntil(ctx, time.Now().Add(leasePause)) != nil {
			return fmt.Errorf("the leases of new tables have not reached their regions in %v; nodes with leases: %v", leaseTime, slices.Sorted(maps.Keys(held)))
		}
	}
}

// queueLeases has a node consider each of its leases in a database, and adds who held
// which range's, before.
func queueLeases(ctx context.Context, url string, held map[int64]int64) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, _ = conn.Exec(ctx, "SET allow_unsafe_internals = true") // older versions do not know it
	rows, err := conn.Query(ctx, "SELECT range_id, lease_holder, lease_holder = crdb_internal.node_id() FROM [SHOW RANGES WITH DETAILS]")
	var (
		id, holder int64
		here       bool
		mine       []int64
	)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &holder, &here}, func() error {
			held[id] = holder
			if here {
				mine = append(mine, id)
			}
			return nil
		})
	}
	for _, id := range mine {
		// It fails where the lease has moved meanwhile; then the next round says so.
		_, _ = conn.Exec(ctx, "SELECT crdb_internal.kv_enqueue_replica($1, 'lease', true)", id)
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
