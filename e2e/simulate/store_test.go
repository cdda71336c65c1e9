package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// store is a node's way to the rows. Each step may be slow, be lost, take effect after its caller has given up, or
// lose its reply. A node that died sends none, and one that is frozen none until it goes on: what it was sending then
// arrives late. A crash of the store ends what is under way, with no answer, and later steps are refused until the
// store is back. Its other methods are in rows_test.go.
type store struct {
	m *machine
	p *process
}

var _ deployment.Store = (*store)(nil)

// database is what steps are sent to, nil while the store is down.
func (w *world) database() *embedded.DB {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.db
}

// rows returns the rows of a database as the nodes of a region see them.
func (s *store) rows(db *embedded.DB) deployment.Store {
	rows, err := deployment.Embedded(db).Region(s.m.region)
	s.m.w.must(err)
	return rows
}

// trouble is what may happen to the steps of the nodes of a region, each with its probability.
type trouble struct {
	region                string
	slow                  time.Duration // up to so long, each way
	lost, late, unreplied float64
}

func step[T any](ctx context.Context, s *store, name string, do func(context.Context, deployment.Store) (T, string, error)) (T, error) {
	var none T
	w := s.m.w
	gone := func(why string) (T, error) { return none, fmt.Errorf("%w: %s", claim.ErrUnavailable, why) }
	began, db := time.Now(), w.database()
	w.crosses(s, name, false)
	if !s.p.awake() {
		return gone("the node is dead")
	}
	if time.Since(began) > 0 {
		ctx = context.WithoutCancel(ctx) // it was on its way
	}
	f := w.draw(s.m.region)
	time.Sleep(f.before)
	changed := false
	run := func(ctx context.Context) (T, error) {
		if db == nil || w.database() != db {
			return gone("the store is down")
		}
		v, outcome, err := do(ctx, s.rows(db))
		if w.database() != db { // what it has done may be lost
			v, err = gone("the store went away")
		}
		w.coverage.add(name, outcome, err)
		changed = err == nil && !slices.Contains(unchanged, outcome)
		return v, err
	}
	switch {
	case f.lost:
		return gone("the step was lost")
	case f.late > 0:
		w.transit.Go(func() {
			time.Sleep(f.late)
			_, _ = run(context.WithoutCancel(ctx))
		})
		return gone("no answer yet")
	}
	v, err := run(ctx)
	if changed {
		w.crosses(s, name, true)
	}
	time.Sleep(f.after)
	switch {
	case !s.p.awake():
		return gone("the node is dead")
	case f.unreplied:
		return gone("the reply was lost")
	}
	return v, err
}

// fate is one step's.
type fate struct {
	before, after, late time.Duration
	lost, unreplied     bool
}

func (w *world) draw(region string) (f fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.before, f.after = between(w.rng, 200*time.Microsecond), between(w.rng, 200*time.Microsecond)
	for t := range w.troubles {
		if t.region != region {
			continue
		}
		f.before, f.after = f.before+between(w.rng, t.slow), f.after+between(w.rng, t.slow)
		f.lost, f.unreplied = f.lost || w.rng.Float64() < t.lost, f.unreplied || w.rng.Float64() < t.unreplied
		if w.rng.Float64() < t.late {
			f.late = between(w.rng, 20*time.Second)
		}
	}
	return f
}

// Regions lacks the fourth region until an operator adds it. The store has its row from the start, as it takes no
// regions while it is open, with a status that no other row gets in a run.
func (s *store) Regions(ctx context.Context) ([]claim.Region, uint64, error) {
	return ask2(ctx, s, "Regions", func(ctx context.Context, rows deployment.Store) ([]claim.Region, uint64, error) {
		all, epoch, err := rows.Regions(ctx)
		return slices.DeleteFunc(all, func(r claim.Region) bool { return r.Status == claim.RegionDown }), epoch, err
	})
}

func (s *store) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	return step(ctx, s, "Begin", func(ctx context.Context, rows deployment.Store) (claim.Begun, string, error) {
		b, err := rows.Begin(ctx, a)
		return b, b.Decision.String(), err
	})
}

func (s *store) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	return step(ctx, s, "Settle "+v.Outcome.String(), func(ctx context.Context, rows deployment.Store) (claim.Record, string, error) {
		r, err := rows.Settle(ctx, held, v)
		return r, "recorded", err
	})
}

