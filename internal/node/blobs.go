package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"
)

// Blobs implements claim.Blobs over any bucket that gocloud.dev can open. An object's
// name is the SHA-256 of its content, so a second write changes nothing, and a reader
// detects damage.
type Blobs struct {
	bucket *blob.Bucket
	// dir is set for file:// buckets, whose driver renames into place without
	// syncing: a row must never outlive the body it points to.
	dir string
}

// OpenBlobs opens the bucket named by a gocloud.dev URL. "file://DIR" is created if it
// does not exist.
func OpenBlobs(ctx context.Context, url string) (*Blobs, error) {
	const file = "file://"
	if dir, ok := strings.CutPrefix(url, file); ok {
		bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{CreateDir: true, NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
		if err != nil {
			return nil, fmt.Errorf("object store %s: %w; name a directory that can be written", url, err)
		}
		return &Blobs{bucket: bucket, dir: dir}, nil
	}
	if why := cannotOpen(url); why != "" {
		return nil, fmt.Errorf("object store %s: %s", url, why)
	}
	bucket, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", url, err)
	}
	return &Blobs{bucket: bucket}, nil
}

// Put implements claim.Blobs.
func (b *Blobs) Put(ctx context.Context, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	ref := hex.EncodeToString(sum[:])
	if err := b.bucket.WriteAll(ctx, ref, body, nil); err != nil {
		return "", err
	}
	if b.dir == "" {
		return ref, nil
	}
	return ref, errors.Join(syncPath(filepath.Join(b.dir, ref)), syncPath(b.dir))
}

// Get implements claim.Blobs. A body that does not match its name is an error.
func (b *Blobs) Get(ctx context.Context, ref string) ([]byte, error) {
	body, err := b.bucket.ReadAll(ctx, ref)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, fmt.Errorf("object %s is missing from the object store", ref)
		}
		return nil, err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != ref {
		return nil, fmt.Errorf("object %s is damaged: its content does not match its name", ref)
	}
	return body, nil
}

// Close releases the bucket. A nil one has none.
func (b *Blobs) Close() error {
	if b == nil {
		return nil
	}
	return b.bucket.Close()
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
