package console

import (
	"context"
	"sync"
	"time"

	"github.com/homeward-io/homeward/fault"
	"github.com/homeward-io/homeward/region/admin"
)

// watchFor is how long one look at the deployment serves all viewers: less than the
// pages' own rhythm, so that each sees something new.
const watchFor = 1500 * time.Millisecond

// watch looks at the deployment for everybody: one question at a time, however many
// wait for the answer.
type watch struct {
	deployment Deployment
	now        func() time.Time

	mu   sync.Mutex
	last *admin.Overview
	err  error // of the last look
	at   time.Time
	// asking is closed when a question that is under way has its answer; nil: none is.
	asking chan struct{}
}

func newWatch(d Deployment, now func() time.Time) *watch { return &watch{deployment: d, now: now} }

// look is the deployment as it was at most watchFor ago.
func (w *watch) look(ctx context.Context) (*admin.Overview, error) {
	for {
		w.mu.Lock()
		if !w.at.IsZero() && w.now().Sub(w.at) < watchFor {
			defer w.mu.Unlock()
			return w.last, w.err
		}
		asking := w.asking
		if asking == nil {
			asking = make(chan struct{})
			w.asking = asking
			go w.ask(asking)
		}
		w.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask is nobody's in particular: others wait for the answer, too, so it has a time of its
// own.
func (w *watch) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), pageTime)
	defer cancel()
	var all *admin.Overview
	err := func() (err error) {
		defer fault.Recover(&err)
		all = w.deployment.Look(ctx, admin.Question{Gather: true, Arrivals: admin.MaxArrivals, WithoutBacklog: true})
		return nil
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.err, w.at, w.asking = all, err, w.now(), nil
	close(done)
}
