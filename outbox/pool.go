package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

// pool is what runs between a Start and the end of its Drain: a loop that takes
// rows while there are free slots, and one goroutine per row in hand.
type pool struct {
	w    *Worker
	ctx  context.Context // ends with stop: no more rows
	stop context.CancelFunc
	// idle is closed once the loop has ended and no row is in hand.
	idle chan struct{}
	// freed holds a token after a row has left its slot.
	freed chan struct{}
	// turn moves the region that is looked at first.
	turn int

	mu   sync.Mutex
	hand map[string]int // rows in hand by region; no zeros
}

func startPool(w *Worker) *pool {
	ctx, stop := context.WithCancel(context.Background())
	p := &pool{
		w: w, ctx: ctx, stop: stop,
		idle: make(chan struct{}), freed: make(chan struct{}, 1), hand: map[string]int{},
	}
	go p.run()
	return p
}

func (p *pool) run() {
	defer close(p.idle)
	var rows sync.WaitGroup
	defer rows.Wait()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var freed <-chan struct{}
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-pause.C:
		case <-freed:
		}
		if p.ctx.Err() != nil {
			return // select tosses a coin where the pause was over, too
		}
		var took int
		var short bool
		if caught := fault.Caught(func() { took, short = p.look(&rows) }); caught != nil {
			p.w.c.Logger.Error("the look for outbox rows panicked; it is repeated after the pause", "fault", caught)
		}
		freed = nil
		if short {
			// There may be more rows than slots: look again once a slot is free.
			freed = p.freed
		}
		if took > 0 {
			pause.Reset(0)
			continue
		}
		// Jitter keeps the workers of a region from looking in step.
		pause.Reset(p.w.c.Poll/2 + rand.N(p.w.c.Poll))
	}
}

// look takes as many due rows as there are slots for, region by region, and
// starts on them. short: some region had no slot and was not looked at.
func (p *pool) look(rows *sync.WaitGroup) (took int, short bool) {
	regions := p.w.c.Regions()
	p.turn++
	for i := range regions {
		region := regions[(p.turn+i)%len(regions)]
		limit := p.room(region, regions, len(regions)-i)
		if limit == 0 {
			short = true
			continue
		}
		taken, work := p.w.take(p.ctx, region, limit)
		took += len(taken)
		for _, m := range taken {
			p.enter(region)
			rows.Go(func() {
				defer p.leave(region)
				work(m)
			})
		}
	}
	return took, short
}

// room is how many rows region may take now, with left regions, itself
// included, still to be looked at: its share of the free slots. One slot is kept
// for each other region that has no row in hand, so that the rows of one home,
// be they all slow, never keep another's waiting.
func (p *pool) room(region string, regions []string, left int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.w.c.Batch - p.inHand()
	if free <= 0 {
		return 0
	}
	kept := 0
	for _, other := range regions {
		if other != region && p.hand[other] == 0 {
			kept++
		}
	}
	room := min((free+left-1)/left, free-kept)
	if p.hand[region] == 0 {
		room = max(room, 1) // the slot that was kept
	}
	return max(room, 0)
}

// inHand counts the rows in hand. The caller holds the lock.
func (p *pool) inHand() int {
	n := 0
	for _, rows := range p.hand {
		n += rows
	}
	return n
}

func (p *pool) enter(region string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hand[region]++
}

func (p *pool) leave(region string) {
	p.mu.Lock()
	if p.hand[region]--; p.hand[region] == 0 {
		delete(p.hand, region)
	}
	p.mu.Unlock()
	select {
	case p.freed <- struct{}{}:
	default: // a token is there already
	}
}

// unfinished says what a drain leaves behind when its ctx has ended.
func (p *pool) unfinished(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("outbox: rows still in hand when the time to drain ran out: %d; others take them when their leases lapse: %w", p.inHand(), ctx.Err())
}