func (s *store) Renew(ctx context.Context, holder string, leases []claim.Lease) ([]bool, error) {
	return step(ctx, s, "Renew", func(ctx context.Context, rows deployment.Store) ([]bool, string, error) {
		kept, err := rows.Renew(ctx, holder, leases)
		outcome := "kept"
		for _, k := range kept {
			if !k {
				outcome = "lost"
			}
		}
		return kept, outcome, err
	})
}

func (s *store) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	return step(ctx, s, "TakeOver", func(ctx context.Context, rows deployment.Store) (claim.Record, string, error) {
		r, err := rows.TakeOver(ctx, key, home, object, holder, region, news)
		return r, "taken", err
	})
}

func (s *store) Cancel(ctx context.Context, key claim.Key, home, object string, id uuid.UUID, node, region string) (claim.Record, error) {
	return step(ctx, s, "Cancel", func(ctx context.Context, rows deployment.Store) (claim.Record, string, error) {
		r, err := rows.Cancel(ctx, key, home, object, id, node, region)
		outcome := "marked"
		switch {
		case err != nil:
		case r.Holder != "":
			outcome = "marked under a holder"
		}
		return r, outcome, err
	})
}

func (s *store) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	return step(ctx, s, "Pin", func(ctx context.Context, rows deployment.Store) (claim.Pin, string, error) {
		p, err := rows.Pin(ctx, key, entry)
		if err == nil && s.m.w.outlived { // The embedded store syncs no pin, as its nodes never outlive it. A database does.
			_, err = rows.Balances(ctx, s.m.region, ledger.AccountKey{}, 1) // which syncs the log
		}
		outcome := "absent"
		switch {
		case p.Home == "":
		case p.Home == entry:
			outcome = "here"
		default:
			outcome = "elsewhere"
		}
		return p, outcome, err
	})
}

func (s *store) Replica(ctx context.Context, key claim.Key) (claim.Shown, error) {
	return step(ctx, s, "Replica", func(ctx context.Context, rows deployment.Store) (claim.Shown, string, error) {
		r, err := rows.Replica(ctx, key)
		return r, map[bool]string{true: "answer", false: "nothing"}[r.Record != nil], err
	})
}

func (s *store) Get(ctx context.Context, key claim.Key, home string) (claim.Record, time.Time, bool, error) {
	return ask3(ctx, s, "Get", func(ctx context.Context, rows deployment.Store) (claim.Record, time.Time, bool, error) {
		return rows.Get(ctx, key, home)
	})
}

func (s *store) Keep(ctx context.Context, home string, notices []notice.Notice) (int, error) {
	return step(ctx, s, "Keep", func(ctx context.Context, rows deployment.Store) (int, string, error) {
		n, err := rows.Keep(ctx, home, notices)
		return n, map[bool]string{true: "fresh", false: "again"}[n > 0], err
	})
}

func (s *store) Book(ctx context.Context, t ledger.Transaction, events []outbox.Message) (bool, error) {
	return step(ctx, s, "Book", func(ctx context.Context, rows deployment.Store) (bool, string, error) {
		posted, err := rows.Book(ctx, t, events)
		return posted, map[bool]string{true: "posted", false: "again"}[posted], err
	})
}

func (s *store) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	_, err := step(ctx, s, "Close", func(ctx context.Context, rows deployment.Store) (struct{}, string, error) {
		return struct{}{}, string(status), rows.Close(ctx, region, id, fence, status, detail)
	})
	return err
}

func (s *store) Queue(q outbox.Queue) outbox.Store { return &queue{s, q} }

type queue struct {
	s *store
	q outbox.Queue
}

func (q *queue) do(ctx context.Context, name string, do func(context.Context, outbox.Store) error) error {
	return q.s.do(ctx, name+" "+fmt.Sprint(q.q), func(ctx context.Context, rows deployment.Store) error { return do(ctx, rows.Queue(q.q)) })
}

func (q *queue) Take(ctx context.Context, region string, limit int, lease time.Duration) ([]outbox.Message, error) {
	return step(ctx, q.s, "Take "+fmt.Sprint(q.q), func(ctx context.Context, rows deployment.Store) ([]outbox.Message, string, error) {
		taken, err := rows.Queue(q.q).Take(ctx, region, limit, lease)
		return taken, map[bool]string{true: "rows", false: "none"}[len(taken) > 0], err
	})
}

func (q *queue) Finish(ctx context.Context, region string, row outbox.Hold) error {
	return q.do(ctx, "Finish", func(ctx context.Context, s outbox.Store) error { return s.Finish(ctx, region, row) })
}

func (q *queue) FinishAll(ctx context.Context, region string, rows []outbox.Hold) error {
	return q.do(ctx, "FinishAll", func(ctx context.Context, s outbox.Store) error { return s.FinishAll(ctx, region, rows) })
}

