package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gocloud.dev/blob/memblob"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/internal/runs"
)

// Runs is the bucket of reports. A nil one has none.
type Runs struct {
	bucket runsBucket
	book   *runs.Book
}

// RunsVariable is the variable of the setting runs, for commands that read no settings.
const RunsVariable = "HOMEWARD_RUNS"

// memory is the URL of a bucket that ends with its process: for tests.
const memory = memblob.Scheme + "://"

// OpenRuns opens the bucket named by a gocloud.dev URL; for "" it returns nil. The
// caller closes it.
func OpenRuns(ctx context.Context, url string) (*Runs, error) {
	if url == "" {
		return nil, nil
	}
	blobs := &Blobs{}
	if url == memory {
		blobs.bucket = memblob.OpenBucket(nil)
	} else {
		var err error
		if blobs, err = OpenBlobs(ctx, url); err != nil {
			return nil, fmt.Errorf("runs: %w", err)
		}
	}
	b := runsBucket{AuditBucket{blobs}}
	return &Runs{b, runs.New(b, maskCards)}, nil
}

// Book stores and reads runs.
func (r *Runs) Book() *runs.Book {
	if r == nil {
		return nil
	}
	return r.book
}

// Close releases the bucket.
func (r *Runs) Close() error {
	if r == nil {
		return nil
	}
	return r.bucket.Close()
}

// runsBucket implements [runs.Objects]. A bucket lists names in their order.
type runsBucket struct{ AuditBucket }

// Get implements [runs.Objects].
func (b runsBucket) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, err := b.AuditBucket.Get(ctx, name, limit)
	if errors.Is(err, audit.ErrNoObject) {
		return nil, fmt.Errorf("%w: %s", runs.ErrNone, name)
	}
	return data, err
}

// runsDir is the bucket of a demo and of a local cluster, within their data directory.
const runsDir = "runs"

// LocalRuns is the URL of the default bucket of a demo or a local cluster.
func LocalRuns(data string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(data, runsDir))
	if err != nil {
		return "", err
	}
	return "file://" + filepath.ToSlash(dir), nil
}
