package embedded_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/outbox"
)

func arrive(key, home string) claim.Arrival {
	return claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "100", "n", "ch_"+key)
}

// refused opens a store that cannot be opened and checks the one line about it.
func refused(t *testing.T, cfg embedded.Config, says ...string) {
	t.Helper()
	if cfg.Regions == nil {
		cfg.Regions = regions
	}
	cfg.Policy = testPolicy()
	db, err := embedded.Open(cfg)
	if err == nil {
		_ = db.Close()
	}
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	for _, s := range says {
		require.Contains(t, err.Error(), s)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Run("no directory", func(t *testing.T) { refused(t, embedded.Config{}, "name one") })
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
		refused(t, embedded.Config{Dir: file}, file, "not a directory", "choose another")
		refused(t, embedded.Config{Dir: filepath.Join(file, "below")}, "not a directory")
	})
	t.Run("in use", func(t *testing.T) {
		dir := t.TempDir()
		open(t, embedded.Config{Dir: dir, FS: vfs.Default})
		refused(t, embedded.Config{Dir: dir}, dir, "in use", "stop it")
	})
	t.Run("damaged", func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, embedded.Config{Dir: dir, FS: vfs.Default})
		require.NoError(t, db.Close())
		manifests, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
		require.NoError(t, err)
		require.NotEmpty(t, manifests)
		for _, m := range manifests {
			require.NoError(t, os.Truncate(m, 3))
		}
		refused(t, embedded.Config{Dir: dir}, dir, "damaged", "restore")
	})
	t.Run("a piece is missing", func(t *testing.T) {
		dir := t.TempDir()
		db := open(t, embedded.Config{Dir: dir, FS: vfs.Default})
		require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: regions[0].Name}))
		v, err := db.Region(regions[0].Name)
		require.NoError(t, err)
		for _, key := range []string{"table", "log"} {
			a := arrive(key, regions[0].Name)
			a.PinHere = true
			_, err := v.Begin(t.Context(), a)
			require.NoError(t, err)
			if key == "table" {
				require.NoError(t, db.Flush())
			}
		}
		require.NoError(t, db.Close())
		require.NoError(t, open(t, embedded.Config{Dir: dir, FS: vfs.Default}).Close()) // with new logs
		all, err := os.ReadDir(dir)
		require.NoError(t, err)
		refusals := 0
		for _, piece := range all {
			if filepath.Ext(piece.Name()) == ".log" {
				continue // as an older copy is without it
			}
			rest := filepath.Join(t.TempDir(), "rest")
			require.NoError(t, os.CopyFS(rest, os.DirFS(dir)))
			require.NoError(t, os.Remove(filepath.Join(rest, piece.Name())))
			db, err := embedded.Open(embedded.Config{Dir: rest, Regions: regions, Policy: testPolicy()})
			if err != nil {
				require.NotContains(t, err.Error(), "\n")
				require.Regexp(t, "is damaged; restore|cannot be opened", err.Error())
				refusals++
				continue
			}
			v, err := db.Region(regions[0].Name)
			require.NoError(t, err)
			for _, key := range []string{"table", "log"} {
				_, _, found, err := v.Get(t.Context(), claim.Key{Tenant: "acme", Value: key}, regions[0].Name)
				require.NoError(t, err)
				require.True(t, found, "without %s a claim is forgotten", piece.Name())
			}
			require.NoError(t, db.Close())
		}
		require.GreaterOrEqual(t, refusals, 4, "a table, their list, its marker, that of the format")
	})
	t.Run("another format", func(t *testing.T) {
		for _, version := range []uint64{0, 2, 99} {
			fs := vfs.NewMem()
			db := open(t, embedded.Config{FS: fs})
			require.NoError(t, db.SetFormat(version))
			require.NoError(t, db.Close())
			refused(t, embedded.Config{Dir: "store", FS: fs}, fmt.Sprintf("version %d ", version), "choose another directory")
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpMkdirAll {
				return syscall.ENOSPC
			}
			return nil
		}))
		refused(t, embedded.Config{Dir: "store", FS: fs}, "full disk", "free some space")
	})
	// No other process has these directories. The error names why the lock failed.
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"a read-only file system": {&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EROFS}, "can only be read; mount it for writing"},
		"no locks":                {syscall.ENOLCK, "gives no locks; choose a directory on a local one"},
		"unimplemented locks":     {syscall.ENOSYS, "gives no locks; choose a directory on a local one"},
		"no more open files":      {&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EMFILE}, "for too many open files; raise the limit (ulimit -n)"},
		"a broken disk":           {&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EIO}, "check the disk"},
		"of another user":         {&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}, "may not be written by this user"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := unlockable{vfs.NewMem(), c.err}
			refused(t, embedded.Config{Dir: "store", FS: fs}, c.says)
			cfg := embedded.Config{Dir: "store", FS: fs, Regions: regions, Policy: testPolicy()}
			_, err := embedded.Open(cfg)
			require.NotContains(t, err.Error(), "in use")
		})
	}
	t.Run("region codes", func(t *testing.T) {
		fs := vfs.NewMem()
		db := open(t, embedded.Config{FS: fs})
		require.NoError(t, db.Close())
		for name, rs := range map[string][]claim.Region{
			"changed": {{Name: "us-east1", Code: 9}},
			"reused":  {{Name: "mars-north1", Code: 1}},
			"swapped": {{Name: "us-east1", Code: 2}, {Name: "europe-west1", Code: 1}},
		} {
			t.Run(name, func(t *testing.T) {
				refused(t, embedded.Config{Dir: "store", FS: fs, Regions: rs}, "never changed or reused")
			})
		}
		refused(t, embedded.Config{Dir: "store", FS: fs, Regions: []claim.Region{{Name: "a", Code: 7}, {Name: "b", Code: 7}}}, "of its own")
		refused(t, embedded.Config{Dir: "store", FS: fs, Regions: []claim.Region{{Name: "a"}}}, "reserved")
		// A region may join, and an earlier one may be missing.
		open(t, embedded.Config{FS: fs, Regions: []claim.Region{{Name: "us-east1", Code: 1}, {Name: "new", Code: 4}}})
	})
}

