package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/region"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	us = "us-east1"
	eu = "europe-west1"
	as = "asia-northeast1"
)

// prospect is what a node sees, made up.
type prospect struct {
	members []region.Node
	rtts    map[string]time.Duration
	seen    map[string]time.Time
}

func (s *prospect) Members() []region.Node { return s.members }

func (s *prospect) RTT(region string) (time.Duration, bool) {
	rtt, ok := s.rtts[region]
	return rtt, ok
}

func (s *prospect) LastSeen(region string) time.Time { return s.seen[region] }

// deployment is an admin service with made-up answers.
type deployment struct {
	prospect
	topology *region.Topology
	id       uuid.UUID

	mu       sync.Mutex
	epoch    uint64 // of the table
	requests []string
	part     Part
	backlog  map[string]Backlog
	panics   string // the region at which the count of rows panics
	refuse   error
	run      Run
}

func newDeployment(t *testing.T, node, home string) *deployment {
	topology, err := region.NewTopology([]region.Region{{Name: us, Code: 1}, {Name: eu, Code: 2}, {Name: as, Code: 3}})
	require.NoError(t, err)
	return &deployment{
		topology: topology, id: uuid.NewSHA1(uuid.NameSpaceDNS, nil), epoch: 1,
		part:    Part{Node: node, Region: home, Version: "v1", Epoch: 1},
		backlog: map[string]Backlog{us: {}, eu: {}, as: {}},
	}
}

func (d *deployment) log(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, fmt.Sprintf(format, args...))
}

func (d *deployment) admin(log *slog.Logger, certs *region.TLS) http.Handler {
	mux := http.NewServeMux()
	New(Config{
		Sight: &d.prospect, Topology: d.topology, Deployment: d.id, Node: d.part.Node,
		Part: func(_ context.Context, epoch uint64, _ int) Part {
			d.log("part %d", epoch)
			p := d.part
			p.Epoch = max(p.Epoch, epoch)
			return p
		},
		Backlog: func(_ context.Context, region string) (Backlog, error) {
			if region == d.panics {
				panic("no row is like this")
			}
			b, ok := d.backlog[region]
			if !ok {
				return b, errors.New("its rows\nare away")
			}
			return b, nil
		},
		SetStatus: func(_ context.Context, region string, status region.Status) (uint64, error) {
			if d.refuse != nil {
				return 0, d.refuse
			}
			d.log("%s is %v", region, status)
			d.epoch++
			return d.epoch, nil
		},
		Run: d.run, Transport: region.NewTransport(certs), TLS: certs != nil, Logger: log,
	}).Mount(mux)
	return mux
}

