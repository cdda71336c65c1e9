package claim

import (
	"context"

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
	if err != nil || rec == nil {
		return Reply{}, false, shown.Pin, err
	}
	fingerprint, err := req.Input.Fingerprint(rec.Fingerprint.Version)
	if err != nil {
		return Reply{}, false, shown.Pin, nil // a newer version wrote the row; its home can answer
	}
	reply = s.frame(rec, rec.SettledAt, true)
	if fingerprint != rec.Fingerprint && req.Also != rec.Fingerprint {
		s.meters.mismatches.Add(1, req.Key.Tenant)
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

// Object returns the state and the response, final or interim, of an object by its id.
// An object outlives its key's replay window for as long as the row is stored.
func (s *Service) Object(ctx context.Context, tenant, home, id string) (State, Response, bool, error) {
	rec, found, err := s.c.Store.ReplicaObject(ctx, tenant, home, id)
	if err == nil && !found {
		rec, _, found, err = s.c.Store.Object(ctx, tenant, home, id)
	}
	return s.object(ctx, &rec, found, err)
}

// ReplicaObject is Object read from the nearest replica only: absence proves
// nothing.
func (s *Service) ReplicaObject(ctx context.Context, tenant, home, id string) (State, Response, bool, error) {
	rec, found, err := s.c.Store.ReplicaObject(ctx, tenant, home, id)
	return s.object(ctx, &rec, found, err)
}

func (s *Service) object(ctx context.Context, rec *Record, found bool, err error) (State, Response, bool, error) {
	if err != nil || !found {
		return 0, Response{}, false, err
	}
	stored := rec.Response
	if stored == nil && rec.Interim != nil {
		stored = &rec.Interim.Response
	}
	if stored == nil {
		return rec.State, Response{}, true, nil
	}
	reply, err := s.answered(ctx, Reply{}, stored)
	return rec.State, reply.Response, err == nil, err
}
