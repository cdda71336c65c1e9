// Package audittest is the conformance suite of audit.Store, with a bucket in memory.
// [Exercise] runs unchanged on each store. New semantics land here first.
package audittest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/homeward-io/homeward/audit"
)

// Bucket is [audit.Objects] in memory.
type Bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// NewBucket returns an empty one.
func NewBucket() *Bucket { return &Bucket{objects: map[string][]byte{}} }

// Put implements [audit.Objects].
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[name] = slices.Clone(data)
	return ctx.Err()
}

// Get implements [audit.Objects].
func (b *Bucket) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.objects[name]
	if !ok {
		return nil, audit.ErrNoObject
	}
	if limit > 0 && limit < int64(len(data)) {
		data = data[:limit]
	}
	return slices.Clone(data), ctx.Err()
}

// List implements [audit.Objects].
func (b *Bucket) List(_ context.Context, prefix string, each func(name string) error) error {
	for _, name := range b.Names() {
		if strings.HasPrefix(name, prefix) {
			if err := each(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Names lists all objects, sorted.
func (b *Bucket) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.objects))
}

// Remove removes an object, and returns it.
func (b *Bucket) Remove(name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := slices.Clone(b.objects[name])
	delete(b.objects, name)
	return data
}

// Clone returns a bucket with the same objects.
func (b *Bucket) Clone() *Bucket {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &Bucket{objects: maps.Clone(b.objects)}
}
