package outbox

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
)

// pool runs between a Start and the end of its Drain: a loop that decides in which regions
// rows are taken, one goroutine per take, and one per taken row. Takes do not wait for
// each other: a region whose rows cannot be reached, where a take lasts as long as the
// store's time-out, does not delay the others.
type pool struct {
	w    *Worker
	ctx  context.Context // ends with stop: no more rows
	stop context.CancelFunc
	// idle is closed once the loop has ended, no take runs and no row is in progress.
	idle chan struct{}
	// changed holds a token after a take has ended, a slot has become free or a wake came.
	changed chan struct{}
	work    sync.WaitGroup // takes and rows

	mu      sync.Mutex
	homes   map[string]*home
	takes   uint64
	stopped bool // no offers are accepted
}

// home is the pool's state for a region.
type home struct {
	completer *completer
	rows      int // in progress
	requested int // slots that the running take may fill; 0: none runs
	// next is when to take again, and lastTake the number of the last take: the region that
	// waited longest goes first.
	next     time.Time
	lastTake uint64
	// taken: the worker takes rows of the home. offered: it was offered rows of a home that it
	// takes none of, and takes there what became of these: one that found no slot, or whose delivery
	// failed. For the rest of that home's rows others are woken.
	taken, offered bool
	// failed: the last take got no answer. Until one does, a take asks for only one row, as
	// it may keep its slots until the store's time-out.
	failed bool
	// unbatched: BatchHandler returned more rows than there were slots, so a take asks for
	// no more rows than there are slots.
	unbatched bool

	// wakes are when to take, in order. backlog: the last take found as many rows as it
	// asked for. woken: a wake came since the last take, for rows that may wait in the line
	// of a row in progress. lines: several came, or a row ended that others waited for, so
	// that the rows of the next take may have others behind them. started counts the rows that
	// were started, and recheck is up to which of them others may wait: when one of these rows
	// ends, a take finds what waits for it.
	wakes                 []time.Time
	backlog, woken, lines bool
	started, recheck      uint64
	tookAt                time.Time // when the last take began
}

// maxWakes bounds the wake-ups that a pool keeps for a home. A [Poller] finds the rest.
const maxWakes = 64

func startPool(w *Worker) *pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &pool{
		w: w, ctx: ctx, stop: stop,
		idle: make(chan struct{}), changed: make(chan struct{}, 1), homes: map[string]*home{},
	}
	go p.run()
	return p
}

func (p *pool) run() {
	defer close(p.idle)
	defer p.work.Wait()
	defer p.refuseOffers()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-pause.C:
		case <-p.changed:
		}
		if p.ctx.Err() != nil {
			return // select picks at random if something else was ready, too
		}
		again := p.w.c.Poll
		if caught := fault.Caught(func() { again = p.startTakes() }); caught != nil {
			p.w.c.Logger.Error("the pool of outbox rows panicked; it continues after the pause", "fault", caught)
		}
		pause.Reset(again)
	}
}

// pause is the time between two takes in a region where takes fail. Jitter spreads the
// takes of a region's workers.
func (p *pool) pause() time.Duration { return p.w.c.Poll/2 + rand.N(p.w.c.Poll) }

// batchDelay is how long an ended row waits for others, and a take from a backlog for slots.
func (w *Worker) batchDelay() time.Duration { return w.c.Poll / 10 }

// cooldown is how long newly enqueued rows wait after a take, to be taken together. The
// first is taken at once; taking them few at a time would cost a take each.
func (w *Worker) cooldown() time.Duration { return w.c.Poll / 2 }

// limit is how many rows a take asks for that may fill so many slots.
func (w *Worker) limit(h *home, slots int) int {
	if w.c.BatchHandler == nil || h.unbatched || h.failed {
		return slots
	}
	return max(slots, w.c.BatchSize)
}