func (q *queue) Retry(ctx context.Context, region string, row outbox.Hold, after time.Duration, reason string) error {
	return q.do(ctx, "Retry", func(ctx context.Context, s outbox.Store) error { return s.Retry(ctx, region, row, after, reason) })
}

func (q *queue) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	return q.do(ctx, "RetryAll", func(ctx context.Context, s outbox.Store) error { return s.RetryAll(ctx, region, rows) })
}

func (q *queue) Park(ctx context.Context, region string, row outbox.Hold, reason string) error {
	return q.do(ctx, "Park", func(ctx context.Context, s outbox.Store) error { return s.Park(ctx, region, row, reason) })
}

func (q *queue) Unpark(ctx context.Context, region, id string) (bool, error) {
	return ask(ctx, q.s, "Unpark", func(ctx context.Context, rows deployment.Store) (bool, error) {
		return rows.Queue(q.q).Unpark(ctx, region, id)
	})
}

func (q *queue) Message(ctx context.Context, region, id string) (outbox.Message, bool, error) {
	return ask2(ctx, q.s, "Message", func(ctx context.Context, rows deployment.Store) (outbox.Message, bool, error) {
		return rows.Queue(q.q).Message(ctx, region, id)
	})
}

func (q *queue) Parked(ctx context.Context, region, after string, limit int) ([]outbox.Message, error) {
	return ask(ctx, q.s, "Parked", func(ctx context.Context, rows deployment.Store) ([]outbox.Message, error) {
		return rows.Queue(q.q).Parked(ctx, region, after, limit)
	})
}

func (q *queue) Waiting(ctx context.Context, region string, limit int) ([]outbox.Message, error) {
	return ask(ctx, q.s, "Waiting", func(ctx context.Context, rows deployment.Store) ([]outbox.Message, error) {
		return rows.Queue(q.q).Waiting(ctx, region, limit)
	})
}

func (q *queue) Depth(ctx context.Context, region string) (outbox.Depth, error) {
	return ask(ctx, q.s, "Depth", func(ctx context.Context, rows deployment.Store) (outbox.Depth, error) {
		return rows.Queue(q.q).Depth(ctx, region)
	})
}

// coverage counts which transitions met which outcome.
type coverage struct {
	mu    sync.Mutex
	taken map[string]int
}

// edges are those that a run may take: a step of the store with its outcome.
var edges = func() (all []string) {
	add := func(step string, outcomes ...string) {
		for _, o := range outcomes {
			all = append(all, step+": "+o)
		}
	}
	for d := claim.Won; d <= claim.Used; d++ {
		add("Begin", d.String())
	}
	for _, o := range []string{claim.OutcomeDone, claim.OutcomeRefused, claim.OutcomeReleased, claim.OutcomePending, claim.OutcomeUnknown} {
		add("Settle "+o, "recorded", "fenced")
	}
	add("Settle "+claim.OutcomeMoved, "recorded")
	add("Renew", "kept", "lost")
	add("TakeOver", "taken", "held", "fenced")
	add("Cancel", "marked", "marked under a holder", "fenced")
	add("Pin", "here", "elsewhere", "no new homes")
	add("Replica", "answer", "nothing")
	add("Keep", "fresh", "again")
	add("Book", "posted", "again")
	for _, q := range []outbox.Queue{outbox.ProviderCalls, outbox.Expiries, outbox.Events, outbox.Notices} {
		add(fmt.Sprint("Take ", q), "rows")
	}
	for _, c := range slices.Concat(crossings, moves) {
		add(c.String(), string(killAt), string(freezeAt))
	}
	slices.Sort(all)
	return slices.Compact(all)
}()

func (c *coverage) add(step, outcome string, err error) {
	switch {
	case errors.Is(err, claim.ErrFenced):
		outcome = "fenced"
	case errors.Is(err, claim.ErrLeaseHeld):
		outcome = "held"
	case errors.Is(err, claim.ErrNoNewHomes):
		outcome = "no new homes"
	case err != nil:
		outcome = "unavailable"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken[step+": "+outcome]++
}

// blobs is an object store that loses nothing.
type blobs struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (b *blobs) Put(_ context.Context, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	ref := hex.EncodeToString(sum[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[ref] = body
	return ref, nil
}

func (b *blobs) Get(_ context.Context, ref string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if body, ok := b.all[ref]; ok {
		return body, nil
	}
	return nil, fs.ErrNotExist
}
