package notice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment/psp"
)

// Errors of [Receiver.Receive] beside those of psp.Notifier.Verify.
var (
	// ErrUnknownProvider: no provider of that name sends notices here.
	ErrUnknownProvider = errors.New("webhook: no provider of this name sends notices here")
	// ErrBusy: too many notices wait to be stored; the provider repeats this one.
	ErrBusy = errors.New("webhook: too many notices are waiting; send it again later")
)

// ErrRefused, of [Store.Keep]: the store cannot store these notices, now or later,
// because of the content of one of them. None of them was stored.
var ErrRefused = errors.New("webhook: the store refuses the notice")

const (
	// maxWaiting bounds the notices that wait to be stored: two seconds of 2,000 a
	// second, which is as long as a provider should wait for its 200. The API bounds
	// their bytes (httpapi.Limits).
	maxWaiting = 4096
	// maxBatch bounds the notices of one step: enough that 2,000 a second are eight
	// steps, few enough that a step stays far below a statement's time-out.
	maxBatch = 256
	// maxBatchBytes is the size of bodies at which a step is full: CockroachDB refuses
	// messages above 16 MiB by default. With one more of the largest bodies a step
	// stays far below that.
	maxBatchBytes = 4 << 20
	// maxID bounds a notice's id, in bytes. Providers' have some 30; PostgreSQL indexes
	// no more than 2,700.
	maxID = 512
	// keepers bounds the concurrent steps: one being written while the next is filled.
	keepers = 2
	// keepPause is the least time between the beginnings of two steps. A provider does
	// not notice it. A step costs a commit however many notices it has, and charges wait
	// for the same disk and the same cores: a flood of 2,000 a second costs them 50
	// steps of 40 notices, and not 2,000 of one. A notice that comes alone waits for
	// nothing.
	keepPause = 20 * time.Millisecond
	// answers is in how many portions the callers of a step are answered, and
	// answerPause what is between two of them: together half of keepPause.
	answers     = 10
	answerPause = keepPause / (2 * answers)
	// keepTimeout bounds one step. Providers wait 10 s or more for an answer.
	keepTimeout = 5 * time.Second
)

// ReceiverConfig assembles a [Receiver]. All but Seal, Logger and Now is required.
type ReceiverConfig struct {
	// Region is where notices are stored: the one that receives them, so that receiving
	// needs no other region. A notice that the provider repeats in another region is
	// stored twice and acted on once: the movement identifies the action, not the
	// notice.
	Region string
	Store  Store
	// Notifiers verify signatures, by the provider's name in the path.
	Notifiers map[string]psp.Notifier
	// Seal seals bodies before they are kept; nil leaves them as they come.
	Seal *seal.Ring
	// Meters count verdicts. Nil: none are counted.
	Meters *meter.Set
	Logger *slog.Logger
	// Now is compared with the signed time; nil means time.Now.
	Now func() time.Time
}

// Receiver receives notices: it verifies the signature and waits until the raw body is
// durable, and does nothing else. Concurrent notices share a step, so their rate is
// bounded by the disk's bandwidth and not by its latency. Under a flood a notice waits up
// to 20 ms for others, so that steps stay few, and up to 10 ms for its answer, so that
// those of a step do not come all at once: charges are not slowed down. It is safe for
// concurrent use; Stop ends it.
type Receiver struct {
	c        ReceiverConfig
	received *meter.Counter
	waiting  chan delivery
	// next holds, while no step is being filled, when the next one may begin.
	next chan time.Time
	stop context.CancelFunc
	ctx  context.Context
	done sync.WaitGroup
}

type delivery struct {
	notice Notice
	kept   chan<- error
}

