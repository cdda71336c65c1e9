package embedded

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/documents"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/wan"
)

const (
	// formatVersion is the format that this build reads and writes. A store of another one
	// is refused.
	formatVersion = 3

	// DefaultReplicaLag is how old a row must be before a replica shows it: the lag of
	// a CockroachDB follower read.
	DefaultReplicaLag = 4800 * time.Millisecond

	// complainEvery keeps a failure that repeats thousands of times a second from
	// filling the log as well.
	complainEvery = 10 * time.Second
)

// Config configures [Open].
type Config struct {
	// Dir is the store's directory; it is created if it does not exist.
	Dir string
	// Regions are all regions of the deployment, at least one. The store keeps their
	// statuses itself.
	Regions []claim.Region
	// Policy must be valid; see [claim.Policy.Validate].
	Policy claim.Policy
	// Network is the distance between regions; nil for none.
	Network *wan.Network
	// ReplicaLag is how long a settled claim or a pin stays invisible to replica
	// reads; 0 means [DefaultReplicaLag], a negative value none.
	ReplicaLag time.Duration
	// Clock is the source of the store's clock, time.Now if nil. The store's clock counts
	// microseconds and never goes back.
	Clock func() time.Time
	// FS is the file system, the real one if nil.
	FS vfs.FS
	// Meters measure the use of the disk. Nil: it is not measured.
	Meters *meter.Set
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Fatal is called once with the reason when the store can no longer be written: a
	// full or failing disk. It should end the process. From then on, and if it is nil,
	// every call fails with [claim.ErrUnavailable]; nothing acknowledged is lost.
	Fatal func(error)
}

// DB is one store with the rows of all its regions. It is safe for concurrent
// use; nodes use it through the views that [DB.Region] returns.
type DB struct {
	documents.Contracts
	pebble     *pebble.DB
	dirLock    *pebble.Lock
	policy     claim.Policy
	regions    map[string]claim.RegionCode
	order      []claim.Region
	network    *wan.Network
	replicaLag time.Duration
	clock      clock
	log        *slog.Logger
	deployment uuid.UUID

	// A lock of rows guards a claim with its outbox rows and audit, or a notice; one of
	// pins a pin; one of books a transaction, its incoming payment or the row of an unpaid object.
	rows, pins, books *rowLocks

	finals *lru.Cache[finalKey, *claim.Record] // see tx.remember

	tenantMu sync.RWMutex // held for reading through every pin step
	tenants  map[string]claim.Tenant
	apiKeys  map[claim.APIKeyHash]string

	topology sync.RWMutex // held for reading while a pin is written
	shared   sync.RWMutex // of the rows in shared.go
	chain    sync.RWMutex // of chains of audit, and of books that leave
	// seq numbers audit rows: the store's opening in the high bits, so that the
	// order holds across restarts without reading the last row of any key.
	seq atomic.Uint64

	sweepMu sync.Mutex
	sweeps  map[byte][]byte // where the next sweep of a table continues

	broken    atomic.Pointer[error]
	complain  rate.Sometimes // about background work
	fatal     func(error)
	fatalOnce sync.Once

	closeMu  sync.RWMutex // held for reading through every call
	closed   bool
	closeErr error
}

// Open opens the store in cfg.Dir, and creates it if there is none. An error is one
// line that says what to do. The caller must Close the store.
func Open(cfg Config) (*DB, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	db := &DB{
		policy: cfg.Policy, regions: map[string]claim.RegionCode{}, order: cfg.Regions,
		network: cfg.Network, replicaLag: max(cmp.Or(cfg.ReplicaLag, DefaultReplicaLag), 0), log: cfg.Logger, fatal: cfg.Fatal,
		clock: clock{source: cfg.Clock}, rows: newRowLocks(), pins: newRowLocks(), books: newRowLocks(),
		sweeps: map[byte][]byte{}, tenants: map[string]claim.Tenant{}, apiKeys: map[claim.APIKeyHash]string{},
		complain: rate.Sometimes{Interval: complainEvery},
	}
	db.Contracts = documents.In(db)
	db.finals, _ = lru.New[finalKey, *claim.Record](finalClaims) // an error is for sizes below 1
	for _, r := range cfg.Regions {
		db.regions[r.Name] = r.Code
	}
	if err := db.openPebble(&cfg); err != nil {
		return nil, openError(cfg.Dir, err)
	}
	err := db.run(context.Background(), func(t *tx) {
		t.prepareMeta(cfg.Dir)
		t.loadTenants()
	})
	if err == nil {
		if err = db.Promise(context.Background(), &db.policy); err != nil {
			err = fmt.Errorf("embedded store: %s: %w", cfg.Dir, err)
		}
	}
	if err == nil {
		err = db.observe(cfg.Meters)
	}
	if err != nil {
		return nil, errors.Join(err, db.pebble.Close(), db.dirLock.Close())
	}
	return db, nil
}

