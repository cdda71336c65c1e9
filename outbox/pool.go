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

// pool is what runs between a Start and the end of its Drain: a loop that decides
// which regions are looked at, one goroutine per look, and one per row in hand. Looks
// do not wait for each other, so that one at rows that cannot be reached, which takes
// as long as the store has patience, delays no other region's.
type pool struct {
	w    *Worker
	ctx  context.Context // ends with stop: no more rows
	stop context.CancelFunc
	// idle is closed once the loop has ended, and no look is under way and no row in
	// hand.
	idle chan struct{}
	// news holds a token after a look has ended or a row has left its slot.
	news chan struct{}
	work sync.WaitGroup // looks and rows

	mu    sync.Mutex
	homes map[string]*home
	turns uint64
}

// home is what the pool knows of a region.
type home struct {
	hand  *hand
	rows  int // in hand
	asked int // slots that the look under way may fill; 0: there is none
	// next is when to look again, and turn when it was looked at last: who was not for
	// longest goes first.
	next time.Time
	turn uint64
	// failed: the last look got no answer. Until there is one, only one row is asked
	// for: the slots would be missed for as long as the store has patience.
	failed bool

	// Of a worker that is woken. wakes are when to look, in order; full: the last look
	// found as much as it asked for; behind: it began while rows were in hand, and what
	// waits for them in the order of a key it could not take.
	wakes        []time.Time
	full, behind bool
	began        time.Time // the last look
}

// maxWakes bounds what a pool remembers of a home. What is beyond it a [Lookout] finds.
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
			return // select tosses a coin where something else was ready, too
		}
		again := p.w.c.Poll
		if caught := fault.Caught(func() { again = p.look() }); caught != nil {
			p.w.c.Logger.Error("the look for outbox rows panicked; it is repeated after the pause", "fault", caught)
		}
		pause.Reset(again)
	}
}

// pause is between two looks at a region that found nothing. Jitter keeps the workers
// of a region from looking in step.
func (p *pool) pause() time.Duration { return p.w.c.Poll/2 + rand.N(p.w.c.Poll) }

// gather is how long a row that has ended waits for others in hand, and a look at a backlog
// for slots.
func (w *Worker) gather() time.Duration { return w.c.Poll / 10 }

// pace is how long after a look what was enqueued since waits for more: the first is taken
// at once, and few by few would cost a look each.
func (w *Worker) pace() time.Duration { return w.c.Poll / 2 }

// when is the time of the next look at h; ok is false while nothing asks for one.
func (p *pool) when(h *home) (at time.Time, ok bool) {
	if !p.w.c.Woken || h.failed || h.full {
		return h.next, true
	}
	if len(h.wakes) == 0 {
		return time.Time{}, false
	}
	at = h.wakes[0]
	if soonest := h.began.Add(p.w.pace()); at.Before(soonest) {
		at = soonest
	}
	return at, true
}

// wake notes that a row of region may be due in some time from now.
func (p *pool) wake(region string, in time.Duration) {
	p.mu.Lock()
	if h := p.homes[region]; h != nil { // else it is new, and looked at at once
		h.wake(time.Now(), in, p.w.gather())
	}
	p.mu.Unlock()
	p.tell()
}

// wake has h looked at in some time from now, or up to slack later.
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

// look begins a look at each region where one is due, as far as there are slots, and
// returns after which time to come back if there is no news before.
func (p *pool) look() time.Duration {
	regions, now := p.w.c.Regions(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	back := p.pause() // others may have been adopted by then
	if p.w.c.Woken {
		back *= restTimes // who adopts them wakes
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
			continue // there may be more rows than slots: one that falls free is news
		}
		if then := h.began.Add(p.w.gather()); h.full && h.rows > p.w.c.Batch/2 && limit < p.w.c.Batch/4 && now.Before(then) {
			back = min(back, then.Sub(now)) // of a backlog many are taken at once
			continue
		}
		if h.failed {
			limit = 1
		}
		p.turns++
		h.turn, h.asked, h.began = p.turns, limit, now
		h.behind = h.rows > 0
		h.wakes = slices.DeleteFunc(h.wakes, func(at time.Time) bool { return !at.After(now) })
		p.work.Go(func() { p.take(h, limit) })
	}
	return back
}

// take looks at one region and starts on what it finds.
func (p *pool) take(h *home, limit int) {
	rows, work, err := p.w.take(p.ctx, h.hand, limit)
	p.mu.Lock()
	h.asked, h.failed, h.full = 0, err != nil, len(rows) == limit
	h.rows += len(rows)
	// One that was put off has let others of its line wait.
	h.behind = h.behind || slices.ContainsFunc(rows, func(m Message) bool { return m.Attempts > 0 })
	h.next = time.Now()
	if len(rows) == 0 {
		h.next = h.next.Add(p.pause())
	}
	p.mu.Unlock()
	for _, m := range rows {
		p.work.Go(func() {
			defer p.leave(h)
			work(m)
		})
	}
	p.tell()
}

// room is how many rows region may take now, with left regions, itself included,
// still to be looked at: its share of the free slots. One slot is kept for each other
// region that has none, so that the rows of one home, be they all slow, never keep
// another's waiting. The caller holds the lock.
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

func (p *pool) leave(h *home) {
	p.mu.Lock()
	h.rows--
	if h.behind {
		h.behind = false
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

// unfinished says what a drain leaves behind when its ctx has ended.
func (p *pool) unfinished(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := 0
	for _, h := range p.homes {
		rows += h.rows
	}
	return fmt.Errorf("outbox: rows still being handled at the drain deadline: %d; other workers take them when their leases lapse: %w", rows, ctx.Err())
}