// NewReceiver starts a receiver.
func NewReceiver(c ReceiverConfig) (*Receiver, error) {
	if c.Region == "" || c.Store == nil {
		return nil, errors.New("webhook: receiver needs Region and Store")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Receiver{c: c, received: c.Meters.Counter(meter.Notices), waiting: make(chan delivery, maxWaiting), next: make(chan time.Time, 1)}
	r.next <- time.Time{}
	r.ctx, r.stop = context.WithCancel(context.Background())
	for range keepers {
		r.done.Go(r.keep)
	}
	return r, nil
}

// Stop returns [ErrBusy] to waiting callers. Call it when no more notices arrive.
func (r *Receiver) Stop() {
	r.stop()
	r.done.Wait()
}

// Expects refuses a notice by its header, before anybody reads its body: with [ErrUnknownProvider],
// or with [ErrForged] if it lacks what its provider signs with. Nil does not mean that the
// signature is valid.
func (r *Receiver) Expects(provider string, header http.Header) error {
	notifier, ok := r.c.Notifiers[provider]
	switch {
	case !ok:
		return r.counted(provider, ErrUnknownProvider)
	case !notifier.Signed(header):
		return r.counted(provider, fmt.Errorf("webhook: %w", ErrForged))
	}
	return nil
}

// Receive stores one notice and returns once it is durable; nil also if it was stored
// before. After an error nothing may be assumed: the provider repeats it.
func (r *Receiver) Receive(ctx context.Context, provider string, header http.Header, body []byte) error {
	return r.counted(provider, r.receive(ctx, provider, header, body))
}

// Report stores a notice of the provider of test tenants, which is in this process: nobody else can
// send one, and none is counted. The id names its tenant, so that what waits for one can be found. No
// worker holds it before its time: time that passes for the tenant meanwhile would be lost with the
// worker's answer that it is early.
func (r *Receiver) Report(ctx context.Context, tenant, event string, after time.Duration, body []byte) error {
	n := Notice{ID: TestID(tenant, event), Region: r.c.Region, Provider: claim.TestProvider, Body: body, TraceParent: span.TraceParent(ctx), After: after}
	if err := n.storable(); err != nil {
		return err
	}
	var err error
	if n.Body, err = r.c.Seal.Seal(ctx, rowOf(n.Region, n.ID), body); err != nil {
		return fmt.Errorf("%w: the notice could not be sealed: %w", claim.ErrUnavailable, err)
	}
	_, err = r.c.Store.Keep(ctx, n.Region, []Notice{n})
	return err
}

// counted counts why a notice was not stored.
func (r *Receiver) counted(provider string, err error) error {
	switch {
	case err == nil: // the step that stored it has counted it
	case errors.Is(err, ErrUnknownProvider):
		r.received.Add(1, meter.Other, "unknown_provider") // the name is unverified: anybody can send one
	default:
		r.received.Add(1, provider, verdictOf(err))
	}
	return err
}

// verdictOf returns why a notice was not stored, as in [meter.Notices].
func verdictOf(err error) string {
	switch {
	case errors.Is(err, ErrForged):
		return "forged"
	case errors.Is(err, ErrStale):
		return "stale"
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, ErrUnchecked):
		return "unchecked"
	case errors.Is(err, ErrRefused):
		return meter.Refused
	case errors.Is(err, ErrBusy):
		return "busy"
	default:
		return meter.Unavailable
	}
}

func (r *Receiver) receive(ctx context.Context, provider string, header http.Header, body []byte) error {
	notifier, ok := r.c.Notifiers[provider]
	if !ok {
		return ErrUnknownProvider
	}
	id, err := notifier.Verify(header, body, r.c.Now())
	if err != nil {
		return err
	}
	notice := Notice{
		ID: ID(provider, id), Region: r.c.Region, Provider: provider, Body: body, TraceParent: span.TraceParent(ctx),
	}
	if err := notice.storable(); err != nil {
		return err
	}
	if notice.Body, err = r.c.Seal.Seal(ctx, rowOf(notice.Region, notice.ID), body); err != nil {
		return fmt.Errorf("%w: the notice could not be sealed: %w", claim.ErrUnavailable, err)
	}
	kept := make(chan error, 1)
	select {
	case r.waiting <- delivery{notice, kept}:
	default:
		return ErrBusy
	}
	select {
	case err := <-kept:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return ErrBusy
	}
}

// storable reports whether every store can store n: its texts are valid UTF-8 without
// NUL, which PostgreSQL cannot store, and the id is short enough. Otherwise the whole
// step would fail.
func (n *Notice) storable() error {
	if len(n.ID) > maxID {
		return fmt.Errorf("%w: its event id has more than %d bytes; check what the provider sends", ErrMalformed, maxID-len(ID(n.Provider, "")))
	}
	for _, text := range []struct{ name, value string }{
		{"event id", n.ID}, {"provider's name", n.Provider}, {"trace parent", n.TraceParent}, {"detail", n.Detail},
	} {
		if !utf8.ValidString(text.value) || strings.ContainsRune(text.value, 0) {
			return fmt.Errorf("%w: its %s is %q, which is not UTF-8 text without NUL; check what the provider sends", ErrMalformed, text.name, text.value)
		}
	}
	return nil
}

