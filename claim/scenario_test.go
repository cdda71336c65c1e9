package claim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/outbox"
)

// TestScenarios runs the stories in testdata/scenarios on the pure transitions
// with a virtual clock that starts at 00:00:00. The commands are
//
//	policy [lease=30s …]               change the default policy; first, if at all
//	wait <duration>                    let time pass
//	arrive key=k body=b by=node [pinned[=<age>]]
//	                                   a request; stamped unless pinned is given
//	learn key=k by=node <outcome> [answer=…] [reason=…] [retry-in=…] [not-found]
//	                                   what node's attempt learned, under the fence
//	                                   it won with: done, refused, released, unknown;
//	                                   with [books], [tells=…] and [payable-for=…]
//	close key=k by=node [tells=…]      nobody will pay it any more, as node has seen
//	                                   the row with look
//	look key=k by=node                 node reads the row
//	renew key=k by=node                a heartbeat
//	inherit key=k by=node              the worker takes a lapsed claim over
//	pin key=k entry=region [spoken-for]      what a pinning request from region finds
//	show key=k                         the row
//
// After each step the effects that go with it are printed, indented.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &story{policy: claim.DefaultPolicy(), now: midnight, rows: map[string]*claim.Record{}, pins: map[string]*claim.Pin{}, held: map[string]claim.Record{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			switch d.Cmd {
			case "policy":
				s.setPolicy(t, d)
			case "wait":
				s.wait(t, d, &out)
			case "arrive":
				s.arrive(t, d, &out)
			case "learn":
				s.learn(t, d, &out)
			case "close":
				s.close(t, d, &out)
			case "look":
				s.held[s.key(t, d).Value+by(t, d)] = *s.rows[s.key(t, d).Value]
				s.show(&out, s.key(t, d).Value)
			case "renew":
				s.renew(t, d, &out)
			case "inherit":
				s.inherit(t, d, &out)
			case "pin":
				s.pin(t, d, &out)
			case "show":
				s.show(&out, s.key(t, d).Value)
			default:
				d.Fatalf(t, "there is no command %q", d.Cmd)
			}
			return out.String()
		})
	})
}

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

type story struct {
	policy claim.Policy
	now    time.Time
	rows   map[string]*claim.Record
	pins   map[string]*claim.Pin
	held   map[string]claim.Record // what each node believes to hold, by key and node
	minted int
}

func (s *story) key(t *testing.T, d *datadriven.TestData) claim.Key {
	var value string
	d.ScanArgs(t, "key", &value)
	return claim.Key{Tenant: "acme", Value: value}
}

func by(t *testing.T, d *datadriven.TestData) string {
	var node string
	d.ScanArgs(t, "by", &node)
	return node
}