// unlockable is a file system on which no file can be locked.
type unlockable struct {
	vfs.FS
	err error
}

func (u unlockable) Lock(string) (io.Closer, error) { return nil, u.err }

// TestDiskFills checks a store on a disk that fills up: the step fails with ErrUnavailable, Fatal gets
// one line, the store acknowledges nothing afterwards, and what it acknowledged before is there.
func TestDiskFills(t *testing.T) {
	disk := vfs.NewCrashableMem()
	full := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFilePreallocate:
			if strings.HasSuffix(op.Path, ".log") {
				return fmt.Errorf("write %s: %w", op.Path, syscall.ENOSPC)
			}
		}
		return nil
	})}
	fatal := make(chan error, 10)
	db := open(t, embedded.Config{
		FS: errorfs.Wrap(disk, &full), Clock: newClock().now,
		Fatal: func(err error) { fatal <- err },
	})
	v := view(t, db, "us-east1")
	before, err := v.Begin(t.Context(), arrive("before", "us-east1"))
	require.NoError(t, err)
	require.Equal(t, claim.Won, before.Decision)

	full.On()
	_, err = v.Begin(t.Context(), arrive("during", "us-east1"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	line := (<-fatal).Error()
	require.Contains(t, line, "full disk")
	require.Contains(t, line, "free some space")
	require.NotContains(t, line, "\n")

	full.Off() // the store does not trust the disk again by itself
	_, err = v.Begin(t.Context(), arrive("after", "us-east1"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, _, _, err = v.Get(t.Context(), before.Record.Key, "us-east1")
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.NoError(t, db.Close())
	require.Empty(t, fatal, "Fatal was called twice")

	again := view(t, open(t, embedded.Config{FS: disk.CrashClone(vfs.CrashCloneCfg{})}), "us-east1")
	rec, _, found, err := again.Get(t.Context(), before.Record.Key, "us-east1")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, before.Record, rec)
	_, _, found, err = again.Get(t.Context(), claim.Key{Tenant: "acme", Value: "after"}, "us-east1")
	require.NoError(t, err)
	require.False(t, found)
}

// TestDiskFillsUnderLoad: each call in progress fails, and each later one. Pebble neither panics, as it does when
// it cannot rotate its log, nor keeps anybody waiting. What was acknowledged is there after a power cut, and after
// the store was opened again by the same process.
func TestDiskFillsUnderLoad(t *testing.T) {
	isLog := func(op errorfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }
	makes := func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite }
	writes := func(op errorfs.Op) bool { // files, and no directory, which needs no room
		return strings.Contains(op.Path, ".") &&
			(op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo || op.Kind == errorfs.OpFileClose)
	}
	for name, fails := range map[string]func(errorfs.Op) bool{
		"no log can be made":          func(op errorfs.Op) bool { return makes(op) && isLog(op) },
		"no log can be written":       func(op errorfs.Op) bool { return writes(op) && isLog(op) },
		"only the log can be written": func(op errorfs.Op) bool { return (makes(op) || writes(op)) && !isLog(op) },
		"nothing can be written":      func(op errorfs.Op) bool { return makes(op) || writes(op) },
	} {
		t.Run(name, func(t *testing.T) {
			full := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
				if fails(op) {
					return syscall.ENOSPC
				}
				return nil
			})}
			disk, fatal := vfs.NewCrashableMem(), make(chan error, 1)
			figures := sdk.NewManualReader()
			meters, err := meter.New(sdk.NewMeterProvider(sdk.WithReader(figures)))
			require.NoError(t, err)
			db := open(t, embedded.Config{FS: errorfs.Wrap(disk, &full), Clock: newClock().now, Meters: meters, Fatal: func(err error) { fatal <- err }})
			var writers errgroup.Group
			var acknowledged sync.Map
			var count atomic.Int32
			for i := range 20 {
				writers.Go(func() error {
					for n := 0; ; n++ {
						tenant := claim.Tenant{ID: fmt.Sprintf("t-%d-%d", i, n), Registrar: us, Name: strings.Repeat("x", 60_000)}
						if err := db.PutTenant(t.Context(), tenant); err != nil {
							return err
						}
						acknowledged.Store(tenant.ID, true)
						if count.Add(1) == 100 { // 6 MB: in the first log, as errorfs does not see into those that Pebble uses again
							full.On()
						}
					}
				})
			}
			require.ErrorIs(t, writers.Wait(), claim.ErrUnavailable)
			require.ErrorContains(t, <-fatal, "free some space")
			require.NoError(t, figures.Collect(t.Context(), &metricdata.ResourceMetrics{}))
			cut := disk.CrashClone(vfs.CrashCloneCfg{})
			require.NoError(t, db.Close())
			for _, fs := range []vfs.FS{cut, disk} {
				again := open(t, embedded.Config{FS: fs})
				for id := range acknowledged.Range {
					_, err := again.Tenant(t.Context(), id.(string))
					require.NoError(t, err)
				}
			}
		})
	}
}

