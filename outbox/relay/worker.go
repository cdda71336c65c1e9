package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/homeward-io/homeward/outbox"
)

// Sink is where events of one kind go. Deliver is called concurrently and returns
// soon after ctx ends.
type Sink interface {
	Deliver(ctx context.Context, e Event) Outcome
}

// Outcome is what became of a delivery.
type Outcome struct {
	kind   outcome
	after  time.Duration
	reason string
}

type outcome uint8

const (
	// Whatever nobody decided is tried again.
	outcomeFailed outcome = iota
	outcomeDelivered
	outcomeLater
	outcomePark
)

// Delivered: the sink has it, or nobody wants it.
func Delivered() Outcome { return Outcome{kind: outcomeDelivered} }

// Later: it was not tried, since the sink is busy or down.
func Later(d time.Duration) Outcome { return Outcome{kind: outcomeLater, after: d} }

// Failed: the sink refused it, or whether it has it is unknown. It is tried again.
func Failed(reason string) Outcome { return Outcome{kind: outcomeFailed, reason: reason} }

// Park: no retry can mend it before a person has done something, which reason says.
func Park(reason string) Outcome { return Outcome{kind: outcomePark, reason: reason} }

// The pace of retries. With full jitter a pause is half its bound on average, so
// the first twelve take half an hour together, and each further one half an hour:
// 300 are six days, give or take five hours. That is longer than [DisableAfter], so
// that an endpoint which is down is disabled, and its events parked with a reason,
// before one of them runs out of tries.
const (
	backoffMin  = time.Second
	backoffMax  = time.Hour
	maxAttempts = 300
)

// batch is how many deliveries one node has in hand. They wait for others nearly all
// the time: 64 cost some megabytes and no processor.
const batch = 64

// Config assembles a worker. Store, Regions and Sinks are required.
type Config struct {
	// Store is the queue outbox.Events.
	Store outbox.Store
	// Regions are the homes whose events this node tells; see outbox.WorkerConfig.
	Regions func() []string
	// Sinks by the kind of row that they take. Rows of a kind that has none wait, for
	// another node may have it, and are parked after some days.
	Sinks map[outbox.Kind]Sink
	// Poll is the pause after a look that found nothing. Default 500 ms.
	Poll time.Duration
	// Woken is as of outbox.WorkerConfig.
	Woken  bool
	Logger *slog.Logger
}

// NewWorker makes the worker that tells events; the caller starts and drains it.
func NewWorker(c Config) (*outbox.Worker, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	handlers := map[outbox.Kind]outbox.Handler{}
	for _, kind := range []outbox.Kind{outbox.KindNATS, outbox.KindWebhook, outbox.KindLog} {
		sink := c.Sinks[kind]
		if sink == nil {
			sink = absent(kind)
		}
		handlers[kind] = c.handler(sink)
	}
	return outbox.NewWorker(outbox.WorkerConfig{
		Store: c.Store, Regions: c.Regions, Handlers: handlers, Poll: c.Poll, Woken: c.Woken, Batch: batch,
		MaxAttempts: maxAttempts, BackoffMin: backoffMin, BackoffMax: backoffMax, Logger: c.Logger,
	})
}

func (c *Config) handler(sink Sink) outbox.Handler {
	return func(ctx context.Context, m outbox.Message) outbox.Disposition {
		e, err := readEvent(m)
		if err != nil {
			return c.park(ctx, m, err.Error())
		}
		switch o := sink.Deliver(ctx, e); o.kind {
		case outcomeDelivered:
			return outbox.Done()
		case outcomeLater:
			return outbox.Later(o.after)
		case outcomePark:
			return c.park(ctx, m, o.reason)
		default:
			return outbox.Failed(o.reason)
		}
	}
}

// park takes a row out of the queue that would only fail again.
func (c *Config) park(ctx context.Context, m outbox.Message, reason string) outbox.Disposition {
	switch err := c.Store.Park(ctx, m.Region, m.ID, m.Fence, reason); {
	case errors.Is(err, outbox.ErrFenced):
		// Somebody else has the row, and finds out for himself.
	case err != nil:
		return outbox.Failed(reason)
	default:
		c.Logger.Warn("event parked", "home", m.Region, "id", m.ID, "tenant", m.Tenant, "reason", reason)
	}
	return outbox.Gone()
}

// absent stands in for a sink that this node does not have.
type absent outbox.Kind

func (a absent) Deliver(context.Context, Event) Outcome {
	return Failed(fmt.Sprintf("this node has no sink for %s; configure it, or park the row", string(a)))
}
