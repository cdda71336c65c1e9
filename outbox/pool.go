package outbox

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

// pool runs between a Start and the end of its Drain: a loop that decides which regions
// are looked at, one goroutine per look, and one per taken row. Looks do not wait for
// each other: a region whose rows cannot be reached, where a look takes as long as the
// store's time-out, does not delay the others.
type pool struct {
	w    *Worker
	ctx  context.Context // ends with stop: no more rows
	stop context.CancelFunc
	// idle is closed once the loop has ended, no look is under way and no row is in
	// hand.
	idle chan struct{}
	// news holds a token after a look has ended or a row has left its slot.
	news chan struct{}
	work sync.WaitGroup // looks and rows

	mu    sync.Mutex
	homes map[string]*home
	turns uint64
}

// home is the pool's state for a region.
type home struct {
	hand  *hand
	rows  int // in hand
	asked int // slots that the look under way may fill; 0: none is under way
	// next is when to look again, and turn when the last look began: the region that
	// waited longest goes first.
	next time.Time
	turn uint64
	// failed: the last look got no answer. Until one does, a look asks for only one
	// row, as it may hold its slots until the store's time-out.
	failed bool

	// For a woken worker. wakes are when to look, in order. full: the last look found
	// as many rows as it asked for. news: a look was asked for since the last one, for
	// rows that may wait in the order of a key for those that were in hand then. came
	// counts the rows that came into hand, and behind is its value at such a look: when
	// one of these leaves, a look takes what waits for it.
	wakes      []time.Time
	full, news bool
	came       uint64
	behind     uint64
	began      time.Time // the last look
	// few: the last look found so few rows that the next can wait. narrow: First left
	// more rows than there were slots, so a look takes no more than those.
	few, narrow bool
}

// maxWakes bounds the wake-ups that a pool keeps for a home. A [Lookout] finds the
// rest.
const maxWakes = 64

func startPool(w *Worker) *pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &pool{
		w: w, ctx: ctx, stop: stop,
		idle: make(chan struct{}), news: make(chan struct{}, 1), homes: map[string]*home{},
	}
	go p.run()
	return p
}

func (p *pool) run() {
	defer close(p.idle)
	defer p.work.Wait()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-pause.C:
		case <-p.news:
		}
		if p.ctx.Err() != nil {
			return // select picks at random if something else was ready, too
		}
		again := p.w.c.Poll
		if caught := fault.Caught(func() { again = p.look() }); caught != nil {
			p.w.c.Logger.Error("the look for outbox rows panicked; it is repeated after the pause", "fault", caught)
		}
		pause.Reset(again)
	}
}

// pause is the time between two looks at a region without due rows. Jitter spreads the
// looks of a region's workers.
func (p *pool) pause() time.Duration { return p.w.c.Poll/2 + rand.N(p.w.c.Poll) }

// gather is how long an ended row waits for others, and a look at a backlog for slots.
func (w *Worker) gather() time.Duration { return w.c.Poll / 10 }

// pace is how long newly enqueued rows wait after a look, to be taken together. The
// first is taken at once; taking them few at a time would cost a look each. A worker that
// ends rows together, and has many, looks more often: even work is less in the way of
// others than work in bursts.
func (w *Worker) pace(few bool) time.Duration {
	if w.c.First != nil && !few {
		return w.gather()
	}
	return w.c.Poll / 2
}

// together is how many rows a look takes that has so many slots.
func (w *Worker) together(h *home, slots int) int {
	if w.c.First == nil || h.narrow || h.failed {
		return slots
	}
	return max(slots, w.c.Together)
}

// when returns the time of the next look at h; ok is false while none is needed.
func (p *pool) when(h *home) (at time.Time, ok bool) {
	if !p.w.c.Woken || h.failed || h.full {
		return h.next, true
	}
	if len(h.wakes) == 0 {
		return time.Time{}, false
	}
	at = h.wakes[0]
	if soonest := h.began.Add(p.w.pace(h.few)); at.Before(soonest) {
		at = soonest
	}
	return at, true
}

// wake records that a row of region may be due after in.
func (p *pool) wake(region string, in time.Duration) {
	p.mu.Lock()
	if h := p.homes[region]; h != nil { // otherwise it is new, and looked at at once
		h.wake(time.Now(), in, p.w.gather())
		h.news = true
	}
	p.mu.Unlock()
	p.tell()
}

// wake schedules a look at h after in, or up to slack later.
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