func (cfg *Config) check() error {
	if cfg.Dir == "" {
		return errors.New("embedded store: the directory is missing; name one")
	}
	if len(cfg.Regions) == 0 {
		return errors.New("embedded store: there are no regions; name at least one")
	}
	names, codes := map[string]bool{}, map[claim.RegionCode]string{}
	for _, r := range cfg.Regions {
		if err := checkName("region", r.Name); err != nil {
			return err
		}
		if r.Code == 0 {
			return fmt.Errorf("embedded store: region %s: %w", r.Name, claim.ErrRegionCode)
		}
		if other, ok := codes[r.Code]; ok || names[r.Name] {
			return fmt.Errorf("embedded store: region %s (code %d) collides with %s; give every region a name and a code of its own", r.Name, r.Code, other)
		}
		names[r.Name], codes[r.Code] = true, r.Name
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	cfg.FS, cfg.Logger = cmp.Or(cfg.FS, vfs.Default), cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg.Policy.Validate()
}

func (db *DB) openPebble(cfg *Config) error {
	if info, err := cfg.FS.Stat(cfg.Dir); err == nil && !info.IsDir() {
		return errNotDirectory
	}
	if err := cfg.FS.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	lock, err := pebble.LockDirectory(cfg.Dir, cfg.FS)
	if err != nil && held(err) {
		return fmt.Errorf("%w (%v)", errInUse, err)
	}
	if err != nil {
		return err
	}
	if err := whole(cfg); err != nil {
		return errors.Join(err, lock.Close())
	}
	files := &logs{FS: cfg.FS, db: db}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // the instance keeps its own reference
	o := &pebble.Options{
		FS: files, Lock: lock, Logger: &pebbleLogger{db: db}, Cache: cache, MaxOpenFiles: openFiles,
		MemTableSize: memTableBytes, MemTableStopWritesThreshold: memTables,
		FormatMajorVersion: pebble.FormatNewest,
		EventListener: &pebble.EventListener{
			BackgroundError: db.backgroundError,
			DiskSlow:        func(info pebble.DiskSlowInfo) { db.log.Warn("store: disk is slow", "info", info.String()) },
		},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	o.EnsureDefaults()
	if db.pebble, err = pebble.Open(cfg.Dir, o); err != nil {
		return errors.Join(err, lock.Close())
	}
	db.dirLock = lock
	files.opened.Store(true)
	return nil
}

// whole refuses a directory with tables or logs that lacks the marker of their list, an empty file, as
// some tools copy none: Pebble would begin a new store in it, and forget every claim.
func whole(cfg *Config) error {
	is, err := pebble.Peek(cfg.Dir, cfg.FS)
	if err != nil || is.Exists {
		return nil // an error is one of Pebble's Open, too
	}
	names, err := cfg.FS.List(cfg.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log") {
			return fmt.Errorf("it has %s, and no marker.manifest: %w", name, fs.ErrNotExist)
		}
	}
	return nil
}

// held reports whether err, of a lock on a file, means that a process holds it: one of the kernel's
// two errors for that (fcntl(2)), or Pebble's own, for this process. With any other failure to open
// or to lock the file, no process may hold it.
func held(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return true
	}
	_, opening := errors.AsType[*fs.PathError](err)
	return !opening && (errno == syscall.EAGAIN || errno == syscall.EACCES)
}

var (
	errNotDirectory = errors.New("not a directory")
	errInUse        = errors.New("in use")
)

// openError returns in one line what is wrong with dir and what to do.
func openError(dir string, err error) error {
	why := "embedded store: " + dir + " "
	switch {
	case errors.Is(err, errNotDirectory), errors.Is(err, syscall.ENOTDIR):
		why += "is not a directory; choose another one"
	case errors.Is(err, errInUse):
		why += "is in use by another process; stop it, choose another directory, or ask the running one with --node"
	case errors.Is(err, fs.ErrPermission):
		why += "may not be written by this user; change its owner or choose another directory"
	case errors.Is(err, syscall.ENOSPC):
		why += "is on a full disk; free some space and start again, nothing is lost"
	case errors.Is(err, syscall.EROFS):
		why += "is on a file system that can only be read; mount it for writing or choose another directory"
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP):
		why += "is on a file system that gives no locks; choose a directory on a local one"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		why += "cannot be opened for too many open files; raise the limit (ulimit -n)"
	case strings.Contains(err.Error(), "unknown format major version"):
		why += "was written by a newer version; run that version or choose another directory"
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		why += "is damaged; restore it from a backup or choose an empty directory"
	default:
		why += "cannot be opened; check the disk or choose another directory"
	}
	return fmt.Errorf("%s (%s)", why, oneLine(err))
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Keys of the meta table.
const (
	metaFormat = "format"
	metaEpoch  = "epoch"
	metaRegion = "region/"
	// metaDeployment is the id of [DB.DeploymentID].
	metaDeployment = "deployment"
)

// epochShift leaves 2^40 audit rows for one opening and 2^24 openings.
const epochShift = 40

// prepareMeta checks that this build and this configuration may write the store,
// and counts the opening.
func (t *tx) prepareMeta(dir string) {
	refuse := func(format string, args ...any) {
		t.fail(fmt.Errorf("embedded store: "+format, args...))
	}
	if version, found := t.meta(metaFormat); found && version != formatVersion {
		refuse("%s has format version %d and this build has %d; run the build that wrote it, or choose another directory", dir, version, formatVersion)
	}
	prefix := metaKey(metaRegion)
	t.scan(prefix, prefixEnd(prefix), func(k, value []byte) bool {
		name := string(k[len(prefix):])
		code, err := metaValue(k, value)
		t.fail(err)
		for _, r := range t.order {
			if (r.Name == name) != (uint64(r.Code) == code) {
				refuse("%s has region %s with code %d, the configuration has %s with code %d; codes are never changed or reused, restore the old one", dir, name, code, r.Name, r.Code)
			}
		}
		return true
	})
	epoch, _ := t.meta(metaEpoch)
	t.seq.Store((epoch + 1) << epochShift)
	t.setMeta(metaFormat, formatVersion)
	t.setMeta(metaEpoch, epoch+1)
	for _, r := range t.order {
		t.setMeta(metaRegion+r.Name, uint64(r.Code))
	}
	k := metaKey(metaDeployment)
	found := t.read(k, func(value []byte) (err error) {
		if t.deployment, err = uuid.FromBytes(value); err != nil {
			return damaged(k, err)
		}
		return nil
	})
	if !found {
		t.deployment = uuid.New()
		t.set(k, t.deployment[:])
	}
}

func metaKey(name string) []byte { return append([]byte{tableMeta}, name...) }

func (t *tx) setMeta(name string, v uint64) {
	t.set(metaKey(name), binary.BigEndian.AppendUint64(nil, v))
}

func (t *tx) meta(name string) (v uint64, found bool) {
	k := metaKey(name)
	found = t.read(k, func(value []byte) (err error) {
		v, err = metaValue(k, value)
		return err
	})
	return v, found
}

func metaValue(k, value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, damaged(k, errTruncated)
	}
	return binary.BigEndian.Uint64(value), nil
}

// DeploymentID returns the random id that the first Open gave to the store.
func (db *DB) DeploymentID(context.Context) (uuid.UUID, error) { return db.deployment, nil }

// Policy is the policy that the store was opened with.
func (db *DB) Policy() claim.Policy { return db.policy }

// Close closes the store. Calls in progress finish first, later ones fail with
// [claim.ErrUnavailable]. A second Close does nothing and returns the same.
func (db *DB) Close() error {
	db.closeMu.Lock()
	defer db.closeMu.Unlock()
	if db.closed {
		return db.closeErr
	}
	db.closed = true
	db.closeErr = errors.Join(db.pebble.Close(), db.dirLock.Close())
	return db.closeErr
}

// memoryLimit is Go's soft memory limit, in bytes, of a process with one store. Without cgo,
// as releases are built, Pebble's buffers and cache are Go's memory: some 70 MB, beside which
// the collector would let as much garbage grow. The program's own pages take 30 MB besides.
const memoryLimit = 112 << 20

// LimitMemory sets Go's soft memory limit for a process that has one store and little
// else, unless GOMEMLIMIT is in its environment. It is for the start of a program.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// Sizes of the Pebble instance, chosen so that the whole process stays below
// 150 MiB of memory with a million claims. The rest is Pebble's own choice.
const (
	// memTableBytes is one write buffer. At about 2.5 KB per charge it flushes
	// every 3,000 charges, so most outbox rows never reach a table.
	memTableBytes = 8 << 20
	// memTables is how many of them may exist before writes wait for a flush.
	memTables = 3
	// cacheBytes are decoded blocks: the index and filter blocks of a million claims take
	// about 16 MB, the rest serves replays. The write buffers come on top, since Pebble takes
	// their size off the cache while they live: a burst of writes would leave no room for a
	// single filter, and each look-up would read the disk.
	cacheBytes = 24<<20 + memTables*memTableBytes
	// bloomBits per key leave 1 % false positives: the look-up of an absent row then reads no
	// data block, see oneRow.
	bloomBits = 10
	// blockBytes is the unit of reading: a claim row with its response is about
	// 1 KB, so that a replay decodes few neighbours.
	blockBytes = 8 << 10
	// openFiles bounds file descriptors below the usual limit of 1024.
	openFiles = 512
)

// observe records Pebble's figures about the disk.
func (db *DB) observe(s *meter.Set) error {
	return s.Observe(func(o *meter.Observer) {
		db.closeMu.RLock()
		defer db.closeMu.RUnlock()
		if db.closed {
			return
		}
		m := db.pebble.Metrics()
		o.Is(meter.Compactions, float64(m.Compact.Count))
		o.Is(meter.CompactionDebt, float64(m.Compact.EstimatedDebt))
		o.Is(meter.DiskUsage, float64(m.DiskSpaceUsage()))
		if m.LogWriter.FsyncLatency == nil {
			return
		}
		var syncs dto.Metric
		if err := m.LogWriter.FsyncLatency.Write(&syncs); err == nil {
			o.Is(meter.Syncs, float64(syncs.GetHistogram().GetSampleCount()))
			o.Is(meter.SyncTime, syncs.GetHistogram().GetSampleSum()/1e9) // Pebble counts nanoseconds
		}
	})
}
