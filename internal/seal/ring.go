package seal

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	// sealFor is how long a data key seals before it is replaced. It bounds the values
	// that a reader of one process's memory can open in the store.
	sealFor = time.Hour
	// oldest is how long a data key continues to seal if the sealing key does not
	// answer: a KMS may be down for a day before writes wait for it.
	oldest = 24 * time.Hour
	// openFor is how long an opened data key is cached, so that a key that was removed
	// at the KMS opens nothing of others an hour later.
	openFor = time.Hour
	// maxOpened bounds the cached keys. Each node and hour has one of its own: for ten
	// nodes, four days' worth.
	maxOpened = 1024
	// maxMissing bounds how many missing keys are logged: a writer of the store can
	// name any number.
	maxMissing = 16
	// askFor bounds one question to a KMS.
	askFor = 5 * time.Second
	// askPause is how long a failed request for a data key is not repeated.
	askPause = time.Second
)

// Key is a sealing key with its name.
type Key struct {
	Name   KeyName
	Keeper Keeper
}

// Ring seals and opens. One without keys, as a nil Ring is, opens what is not sealed and refuses to
// seal: nothing is stored in clear text unless [Clear] allows it. It is safe for concurrent use.
type Ring struct {
	keys  []Key
	clear bool // see Clear
	log   *slog.Logger

	current atomic.Pointer[dataKey] // nil before the first
	making  sync.Mutex
	failed  failure // of making one

	cache     *lru.Cache[string, openKey] // by the name and the encrypted data key
	opening   singleflight.Group
	missingMu sync.Mutex
	missing   map[KeyName]bool // those that were logged
}

type dataKey struct {
	aead cipher.AEAD
	head []byte
	made time.Time
}

type openKey struct {
	aead  cipher.AEAD
	until time.Time
}

type failure struct {
	err error
	at  time.Time
}

// pageMissing is a constant because it pages an operator; see docs/RUNBOOK.md.
const pageMissing = "page: a sealing key is missing; what is sealed under it waits until this node has it again"

// New makes a ring of keys, the first of which seals.
func New(keys []Key, log *slog.Logger) *Ring {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cache, _ := lru.New[string, openKey](maxOpened) // fails for a size below 1
	return &Ring{keys: keys, log: log, cache: cache, missing: map[KeyName]bool{}}
}

// Clear makes a ring that stores values in clear text, as an operator has chosen, and
// opens those that one of keys has sealed. It never unseals a stored value.
func Clear(keys []Key, log *slog.Logger) *Ring {
	r := New(keys, log)
	r.clear = true
	return r
}

// Seals reports whether the ring seals: it has keys, and is not [Clear].
func (r *Ring) Seals() bool { return r != nil && len(r.keys) > 0 && !r.clear }

// Names returns the names of the ring's keys, the sealing one first.
func (r *Ring) Names() (names []KeyName) {
	if r == nil {
		return nil
	}
	for _, k := range r.keys {
		names = append(names, k.Name)
	}
	return names
}

// Ready returns an error if values cannot be sealed now.
func (r *Ring) Ready(ctx context.Context) error {
	if !r.Seals() {
		return nil
	}
	_, err := r.dataKey(ctx)
	return err
}

// Seal returns the value as it is to be stored in row. A ring without keys returns
// [ErrNoKey], and one that is [Clear] the value itself.
func (r *Ring) Seal(ctx context.Context, row Row, plain []byte) ([]byte, error) {
	switch {
	case r.Seals():
	case r != nil && r.clear:
		return plain, nil
	default:
		return nil, fmt.Errorf("%v: %w", row, ErrNoKey)
	}
	k, err := r.dataKey(ctx)
	if err != nil {
		return nil, err
	}
	return k.aead.Seal(append(make([]byte, 0, len(k.head)+len(plain)+k.aead.Overhead()), k.head...), nil, plain, bound(k.head, row)), nil
}

// Open returns the value that is stored in row. The error is one line; it is [ErrLost] or
// [ErrNoAnswer].
func (r *Ring) Open(ctx context.Context, row Row, stored []byte) ([]byte, error) {
	if _, sealed := KeyOf(stored); !sealed {
		return stored, nil
	}
	name, wrapped, head, body, err := split(stored)
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %w", row, ErrLost, err)
	}
	aead, err := r.cipher(ctx, name, wrapped)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", row, err)
	}
	plain, err := aead.Open(nil, nil, body, bound(head, row))
	if err != nil {
		return nil, fmt.Errorf("%v: %w: the value was altered or sealed for another row", row, ErrLost)
	}
	return plain, nil
}

