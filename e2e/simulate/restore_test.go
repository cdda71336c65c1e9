package simulate

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment/notice"
)

// How an operator puts the store back.
const (
	wholeBucket = iota // the audit of all that is lost is read before nodes start
	lateBucket         // a copy of the bucket that lacks the end is read before, the rest while nodes run
	forgotten          // nodes start without a word, and have to find it by the bucket; then as the first
	restoreWays
)

// bucket has the audit. It is not restored with the store.
type bucket struct {
	*audittest.Bucket
	keys *audit.Keys
	full atomic.Bool // it takes nothing more
}

// Put implements [audit.Objects].
func (b *bucket) Put(ctx context.Context, name string, data []byte) error {
	if b.full.Load() {
		return errors.New("the bucket is full")
	}
	return b.Bucket.Put(ctx, name, data)
}

func newBucket() (*bucket, error) {
	text, err := audit.NewKey()
	if err != nil {
		return nil, err
	}
	keys, err := audit.ParseKeys(text)
	return &bucket{Bucket: audittest.NewBucket(), keys: keys}, err
}

// ofTheProcess has the audit make its compressor, of which a process has one, outside of a bubble: the channels
// of one that a run has made could be used in no other run.
func ofTheProcess(t *testing.T) {
	w := &world{t: t, ctx: t.Context(), disk: vfs.NewCrashableMem(), distance: wan.New(wan.Defaults(regions)), homes: regions}
	var err error
	w.bucket, err = newBucket()
	w.must(err)
	w.openStore()
	for range 2 { // the first begins the chains
		w.exportRest()
	}
	require.NotEmpty(t, w.bucket.Names())
	require.NoError(t, w.db.Close())
}

// Two runs in one process can put their stores back.
func TestTwoRunsAreAudited(t *testing.T) {
	ofTheProcess(t)
	for range 2 {
		synctest.Test(t, ofTheProcess)
	}
}

// auditing are settings under which the export keeps up with a run.
func auditing() node.AuditSettings {
	s := node.DefaultAudit()
	s.Every, s.Window, s.Settle = 10*time.Second, 10*time.Second, time.Second
	return s
}

// has reports whether a plan has a fault of a kind.
func has(plan [][]fault, k kind) bool {
	return slices.ContainsFunc(plan, func(step []fault) bool {
		return slices.ContainsFunc(step, func(f fault) bool { return f.kind == k })
	})
}

// backUp copies the store as it is: what was synced is in the copy. The end loses the store, and puts the
// copy in its place.
func (w *world) backUp(way int) (end func()) {
	w.mu.Lock()
	copied := w.disk.CrashClone(vfs.CrashCloneCfg{RNG: w.rng})
	w.mu.Unlock()
	made := w.now()
	return func() { w.putBack(way, copied, made) }
}

func (w *world) putBack(way int, copied *vfs.MemFS, made time.Time) {
	stop := func() {
		for _, m := range w.nodes() {
			m.kill()
		}
	}
	start := func() {
		for _, m := range w.nodes() {
			m.start()
		}
	}
	stop()
	stopped, partial := w.now(), &bucket{Bucket: w.bucket.Clone(), keys: w.bucket.keys}
	time.Sleep(time.Second) // the export is later than what it exports
	w.exportRest()
	was := w.db
	w.ended.Go(func() { _ = was.Close() })
	time.Sleep(time.Minute) // in which an operator fetches the backup
	w.disk = copied
	w.openStore()
	read := func(from *bucket) {
		r, err := restore.Audit(w.ctx, deployment.Embedded(w.db), w.rows(), from, from.keys.Trust(), func(f restore.Witnessed) {
			w.logger("ops").Info("the audit was read", "home", f.Region, "until", f.Covered, "segments", f.Segments, "witnesses", len(f.Witnesses), "blind", f.Blind, "broken", f.Broken)
		})
		w.must(err)
		w.logger("ops").Info("the restore", "phase", r.Phase, "from", r.From, "until", r.Until)
	}
	begin := func() {
		_, err := restore.Begin(w.ctx, deployment.Embedded(w.db), w.rows(), restore.Lost{From: made, Until: stopped, By: "ops", Why: "a lost disk"})
		w.must(err)
	}
	switch way {
	case forgotten:
		start()
		time.Sleep(20 * time.Second)
		if r, _, err := w.db.Restore(w.ctx); err != nil || !r.Withholds() {
			w.t.Errorf("nodes run on a store that was put back, and have not found it: %+v, %v", r, err)
		}
		stop()
		begin()
		read(w.bucket)
		start()
	case lateBucket:
		begin()
		read(partial)
		start()
		time.Sleep(30 * time.Second)
		read(w.bucket)
	default:
		begin()
		read(w.bucket)
		start()
	}
}

func (w *world) rows() deployment.Store {
	rows, err := deployment.Embedded(w.db).Region(regions[0])
	w.must(err)
	return rows
}

// exportRest exports what the store has and the bucket does not have yet, as homeward audit export does.
func (w *world) exportRest() {
	id, err := w.db.DeploymentID(w.ctx)
	w.must(err)
	for _, home := range w.regions() {
		x, err := node.NewExporter(audit.Config{
			Store: w.rows(), Objects: w.bucket, Keys: w.bucket.keys, Deployment: id, Policy: auditing().Policy, Home: home, Node: "ops", Providers: w.providers(), Logger: w.logger("ops"),
		})
		w.must(err)
		_, err = x.Finish(w.ctx)
		w.must(err)
	}
}

// providers are the names of those that nodes have.
func (w *world) providers() (all []string) {
	for _, j := range w.judges {
		all = append(all, j.name)
	}
	return all
}

// endRestore ends what is in effect, and lets refunds go on. Keys whose claims the audit does not show to their
// end stay withheld; it returns those.
func (w *world) endRestore() (withheld []claim.Key) {
	d := deployment.Embedded(w.db)
	windows, err := d.Windows(w.ctx)
	w.must(err)
	windows.ProcessingFor, windows.ActionFor = w.policy().ProcessingFor, w.policy().ActionFor
	_, kept, err := restore.End(w.ctx, d, &windows)
	w.must(err)
	if kept == 0 {
		_, err = notice.Release(w.ctx, d, notice.AllProviders, nil)
		w.must(err)
		return nil
	}
	for after := (claim.Key{}); ; {
		some, err := d.Witnesses(w.ctx, after, 100)
		w.must(err)
		if len(some) == 0 {
			return withheld
		}
		for i := range some {
			if after = some[i].Key; !some[i].Final() {
				withheld = append(withheld, after)
			}
		}
	}
}
