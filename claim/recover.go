package claim

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/fault"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/span"
)

// Recover works a due provider call off: it takes the claim over and attempts
// it again. It implements the handler of [outbox.KindProviderCall].
func (s *Service) Recover(ctx context.Context, m outbox.Message) outbox.Disposition {
	return s.recover(ctx, m, "")
}

// Learn settles the claim of a provider call m that is in flight, now that the
// provider has said by itself that it did what was asked, under the reference told
// of its own. [outbox.Later] says when to try again, [outbox.Gone] that the claim is
// not in flight any more, whoever settled it, [outbox.Faulted] that our code panicked.
func (s *Service) Learn(ctx context.Context, m outbox.Message, told string) outbox.Disposition {
	return s.recover(ctx, m, told)
}

func (s *Service) recover(ctx context.Context, m outbox.Message, told string) outbox.Disposition {
	key := Key{Tenant: m.Tenant, Value: m.Key}
	asked := time.Now()
	rec, err := s.takeOver(ctx, key, m.Region, m.ID)
	var held *LeaseHeldError
	switch {
	case errors.As(err, &held):
		// The holder is alive and renewing, or the clock that wrote the lease may be
		// ahead: look again when it could end.
		return outbox.Later(max(held.For, s.c.Policy.WaitPoll))
	case errors.Is(err, ErrFenced):
		// Settled since, by a step that removed the row or wrote it anew under another
		// fence; or the row is of a life of the key that is over.
		return outbox.Done()
	case err != nil:
		return outbox.Later(s.c.Policy.Lease)
	}
	if _, err := s.execute(context.WithoutCancel(ctx), &rec, Attempt{Payload: m.Payload, Recovery: true, Told: told}, asked); err != nil {
		if caught := (*fault.Error)(nil); errors.As(err, &caught) {
			return outbox.Faulted(caught) // so that it is counted, and a person hears of it
		}
		if _, ok := errors.AsType[*UnknownError](err); !ok {
			s.c.Logger.Warn("recovery of a provider call did not settle", "tenant", key.Tenant, "home", m.Region, "error", err)
		}
	}
	// The claim's own step has removed or rescheduled the row.
	return outbox.Gone()
}

// Expire closes a released claim whose request is not payable any more. It
// implements the handler of [outbox.KindExpiry].
func (s *Service) Expire(ctx context.Context, m outbox.Message) outbox.Disposition {
	key := Key{Tenant: m.Tenant, Value: m.Key}
	rec, now, found, err := s.c.Store.Get(ctx, key, m.Region)
	switch {
	case err != nil:
		return outbox.Later(s.c.Policy.Lease)
	case !found || rec.Minted.ID != m.ID || rec.State.Final() || rec.Age(&s.c.Policy, now) == Gone:
		return outbox.Done()
	case rec.State == InFlight:
		// Whoever holds it, or recovers it, knows that it is not payable any more, and
		// may release it all the same.
		return outbox.Later(s.c.Policy.Lease)
	}
	verdict := s.c.Executor.Attempt(ctx, Attempt{Record: rec, Payload: m.Payload, Closing: true, Now: now})
	if verdict.Outcome != OutcomeRefused {
		return outbox.Failed("closing gave " + verdict.Outcome.String())
	}
	verdict.Node, verdict.Region = s.c.Node, s.c.Region
	switch _, err := s.record(ctx, &rec, &verdict); {
	case err == nil:
		return outbox.Done()
	case errors.Is(err, ErrFenced):
		return outbox.Later(s.c.Policy.WaitPoll) // it was tried again meanwhile
	default:
		return outbox.Later(s.c.Policy.Lease)
	}
}

func (s *Service) takeOver(ctx context.Context, key Key, home, object string) (rec Record, err error) {
	ctx, sp := span.Start(ctx, span.Claim)
	defer func() { s.traceClaim(sp, &rec, string(EventTakenOver), err); sp.End() }()
	return s.c.Store.TakeOver(ctx, key, home, object, s.c.Node, s.c.Region)
}
