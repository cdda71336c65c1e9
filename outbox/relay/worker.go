package relay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/outbox"
)

// Sink delivers events of one kind. Deliver is called concurrently and returns soon after
// ctx ends. It returns [outbox.Done] if the sink has the event or no one subscribes to it;
// [outbox.Later] if it made no try, as the sink is busy or down; [outbox.Failed] if the
// sink refused the event or the delivery is unknown; [outbox.Parked] if no retry can
// succeed before an operator acts.
type Sink interface {
	Deliver(ctx context.Context, e Event) outbox.Disposition
}

// The pace of retries. With full jitter a pause is half its bound on average, so the
// first twelve take half an hour together, and each further one half an hour: 300 are
// six days, give or take five hours. That is longer than [DisableAfter]: a failing
// endpoint is disabled, and its events are parked with that reason, before one of them
// runs out of tries.
const (
	backoffMin  = time.Second
	backoffMax  = time.Hour
	maxAttempts = 300
)

// batch is how many deliveries one node runs at once. They spend nearly all their time
// waiting: 64 cost some megabytes and no processor.
const batch = 64

// Config assembles a worker. Store, Regions and Sinks are required.
type Config struct {
	// Store is the queue outbox.Events.
	Store outbox.Store
	// Regions returns the homes whose events this node delivers; see
	// outbox.WorkerConfig.
	Regions func() []string
	// Sinks maps each kind of row to its sink. Rows of a kind without a sink wait, as
	// another node may have one, and are parked after some days.
	Sinks map[outbox.Kind]Sink
	// Poll is as in outbox.WorkerConfig.
	Poll time.Duration
	// Meters is as in outbox.WorkerConfig.
	Meters *meter.Set
	Logger *slog.Logger
}

// NewWorker makes the worker that delivers events; the caller starts and drains
// it.
func NewWorker(c Config) (*outbox.Worker, error) {
	handlers := map[outbox.Kind]outbox.Handler{}
	for _, kind := range []outbox.Kind{outbox.KindNATS, outbox.KindWebhook, outbox.KindLog} {
		sink := c.Sinks[kind]
		if sink == nil {
			sink = absent(kind)
		}
		handlers[kind] = handler(sink)
	}
	return outbox.NewWorker(outbox.WorkerConfig{
		Store: c.Store, Regions: c.Regions, Handlers: handlers, Poll: c.Poll, Slots: batch,
		MaxAttempts: maxAttempts, BackoffMin: backoffMin, BackoffMax: backoffMax, Meters: c.Meters, Logger: c.Logger,
	})
}

func handler(sink Sink) outbox.Handler {
	return func(ctx context.Context, m outbox.Message) outbox.Disposition {
		e, err := readEvent(m)
		if err != nil {
			return outbox.Parked(err.Error())
		}
		if d := sink.Deliver(ctx, e); d != (outbox.Disposition{}) {
			return d
		}
		return outbox.Failed("the sink does not say what became of the event")
	}
}

// absent stands in for a sink that this node does not have.
type absent outbox.Kind

func (a absent) Deliver(context.Context, Event) outbox.Disposition {
	return outbox.Failed(fmt.Sprintf("this node has no sink for %s; configure it, or park the row", string(a)))
}