// Again returns the value that is stored in row sealed under the first key, or nil if it
// is so already or the ring does not seal.
func (r *Ring) Again(ctx context.Context, row Row, stored []byte) ([]byte, error) {
	if name, sealed := KeyOf(stored); !r.Seals() || sealed && name == r.keys[0].Name {
		return nil, nil
	}
	plain, err := r.Open(ctx, row, stored)
	if err != nil {
		return nil, err
	}
	return r.Seal(ctx, row, plain)
}

// dataKey returns the key to seal with. The first caller that finds it old replaces it,
// while others continue with it; if there is none, all wait for the first.
func (r *Ring) dataKey(ctx context.Context) (*dataKey, error) {
	k := r.current.Load()
	switch {
	case k.within(sealFor):
		return k, nil
	case !k.within(oldest):
		r.making.Lock()
	case !r.making.TryLock():
		return k, nil
	}
	defer r.making.Unlock()
	if k = r.current.Load(); k.within(sealFor) {
		return k, nil
	}
	if r.failed.err == nil || time.Since(r.failed.at) >= askPause {
		made, err := r.newDataKey(ctx)
		if err == nil {
			r.failed = failure{}
			r.current.Store(made)
			return made, nil
		}
		if r.failed.err == nil {
			r.log.Error("cannot make a data key; the last one stays in use for a day, and without one the node accepts no notices", "key", r.keys[0].Name.String(), "error", err)
		}
		r.failed = failure{err, time.Now()}
	}
	if k.within(oldest) {
		return k, nil
	}
	return nil, r.failed.err
}

func (k *dataKey) within(d time.Duration) bool { return k != nil && time.Since(k.made) < d }

func (r *Ring) newDataKey(ctx context.Context) (*dataKey, error) {
	key := make([]byte, dataKeySize)
	_, _ = rand.Read(key) // never fails
	aead, err := cipherOf(key)
	if err != nil {
		return nil, err
	}
	// Not the caller's ctx alone: others wait for the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askFor)
	defer cancel()
	wrapped, err := r.keys[0].Keeper.Encrypt(ctx, key)
	if err == nil && len(wrapped) > maxWrapped {
		err = fmt.Errorf("it encrypts a data key to %d bytes, more than %d", len(wrapped), maxWrapped)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: key %v: %w", ErrNoAnswer, r.keys[0].Name, err)
	}
	return &dataKey{aead: aead, head: head(r.keys[0].Name, wrapped), made: time.Now()}, nil
}

// cipher returns the cipher of an encrypted data key.
func (r *Ring) cipher(ctx context.Context, name KeyName, wrapped []byte) (cipher.AEAD, error) {
	key, ok := r.key(name)
	if !ok {
		return nil, fmt.Errorf("%w: it is sealed under key %v, which this process does not have; give it that key, see docs/SECURITY.md", ErrLost, name)
	}
	if k := r.current.Load(); k.within(oldest) && bytes.Equal(k.head, head(name, wrapped)) {
		return k.aead, nil // what seals also opens, whether or not its sealing key answers
	}
	id := string(name[:]) + string(wrapped)
	if aead, ok := r.opened(id); ok {
		return aead, nil
	}
	found, err, _ := r.opening.Do(id, func() (any, error) {
		if aead, ok := r.opened(id); ok { // by a call that has ended since
			return aead, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askFor)
		defer cancel()
		plain, err := key.Keeper.Decrypt(ctx, wrapped)
		if err != nil {
			return nil, err
		}
		aead, err := cipherOf(plain)
		if err != nil {
			return nil, err
		}
		r.cache.Add(id, openKey{aead, time.Now().Add(openFor)})
		return aead, nil
	})
	switch {
	case errors.Is(err, ErrLost):
		return nil, fmt.Errorf("key %v: %w", name, err)
	case err != nil: // an unknown error is no refusal
		return nil, fmt.Errorf("%w: key %v: %w", ErrNoAnswer, name, err)
	}
	return found.(cipher.AEAD), nil
}

// opened returns the cipher of a data key that is cached.
func (r *Ring) opened(id string) (cipher.AEAD, bool) {
	k, ok := r.cache.Get(id)
	return k.aead, ok && time.Now().Before(k.until)
}

func (r *Ring) key(name KeyName) (Key, bool) {
	if r == nil {
		return Key{}, false
	}
	for _, k := range r.keys {
		if k.Name == name {
			return k, true
		}
	}
	r.missingMu.Lock()
	logged := r.missing[name] || len(r.missing) == maxMissing
	if !logged {
		r.missing[name] = true
	}
	r.missingMu.Unlock()
	if !logged {
		r.log.Error(pageMissing, "key", name.String())
	}
	return Key{}, false
}

// Close closes the keys that can be closed.
func (r *Ring) Close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, k := range r.keys {
		if c, ok := k.Keeper.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