// look begins a look at each region where one is due, as far as there are slots. It
// returns when to call again if there is no news before.
func (p *pool) look() time.Duration {
	regions, now := p.w.c.Regions(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	back := p.pause() // others may have been adopted by then
	if p.w.c.Woken {
		back *= restTimes // adopting a region wakes it
	}
	var due []string
	for _, region := range regions {
		h := p.homes[region]
		if h == nil {
			h = &home{hand: &hand{w: p.w, region: region}, wakes: []time.Time{now}}
			p.homes[region] = h
		}
		at, ok := p.when(h)
		switch {
		case h.asked > 0, !ok: // the look's end is news, and so is a call
		case at.After(now):
			back = min(back, at.Sub(now))
		default:
			due = append(due, region)
		}
	}
	slices.SortStableFunc(due, func(a, b string) int { return cmp.Compare(p.homes[a].turn, p.homes[b].turn) })
	for i, region := range due {
		h := p.homes[region]
		limit := p.room(region, regions, len(due)-i)
		if limit == 0 {
			continue // there may be more rows than slots: a free slot is news
		}
		if then := h.began.Add(p.w.gather()); h.full && h.rows > p.w.c.Batch/2 && limit < p.w.c.Batch/4 && now.Before(then) {
			back = min(back, then.Sub(now)) // take many rows of a backlog at once
			continue
		}
		if h.failed {
			limit = 1
		}
		p.turns++
		h.turn, h.asked, h.began = p.turns, limit, now
		if h.news || h.full {
			h.news, h.behind = false, h.came
		}
		h.wakes = slices.DeleteFunc(h.wakes, func(at time.Time) bool { return !at.After(now) })
		all := p.w.together(h, limit)
		p.work.Go(func() { p.take(h, limit, all) })
	}
	return back
}

// take looks at one region and starts on the rows that it finds, as many as there are
// slots.
func (p *pool) take(h *home, slots, limit int) {
	began := time.Now()
	b, err := p.w.take(p.ctx, h.hand, limit)
	rest, over := b.rest, []Message(nil)
	if len(rest) > slots {
		rest, over = rest[:slots], rest[slots:]
	}
	p.mu.Lock()
	h.asked, h.failed, h.full = 0, err != nil, b.taken == limit
	first := h.came + 1
	h.rows, h.came = h.rows+len(rest), h.came+uint64(len(rest))
	h.few = b.taken < p.w.c.Together/4
	h.narrow = len(over) > 0 || h.narrow && len(rest) > b.taken/4
	if slices.ContainsFunc(rest, func(m Message) bool { return m.Attempts > 0 }) {
		h.behind = h.came // a postponed row let others of its line wait
	}
	h.next = time.Now()
	switch {
	case b.taken == 0:
		h.next = h.next.Add(p.pause())
	case limit > slots: // at most half of the time, while there is a backlog
		h.next = h.next.Add(min(h.next.Sub(began), p.w.gather()/2))
	}
	p.mu.Unlock()
	for i, m := range rest {
		p.work.Go(func() {
			defer p.leave(h, first+uint64(i))
			b.work(m)
		})
	}
	for _, m := range over {
		p.work.Go(func() { b.giveBack(m) })
	}
	p.tell()
}

// room returns how many rows region may take now, with left regions, itself included,
// still to be looked at: its share of the free slots. One slot is kept for each other
// region that has none, so that slow rows of one home never block another's. The caller
// holds the lock.
func (p *pool) room(region string, regions []string, left int) int {
	free := p.w.c.Batch
	for _, h := range p.homes {
		free -= h.rows + h.asked
	}
	if free <= 0 {
		return 0
	}
	kept := 0
	for _, other := range regions {
		if other != region && !p.homes[other].busy() {
			kept++
		}
	}
	room := min((free+left-1)/left, free-kept)
	if !p.homes[region].busy() {
		room = max(room, 1) // the slot that was kept
	}
	return max(room, 0)
}

// busy reports whether a region has a slot.
func (h *home) busy() bool { return h != nil && h.rows+h.asked > 0 }

// leave frees the slot of the row that came into hand as the seq-th.
func (p *pool) leave(h *home, seq uint64) {
	p.mu.Lock()
	h.rows--
	if seq <= h.behind {
		h.wake(time.Now(), 0, 0)
	}
	p.mu.Unlock()
	p.tell()
}

func (p *pool) tell() {
	select {
	case p.news <- struct{}{}:
	default: // a token is there already
	}
}

// unfinished describes the rows that are still in hand when ctx of a drain has ended.
func (p *pool) unfinished(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := 0
	for _, h := range p.homes {
		rows += h.rows
	}
	return fmt.Errorf("outbox: rows still being handled at the drain deadline: %d; other workers take them when their leases lapse: %w", rows, ctx.Err())
}