// TestUnreadableRow checks that a read error is an unknown outcome, and no absent row.
func TestUnreadableRow(t *testing.T) {
	disk := vfs.NewMem()
	db := open(t, embedded.Config{FS: disk})
	v := view(t, db, "us-east1")
	// Enough rows that opening, which reads a few others, does not cache this one.
	for i := range 100 {
		_, err := v.Begin(t.Context(), arrive(fmt.Sprint("k", i), "us-east1"))
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	db = open(t, embedded.Config{FS: disk})
	require.NoError(t, db.Flush()) // so that the row is read from a table
	require.NoError(t, db.Close())

	bad := errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return syscall.EIO
		}
		return nil
	})}
	db = open(t, embedded.Config{FS: errorfs.Wrap(disk, &bad)})
	v = view(t, db, "us-east1")
	bad.On()
	_, err := v.Begin(t.Context(), arrive("k50", "us-east1"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	_, err = v.Replica(t.Context(), claim.Key{Tenant: "acme", Value: "k50"})
	require.ErrorIs(t, err, claim.ErrUnavailable)
	bad.Off()
	got, err := v.Begin(t.Context(), arrive("k50", "us-east1"))
	require.NoError(t, err)
	require.Equal(t, claim.Busy, got.Decision)
}

// TestTakeSkipsHeldRows checks that Take does not wait for a locked row.
func TestTakeSkipsHeldRows(t *testing.T) {
	clock := newClock()
	v := view(t, open(t, embedded.Config{Clock: clock.now}), "us-east1")
	for _, k := range []string{"a", "b"} {
		_, err := v.Begin(t.Context(), arrive(k, "us-east1"))
		require.NoError(t, err)
	}
	clock.advance(time.Minute)
	unlock := v.LockRow(claim.Key{Tenant: "acme", Value: "a"}, "us-east1")
	taken, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), "us-east1", 10, time.Second)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	require.Equal(t, "ch_b", taken[0].ID)
	unlock()
	taken, err = v.Queue(outbox.ProviderCalls).Take(t.Context(), "us-east1", 10, time.Second)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	require.Equal(t, "ch_a", taken[0].ID)
}

