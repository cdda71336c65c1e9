package claim

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/outbox"
)

// Recover handles a due provider call: it takes the claim over and makes
// another attempt. It is the handler of [outbox.KindProviderCall].
func (s *Service) Recover(ctx context.Context, m outbox.Message) outbox.Disposition {
	return s.recover(ctx, m, Attempt{}, 0, News{})
}

// Learn settles the in-flight claim of the provider call m after the named provider notified us
// that it made the movement, under its own reference ref. generation is the one of the claim that the
// notice ends whatever else is found out, 0 for none: then Learn waits for the next attempt's time, as
// it may have to ask. If the claim has since moved to another provider, Learn recovers it as if there
// had been no notice. The movement may be one of an earlier generation: the executor finds out whether
// it still counts. Learn returns [outbox.Later] with the time of the next try, [outbox.Gone] if the
// claim is no longer in flight, whoever settled it, and [outbox.Faulted] if our code panicked.
func (s *Service) Learn(ctx context.Context, m outbox.Message, provider, ref string, generation uint32) outbox.Disposition {
	return s.recover(ctx, m, Attempt{ReportedRef: ref, ReportedBy: provider}, 0, News{provider, generation})
}

// LearnRefusal is Learn for a notice that the provider declined the given generation of
// the claim, counted from 1. code is the provider's decline code. If the claim has gone on
// to a later generation, LearnRefusal recovers that as if there had been no notice.
func (s *Service) LearnRefusal(ctx context.Context, m outbox.Message, provider, code string, generation uint32) outbox.Disposition {
	return s.recover(ctx, m, Attempt{Refused: code, ReportedBy: provider}, generation, News{provider, generation})
}

// LearnHeld is Learn for a notice about the money that a charge holds. A capture or cancellation
// takes the charge by the same step, one at a time.
func (s *Service) LearnHeld(ctx context.Context, m outbox.Message, h Held) outbox.Disposition {
	var news News
	if h.By != "" && h.Order == "" { // what answers an order, or is one, may not be of this claim's call
		news = News{h.By, 1}
	}
	return s.recover(ctx, m, Attempt{Held: &h, ReportedBy: h.By}, 0, news)
}

// recover attempts m again with the notice that a carries. The notice is about the given
// generation; 0: about any. The claim may have gone on since the caller read it; once it is taken
// over it stays as it is.
func (s *Service) recover(ctx context.Context, m outbox.Message, a Attempt, generation uint32, news News) outbox.Disposition {
	key := Key{Tenant: m.Tenant, Value: m.Key}
	if s.elsewhere(ctx, key, &m) {
		return outbox.Later(otherProviderPause)
	}
	sentAt := time.Now()
	rec, err := s.takeOver(context.WithoutCancel(ctx), key, m.Region, m.ID, news)
	var held *LeaseHeldError
	switch {
	case errors.As(err, &held):
		// The holder is alive and renewing, the next attempt is not due, or the clock that wrote
		// the lease may be ahead: try again when it could end.
		return outbox.Later(max(held.For, s.c.Policy.WaitPoll))
	case errors.Is(err, ErrFenced):
		// Another step settled the claim since: it removed the row, or wrote it anew
		// under another fence. Or the row belongs to an earlier life of the key.
		return outbox.Done()
	case err != nil:
		return outbox.Later(s.c.Policy.Lease)
	}
	if generation != 0 && generation != rec.Generation {
		a = Attempt{}
	}
	a.Payload, a.Recovery = m.Payload, true
	if _, err := s.execute(context.WithoutCancel(ctx), &rec, a, sentAt); err != nil {
		if caught := (*fault.Error)(nil); errors.As(err, &caught) {
			return outbox.Faulted(caught) // so that the worker counts it, and an operator is notified
		}
		if errors.Is(err, ErrUnstorable) {
			return outbox.Parked("the store refuses to record what the provider answered: " + err.Error())
		}
		if _, ok := errors.AsType[*UnknownError](err); !ok {
			s.c.Logger.Warn("could not settle a recovered provider call", "tenant", key.Tenant, "home", m.Region, "error", err)
		}
	}
	// The claim's own step has removed or rescheduled the row.
	return outbox.Gone()
}

// elsewhere reports whether m's claim is with a provider that this node does not have.
// The node then leaves the claim alone: each take-over would write audit entries and
// keep the claim from a node that has the provider. The check costs a read, so it is
// only made for a while after such a claim was seen.
func (s *Service) elsewhere(ctx context.Context, key Key, m *outbox.Message) bool {
	met := s.met.Load()
	if met == 0 || time.Since(time.Unix(0, met)) > elsewhereMemory {
		return false
	}
	rec, _, found, err := s.c.Store.Get(ctx, key, m.Region)
	if err != nil || !found || rec.State != InFlight || rec.Minted.ID != m.ID {
		return false
	}
	if _, ok := s.with(&rec); ok {
		return false
	}
	s.meet(&rec)
	return true
}

// Expire closes a released claim after its request has expired. It is the
// handler of [outbox.KindExpiry].
func (s *Service) Expire(ctx context.Context, m outbox.Message) outbox.Disposition {
	key := Key{Tenant: m.Tenant, Value: m.Key}
	rec, now, found, err := s.c.Store.Get(ctx, key, m.Region)
	switch {
	case err != nil:
		return outbox.Later(s.c.Policy.Lease)
	case !found || rec.Minted.ID != m.ID || rec.State.Final() || rec.State == FailedRetry && !now.Before(rec.CloseUntil(&s.c.Policy, now)):
		return outbox.Done()
	case rec.State == InFlight:
		// The holder, or the worker that recovers the claim, reads that the request has expired,
		// and may still release it.
		return outbox.Later(s.c.Policy.Lease)
	}
	verdict := s.verdict(s.c.Executor.Attempt(ctx, Attempt{Record: rec, Payload: m.Payload, Closing: true, Now: now}))
	if _, refused := verdict.Outcome.(*Refused); !refused {
		return outbox.Failed("closing gave " + verdict.outcome().String())
	}
	settled, err := s.record(ctx, &rec, &verdict)
	s.metersOf(rec.Key.Tenant).ended(rec.Operation, &settled, err)
	switch {
	case err == nil:
		return outbox.Done()
	case errors.Is(err, ErrFenced):
		return outbox.Later(s.c.Policy.WaitPoll) // a retry took it meanwhile
	default:
		return outbox.Later(s.c.Policy.Lease)
	}
}

func (s *Service) takeOver(ctx context.Context, key Key, home, object string, news News) (rec Record, err error) {
	ctx, sp := span.Start(ctx, span.Claim)
	defer func() { s.traceClaim(sp, &rec, string(EventTakenOver), err); sp.End() }()
	rec, err = s.c.Store.TakeOver(ctx, key, home, object, s.c.Node, s.c.Region, news)
	if err == nil {
		s.metersOf(key.Tenant).takeOvers.Add(1, byRecovery)
	}
	return rec, err
}