// keep stores the waiting notices, as many at once as there are.
func (r *Receiver) keep() {
	batch := make([]delivery, 0, maxBatch)
	for {
		if batch = r.fill(batch[:0]); len(batch) == 0 {
			return
		}
		err := r.store(batch)
		if len(batch) == 1 || !oneToBlame(err) {
			r.answer(batch, err)
			continue
		}
		// One of the notices is at fault; store the others one by one. After any other
		// error the store is at fault, and the rest need not be tried.
		for i := range batch {
			if err == nil || oneToBlame(err) {
				err = r.store(batch[i : i+1])
			}
			batch[i].kept <- err
		}
	}
}

// answer ends the waiting of a batch, a few callers after another: all at once they would
// keep both cores of a small machine busy for milliseconds, and charges behind them.
func (r *Receiver) answer(batch []delivery, err error) {
	if len(batch) < maxBatch {
		few := (len(batch) + answers - 1) / answers
		for len(batch) > few && r.ctx.Err() == nil {
			for _, a := range batch[:few] {
				a.kept <- err
			}
			batch = batch[few:]
			select {
			case <-time.After(answerPause):
			case <-r.ctx.Done():
			}
		}
	}
	for _, a := range batch {
		a.kept <- err
	}
}

// fill waits for notices, and until the next step may begin. It returns none once the
// receiver is stopped. One keeper fills at a time. A full step does not delay the next.
func (r *Receiver) fill(batch []delivery) []delivery {
	var next time.Time
	select {
	case next = <-r.next:
	case <-r.ctx.Done():
		return nil
	}
	pause := time.Duration(0)
	defer func() { r.next <- time.Now().Add(pause) }()
	select {
	case a := <-r.waiting:
		batch = append(batch, a)
	case <-r.ctx.Done():
		return nil
	}
	if rest := time.Until(next); rest > 0 {
		select {
		case <-time.After(rest):
		case <-r.ctx.Done():
			return nil // the callers return, too
		}
	}
	for size := len(batch[0].notice.Body); len(batch) < maxBatch && size < maxBatchBytes; {
		select {
		case a := <-r.waiting:
			batch = append(batch, a)
			size += len(a.notice.Body)
		default:
			pause = keepPause
			return batch
		}
	}
	return batch
}

// kept counts the new notices. If one step has notices of several providers, it counts none by
// provider.
func (r *Receiver) kept(notices []Notice, fresh int) {
	provider := notices[0].Provider
	for _, n := range notices {
		if n.Provider != provider {
			provider = meter.Other
		}
	}
	r.received.Add(int64(fresh), provider, "kept")
	r.received.Add(int64(len(notices)-fresh), provider, "duplicate")
}

// oneToBlame reports whether the step failed because of the content of one notice. It
// treats a panic so, too; whether the step was stored is then unknown, and a retry
// stores it once.
func oneToBlame(err error) bool {
	var caught *fault.Error
	return errors.Is(err, ErrRefused) || errors.As(err, &caught)
}

// store stores a batch in one step.
func (r *Receiver) store(batch []delivery) (err error) {
	defer func() {
		if caught := (*fault.Error)(nil); errors.As(err, &caught) {
			r.c.Logger.Error("storing notices panicked; the provider resends them", "region", r.c.Region, "notices", len(batch), "first", batch[0].notice.ID, "fault", caught)
		}
	}()
	defer fault.Recover(&err)
	notices := make([]Notice, len(batch))
	for i := range batch {
		notices[i] = batch[i].notice
	}
	// Not under r.ctx: a step that has begun is finished.
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	fresh, err := r.c.Store.Keep(ctx, r.c.Region, notices)
	switch {
	case err == nil:
		r.kept(notices, fresh)
		return nil
	case !errors.Is(err, ErrRefused):
		r.c.Logger.Warn("notices could not be stored; the provider resends them", "region", r.c.Region, "notices", len(notices), "error", err)
	case len(notices) == 1:
		r.c.Logger.Error("the store rejects a notice, now and later; check what the provider sends", "region", r.c.Region, "notice", notices[0].ID, "error", err)
	}
	return fmt.Errorf("the notice could not be stored: %w", err)
}