func duration(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

// clock tells a time as days and hours since the story began.
func clock(at time.Time) string {
	d := at.Sub(midnight)
	text := time.Time{}.Add(d % (24 * time.Hour)).Format("15:04:05.999999")
	if days := d / (24 * time.Hour); days > 0 {
		return fmt.Sprintf("day %d %s", days, text)
	}
	return text
}

func (s *story) setPolicy(t *testing.T, d *datadriven.TestData) {
	for _, arg := range d.CmdArgs {
		value := arg.Vals[0]
		switch arg.Key {
		case "lease":
			s.policy.Lease = duration(t, d, value)
		case "clock-offset":
			s.policy.ClockOffset = duration(t, d, value)
		case "max-unknowns":
			arg.Scan(t, 0, &s.policy.MaxUnknowns)
		case "max-generations":
			arg.Scan(t, 0, &s.policy.MaxGenerations)
		default:
			d.Fatalf(t, "the policy has no %q", arg.Key)
		}
	}
	if err := s.policy.Validate(); err != nil {
		d.Fatalf(t, "%v", err)
	}
}

func (s *story) wait(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	s.now = s.now.Add(duration(t, d, d.CmdArgs[0].Key))
	fmt.Fprintf(out, "it is %s\n", clock(s.now))
}

func (s *story) arrive(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	var body string
	d.ScanArgs(t, "body", &body)
	s.minted++
	key, node := s.key(t, d), by(t, d)
	a := claimtest.NewArrival(key, "us-east1", body, node, fmt.Sprintf("ch_%d", s.minted))
	for _, arg := range d.CmdArgs {
		if arg.Key == "under-way" {
			a.UnderWay = duration(t, d, arg.Vals[0])
		}
		if arg.Key != "pinned" {
			continue
		}
		a.Stamped = false
		switch pin := s.pins[key.Value]; {
		case len(arg.Vals) > 0:
			a.PinnedAt = s.now.Add(-duration(t, d, arg.Vals[0]))
		case pin != nil:
			a.PinnedAt = pin.CreatedAt
		}
	}
	next, fx, decision, err := claim.Begin(s.rows[key.Value], &a, &s.policy, s.now)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	fmt.Fprintf(out, "%s\n", decision)
	if decision == claim.Replay {
		fmt.Fprintf(out, "  answer %d %s\n", s.rows[key.Value].Response.Status, s.rows[key.Value].Response.Body)
	}
	if decision == claim.Shared {
		refusal := s.rows[key.Value].Refusal
		fmt.Fprintf(out, "  answer %d %s\n", refusal.Response.Status, refusal.Response.Body)
	}
	if decision == claim.TombStone {
		fmt.Fprintf(out, "  first used at %s\n", clock(s.rows[key.Value].FirstUse))
	}
	s.store(out, key.Value, node, next, fx)
}

// store keeps what a transition returned and tells of it.
func (s *story) store(out *strings.Builder, key, node string, next *claim.Record, fx claim.Effects) {
	if next == nil {
		return
	}
	s.rows[key] = next
	if next.Holder == node {
		s.held[key+node] = *next
	}
	s.show(out, key)
	if m := fx.Enqueue; m != nil {
		fmt.Fprintf(out, "  outbox: %s is due at %s\n", m.ID, clock(m.Due))
	}
	if !fx.Reschedule.IsZero() {
		fmt.Fprintf(out, "  outbox: %s is now due at %s\n", next.Minted.ID, clock(fx.Reschedule))
	}
	if fx.Finish {
		fmt.Fprintf(out, "  outbox: %s is done\n", next.Minted.ID)
	}
	if fx.Post != nil {
		fmt.Fprintf(out, "  books: %s, %s to %s\n", fx.Post.ID, fx.Post.Debit, fx.Post.Credit)
	}
	for _, m := range fx.Events {
		fmt.Fprintf(out, "  event: %s\n", m.ID)
	}
	if m := fx.Expiry; m != nil {
		fmt.Fprintf(out, "  expiry: %s is due at %s\n", m.ID, clock(m.Due))
	}
	for _, e := range fx.Audit {
		fmt.Fprintf(out, "  audit: %s\n", strings.TrimSpace(string(e.Event)+" "+e.Detail))
	}
}

func (s *story) show(out *strings.Builder, key string) {
	r := s.rows[key]
	if r == nil {
		fmt.Fprintf(out, "  no row\n")
		return
	}
	fmt.Fprintf(out, "  %s fence=%d %s", r.State, r.Fence, r.Minted.ID)
	switch age := r.Age(&s.policy, s.now); {
	case age == claim.Expired:
		fmt.Fprint(out, " expired")
	case age == claim.Gone:
		fmt.Fprint(out, " gone")
	case r.State == claim.InFlight && r.Holder != "":
		fmt.Fprintf(out, " held by %s until %s", r.Holder, clock(r.LeaseUntil))
	case r.State == claim.InFlight:
		fmt.Fprintf(out, " held by no one until %s", clock(r.LeaseUntil))
	}
	fmt.Fprintf(out, " generation=%d attempts=%d", r.Generation, r.Attempts)
	if r.Unknowns > 0 {
		fmt.Fprintf(out, " unknowns=%d", r.Unknowns)
	}
	if r.Reason != "" {
		fmt.Fprintf(out, " reason=%s", r.Reason)
	}
	fmt.Fprintf(out, "\n  provider key %s…\n", r.ProviderKey[:9])
}

func (s *story) learn(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	key, node := s.key(t, d), by(t, d)
	v := claim.Verdict{Node: node, Region: "us-east1", Response: claim.Response{Status: 502}}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "done":
			v.Outcome, v.Response.Status = claim.OutcomeDone, 201
		case "refused":
			v.Outcome, v.Response.Status = claim.OutcomeRefused, 402
		case "released":
			v.Outcome, v.Response.Status = claim.OutcomeReleased, 402
		case "unknown":
			v.Outcome = claim.OutcomeUnknown
		case "answer":
			v.Response.Body = []byte(arg.Vals[0])
		case "reason":
			v.Reason = arg.Vals[0]
		case "retry-in":
			v.RetryIn = duration(t, d, arg.Vals[0])
		case "not-found":
			v.NotFound = true
		case "books":
			v.Posting = claimtest.Posting(*s.rows[key.Value], s.rows[key.Value].Minted.ID)
		case "tells":
			v.Events = []outbox.Message{{ID: arg.Vals[0]}}
		case "payable-for":
			v.Expiry = &outbox.Message{Due: s.rows[key.Value].FirstUse.Add(duration(t, d, arg.Vals[0]))}
		}
	}
	s.settle(out, key.Value, node, v)
}

