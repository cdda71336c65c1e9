package outbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
)

const (
	// restTimes bounds a lookout's pause while a home has no rows, in multiples of
	// Poll.
	restTimes = 10
	// deputyTimes is the pause of the second in line, in such pauses: 15 s by default. A
	// home waits no longer than that if the first has died, and nobody knows yet.
	deputyTimes = 3
	// seldomRounds is in how many rounds of other work the second in line acts once.
	seldomRounds = 12
	// rareRounds is the same for each further one, of looks, too: five minutes of a
	// lookout's pauses by default. Many of them cost a store little then, and none depends
	// for ever on what it believes of others.
	rareRounds = 60
)

// Rounds is in how many rounds a process acts once, of which one process suffices: the
// first in line (place 0) in each, the second as its deputy seldom, each further one rarely.
func Rounds(place int) int {
	switch place {
	case 0:
		return 1
	case 1:
		return seldomRounds
	default:
		return rareRounds
	}
}

// LookoutConfig assembles a [Lookout]. All fields but Turn, Poll and Logger are
// required.
type LookoutConfig struct {
	Looker Looker
	// Regions returns the homes to look at, as in [WorkerConfig].
	Regions func() []string
	// Workers are the workers to wake; each must be Woken. The caller starts and
	// drains them.
	Workers map[Queue]*Worker
	// Place is this process's place in the line of those that look at region, from 0: the
	// first looks often, the second as its deputy, the others rarely. It is a hint: it
	// affects only the number of looks, and how soon a look finds rows for which no
	// worker was woken. nil: no other process looks.
	Place func(region string) int
	// Poll is the pause after a look that found something. It doubles while nothing is
	// there, up to ten times as long. Default 500 ms.
	Poll   time.Duration
	Logger *slog.Logger
}

// Lookout looks at all queues of a home at once, and wakes the workers of those in which
// a row is due: one call of the store for each look, however many queues there are. It sleeps
// until the first row is due, but not for longer than it pauses. Start and Stop may be
// called once each.
type Lookout struct {
	c    LookoutConfig
	stop context.CancelFunc
	ctx  context.Context // ends with stop
	// news holds a token after a look has ended or was asked for.
	news chan struct{}
	work sync.WaitGroup

	mu    sync.Mutex
	homes map[string]*sight
}

// sight is the state of a lookout for one home.
type sight struct {
	asked  bool      // a look is under way
	looked time.Time // when the last one ended
	// pause is the pause after it if this process is the first in line; jitter spreads the
	// looks of processes.
	pause  time.Duration
	jitter float64
	soon   time.Time // when the first row is due; zero: none is soon
	wanted bool      // a look was requested
}

// NewLookout applies defaults.
func NewLookout(c LookoutConfig) (*Lookout, error) {
	if c.Looker == nil || c.Regions == nil || len(c.Workers) == 0 {
		return nil, errors.New("outbox: lookout needs Looker, Regions and Workers")
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
	l := &Lookout{c: c, news: make(chan struct{}, 1), homes: map[string]*sight{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Start begins looking.
func (l *Lookout) Start() { l.work.Go(l.run) }

// Stop ends the Lookout and cancels a look in progress.
func (l *Lookout) Stop() {
	l.stop()
	l.work.Wait()
}

// Look schedules an early look at region, for a new row there. The look finds when the
// row is due.
func (l *Lookout) Look(region string) {
	l.mu.Lock()
	if h := l.homes[region]; h != nil {
		h.wanted = true
	}
	l.mu.Unlock()
	l.tell()
}

func (l *Lookout) rest() time.Duration { return restTimes * l.c.Poll }

func (l *Lookout) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-timer.C:
		case <-l.news:
		}
		again := l.rest()
		if caught := fault.Caught(func() { again = l.begin() }); caught != nil {
			l.c.Logger.Error("the lookout for outbox rows panicked; it continues after a pause", "fault", caught)
		}
		timer.Reset(again)
	}
}

// begin begins the looks that are due, and returns the pause until the next call. The
// pause is at most rest, as this process may be the first in line by then, or there may
// be other homes.
func (l *Lookout) begin() time.Duration {
	regions, now, back := l.c.Regions(), time.Now(), l.rest()
	for _, region := range regions {
		place := l.c.Place(region)
		l.mu.Lock()
		h := l.homes[region]
		if h == nil {
			h = &sight{pause: l.c.Poll, wanted: true}
			l.homes[region] = h
		}
		if !h.asked { // otherwise its end is news
			if at := l.when(h, place); at.After(now) {
				back = min(back, at.Sub(now))
			} else if l.ctx.Err() == nil {
				h.asked, h.wanted = true, false
				l.work.Go(func() { l.look(region, h) })
			}
		}
		l.mu.Unlock()
	}
	return back
}

// when returns the time of the next look. The caller holds the lock.
func (l *Lookout) when(h *sight, place int) time.Time {
	pause := h.pause
	switch place {
	case 0:
	case 1:
		pause = deputyTimes * l.rest()
	default:
		pause = rareRounds * l.rest()
	}
	at := h.looked.Add(time.Duration(float64(pause) * h.jitter))
	if !h.soon.IsZero() && h.soon.Before(at) {
		at = h.soon
	}
	if soonest := h.looked.Add(l.c.Poll / 5); h.wanted && soonest.Before(at) {
		at = soonest // concurrent requests share a look
	}
	return at
}

// look looks at a home and wakes the workers with due rows.
func (l *Lookout) look(region string, h *sight) {
	var outlook Outlook
	var err error
	if caught := fault.Caught(func() { outlook, err = l.c.Looker.Look(l.ctx, region) }); caught != nil {
		err = caught
	}
	if err != nil && l.ctx.Err() == nil {
		l.c.Logger.Warn("could not look for outbox rows", "home", region, "error", err)
	}
	now, found, soon := time.Now(), false, time.Time{}
	for q, in := range outlook {
		switch w := l.c.Workers[q]; {
		case w == nil: // not ours to take
		case in <= 0:
			found = true
			w.Wake(region, 0)
		case in < 2*l.rest() && (soon.IsZero() || now.Add(in).Before(soon)):
			soon = now.Add(in)
		}
	}
	l.mu.Lock()
	h.asked, h.looked, h.soon, h.jitter = false, now, soon, 0.5+rand.Float64()
	if h.pause = min(2*h.pause, l.rest()); found {
		h.pause = l.c.Poll
	}
	l.mu.Unlock()
	l.tell()
}

func (l *Lookout) tell() {
	select {
	case l.news <- struct{}{}:
	default: // a token is there already
	}
}
