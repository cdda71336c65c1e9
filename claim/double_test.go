package claim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
)

// rows is the smallest Store that keeps the contract: a map under a mutex. The
// tests run in a synctest bubble, so time.Now is the store's clock and waiting
// takes no time.
type rows struct {
	Store
	mu       sync.Mutex
	policy   Policy
	claims   map[Key]*Record
	messages map[string]outbox.Message
	// renew, when set, answers Renew instead.
	renew func(leases []Lease) error
	// settled, when set, runs before a Settle is applied.
	settling func()
	// begun, when set, runs after a Begin was applied.
	begun func()
	notes []AuditEntry
}

func newRows(p Policy) *rows {
	return &rows{policy: p, claims: map[Key]*Record{}, messages: map[string]outbox.Message{}}
}

func (s *rows) keep(next *Record, fx Effects) {
	s.claims[next.Key] = next
	if fx.Enqueue != nil {
		s.messages[fx.Enqueue.ID] = *fx.Enqueue
	}
	if m, ok := s.messages[next.Minted.ID]; ok && !fx.Reschedule.IsZero() {
		m.Due = fx.Reschedule
		s.messages[m.ID] = m
	}
	if fx.Finish {
		delete(s.messages, next.Minted.ID)
	}
}

func (s *rows) Begin(ctx context.Context, a Arrival) (Begun, error) {
	got, err := s.begin(ctx, a)
	if s.begun != nil {
		s.begun()
	}
	return got, err
}

func (s *rows) begin(_ context.Context, a Arrival) (Begun, error) {
	return s.decide(a, func(rec *Record) (*Record, Effects, Decision, error) {
		return Begin(rec, &a, 0, &s.policy, time.Now())
	})
}

func (s *rows) Reattach(_ context.Context, a Arrival, w Witness) (Begun, error) {
	return s.decide(a, func(rec *Record) (*Record, Effects, Decision, error) {
		return Reattach(rec, &a, &w, 0, &s.policy, time.Now())
	})
}

func (s *rows) decide(a Arrival, t func(rec *Record) (*Record, Effects, Decision, error)) (Begun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.claims[a.Key]
	next, fx, decision, err := t(rec)
	if err != nil {
		return Begun{}, err
	}
	if next != nil {
		s.keep(next, fx)
		rec = next
	}
	if rec == nil {
		return Begun{Decision: decision}, nil
	}
	return Begun{Decision: decision, Record: *rec, Now: time.Now()}, nil
}

func (s *rows) Settle(_ context.Context, held Record, v Verdict) (Record, error) {
	if s.settling != nil {
		s.settling()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	settled, err := Settle(&held, &v, &s.policy, 0.5)
	if err != nil {
		return Record{}, err
	}
	next, fx, err := settled.On(s.claims[held.Key], &s.policy, time.Now())
	if err != nil {
		return Record{}, err
	}
	s.keep(next, fx)
	return *next, nil
}

func (s *rows) Renew(_ context.Context, holder string, leases []Lease) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renew != nil {
		if err := s.renew(leases); err != nil {
			return nil, err
		}
	}
	kept := make([]bool, len(leases))
	for i, l := range leases {
		if next, err := Renew(s.claims[l.Key], holder, l.Fence, &s.policy, time.Now()); err == nil {
			s.claims[l.Key], kept[i] = next, true
		}
	}
	return kept, nil
}

func (s *rows) TakeOver(_ context.Context, key Key, _, object, holder, region string, news News) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, fx, err := TakeOver(s.claims[key], object, holder, region, news, &s.policy, time.Now())
	if err != nil {
		return Record{}, err
	}
	s.keep(next, fx)
	return *next, nil
}

func (s *rows) Cancel(_ context.Context, key Key, _, object string, step uuid.UUID, node, region string) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, fx, err := Cancel(s.claims[key], object, step, node, region, time.Now())
	if err != nil {
		return Record{}, err
	}
	s.keep(next, fx)
	return *next, nil
}

func (s *rows) Get(_ context.Context, key Key, _ string) (Record, time.Time, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.claims[key]; rec != nil {
		return *rec, time.Now(), true, nil
	}
	return Record{}, time.Now(), false, nil
}

func (s *rows) ByObject(_ context.Context, _, id string) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.claims {
		if rec.Minted.ID == id {
			return *rec, true, nil
		}
	}
	return Record{}, false, nil
}

func (s *rows) Note(_ context.Context, _ Key, _ string, e AuditEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, e)
}

func (s *rows) row(key Key) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.claims[key]
}

// provider is an Executor made of a function.
type provider func(ctx context.Context, a Attempt) Outcome

func (p provider) Attempt(ctx context.Context, a Attempt) Outcome { return p(ctx, a) }

func charged(a Attempt) *Done {
	return &Done{Response: Response{Status: 201, Body: []byte("charged " + a.Record.Minted.ID)}}
}

// bucket is a Blobs in memory.
type bucket map[string][]byte

func (b bucket) Put(_ context.Context, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	ref := hex.EncodeToString(sum[:])
	b[ref] = bytes.Clone(body)
	return ref, nil
}

func (b bucket) Get(_ context.Context, ref string) ([]byte, error) {
	if body, ok := b[ref]; ok {
		return body, nil
	}
	return nil, fmt.Errorf("no object %s", ref)
}

func serve(t *testing.T, s Store, blobs Blobs, p Policy, node string, e provider) *Service {
	t.Helper()
	return serveAt(t, "", s, blobs, p, node, e)
}

// serveAt is serve where the providers have names, with commas between them.
func serveAt(t *testing.T, psp string, s Store, blobs Blobs, p Policy, node string, e provider) *Service {
	t.Helper()
	var providers []string
	if psp != "" {
		providers = strings.Split(psp, ",")
	}
	service, err := NewService(Config{
		Store: s, Executor: e, Blobs: blobs, Policy: p, Node: node, Region: "us-east1", Providers: providers,
		Code:       func(home string) (RegionCode, bool) { return 1, home == "us-east1" || home == "europe-west1" },
		Operations: Operations{"charge": "ch"},
	})
	require.NoError(t, err)
	service.Start()
	t.Cleanup(service.Stop)
	return service
}

func order(value string, amount int) *Request {
	return &Request{
		Key: Key{Tenant: "acme", Value: value}, Operation: "charge", Stamp: 1,
		Input: FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: fmt.Appendf(nil, `{"amount":%d}`, amount)},
	}
}

// brokenSettle is a store that is unreachable when an attempt ends.
type brokenSettle struct{ *rows }

func (brokenSettle) Settle(context.Context, Record, Verdict) (Record, error) {
	return Record{}, ErrUnavailable
}

// faultySettle answers Settle with err until then, before the row is written or after; nil: with
// the row's answer.
type faultySettle struct {
	*rows
	err   error
	until time.Time
	after bool
	tries atomic.Int64
}

func (s *faultySettle) Settle(ctx context.Context, held Record, v Verdict) (Record, error) {
	s.tries.Add(1)
	if faulty := time.Now().Before(s.until); faulty && !s.after {
		return Record{}, s.err
	} else if rec, err := s.rows.Settle(ctx, held, v); err != nil || !faulty {
		return rec, err
	}
	return Record{}, s.err
}