// settle records node's verdict on the claim as node knows it.
func (s *story) settle(out *strings.Builder, key, node string, v claim.Verdict) {
	// Without jitter the back-off is its floor, which keeps stories exact.
	held := s.held[key+node]
	next, fx, err := claim.Settle(s.rows[key], &held, &v, &s.policy, s.now, 0)
	if err != nil {
		s.sorry(out, node, err)
		return
	}
	s.store(out, key, node, next, fx)
}

func (s *story) close(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	node := by(t, d)
	v := claim.Verdict{
		Outcome: claim.OutcomeRefused, Reason: "expired", Node: node, Region: "us-east1",
		Response: claim.Response{Status: 402, Body: []byte("expired")},
	}
	for _, arg := range d.CmdArgs {
		if arg.Key == "tells" {
			v.Events = []outbox.Message{{ID: arg.Vals[0]}}
		}
	}
	s.settle(out, s.key(t, d).Value, node, v)
}

func (s *story) sorry(out *strings.Builder, node string, err error) {
	switch {
	case errors.Is(err, claim.ErrFenced):
		fmt.Fprintf(out, "%s is fenced off\n", node)
	case errors.Is(err, claim.ErrLeaseHeld):
		fmt.Fprintf(out, "%s must wait, the lease is held\n", node)
	default:
		fmt.Fprintln(out, err)
	}
}

func (s *story) renew(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	key, node := s.key(t, d), by(t, d)
	next, err := claim.Renew(s.rows[key.Value], node, s.held[key.Value+node].Fence, &s.policy, s.now)
	if err != nil {
		s.sorry(out, node, err)
		return
	}
	s.store(out, key.Value, node, next, claim.Effects{})
}

func (s *story) inherit(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	key, node := s.key(t, d), by(t, d)
	next, fx, err := claim.TakeOver(s.rows[key.Value], s.rows[key.Value].Minted.ID, node, "us-east1", &s.policy, s.now)
	if err != nil {
		s.sorry(out, node, err)
		return
	}
	s.store(out, key.Value, node, next, fx)
}

func (s *story) pin(t *testing.T, d *datadriven.TestData, out *strings.Builder) {
	var entry string
	d.ScanArgs(t, "entry", &entry)
	key := s.key(t, d)
	old := s.pins[key.Value]
	pin, change := claim.PinFor(old, key, entry, d.HasArg("spoken-for"), &s.policy, s.now)
	s.pins[key.Value] = &pin
	verb := map[claim.PinChange]string{claim.PinStands: "stands", claim.PinConfirmed: "is confirmed", claim.PinTaken: "is new"}[change]
	fmt.Fprintf(out, "home %s, the pin of %s %s\n", pin.Home, clock(pin.CreatedAt), verb)
}
