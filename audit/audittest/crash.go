package audittest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/ledger"
)

// reaper lets an exporter take some steps, and then none.
type reaper struct {
	audit.Store
	audit.Objects
	remaining int
	// after: the last step is done, and its reply lost.
	after bool
	// torn: the object of the last step is written in part.
	torn  bool
	steps int
}

// Worked is the store and the bucket that an exporter uses.
type Worked interface {
	audit.Store
	audit.Objects
}

// Dying limits an exporter to so many steps.
func Dying(s audit.Store, o audit.Objects, steps int) Worked {
	return &reaper{Store: s, Objects: o, remaining: steps}
}

// ErrDead is returned to an exporter that took its last step.
var ErrDead = errors.New("the exporter is dead")

// step runs f, unless the exporter is dead, or dies before it.
func (r *reaper) step(f func() error) error {
	r.steps++
	if r.remaining == 0 {
		if r.after {
			_ = f()
		}
		r.remaining = -1
		return ErrDead
	}
	if r.remaining < 0 {
		return ErrDead
	}
	r.remaining--
	return f()
}

func (r *reaper) AuditPage(ctx context.Context, home string, from, to time.Time, after audit.Position, limit int) (p audit.Page, err error) {
	err = r.step(func() error { p, err = r.Store.AuditPage(ctx, home, from, to, after, limit); return err })
	return p, err
}

func (r *reaper) ForgetAudit(ctx context.Context, home string, entries []audit.Position) (n int, err error) {
	err = r.step(func() error { n, err = r.Store.ForgetAudit(ctx, home, entries); return err })
	return n, err
}

func (r *reaper) AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error) {
	err = r.step(func() error { c, now, found, err = r.Store.AuditChain(ctx, home); return err })
	return c, now, found, err
}

func (r *reaper) AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (moved bool, err error) {
	err = r.step(func() error { moved, err = r.Store.AdvanceAudit(ctx, home, was, next); return err })
	return moved, err
}

func (r *reaper) LeavingBooks(ctx context.Context, home string, after ledger.Position, before time.Time, limit int) (p audit.BooksPage, err error) {
	err = r.step(func() error { p, err = r.Store.LeavingBooks(ctx, home, after, before, limit); return err })
	return p, err
}

func (r *reaper) Carried(ctx context.Context, home string, after ledger.AccountKey, limit int) (all []ledger.Balance, err error) {
	err = r.step(func() error { all, err = r.Store.Carried(ctx, home, after, limit); return err })
	return all, err
}

func (r *reaper) ForgetBooks(ctx context.Context, home string, was uint64, next audit.Chain, ids []string) (moved bool, err error) {
	err = r.step(func() error { moved, err = r.Store.ForgetBooks(ctx, home, was, next, ids); return err })
	return moved, err
}

func (r *reaper) Put(ctx context.Context, name string, data []byte) error {
	if r.remaining == 0 && r.torn {
		data = data[:len(data)/2]
	}
	return r.step(func() error { return r.Objects.Put(ctx, name, data) })
}

func (r *reaper) Get(ctx context.Context, name string, limit int64) (data []byte, err error) {
	err = r.step(func() error { data, err = r.Objects.Get(ctx, name, limit); return err })
	return data, err
}

func (r *reaper) List(ctx context.Context, prefix string, each func(string) error) error {
	return r.step(func() error { return r.Objects.List(ctx, prefix, each) })
}

// dies kills an exporter before and after each of its steps, on its way through several
// windows, late entries and a sweep, lets another one do the rest, and checks the chain and
// that nothing is missing.
func dies(w *world) {
	if w.Sweep == nil || w.Advance == nil {
		w.Skip("it takes days")
	}
	text, err := audit.NewKey()
	require.NoError(w, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(w, err)
	story := exportStory{world: w, keys: keys, bucket: NewBucket()}
	killEach(story.act)
	require.Greater(w, story.swept, 50)
	require.Greater(w, story.kills, 50)
}

// killEach lets act kill an exporter before, after and in the midst of each of its steps, until
// it finishes alive.
func killEach(act func(r *reaper) (died bool)) {
	for _, r := range []reaper{{}, {after: true}, {after: true, torn: true}} {
		for remaining := 0; ; remaining++ {
			r.remaining, r.steps = remaining, 0
			killed := r // each its own
			if !act(&killed) {
				break
			}
		}
	}
}

type exportStory struct {
	*world
	keys         *audit.Keys
	bucket       *Bucket
	n            int
	wanted       []string // keys that were charged
	kills, swept int
	acts         int
}

// checkEvery is how many acts there are between two checks, which read the whole
// bucket: a chain that an act breaks stays broken.
const checkEvery = 10

func (s *exportStory) exporter(r *reaper) *audit.Exporter {
	c := audit.Config{
		Store: s.Audit(s.home), Objects: s.bucket, Keys: s.keys, Deployment: uuid.NameSpaceOID, Home: s.home, Node: "node-1", Entries: 5, Page: 4,
		Policy: audit.Policy{Window: 24 * time.Hour, Settle: time.Minute, KeepRows: audit.MinKeepRows},
	}
	if r != nil {
		r.Store, r.Objects = c.Store, c.Objects
		c.Store, c.Objects = r, r
	}
	x, err := audit.NewExporter(c)
	require.NoError(s, err)
	return x
}

// act advances a day with some charges, kills an exporter in it, and lets another one
// continue. It returns false when the first one finished alive.
func (s *exportStory) act(r *reaper) bool {
	s.Helper()
	for range 3 {
		s.n++
		s.charge(s.n, s.home)
		s.wanted = append(s.wanted, key(s.n).Value)
	}
	s.pass(24*time.Hour + 2*time.Minute)
	s.Sweep(s)
	died, err := s.exporter(r).Round(s.ctx)
	if err != nil {
		require.ErrorIs(s, err, ErrDead)
		s.kills++
	}
	done, rerr := s.exporter(nil).Round(s.ctx)
	require.NoError(s, rerr)
	require.Zero(s, done.Lag)
	s.swept += died.Swept + done.Swept
	s.acts++
	if last := err == nil; last || s.acts%checkEvery == 0 {
		s.check()
	}
	return err != nil
}

// check verifies the chain, and that it has the entries that are no longer in rows.
func (s *exportStory) check() {
	s.Helper()
	r, err := audit.Verify(s.ctx, audit.VerifyConfig{Objects: s.bucket, Trust: s.keys.Trust(), Regions: []string{s.home}})
	require.NoError(s, err)
	for _, f := range r.Failures { // an object that is written in part is named, and nothing else is wrong
		require.Equal(s, audit.Changed, f.Class, "%v", f)
	}
	found, _, err := (&audit.Archive{Objects: s.bucket, Trust: s.keys.Trust()}).Find(s.ctx, audit.Wanted{Key: s.wanted[len(s.wanted)-1], Tenant: "acme"})
	require.NoError(s, err)
	require.Len(s, found, 3, "the day that is over")
	if len(s.wanted) > 30 {
		old := s.wanted[len(s.wanted)-30]
		found, _, err := (&audit.Archive{Objects: s.bucket, Trust: s.keys.Trust()}).Find(s.ctx, audit.Wanted{Key: old, Tenant: "acme"})
		require.NoError(s, err)
		require.Len(s, found, 3, "what was swept")
		line, err := s.Store(s.home).Timeline(s.ctx, key(s.n-29), s.home, 10)
		require.NoError(s, err)
		require.Empty(s, line)
	}
}
