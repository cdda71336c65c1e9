package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/runs"
)

// shadowEvery is how often the report of a gateway in shadow mode is stored, if it has changed: what a
// crash loses of it. A report is of one node and at most of one day.
const shadowEvery = 5 * time.Second

// Figures of a report of shadow mode, in their order.
const (
	ShadowRequests   = "guarded requests"
	ShadowFirst      = "first of their key"
	ShadowReplayed   = "replayed: their first was answered"
	ShadowJoined     = "joined: their first was under way"
	ShadowHeldBack   = "held back: their first had no clear reply"
	ShadowRefused    = "refused: another request's key, or no key at all"
	ShadowDoneAgain  = "done again by the API"
	ShadowUncompared = "not compared"
)

// reportShadow stores what shadow mode finds. It ends after the API, and waits for what is compared.
func (n *Node) reportShadow(ctx context.Context) (parts.Stop, error) {
	if !n.gateway.Shadow() {
		return nil, nil
	}
	if n.c.RunsBook == nil {
		return nil, errors.New("settings: gateway.mode is shadow, and runs names no bucket, where its report goes")
	}
	s := &shadowReport{n: n}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(shadowEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.store()
			case <-done:
				return
			}
		}
	})
	return func(ctx context.Context) error {
		n.gateway.Settle(ctx)
		close(done)
		work.Wait()
		return s.end(ctx)
	}, nil
}

type shadowReport struct {
	n       *Node
	run     *runs.Kept
	day     int
	changes int // that are stored
}

func (s *shadowReport) begin(ctx context.Context) (err error) {
	s.day = time.Now().UTC().YearDay()
	s.run, err = s.n.c.RunsBook.Begin(ctx, runs.Run{Kind: runs.Shadow, Of: s.n.c.Gateway.Settings.Guarded(), By: s.n.c.Name})
	return err
}

// store stores what has changed, and begins a report each day. What cannot be stored now is stored later.
func (s *shadowReport) store() {
	ctx, cancel := context.WithTimeout(context.Background(), shadowEvery)
	defer cancel()
	if time.Now().UTC().YearDay() != s.day {
		if err := s.end(ctx); err == nil {
			s.n.gateway.Found(true)
			err = s.begin(ctx)
			s.failed(ctx, err)
		} else {
			s.failed(ctx, err)
		}
		return
	}
	found, changes := s.n.gateway.Found(false)
	if changes == s.changes {
		return
	}
	if err := s.run.Put(ctx, func(r *runs.Run) { shadowed(r, &found) }); err != nil {
		s.failed(ctx, err)
		return
	}
	s.changes = changes
}

func (s *shadowReport) failed(ctx context.Context, err error) {
	if err != nil {
		s.n.log.WarnContext(ctx, "the report of shadow mode cannot be stored now", "error", err)
	}
}

func (s *shadowReport) end(ctx context.Context) error {
	found, _ := s.n.gateway.Found(false)
	return s.run.End(ctx, func(r *runs.Run) {
		shadowed(r, &found)
		r.Verdict = runs.Good
		switch {
		case found.DoneAgain > 0:
			r.Verdict = runs.Bad
		case found.Requests == 0 || found.Uncompared > 0:
			r.Verdict = runs.Unknown
		}
	})
}

// shadowed sets the results of a report.
func shadowed(r *runs.Run, found *gateway.Report) {
	r.Sentence = fmt.Sprintf("Of %d guarded requests guarding would not have sent %d again, and would have refused %d. The API did %d of them again.",
		found.Requests, found.Replayed+found.Joined+found.HeldBack, found.Refused, found.DoneAgain)
	r.Figures = nil
	for _, f := range []struct {
		name string
		n    int
		bad  bool
	}{
		{ShadowRequests, found.Requests, false}, {ShadowFirst, found.First, false}, {ShadowReplayed, found.Replayed, false}, {ShadowJoined, found.Joined, false}, {ShadowHeldBack, found.HeldBack, false},
		{ShadowRefused, found.Refused, false}, {ShadowDoneAgain, found.DoneAgain, found.DoneAgain > 0}, {ShadowUncompared, found.Uncompared, false},
	} {
		r.Figures = append(r.Figures, runs.Figure{Name: f.name, Value: strconv.Itoa(f.n), Bad: f.bad})
	}
	r.Findings = found.Examples
}
