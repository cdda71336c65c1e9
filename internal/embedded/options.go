package embedded

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

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
// 150 MiB of memory with a million claims.
const (
	// blockBytesHeld holds decoded blocks: the index and filter blocks of a million
	// claims take about 16 MB, the rest serves replays.
	blockBytesHeld = 24 << 20
	// cacheBytes is more by the write buffers, since Pebble takes their size off
	// the cache while they live. Without that a burst of writes would leave no
	// room for a single filter, and each look-up would read the disk.
	cacheBytes = blockBytesHeld + memTables*memTableBytes
	// memTableBytes is one write buffer. At about 2.5 KB per charge it flushes
	// every 3,000 charges, so outbox rows die in memory and never reach a table.
	memTableBytes = 8 << 20
	// memTables is how many of them may exist before writes wait for a flush.
	memTables = 3
	// bloomBits per key leave 1 % false positives: the look-up of an absent key,
	// which every new claim makes, then reads no data block.
	bloomBits = 10
	// blockBytes is the unit of reading: a claim row with its response is about
	// 1 KB, so that a replay decodes few neighbours.
	blockBytes = 8 << 10
	// openFiles bounds file descriptors below the usual limit of 1024.
	openFiles = 512
	// l0Compaction starts compacting at this many L0 runs. A run is small, about
	// 1.5 MB, and one more filter for a look-up to ask, some 0.3 µs. A compaction
	// rewrites the level below whole, as keys are random: the more runs share one,
	// the cheaper each. Measured at a million claims, this and baseBytes cost a twentieth
	// less CPU per charge than 20 runs and 24 MB.
	l0Compaction = 32
	// baseBytes is the size of the first level below L0, somewhat more than that of a full
	// set of runs.
	baseBytes = 64 << 20
	// l0Stop bounds the runs when compaction cannot keep up.
	l0Stop = 80
	// bytesPerSync writes tables and log back in steady portions, so that the
	// sync of a commit does not have to wait for a burst of dirty pages.
	bytesPerSync = 1 << 20
	// compactions bounds background work to one of the two cores a small
	// machine has, two when debt piles up.
	compactions = 2
	// syncAlone is how many commits must wait for the log before a sync is delayed for
	// more to join: below it, a delay would only be added to each.
	syncAlone = 16
	// syncShare is the delay for each of them. A charge takes a multiple of it of a core,
	// so that with connections that wait for answers the delay stays a small part of a
	// charge.
	syncShare = 20 * time.Microsecond
	// syncLongest bounds the delay.
	syncLongest = 2 * time.Millisecond
)

func pebbleOptions(cfg *Config, logger pebble.Logger, cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                          cfg.FS,
		Logger:                      logger,
		Cache:                       cache,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: memTables,
		MaxOpenFiles:                openFiles,
		L0CompactionThreshold:       l0Compaction,
		L0StopWritesThreshold:       l0Stop,
		LBaseMaxBytes:               baseBytes,
		BytesPerSync:                bytesPerSync,
		WALBytesPerSync:             bytesPerSync,
		CompactionConcurrencyRange:  func() (int, int) { return 1, min(compactions, runtime.GOMAXPROCS(0)) },
		FormatMajorVersion:          pebble.FormatNewest,
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	return o
}