// when returns the time of the next take in h; ok is false while none is needed.
func (p *pool) when(h *home) (at time.Time, ok bool) {
	if h.failed || h.backlog {
		return h.next, true
	}
	if len(h.wakes) == 0 {
		return time.Time{}, false
	}
	return later(h.wakes[0], h.tookAt.Add(p.w.cooldown())), true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// home returns the state of a region. The caller holds the lock.
func (p *pool) home(region string) *home {
	h := p.homes[region]
	if h == nil {
		h = &home{completer: &completer{w: p.w, region: region}}
		p.homes[region] = h
	}
	return h
}

// wake records that a row of region may be due after in.
func (p *pool) wake(region string, in time.Duration) {
	p.mu.Lock()
	if h := p.homes[region]; h != nil && (h.taken || h.offered) { // otherwise it is new, and rows are taken at once
		h.wake(time.Now(), in, p.w.batchDelay())
		h.lines, h.woken = h.lines || h.woken, true
	}
	p.mu.Unlock()
	p.notify()
}

// wake schedules a take after in, or up to slack later.
func (h *home) wake(now time.Time, in, slack time.Duration) {
	at := now.Add(max(in, 0))
	i, _ := slices.BinarySearchFunc(h.wakes, at, time.Time.Compare)
	switch {
	case in <= 0 && i > 0: // it has not begun
	case i < len(h.wakes) && h.wakes[i].Sub(at) <= slack:
	case len(h.wakes) < maxWakes:
		h.wakes = slices.Insert(h.wakes, i, at)
	case i < maxWakes:
		h.wakes = slices.Insert(h.wakes[:maxWakes-1], i, at)
	}
}

// startTakes starts a take in each region where one is due, as far as there are slots. It
// returns when to call again if nothing changes before.
func (p *pool) startTakes() time.Duration {
	regions, now := p.w.c.Regions(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	back := maxPauses * p.pause() // other regions may have been adopted by then
	var due []string
	for _, region := range regions {
		h := p.home(region)
		if !h.taken {
			h.taken, h.wakes = true, []time.Time{now}
		}
		at, ok := p.when(h)
		switch {
		case h.requested > 0, !ok: // the take's end, or a wake, is a change
		case at.After(now):
			back = min(back, at.Sub(now))
		default:
			due = append(due, region)
		}
	}
	for region, h := range p.homes {
		// A take for each wake, whatever became of the last one: the home has workers of its own.
		if !h.offered || h.requested > 0 || len(h.wakes) == 0 || slices.Contains(regions, region) {
			continue
		}
		if at := later(h.wakes[0], h.tookAt.Add(p.w.cooldown())); at.After(now) {
			back = min(back, at.Sub(now))
		} else {
			due = append(due, region)
		}
	}
	slices.SortStableFunc(due, func(a, b string) int { return cmp.Compare(p.homes[a].lastTake, p.homes[b].lastTake) })
	for i, region := range due {
		h := p.homes[region]
		slots := p.freeSlots(region, regions, len(due)-i)
		if slots == 0 {
			continue // there may be more rows than slots: a free slot is a change
		}
		if then := h.tookAt.Add(p.w.batchDelay()); h.backlog && h.rows > p.w.c.Slots/2 && slots < p.w.c.Slots/4 && now.Before(then) {
			back = min(back, then.Sub(now)) // take many rows of a backlog at once
			continue
		}
		if h.failed {
			slots = 1
		}
		p.takes++
		h.lastTake, h.requested, h.tookAt = p.takes, slots, now
		if h.woken || h.backlog {
			h.woken, h.recheck = false, h.started
		}
		h.wakes = slices.DeleteFunc(h.wakes, func(at time.Time) bool { return !at.After(now) })
		limit, lines := p.w.limit(h, slots), h.lines
		h.lines = false
		p.work.Go(func() { p.take(h, slots, limit, lines) })
	}
	return back
}

// take takes up to limit rows of one region, and starts as many as there are slots. lines:
// others may wait for them.
func (p *pool) take(h *home, slots, limit int, lines bool) {
	began := time.Now()
	b, err := p.w.take(p.ctx, h.completer, limit)
	rest, over := b.rest, []Message(nil)
	if len(rest) > slots {
		rest, over = rest[:slots], rest[slots:]
	}
	p.mu.Lock()
	h.requested, h.failed, h.backlog = 0, err != nil, b.taken == limit
	first := h.started + 1
	h.rows, h.started = h.rows+len(rest), h.started+uint64(len(rest))
	h.unbatched = len(over) > 0 || h.unbatched && len(rest) > b.taken/4
	if lines && len(rest) > 0 || slices.ContainsFunc(rest, func(m Message) bool { return m.Attempts > 0 }) {
		h.recheck = h.started // as may those of a line whose first row was postponed
	}
	h.next = time.Now()
	switch {
	case b.taken == 0:
		h.next = h.next.Add(p.pause())
	case limit > slots: // at most half of the time, while there is a backlog
		h.next = h.next.Add(min(h.next.Sub(began), p.w.batchDelay()/2))
	}
	p.mu.Unlock()
	for i, m := range rest {
		p.work.Go(func() {
			defer p.release(h, first+uint64(i))
			b.work(m)
		})
	}
	for _, m := range over {
		p.work.Go(func() { b.requeue(m) })
	}
	p.notify()
}

// offer starts rows in slots that takes do not have, but for a quarter of all slots: rows that have
// to be taken must not wait for ever. It makes rows due for which there is none.
func (p *pool) offer(region string, end time.Time, rows []Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	h := p.home(region)
	h.offered = true
	free := p.unusedSlots() - p.w.c.Slots/4
	b := batch{w: p.w, c: h.completer, ctx: Begun(context.Background()), end: end}
	h.completer.add(len(rows))
	for i, m := range rows {
		if i >= free {
			p.work.Go(func() { b.requeue(m) })
			continue
		}
		h.rows++
		h.started++
		seq := h.started
		p.work.Go(func() {
			defer p.release(h, seq)
			b.work(m)
		})
	}
}

// refuseOffers is called when the pool is about to wait for its work.
func (p *pool) refuseOffers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// freeSlots returns how many rows region may take now, of due regions, itself included,
// that still get some: its share of the free slots. One slot is kept for each other region
// that has none, so that slow rows of one home never block another's. The caller holds the
// lock.
func (p *pool) freeSlots(region string, regions []string, due int) int {
	free := p.unusedSlots()
	if free <= 0 {
		return 0
	}
	kept := 0
	for _, other := range regions {
		if other != region && !p.homes[other].busy() {
			kept++
		}
	}
	slots := min((free+due-1)/due, free-kept)
	if !p.homes[region].busy() {
		slots = max(slots, 1) // the slot that was kept
	}
	return max(slots, 0)
}

// unusedSlots returns how many slots no region has. The caller holds the lock.
func (p *pool) unusedSlots() int {
	unused := p.w.c.Slots
	for _, h := range p.homes {
		unused -= h.rows + h.requested
	}
	return unused
}

// busy reports whether a region has a slot.
func (h *home) busy() bool { return h != nil && h.rows+h.requested > 0 }

// release frees the slot of the row that was the seq-th to start.
func (p *pool) release(h *home, seq uint64) {
	p.mu.Lock()
	h.rows--
	if seq <= h.recheck {
		h.wake(time.Now(), 0, 0)
		h.lines = true
	}
	p.mu.Unlock()
	p.notify()
}

func (p *pool) notify() {
	select {
	case p.changed <- struct{}{}:
	default: // a token is there already
	}
}

// unfinished describes the rows that are in progress when ctx of a drain has ended.
func (p *pool) unfinished(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := 0
	for _, h := range p.homes {
		rows += h.rows
	}
	return fmt.Errorf("outbox: rows still being handled at the drain deadline: %d; other workers take them when their leases lapse: %w", rows, ctx.Err())
}
