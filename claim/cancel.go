package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Cancel gives the key of req, whose operation is [CancelKey], up at its home. It returns the key's
// claim as it is then:
//
//   - one of the operation CancelKey, final, if the key was never used. It was begun and executed as any
//     request is, and refuses all others.
//   - one in flight, marked by [Cancel]. Cancel waits for its end for as long as a twin would. One of
//     an operation that is [Config].Unstopped is not marked.
//   - one that is final. A released one is closed: its key takes no more requests.
//
// Cancel refunds nothing; its caller does. The errors are those of [Service.Do]. Cancel may be
// repeated, in any region.
func (s *Service) Cancel(ctx context.Context, home string, req *Request) (rec Record, reply Reply, err error) {
	arrival, err := s.arrival(home, req)
	if err != nil {
		return rec, reply, err
	}
	if req.Began.IsZero() {
		timed := *req
		timed.Began, req = time.Now(), &timed
	}
	s.executing.begin()
	defer s.executing.end()
	for {
		begun, sentAt, waited, err := s.begin(ctx, req, &arrival)
		s.metersOf(req.Key.Tenant).begun(req, &begun, err)
		if err != nil {
			return rec, reply, err
		}
		rec = begun.Record
		if begun.Decision == NeedPin {
			return rec, reply, ErrNeedPin
		}
		reply = s.frame(&rec, begun.Now, true)
		reply.Away = waited
		switch begun.Decision {
		case Won, WonUnknown:
			reply, err = s.execute(context.WithoutCancel(ctx), &rec, Attempt{Payload: arrival.payload(), Recovery: begun.Decision == WonUnknown}, sentAt)
			rec.State = reply.State
			return rec, reply, err
		case Replay:
			return rec, reply, nil
		case Used:
			rec, err = s.giveUp(ctx, &rec, begun.Now)
			if errors.Is(err, ErrFenced) {
				continue // another step of the claim was faster
			}
			reply.State = rec.State
			return rec, reply, err
		case TombStone:
			return rec, reply, &ExpiredError{FirstUse: rec.FirstUse}
		default:
			return rec, reply, &InUseError{RetryAfter: s.c.Policy.untilRetry(&rec, begun.Now)}
		}
	}
}

// giveUp marks or closes the claim of a key that is given up, and waits for its end.
func (s *Service) giveUp(ctx context.Context, rec *Record, now time.Time) (Record, error) {
	switch {
	case rec.State == FailedRetry:
		verdict := s.verdict(s.c.Executor.Attempt(ctx, Attempt{Record: *rec, Closing: true, Canceled: true, Now: now}))
		if _, refused := verdict.Outcome.(*Refused); !refused {
			return *rec, fmt.Errorf("%w: closing gave %s", ErrUnavailable, verdict.outcome())
		}
		verdict.ID = uuid.New()
		closed, err := s.record(context.WithoutCancel(ctx), rec, &verdict)
		s.metersOf(rec.Key.Tenant).ended(rec.Operation, &closed, err)
		return closed, err
	case rec.State != InFlight:
		return *rec, nil
	}
	last := *rec
	if !rec.Canceled() && !s.c.Unstopped[baseOf(rec.Operation)] {
		var err error
		if last, err = s.c.Store.Cancel(context.WithoutCancel(ctx), rec.Key, rec.Home, rec.Minted.ID, uuid.New(), s.c.Node, s.c.Region); err != nil {
			return last, err
		}
	}
	wait := newWaiter(&s.c.Policy)
	defer wait.close()
	for {
		done := s.flight.watch(rec.Home, rec.Key) // before the read, so that no end is missed
		got, _, found, err := s.c.Store.Get(ctx, rec.Key, rec.Home)
		switch {
		case err == nil && found && got.Minted.ID == rec.Minted.ID:
			last = got
		case err == nil:
			return last, ErrFenced // the key has been used anew since
		}
		switch {
		case last.State == FailedRetry:
			return last, ErrFenced // it was released meanwhile, and is to be closed
		case last.State != InFlight, !wait.next(ctx, done):
			return last, nil
		}
	}
}

// marked reports whether rec, which this node holds, was canceled since, and nothing else happened to
// it: a verdict whose reply was lost has ended the hold. rec is then the row with the mark. It asks
// again as settle does.
func (s *Service) marked(ctx, trust context.Context, rec *Record) bool {
	if rec.Canceled() {
		return false
	}
	var got Record
	var found bool
	err := insist(trust, func() (err error) {
		got, _, found, err = s.c.Store.Get(ctx, rec.Key, rec.Home)
		return err
	}, func(err error) {
		s.c.Logger.Warn("could not read a claim whose fence has risen; retrying while the lease is trusted", "tenant", rec.Key.Tenant, "home", rec.Home, "object", rec.Minted.ID, "error", err)
	})
	if err != nil || !found || got.Minted.ID != rec.Minted.ID || got.Fence != rec.Fence+1 || got.Holder != s.c.Node || !got.Canceled() {
		return false
	}
	*rec = got
	return true
}

// keeps reports whether a holder whose lease was not renewed has lost it only to a mark. It then has
// the lease under the fence of the mark. An error is that of a read, and says nothing.
func (s *Service) keeps(ctx context.Context, hold *holding) (bool, error) {
	rec, _, found, err := s.c.Store.Get(ctx, hold.lease.Key, hold.lease.Home)
	if err != nil || !found || rec.Holder != s.c.Node || rec.Fence != hold.lease.Fence+1 || !rec.Canceled() {
		return false, err
	}
	hold.lease.Fence = rec.Fence
	return true, nil
}
