package outbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
)

const (
	// maxPauses bounds a poller's pause while a home has no rows, in multiples of Poll.
	maxPauses = 10
	// secondPauses is the pause of the second in line, in such pauses: 15 s by default. A
	// home waits no longer than that if the first has died, and nobody knows yet.
	secondPauses = 3
	// secondRounds is in how many rounds of other work the second in line acts once.
	secondRounds = 12
	// furtherRounds is the same for each further one, of polls, too: five minutes of a
	// poller's pauses by default. Many of them cost a store little then, and none depends
	// for ever on what it believes of others.
	furtherRounds = 60
)

// Rounds is in how many rounds a process acts once, of which one process suffices: the
// first in line (place 0) in each, the second as its deputy seldom, each further one rarely.
func Rounds(place int) int {
	switch place {
	case 0:
		return 1
	case 1:
		return secondRounds
	default:
		return furtherRounds
	}
}

// PollerConfig assembles a [Poller]. All fields but Place, Poll and Logger are required.
type PollerConfig struct {
	Queues Queues
	// Regions returns the homes to poll, as in [WorkerConfig].
	Regions func() []string
	// Workers are the workers to wake. The caller starts and drains them.
	Workers map[Queue]*Worker
	// Place is this process's place in the line of those that poll region, from 0: the
	// first polls often, the second as its deputy, the others rarely. It is a hint: it
	// affects only the number of polls, and how soon a poll finds rows for which no
	// worker was woken. nil: no other process polls.
	Place func(region string) int
	// Poll is the pause after a poll that found something. It doubles while nothing is
	// there, up to ten times as long. Default 500 ms.
	Poll   time.Duration
	Logger *slog.Logger
}

// Poller asks when rows of a home are due, and wakes the workers of those queues in which
// one is: one call of the store for each poll, however many queues there are. It sleeps
// until the first row is due, but not for longer than it pauses. Start and Stop may be
// called once each.
type Poller struct {
	c    PollerConfig
	stop context.CancelFunc
	ctx  context.Context // ends with stop
	// changed holds a token after a poll has ended or a wake came.
	changed chan struct{}
	work    sync.WaitGroup

	mu    sync.Mutex
	homes map[string]*polled
}

// polled is the state of a poller for one home.
type polled struct {
	running bool      // a poll
	at      time.Time // when the last one ended
	// pause is the pause after it if this process is the first in line; jitter spreads the
	// polls of processes.
	pause  time.Duration
	jitter float64
	due    time.Time // when the first row is due; zero: none is soon
	woken  bool
}

// NewPoller applies defaults.
func NewPoller(c PollerConfig) (*Poller, error) {
	if c.Queues == nil || c.Regions == nil || len(c.Workers) == 0 {
		return nil, errors.New("outbox: poller needs Queues, Regions and Workers")
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	if c.Place == nil {
		c.Place = func(string) int { return 0 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Poller{c: c, changed: make(chan struct{}, 1), homes: map[string]*polled{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Start begins polling.
func (p *Poller) Start() { p.work.Go(p.run) }

// Stop ends the Poller and cancels a poll in progress.
func (p *Poller) Stop() {
	p.stop()
	p.work.Wait()
}

// Wake schedules an early poll of region, for a new row there. The poll finds when the row
// is due.
func (p *Poller) Wake(region string) {
	p.mu.Lock()
	if h := p.homes[region]; h != nil {
		h.woken = true
	}
	p.mu.Unlock()
	p.notify()
}

func (p *Poller) maxPause() time.Duration { return maxPauses * p.c.Poll }

func (p *Poller) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-timer.C:
		case <-p.changed:
		}
		again := p.maxPause()
		if caught := fault.Caught(func() { again = p.startPolls() }); caught != nil {
			p.c.Logger.Error("the poll for outbox rows panicked; it is repeated after a pause", "fault", caught)
		}
		timer.Reset(again)
	}
}

// startPolls starts the polls that are due, and returns the pause until the next call. The
// pause is at most maxPause, as this process may be the first in line by then, or there may
// be other homes.
func (p *Poller) startPolls() time.Duration {
	regions, now, back := p.c.Regions(), time.Now(), p.maxPause()
	for _, region := range regions {
		place := p.c.Place(region)
		p.mu.Lock()
		h := p.homes[region]
		if h == nil {
			h = &polled{pause: p.c.Poll, woken: true}
			p.homes[region] = h
		}
		if !h.running { // otherwise its end is a change
			if at := p.when(h, place); at.After(now) {
				back = min(back, at.Sub(now))
			} else if p.ctx.Err() == nil {
				h.running, h.woken = true, false
				p.work.Go(func() { p.poll(region, h) })
			}
		}
		p.mu.Unlock()
	}
	return back
}

// when returns the time of the next poll. The caller holds the lock.
func (p *Poller) when(h *polled, place int) time.Time {
	pause := h.pause
	switch place {
	case 0:
	case 1:
		pause = secondPauses * p.maxPause()
	default:
		pause = furtherRounds * p.maxPause()
	}
	at := h.at.Add(time.Duration(float64(pause) * h.jitter))
	if !h.due.IsZero() && h.due.Before(at) {
		at = h.due
	}
	if soonest := h.at.Add(p.c.Poll / 5); h.woken && soonest.Before(at) {
		at = soonest // concurrent requests share a poll
	}
	return at
}

// poll asks the store about a home and wakes the workers with due rows.
func (p *Poller) poll(region string, h *polled) {
	var next map[Queue]time.Duration
	var err error
	if caught := fault.Caught(func() { next, err = p.c.Queues.NextDue(p.ctx, region) }); caught != nil {
		err = caught
	}
	if err != nil && p.ctx.Err() == nil {
		p.c.Logger.Warn("could not look for outbox rows", "home", region, "error", err)
	}
	now, found, due := time.Now(), false, time.Time{}
	for q, in := range next {
		switch w := p.c.Workers[q]; {
		case w == nil: // not ours to take
		case in <= 0:
			found = true
			w.Wake(region, 0)
		case in < 2*p.maxPause() && (due.IsZero() || now.Add(in).Before(due)):
			due = now.Add(in)
		}
	}
	p.mu.Lock()
	h.running, h.at, h.due, h.jitter = false, now, due, 0.5+rand.Float64()
	if h.pause = min(2*h.pause, p.maxPause()); found {
		h.pause = p.c.Poll
	}
	p.mu.Unlock()
	p.notify()
}

func (p *Poller) notify() {
	select {
	case p.changed <- struct{}{}:
	default: // a token is there already
	}
}