// TestUnsyncedIsNotShown locks a row, as a writer does until its sync is through, and checks that
// every reader waits.
func TestUnsyncedIsNotShown(t *testing.T) {
	v := view(t, open(t, embedded.Config{}), "us-east1")
	a := arrive("k", "us-east1")
	_, err := v.Begin(t.Context(), a)
	require.NoError(t, err)
	for name, read := range map[string]func(ctx context.Context) error{
		"get":      func(ctx context.Context) error { _, _, _, err := v.Get(ctx, a.Key, "us-east1"); return err },
		"object":   func(ctx context.Context) error { _, _, _, err := v.Object(ctx, "acme", "us-east1", "ch_k"); return err },
		"replica":  func(ctx context.Context) error { _, err := v.Replica(ctx, a.Key); return err },
		"timeline": func(ctx context.Context) error { _, err := v.Timeline(ctx, a.Key, "us-east1", 1); return err },
		"begin":    func(ctx context.Context) error { _, err := v.Begin(ctx, a); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var released bool
			unlock := v.LockRow(a.Key, "us-east1")
			done := make(chan bool)
			started := make(chan struct{})
			go func() {
				close(started)
				if err := read(context.Background()); err != nil {
					t.Error(err)
				}
				done <- released // ordered by the lock; the race detector agrees
			}()
			<-started
			released = true
			unlock()
			require.True(t, <-done)
		})
	}
}

// TestNotes checks that the store keeps a note although its caller disconnected, and logs and
// ignores a note that names no claim.
func TestNotes(t *testing.T) {
	v := view(t, open(t, embedded.Config{}), "us-east1")
	key := claim.Key{Tenant: "acme", Value: "k"}
	gone, disconnect := context.WithCancel(t.Context())
	disconnect()
	for i := range 20 {
		v.Note(gone, key, "us-east1", claim.AuditEntry{Event: claim.EventReplied, Detail: fmt.Sprint(i)})
	}
	v.Note(t.Context(), key, "nowhere", claim.AuditEntry{})
	v.Note(t.Context(), claim.Key{}, "us-east1", claim.AuditEntry{})
	line, err := v.Timeline(t.Context(), key, "us-east1", 15)
	require.NoError(t, err)
	require.Len(t, line, 15)
	require.Equal(t, "5", line[0].Detail, "the latest ones")
	require.Equal(t, "19", line[14].Detail)
}

func TestBadNames(t *testing.T) {
	db := open(t, embedded.Config{})
	v := view(t, db, "us-east1")
	for _, key := range []claim.Key{{Tenant: "acme"}, {Value: "k"}, {Tenant: "a\x00b", Value: "k"}, {Tenant: "acme", Value: "a\x00b"}} {
		a := arrive("k", "us-east1")
		a.Key = key
		_, err := v.Begin(t.Context(), a)
		require.Error(t, err)
		require.NotErrorIs(t, err, claim.ErrUnavailable, "a retry would not help")
	}
	_, err := v.Begin(t.Context(), arrive("k", "mars"))
	require.ErrorIs(t, err, claim.ErrHomeUnreachable)
	_, err = db.Region("mars")
	require.Error(t, err)
}
