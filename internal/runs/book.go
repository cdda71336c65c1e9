package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	// ErrNone: there is no such run, or no longer.
	ErrNone = errors.New("runs: there is no such run")
	// errEnough ends a listing.
	errEnough = errors.New("enough")
)

// Objects is a bucket. Implementations are safe for concurrent use.
type Objects interface {
	// Put makes an object durable, whole or not at all, and replaces one of that name.
	Put(ctx context.Context, name string, data []byte) error
	// Get reads at most the first limit bytes of an object; [ErrNone].
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// List calls each for the objects under prefix, in the order of their names, until it returns
	// an error.
	List(ctx context.Context, prefix string, each func(name string) error) error
}

// Book stores runs. A nil one stores nothing. It is safe for concurrent use.
type Book struct {
	objects Objects
	mask    func(string) string
	now     func() time.Time

	mu sync.Mutex
	// ended caches runs that have ended, by their objects' names.
	ended map[string]Run
}

// New returns the book in a bucket. mask removes from texts what must not be stored;
// nil removes nothing.
func New(o Objects, mask func(string) string) *Book {
	if mask == nil {
		mask = func(text string) string { return text }
	}
	return &Book{objects: o, mask: mask, now: time.Now, ended: map[string]Run{}}
}

const (
	// invertedFrom is the time from which milliseconds are counted down: the year 2286.
	invertedFrom = 9_999_999_999_999
	// maxObject bounds an object, in bytes: the sum of its other bounds with room.
	maxObject = 256 << 10
	// putTime bounds one write: a run must not wait for its report.
	putTime = 20 * time.Second
	// readers is how many objects are read at once.
	readers = 8
	// maxEnded bounds the cached runs: more than a reader lists.
	maxEnded = 500
	// stampForm is the format of a time in a name.
	stampForm = "20060102T150405Z"
)

// idForm is the format of [Run.ID], which becomes a part of an object's name.
var idForm = regexp.MustCompile(`^[0-9]{13}-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}$`)

func newID(began time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%013d-%s-%s", invertedFrom-began.UnixMilli(), began.UTC().Format(stampForm), hex.EncodeToString(random[:]))
}

func nameOf(kind Kind, id string) string { return string(kind) + "/" + id + ".json" }

// Kept is a run in progress. A nil one stores nothing. It is safe for concurrent use.
type Kept struct {
	book *Book

	mu  sync.Mutex
	run Run
}

// Begin stores r as a run that has begun. Its Kind and Of must be set. Call it before the run does
// anything: if it fails, no report could be kept.
func (b *Book) Begin(ctx context.Context, r Run) (*Kept, error) {
	if b == nil {
		return nil, nil
	}
	r.Began, r.By, r.Verdict = b.now().UTC(), cmp.Or(r.By, who()), Open
	r.ID = newID(r.Began)
	k := &Kept{book: b, run: r}
	if err := k.put(ctx); err != nil {
		return nil, fmt.Errorf("cannot store the report of this run, so nothing was done: %w", err)
	}
	return k, nil
}

// Step records a step. A step that cannot be written now is written with the next one, or
// at the end.
func (k *Kept) Step(ctx context.Context, text string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.run.Steps) < maxSteps {
		k.run.Steps = append(k.run.Steps, Step{k.book.now().UTC(), text})
		_ = k.put(ctx) // the next one, or End, writes it, and End returns the error
	}
}

// Put records what fill sets, of a run that goes on.
func (k *Kept) Put(ctx context.Context, fill func(*Run)) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	fill(&k.run)
	return k.put(ctx)
}

// End records the result of the run: fill sets the verdict and the other results. It also
// writes after ctx has ended.
func (k *Kept) End(ctx context.Context, fill func(*Run)) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run.Ended = k.book.now().UTC()
	fill(&k.run)
	if err := k.put(ctx); err != nil {
		return fmt.Errorf("the report of this run could not be stored; the bucket lists the run as not ended: %w", err)
	}
	return nil
}

// Fail is End for a run that reached no verdict.
func (k *Kept) Fail(ctx context.Context, why error) error {
	return k.End(ctx, func(r *Run) { r.Verdict, r.Sentence = Unknown, why.Error() })
}

// put writes the run as it is now.
func (k *Kept) put(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTime)
	defer cancel()
	r := k.run
	r.Version = version
	r.bound(k.book.mask)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return k.book.objects.Put(ctx, nameOf(r.Kind, r.ID), text)
}

// List returns up to limit of the newest runs of a kind, newest first. A run that cannot
// be read is listed as Unknown, with the reason.
func (b *Book) List(ctx context.Context, kind Kind, limit int) ([]Run, error) {
	if b == nil || limit <= 0 {
		return nil, nil
	}
	var ids []string
	err := b.objects.List(ctx, string(kind)+"/", func(name string) error {
		// Anything else is a foreign object, or was about to be renamed.
		if id, ok := strings.CutSuffix(strings.TrimPrefix(name, string(kind)+"/"), ".json"); ok && idForm.MatchString(id) {
			ids = append(ids, id)
		}
		if len(ids) >= limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	all, gone := make([]Run, len(ids)), make([]bool, len(ids))
	var g errgroup.Group
	g.SetLimit(readers)
	for i, id := range ids {
		g.Go(func() error {
			r, err := b.Get(ctx, kind, id)
			gone[i] = errors.Is(err, ErrNone) // deleted since
			if err != nil {
				r = unread(kind, id, err)
			}
			all[i] = r
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	i := -1
	return slices.DeleteFunc(all, func(Run) bool { i++; return gone[i] }), nil
}

// Get reads one run; [ErrNone]. A run that has ended is read from the bucket once; do
// not modify it.
func (b *Book) Get(ctx context.Context, kind Kind, id string) (r Run, err error) {
	if b == nil || !slices.Contains(Kinds(), kind) || !idForm.MatchString(id) {
		return r, ErrNone
	}
	b.mu.Lock()
	r, ok := b.ended[nameOf(kind, id)]
	b.mu.Unlock()
	if ok {
		return r, nil
	}
	if r, err = b.read(ctx, kind, id); err != nil || r.Verdict == Open {
		return r, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ended) >= maxEnded {
		clear(b.ended)
	}
	b.ended[nameOf(kind, id)] = r
	return r, nil
}

// read reads one run from the bucket.
func (b *Book) read(ctx context.Context, kind Kind, id string) (r Run, err error) {
	text, err := b.objects.Get(ctx, nameOf(kind, id), maxObject)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return Run{}, fmt.Errorf("the object is not a complete report: %w", err)
	}
	if r.Version > version {
		return Run{}, fmt.Errorf("the report has version %d, and this build reads up to %d; use a later build", r.Version, version)
	}
	if r.Kind != kind || r.ID != id {
		return Run{}, fmt.Errorf("the object holds the report of another run, %s", nameOf(r.Kind, r.ID))
	}
	return r, nil
}

// unread is a run with an unreadable object.
func unread(kind Kind, id string, err error) Run {
	r := Run{Version: version, ID: id, Kind: kind, Verdict: Unknown, Sentence: cleaned("The report cannot be read: " + err.Error())}
	if began, err := time.Parse(stampForm, strings.Split(id, "-")[1]); err == nil {
		r.Began = began
	}
	return r
}
