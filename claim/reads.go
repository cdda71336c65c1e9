package claim

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/internal/span"
)

// Replica answers req from the nearest replica if that has the final response.
// found false proves nothing.
func (s *Service) Replica(ctx context.Context, req *Request) (reply Reply, found bool, pin *Pin, err error) {
	ctx, sp := span.Start(ctx, span.ReplicaRead)
	defer func() {
		if sp.IsRecording() {
			sp.SetAttributes(span.Region.String(s.c.Region), span.Found.Bool(found))
			failed(sp, err)
		}
		sp.End()
	}()
	shown, err := s.c.Store.Replica(ctx, req.Key)
	rec := shown.Record
	if err != nil || rec == nil || req.Operation == CancelKey { // which is about the claim as it is now
		return Reply{}, false, shown.Pin, err
	}
	fingerprint, err := req.Input.Fingerprint(rec.Fingerprint.Version)
	if err != nil {
		return Reply{}, false, shown.Pin, nil // a newer version wrote the row; its home can answer
	}
	reply = s.frame(rec, rec.SettledAt, true)
	if fingerprint != rec.Fingerprint && req.Also != rec.Fingerprint && rec.Operation != CancelKey { // which refuses whatever arrives
		s.metersOf(req.Key.Tenant).mismatches.Add(1, req.Key.Tenant)
		return reply, true, shown.Pin, ErrMismatch
	}
	if reply, err = s.answered(ctx, reply, rec.Response); err != nil {
		return Reply{}, false, shown.Pin, nil
	}
	s.note(ctx, rec, "replica")
	return reply, true, shown.Pin, nil
}

// Inspect returns what a merchant may read of a key, by an authoritative read.
func (s *Service) Inspect(ctx context.Context, home string, key Key) (Status, bool, error) {
	rec, now, found, err := s.c.Store.Get(ctx, key, home)
	if err != nil || !found {
		return Status{}, false, err
	}
	age := rec.Age(&s.c.Policy, now)
	if age == Gone {
		return Status{}, false, nil
	}
	line, err := s.c.Store.Timeline(ctx, key, home, maxTimeline)
	if err != nil {
		return Status{}, false, err
	}
	return Status{
		Record: rec, Age: age, Timeline: line,
		ExpiresAt: rec.ExpiresAt(&s.c.Policy, now),
		FreeAt:    rec.FreeAt(&s.c.Policy, now),
	}, true, nil
}

// maxTimeline bounds the entries of an inspection. Only a key that is replayed very
// often has more.
const maxTimeline = 200

// Object is what the row of an object has.
type Object struct {
	State State
	// Response is the answer, final or interim; zero if there is none yet, or none any more.
	Response Response
	// At is the store's clock when the row was read, or was not found.
	At time.Time
}

// Reversing is a claim in flight that reverses an object; see [Record.Reverses].
type Reversing struct {
	// ID is that of its own object.
	ID      string
	Created time.Time
	// Payload is what its provider call carries.
	Payload []byte
}

// Reversing lists what tenant has in flight at home that reverses an object, with authority, the latest
// first and at most limit.
func (s *Service) Reversing(ctx context.Context, tenant, home, id string, limit int) ([]Reversing, error) {
	return s.c.Store.Reversing(ctx, tenant, home, id, limit)
}

// Object reads an object by its id, with authority. It outlives its key's replay window for as long as
// the row is stored.
func (s *Service) Object(ctx context.Context, tenant, home, id string) (o Object, found bool, err error) {
	rec, now, found, err := s.c.Store.Object(ctx, tenant, home, id)
	o = Object{At: now}
	if err != nil || !found {
		return o, false, err
	}
	o.State = rec.State
	stored := rec.Response
	if stored == nil && rec.Interim != nil {
		stored = &rec.Interim.Response
	}
	if stored == nil {
		return o, true, nil
	}
	reply, err := s.answered(ctx, Reply{}, stored)
	o.Response = reply.Response
	return o, err == nil, err
}