// serve runs handler until the test ends and returns its address.
func serve(t *testing.T, certs *region.TLS, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, run := region.NewServer(handler, certs), (*http.Server).Serve
	if certs != nil {
		run = func(s *http.Server, l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	done := make(chan error, 1)
	go func() { done <- run(server, listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return listener.Addr().String()
}

// dead is an address where nobody listens. A port that a test closes may be another test's at once.
const dead = "127.0.0.1:1"

// tlsOf is a node or operator that by vouches for.
func tlsOf(t *testing.T, by *devcerts.Authority, who region.Identity) *region.TLS {
	t.Helper()
	const domain = "homeward.test"
	name, err := who.URI(domain)
	require.NoError(t, err)
	cert, key, err := by.Issue(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), name)
	require.NoError(t, err)
	dir := t.TempDir()
	cfg := region.TLSConfig{
		CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"), CAFile: filepath.Join(dir, "ca.pem"),
		TrustDomain: domain, Region: who.Region,
	}
	for path, text := range map[string][]byte{cfg.CertFile: cert, cfg.KeyFile: key, cfg.CAFile: by.PEM()} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	certs, err := region.NewTLS(cfg)
	require.NoError(t, err)
	return certs
}

func adminAt(t *testing.T, addr string, certs *region.TLS) *Client {
	t.Helper()
	c, err := NewClient(addr, certs)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestAnOverviewIsWhatTheNodeSees(t *testing.T) {
	here, there := newDeployment(t, "n1", us), newDeployment(t, "n2", eu)
	there.part.Requests, there.part.Forwards, there.part.NotReady, there.part.Epoch = 2, 3, "region is draining", 4
	addr := serve(t, nil, here.admin(nil, nil))
	other := serve(t, nil, there.admin(nil, nil))
	here.members = []region.Node{
		{Name: "n1", Region: us, RPCAddr: addr, Version: "v1", Self: true},
		{Name: "n2", Region: eu, RPCAddr: other, Version: "v2", Draining: true},
		{Name: "n3", Region: eu, RPCAddr: dead},
	}
	here.rtts = map[string]time.Duration{eu: 80 * time.Millisecond}
	seen := time.Now().UTC().Truncate(time.Millisecond)
	here.seen = map[string]time.Time{us: seen, eu: seen}
	due := seen.Add(-time.Minute)
	here.backlog[eu] = Backlog{InFlight: 1, Pending: 2, Due: 1, Parked: 1, OldestDue: due, ParkedRows: []ParkedRow{{"ch_1", "acme", "n\xffo"}}}
	delete(here.backlog, as)
	_, err := here.topology.Update(3, []region.Region{{Name: us, Code: 1}, {Name: eu, Code: 2, Status: region.Draining}, {Name: as, Code: 3, Status: region.Down}})
	require.NoError(t, err)

	c := adminAt(t, addr, nil)
	alone, err := c.Overview(t.Context(), Question{})
	require.NoError(t, err)
	require.NotNil(t, alone.Members[0].Part)
	require.Nil(t, alone.Members[1].Part)
	require.Empty(t, alone.Members[1].Unknown)
	require.Empty(t, there.requests)

	got, err := c.Overview(t.Context(), Question{Gather: true, Epoch: 3})
	require.NoError(t, err)
	require.NotEmpty(t, got.Members[2].Unknown, "who does not answer is unknown, with the reason")
	require.NotContains(t, got.Members[2].Unknown, "\n")
	got.Members[2].Unknown = ""
	require.Equal(t, []Member{
		{Name: "n1", Region: us, RPCAddr: addr, Version: "v1", Part: &Part{Node: "n1", Region: us, Version: "v1", Epoch: 3}},
		{Name: "n2", Region: eu, RPCAddr: other, Version: "v2", Draining: true,
			Part: &Part{Node: "n2", Region: eu, Version: "v1", Epoch: 4, NotReady: "region is draining", Requests: 2, Forwards: 3}},
		{Name: "n3", Region: eu, RPCAddr: dead},
	}, got.Members)
	require.Equal(t, []string{"part 3"}, there.requests)
	require.Equal(t, "n1", got.Node)
	require.EqualValues(t, 3, got.Epoch)
	require.Equal(t, []RegionState{
		{Name: as, Code: 3, Status: region.Down, RTT: -1, Unknown: "its rows are away"},
		{Name: eu, Code: 2, Status: region.Draining, RTT: 80 * time.Millisecond, LastSeen: seen,
			Backlog: &Backlog{InFlight: 1, Pending: 2, Due: 1, Parked: 1, OldestDue: due, ParkedRows: []ParkedRow{{"ch_1", "acme", "n\uFFFDo"}}}},
		{Name: us, Code: 1, RTT: -1, LastSeen: seen, Backlog: &Backlog{}},
	}, got.Regions)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.Contains(t, string(text), `"status":"draining"`)
	require.NotContains(t, string(text), "0001-01-01")
}

// TestANodeWithoutItsDatabaseHasOthersCount: not one that said that it cannot either.
func TestANodeWithoutItsDatabaseHasOthersCount(t *testing.T) {
	cut, also, good := newDeployment(t, "n1", us), newDeployment(t, "n2", eu), newDeployment(t, "n3", as)
	cut.backlog, also.backlog = nil, nil
	good.backlog[eu] = Backlog{InFlight: 7}
	addr := serve(t, nil, cut.admin(nil, nil))
	cut.members = []region.Node{
		{Name: "n1", Region: us, RPCAddr: addr, Self: true, UnreadySince: time.Now()},
		{Name: "n2", Region: eu, RPCAddr: serve(t, nil, also.admin(nil, nil)), UnreadySince: time.Now()},
		{Name: "n3", Region: as, RPCAddr: serve(t, nil, good.admin(nil, nil))},
	}
	got, err := adminAt(t, addr, nil).Overview(t.Context(), Question{})
	require.NoError(t, err)
	require.Equal(t, &Backlog{InFlight: 7}, got.Region(eu).Backlog)
	require.Empty(t, got.Region(eu).Unknown)
	require.NotNil(t, got.Region(us).Backlog)
	require.Empty(t, also.requests)
	require.True(t, got.Members[0].Unready)

	delete(good.backlog, as)
	got, err = adminAt(t, addr, nil).Overview(t.Context(), Question{})
	require.NoError(t, err)
	require.NotEmpty(t, got.Region(as).Unknown, "what nobody counts is unknown")
}

// A panic over the rows of one region leaves that region's count unknown, and the node
// running.
func TestAPanicOverRowsIsNoOverviewsEnd(t *testing.T) {
	d := newDeployment(t, "n1", us)
	d.panics = eu
	addr := serve(t, nil, d.admin(nil, nil))
	got, err := adminAt(t, addr, nil).Overview(t.Context(), Question{})
	require.NoError(t, err)
	require.Contains(t, got.Region(eu).Unknown, "our code panicked: no row is like this")
	require.NotNil(t, got.Region(us).Backlog)
}

func TestAStatusIsSet(t *testing.T) {
	d := newDeployment(t, "n1", us)
	var log bytes.Buffer
	addr := serve(t, nil, d.admin(slog.New(slog.NewTextHandler(&log, nil)), nil))
	c := adminAt(t, addr, nil)
	epoch, err := c.SetStatus(t.Context(), eu, region.Draining)
	require.NoError(t, err)
	require.EqualValues(t, 2, epoch)
	require.Equal(t, []string{eu + " is draining"}, d.requests)
	require.Contains(t, log.String(), "somebody on this machine")

	_, err = c.SetStatus(t.Context(), "mars", region.Draining)
	require.ErrorContains(t, err, `no region "mars"; the regions are `+as+", "+eu+", "+us)
	_, err = c.SetStatus(t.Context(), eu, region.Down+1)
	require.ErrorContains(t, err, "status(3)")
	d.refuse = errors.New("the database\ndoes not answer")
	_, err = c.SetStatus(t.Context(), eu, region.Down)
	require.ErrorContains(t, err, "may or may not have been set")
	require.ErrorContains(t, err, "the database does not answer")
	require.Len(t, d.requests, 1)

	nobody := adminAt(t, dead, nil)
	_, err = nobody.SetStatus(t.Context(), eu, region.Down)
	require.ErrorContains(t, err, "no node answers")
	require.NotContains(t, err.Error(), "\n")
	plain := serve(t, nil, http.NotFoundHandler())
	_, err = adminAt(t, plain, nil).Overview(t.Context(), Question{})
	require.ErrorContains(t, err, "no node answers")
	_, err = NewClient("nowhere", nil)
	require.ErrorContains(t, err, "HOST:PORT")
}

// TestAnotherDeploymentGetsNoCommand: an address among the members leads to a node of another
// deployment, with certificates of the same CA in the same trust domain. Neither answers the other,
// and a command stays with the deployment that answered it first.
func TestAnotherDeploymentGetsNoCommand(t *testing.T) {
	ca, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	here, there := newDeployment(t, "n1", us), newDeployment(t, "n2", eu)
	there.id = uuid.NewSHA1(uuid.NameSpaceURL, nil)
	var log bytes.Buffer
	n1, n2 := tlsOf(t, ca, region.Identity{Region: us, Node: "n1"}), tlsOf(t, ca, region.Identity{Region: eu, Node: "n2"})
	addr := serve(t, n1, here.admin(nil, n1))
	other := serve(t, n2, there.admin(slog.New(slog.NewTextHandler(&log, nil)), n2))
	here.members = []region.Node{{Name: "n1", Region: us, RPCAddr: addr, Self: true}, {Name: "n2", Region: eu, RPCAddr: other}}

	c := adminAt(t, addr, tlsOf(t, ca, region.Identity{Operator: "jo", Role: region.RoleOperator}))
	all, err := c.Overview(t.Context(), Question{Gather: true})
	require.NoError(t, err)
	require.Nil(t, all.Members[1].Part)
	_, err = c.SetStatus(t.Context(), eu, region.Draining)
	require.NoError(t, err)
	elsewhere, err := c.At(other)
	require.NoError(t, err)
	_, err = elsewhere.SetStatus(t.Context(), eu, region.Down)
	var refused *region.OtherDeploymentError
	require.ErrorAs(t, err, &refused)
	require.NotErrorIs(t, err, region.ErrNoAnswer, "the command would go to the next node")
	_, run := elsewhere.Run(t.Context(), []string{"outbox", "list"}, &log, &log)
	require.ErrorAs(t, run, &refused)
	require.Empty(t, there.requests, "it got a command")
	for _, said := range []string{all.Members[1].Unknown, err.Error(), log.String()} {
		require.Contains(t, said, here.id.String())
		require.Contains(t, said, there.id.String())
	}
	require.NotContains(t, err.Error(), "\n")
}

// TestOnlyOperatorsOperate: with TLS the certificate shows who is one. A node may ask another for
// its part, which it needs to answer an operator, and nothing else.
func TestOnlyOperatorsOperate(t *testing.T) {
	ca, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	var log bytes.Buffer
	server := tlsOf(t, ca, region.Identity{Region: us, Node: "n1"})
	d := newDeployment(t, "n1", us)
	addr := serve(t, server, d.admin(slog.New(slog.NewTextHandler(&log, nil)), server))
	d.members = []region.Node{{Name: "n1", Region: us, RPCAddr: addr, Self: true}, {Name: "n1-again", Region: us, RPCAddr: addr}}

	reader := adminAt(t, addr, tlsOf(t, ca, region.Identity{Operator: "jo"}))
	_, err = reader.Overview(t.Context(), Question{Gather: true})
	require.NoError(t, err)
	_, err = reader.SetStatus(t.Context(), eu, region.Draining)
	require.ErrorContains(t, err, "operator jo (reader) may only do what the role reader allows, and this needs the role operator")
	require.NotContains(t, strings.Join(d.requests, " "), "draining")
	log.Reset()

	operator := adminAt(t, addr, tlsOf(t, ca, region.Identity{Operator: "jo", Role: region.RoleOperator}))
	o, err := operator.Overview(t.Context(), Question{Gather: true})
	require.NoError(t, err)
	require.NotNil(t, o.Members[1].Part, "%s", o.Members[1].Unknown)
	_, err = operator.SetStatus(t.Context(), eu, region.Draining)
	require.NoError(t, err)
	require.Contains(t, log.String(), "operator jo")

	before := len(d.requests)
	node := adminAt(t, addr, tlsOf(t, ca, region.Identity{Region: us, Node: "n2"}))
	for name, call := range map[string]func() error{
		"overview": func() error { _, err := node.Overview(t.Context(), Question{Gather: true}); return err },
		"status":   func() error { _, err := node.SetStatus(t.Context(), eu, region.Active); return err },
		"run":      func() error { _, err := node.Run(t.Context(), []string{"outbox"}, nil, nil); return err },
	} {
		require.ErrorContains(t, call(), "is not an operator", name)
	}
	require.Len(t, d.requests, before, "nothing was requested or done")
	require.Equal(t, 3, strings.Count(log.String(), "an admin request was refused"))

	_, err = adminAt(t, addr, nil).Overview(t.Context(), Question{})
	require.Error(t, err, "without a certificate every request is refused")
}

func TestWithoutTLSOperatorsAreOnThisMachine(t *testing.T) {
	for remote, ok := range map[string]bool{
		"127.0.0.1:40000": true, "[::1]:40000": true, "[::ffff:127.0.0.1]:40000": true, "127.8.8.8:1": true,
		"10.0.0.7:40000": false, "[2001:db8::1]:40000": false, "": false, "pipe": false, "127.0.0.1.evil.example:1": false,
	} {
		for _, nodes := range []bool{false, true} {
			require.Equal(t, ok, caller{remote: remote}.refused(region.RoleTreasurer, nodes) == nil, remote)
		}
	}
	// A certificate counts more than the address.
	node, operator := region.Identity{Region: us, Node: "n"}, region.Identity{Operator: "jo"}
	require.Error(t, caller{node, true, "127.0.0.1:1"}.refused(region.RoleReader, false))
	require.NoError(t, caller{node, true, "10.0.0.7:1"}.refused(region.RoleReader, true))
	for held := range region.RoleTreasurer + 1 {
		for needed := range region.RoleTreasurer + 1 {
			operator.Role = held
			require.Equal(t, held >= needed, caller{operator, true, "10.0.0.7:1"}.refused(needed, false) == nil, "%v where %v is needed", held, needed)
		}
	}
}

// TestWhatADrainWaitsFor goes through everything that blocks a drain, and removes one after the
// other.
func TestWhatADrainWaitsFor(t *testing.T) {
	o := &Overview{
		Members: []Member{
			{Name: "u1", Region: us, Part: &Part{Epoch: 6, Requests: 9}}, // of another region: not waited for
			{Name: "e1", Region: eu, Unknown: "refused"},
			{Name: "e2", Region: eu, Part: &Part{Epoch: 6, Requests: 1, Forwards: 1}},
		},
		Regions: []RegionState{{Name: eu, Unknown: "away"}, {Name: us, Backlog: &Backlog{InFlight: 9, Pending: 9}}},
	}
	open := func(want ...string) {
		t.Helper()
		var got []string
		for _, s := range o.DrainSteps(eu, 7) {
			require.NotEmpty(t, s.Done)
			if s.Open != "" {
				got = append(got, s.Open)
			}
		}
		require.Equal(t, want, got)
	}
	open("u1 has epoch 6, e1 does not answer (refused), e2 has epoch 6", "ready: e2", "requests in hand: e2 has 2",
		"the rows of europe-west1 cannot be counted (away)", "the rows of europe-west1 cannot be counted (away)")
	o.Members[0].Part.Epoch, o.Members[2].Part.Epoch = 7, 8
	open("e1 does not answer (refused)", "ready: e2", "requests in hand: e2 has 2",
		"the rows of europe-west1 cannot be counted (away)", "the rows of europe-west1 cannot be counted (away)")
	o.Members[1].Part, o.Members[2].Part.NotReady = &Part{Epoch: 7, NotReady: "draining"}, "draining"
	o.Regions[0].Backlog = &Backlog{InFlight: 1, Pending: 2, Due: 1, Parked: 3}
	open("requests in hand: e2 has 2", "claims in flight: 1", "outbox rows: 2, of which 1 are due")
	o.Members[2].Part.Requests = 0
	open("requests in hand: e2 has 1", "claims in flight: 1", "outbox rows: 2, of which 1 are due")
	o.Members[2].Part.Forwards = 0
	o.Regions[0].Backlog.InFlight = 0
	open("outbox rows: 2, of which 1 are due")
	o.Regions[0].Backlog.Pending, o.Regions[0].Backlog.Due = 0, 0
	open()
	steps := o.DrainSteps(eu, 7)
	require.Contains(t, steps[len(steps)-1].Done, "3 parked rows")
	require.Contains(t, steps[1].Done, "readiness fails at the nodes of "+eu)
	o.Members = o.Members[:1] // no node is there, and none reports what a node there does
	open()
	steps = o.DrainSteps(eu, 7)
	require.Contains(t, steps[1].Done, "no live node of "+eu+" is seen")
	require.NotContains(t, steps[2].Done, "at the nodes of "+eu)
	o.Regions = nil
	open("there is no such region", "there is no such region")
}
