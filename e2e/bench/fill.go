package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/payment"
)

// fillRole writes finished charges under opaque keys into a new store: for each
// of them a Pin, a Begin and a Settle, the steps that a request makes, with the
// rows that a request leaves. What it leaves out is HTTP, the provider, and
// waiting for the disk: nothing is acknowledged to anybody here, and the store
// is closed in order before it is used. Written this fast it is left with tables
// to compact, which no run should have to pay for; that is done at the end.
func fillRole(ctx context.Context, args []string, _ io.Reader, _ io.Writer) error {
	f := flag.NewFlagSet("fill", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	keys := f.Int("keys", 0, "finished charges to write")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := fillStore(ctx, *dir, *keys); err != nil {
		return err
	}
	return rest(ctx, *dir)
}

// restPoll is how often a store is asked whether it is at rest.
const restPoll = 50 * time.Millisecond

// rest lets compaction catch up, and no more: levels keep the shape that they
// have in a store which is written to at a bearable rate.
func rest(ctx context.Context, dir string) error {
	db, err := floorStore(dir)
	if err != nil {
		return err
	}
	for busy := true; busy && err == nil; {
		err = sleepUntil(ctx, time.Now().Add(restPoll))
		m := db.Metrics()
		busy = m.Compact.NumInProgress > 0 || m.Flush.NumInProgress > 0
	}
	return errors.Join(err, db.Close())
}

func fillStore(ctx context.Context, dir string, keys int) (err error) {
	db, err := embedded.Open(embedded.Config{
		Dir: dir, Regions: []claim.Region{{Name: regionNames[0], Code: 1}},
		Policy: claim.DefaultPolicy(), FS: unsyncedFS{vfs.Default},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PutTenant(ctx, tenant(), apiKey); err != nil {
		return err
	}
	view, err := db.Region(regionNames[0])
	if err != nil {
		return err
	}
	c, err := newCharges("fill")
	if err != nil {
		return err
	}
	uuid.EnableRandPool()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range 4 * runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for next.Add(1) <= int64(keys) {
				if _, err := c.pinned(ctx, view); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// charges makes the store calls of finished charges, all alike but for key and
// id.
type charges struct {
	arrival claim.Arrival
	intent  payment.Intent
}

// newCharges is for the node holder in the first region.
func newCharges(holder string) (*charges, error) {
	canonical, err := claim.Canonical([]byte(requestBody), claim.CanonicalOptions{})
	if err != nil {
		return nil, err
	}
	c := &charges{}
	if c.intent, err = payment.Parse(payment.Charge, canonical); err != nil {
		return nil, err
	}
	input := claim.FingerprintInput{
		Method: "POST", Path: payment.Path(payment.Charge), Tenant: tenantID,
		ContentType: "application/json", Canonical: canonical,
	}
	fingerprint, err := input.Fingerprint(claim.CurrentFingerprint)
	if err != nil {
		return nil, err
	}
	c.arrival = claim.Arrival{
		Key: claim.Key{Tenant: tenantID}, Home: regionNames[0], Operation: string(payment.Charge),
		Input: input, Print: fingerprint, Payload: canonical, Holder: holder, Region: regionNames[0],
		Mint: claim.Minted{Receipt: "R-FILL-FILL-FILL"},
	}
	return c, nil
}

// next is a new arrival.
func (c *charges) next() (claim.Arrival, error) {
	a := c.arrival
	a.Key.Value = uuid.NewString()
	var err error
	a.Mint.ID, err = claim.NewObjectID(payment.Prefix(payment.Charge), 1, nil)
	return a, err
}

// done is the verdict of a charge that went well.
func (c *charges) done(m claim.Minted) claim.Verdict {
	ref := "psp_" + m.ID
	return claim.Verdict{
		Outcome: claim.OutcomeDone, ProviderRef: ref, Node: c.arrival.Holder, Region: c.arrival.Region,
		Response: payment.Rendered(m, &c.intent, "simulator", ref),
	}
}

// pinned makes one finished charge under an opaque key, which it returns.
func (c *charges) pinned(ctx context.Context, store claim.Store) (claim.Key, error) {
	a, err := c.next()
	if err != nil {
		return a.Key, err
	}
	pin, err := store.Pin(ctx, a.Key, a.Home)
	if err != nil {
		return a.Key, err
	}
	a.PinnedAt = pin.CreatedAt
	begun, err := begin(ctx, store, a)
	if err != nil {
		return a.Key, err
	}
	_, err = store.Settle(ctx, begun, c.done(begun.Minted))
	return a.Key, err
}

// begin makes a new claim.
func begin(ctx context.Context, store claim.Store, a claim.Arrival) (claim.Record, error) {
	begun, err := store.Begin(ctx, a)
	if err == nil && begun.Decision != claim.Won {
		err = fmt.Errorf("a new key was %v", begun.Decision)
	}
	return begun.Record, err
}

// unsyncedFS is a file system whose syncs say yes and do nothing.
type unsyncedFS struct{ vfs.FS }

func (fs unsyncedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(fs.FS.Create(name, c))
}

func (fs unsyncedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(fs.FS.ReuseForWrite(old, name, c))
}

func (fs unsyncedFS) OpenDir(name string) (vfs.File, error) { return unsynced(fs.FS.OpenDir(name)) }

type unsyncedFile struct{ vfs.File }

func unsynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }
