package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/wan"
)

const (
	// formatVersion is the format that this build reads and writes. A store of another one
	// is refused.
	formatVersion = 1

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
	// Clock is the store's clock, time.Now if nil. It is read in microseconds
	// and never seen to go back.
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

	rows *rowLocks // claims, their outbox rows and audit; notices
	// flights are guarded by the locks of rows.
	flights  *flights
	answered *answered
	pins     *rowLocks
	books    *rowLocks // transactions, by id
	notes    notes
	dues     map[dueTable]*dues
	calls    map[claim.RegionCode]*calls
	// waiting counts the commits that wait for the disk.
	waiting atomic.Int64
	// probe asks flushed first, and the code of lines asks lines.
	flushed *flushed
	lines   *lines
	// seq numbers audit rows: the store's opening in the high bits, so that the
	// order holds across restarts without reading the last row of any key.
	seq atomic.Uint64

	topologyMu sync.RWMutex // held for reading while a pin is written
	statuses   map[string]claim.RegionStatus
	topology   uint64 // the table's epoch

	tenantMu sync.RWMutex // held for reading through every pin step
	tenants  map[string]claim.Tenant
	apiKeys  map[[sha256.Size]byte]string

	endpointMu sync.RWMutex // held through every change of an endpoint
	brakeMu    sync.RWMutex // held through every change of a brake
	auditMu    sync.RWMutex // held through every change of a chain of audit
	restoreMu  sync.Mutex   // held through every look at the row of restores, and at witnesses
	accountMu  sync.Mutex   // held through every change of an account

	sweepMu sync.Mutex
	sweeps  [sweepTables][]byte // where the next sweep of each continues

	broken    atomic.Pointer[error]
	complain  rate.Sometimes // about background work
	fatal     func(error)
	fatalOnce sync.Once

	closeMu  sync.RWMutex // held for reading through every call
	closed   bool
	closeErr error
	stop     context.CancelFunc
	stopped  chan struct{}
}

// Open opens the store in cfg.Dir, and creates it if there is none. An error is one
// line that says what to do. The caller must Close the store.
func Open(cfg Config) (*DB, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	lag := cfg.ReplicaLag
	switch {
	case lag == 0:
		lag = DefaultReplicaLag
	case lag < 0:
		lag = 0
	}
	db := &DB{
		policy: cfg.Policy, regions: map[string]claim.RegionCode{}, order: cfg.Regions,
		network: cfg.Network, replicaLag: lag, log: cfg.Logger, fatal: cfg.Fatal,
		clock: clock{source: cfg.Clock}, rows: newRowLocks(), pins: newRowLocks(), books: newRowLocks(),
		flushed: newFlushed(), lines: newLines(), dues: newDues(cfg.Regions), calls: newCalls(cfg.Regions), flights: new(flights), answered: new(answered),
		statuses: map[string]claim.RegionStatus{}, topology: 1,
		tenants: map[string]claim.Tenant{}, apiKeys: map[[sha256.Size]byte]string{},
		stopped: make(chan struct{}), complain: rate.Sometimes{Interval: complainEvery},
	}
	for _, r := range cfg.Regions {
		db.regions[r.Name] = r.Code
	}
	if err := db.openPebble(&cfg); err != nil {
		return nil, openError(cfg.Dir, err)
	}
	if err := errors.Join(db.prepareMeta(cfg.Dir), db.loadTopology(), db.loadTenants(), db.lines.load(db)); err != nil {
		return nil, errors.Join(err, db.pebble.Close(), db.dirLock.Close())
	}
	if err := db.observe(cfg.Meters); err != nil {
		return nil, errors.Join(err, db.pebble.Close(), db.dirLock.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	db.stop = cancel
	go db.flushNotesEvery(ctx, noteFlushEvery)
	return db, nil
}

func (cfg *Config) check() error {
	if cfg.Dir == "" {
		return errors.New("embedded store: no directory given; name one")
	}
	if len(cfg.Regions) == 0 {
		return errors.New("embedded store: no regions given; name at least one")
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
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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
	if err != nil {
		if held(err) {
			return fmt.Errorf("%w (%v)", errInUse, err)
		}
		return err
	}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // the instance keeps its own reference
	o := pebbleOptions(cfg, &pebbleLogger{db: db}, cache)
	o.Lock = lock
	o.WALMinSyncInterval = db.syncEvery
	o.EventListener = &pebble.EventListener{
		BackgroundError: db.backgroundError,
		FlushEnd:        db.flushed.flushEnded,
		DiskSlow:        func(info pebble.DiskSlowInfo) { db.log.Warn("store: disk is slow", "info", info.String()) },
	}
	o.EnsureDefaults()
	if db.pebble, err = pebble.Open(cfg.Dir, o); err != nil {
		return errors.Join(err, lock.Close())
	}
	db.dirLock = lock
	return nil
}

// held reports whether err, of a lock on a file, means that somebody has it: the kernel's
// word for that (fcntl(2) has two) or Pebble's own, for this process. Every other failure
// to open or to lock the file is nobody's.
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
	return &OpenError{line: why + " (" + oneLine(err) + ")", err: err}
}

// OpenError is why [Open] could not open a directory: one line for people.
type OpenError struct {
	line string
	err  error
}

func (e *OpenError) Error() string { return e.line }

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.err }

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Keys of the meta table.
const (
	metaFormat = "format"
	metaEpoch  = "epoch"
	metaRegion = "region/"
	metaWindow = "window/"
	// metaDeployment is the id of [DB.DeploymentID].
	metaDeployment = "deployment"
)

// epochShift leaves 2^40 audit rows for one opening and 2^24 openings.
const epochShift = 40

// prepareMeta checks that this build and this configuration may write the store,
// and counts the opening.
func (db *DB) prepareMeta(dir string) error {
	b := db.pebble.NewBatch()
	defer func() { _ = b.Close() }()

	version, found, err := db.meta(metaFormat)
	if err != nil {
		return err
	}
	if found && version != formatVersion {
		return &OpenError{line: fmt.Sprintf("embedded store: %s has format version %d and this build has %d; run the build that wrote it, or choose another directory", dir, version, formatVersion)}
	}
	stored, err := db.storedRegions()
	if err != nil {
		return err
	}
	for name, code := range stored {
		for _, r := range db.order {
			if (r.Name == name) != (r.Code == code) {
				return &OpenError{line: fmt.Sprintf("embedded store: %s knows region %s by code %d, the configuration has %s with code %d; codes are never changed or reused, restore the old one", dir, name, code, r.Name, r.Code)}
			}
		}
	}
	if err := db.promise(b, dir); err != nil {
		return err
	}
	epoch, _, err := db.meta(metaEpoch)
	if err != nil {
		return err
	}
	epoch++
	db.seq.Store(epoch << epochShift)
	setMeta(b, metaFormat, formatVersion)
	setMeta(b, metaEpoch, epoch)
	id, found, err := db.readDeploymentID()
	if err != nil {
		return err
	}
	if !found {
		id = uuid.New()
		_ = b.Set(metaKey(metaDeployment), id[:], nil) // a batch in memory
	}
	db.deployment = id
	for _, r := range db.order {
		setMeta(b, metaRegion+r.Name, uint64(r.Code))
	}
	if err := db.commit(b, pebble.Sync); err != nil {
		return err
	}
	db.flushed.opened = uint64(b.SeqNum())
	// Rows of the log are in memtables, without marks; after this flush the tables can
	// be used.
	_, err = db.pebble.AsyncFlush()
	return err
}

// promise refuses windows that are shorter than those promised to keys in this store: a
// key would be given to another request that the first still owns. Longer ones are
// recorded with b.
func (db *DB) promise(b *pebble.Batch, dir string) error {
	for _, w := range []struct {
		name string
		have time.Duration
	}{
		{"replay_for", db.policy.ReplayFor},
		{"tombstone_for", db.policy.TombstoneFor},
		{"pin_grace", db.policy.PinGrace},
	} {
		seen, _, err := db.meta(metaWindow + w.name)
		if err != nil {
			return err
		}
		if promised := time.Duration(seen) * time.Microsecond; w.have < promised {
			return &OpenError{line: fmt.Sprintf("embedded store: claim.%s is %v, and keys in %s were promised %v; set it to at least that", w.name, w.have, dir, promised)}
		}
		setMeta(b, metaWindow+w.name, uint64(w.have.Microseconds()))
	}
	return nil
}

func metaKey(name string) []byte { return append([]byte{tableMeta}, name...) }

func setMeta(b *pebble.Batch, name string, v uint64) {
	_ = b.Set(metaKey(name), binary.BigEndian.AppendUint64(nil, v), nil)
}

func (db *DB) meta(name string) (v uint64, found bool, err error) {
	found, err = db.get(metaKey(name), func(value []byte) error {
		if len(value) != 8 {
			return damaged("meta row", name, fmt.Errorf("%d bytes", len(value)))
		}
		v = binary.BigEndian.Uint64(value)
		return nil
	})
	return v, found, err
}

// DeploymentID returns the random id that the first Open gave to the store.
func (db *DB) DeploymentID(context.Context) (uuid.UUID, error) { return db.deployment, nil }

// DeploymentID is [DB.DeploymentID].
func (v *View) DeploymentID(ctx context.Context) (uuid.UUID, error) { return v.db.DeploymentID(ctx) }

func (db *DB) readDeploymentID() (id uuid.UUID, found bool, err error) {
	found, err = db.get(metaKey(metaDeployment), func(value []byte) error {
		if id, err = uuid.FromBytes(value); err != nil {
			return damaged("meta row", metaDeployment, err)
		}
		return nil
	})
	return id, found, err
}

func (db *DB) storedRegions() (map[string]claim.RegionCode, error) {
	regions := map[string]claim.RegionCode{}
	prefix := metaKey(metaRegion)
	err := db.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		name := string(key[len(prefix):])
		if len(value) != 8 {
			return false, damaged("meta row", name, fmt.Errorf("%d bytes", len(value)))
		}
		regions[name] = claim.RegionCode(binary.BigEndian.Uint64(value))
		return true, nil
	})
	return regions, err
}

// Close flushes the notes and closes the store. Calls in progress finish first, later
// ones fail with [claim.ErrUnavailable]. A second Close does nothing and returns the
// same.
func (db *DB) Close() error {
	db.closeMu.Lock()
	defer db.closeMu.Unlock()
	if db.closed {
		return db.closeErr
	}
	db.closed = true
	db.stop()
	<-db.stopped
	if db.broken.Load() != nil {
		// Pebble's commit pipeline is stuck and so would closing be. The log is as
		// durable as possible; the next Open recovers from it.
		return nil
	}
	b := db.pebble.NewBatch()
	db.notes.drain(db, b)
	err := db.commit(b, pebble.Sync)
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	db.closeErr = errors.Join(err, db.flushed.drop(), db.pebble.Close(), db.dirLock.Close())
	return db.closeErr
}

// enter admits a call; the caller must leave when it returns nil.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.closeMu.RLock()
	if db.closed {
		db.closeMu.RUnlock()
		return fmt.Errorf("%w: it is closed", claim.ErrUnavailable)
	}
	if p := db.broken.Load(); p != nil {
		db.closeMu.RUnlock()
		return *p
	}
	return nil
}

func (db *DB) leave() { db.closeMu.RUnlock() }
