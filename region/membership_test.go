package region

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
)

// patience bounds every wait for a signal, so that a defect fails a test rather
// than hangs it. Nothing waits for it to pass.
const patience = 30 * time.Second

// quick makes gossip as fast as loopback allows.
func quick(c *memberlist.Config) {
	c.ProbeInterval = 100 * time.Millisecond
	c.ProbeTimeout = 50 * time.Millisecond
	c.GossipInterval = 10 * time.Millisecond
	// A node gets in a full exchange what gossip did not deliver.
	c.PushPullInterval = 100 * time.Millisecond
	c.DeadNodeReclaimTime = time.Millisecond
}

func startMember(t *testing.T, change func(*MembershipConfig)) *Membership {
	t.Helper()
	cfg := MembershipConfig{
		Deployment: deploymentID, BindAddr: "127.0.0.1", LocalTimings: true, tune: quick, rejoinEvery: 50 * time.Millisecond,
	}
	change(&cfg)
	m, err := NewMembership(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// await returns once cond holds, looking again at each change of m.
func await(t *testing.T, m *Membership, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		changed := m.Changed()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited %v for %s; members: %+v", patience, what, m.Members())
		}
	}
}

// patiently is quick, but no node is thought dead because it was slow to answer a probe.
func patiently(c *memberlist.Config) {
	quick(c)
	c.ProbeInterval, c.ProbeTimeout = 2*patience, 2*patience
}

// announced repeats an announcement until it was sent: a busy machine may take longer than
// LeaveTimeout.
func announced(t *testing.T, announce func() error) {
	t.Helper()
	for giveUp := time.Now().Add(patience); ; {
		err := announce()
		if err == nil {
			return
		}
		if time.Now().After(giveUp) {
			t.Fatal(err)
		}
	}
}

// cluster starts two nodes in each of three regions, all joined. They go only by leaving.
func cluster(t *testing.T, secrets [][]byte) []*Membership {
	t.Helper()
	var all []*Membership
	for _, region := range []string{us, eu, as} {
		for i := range 2 {
			m := startMember(t, func(c *MembershipConfig) {
				c.Node, c.Region = fmt.Sprintf("%s-%d", region, i), region
				c.RPCAddr = fmt.Sprintf("127.0.0.1:%d", 9000+len(all))
				c.Version, c.SecretKeys, c.tune = "v1", secrets, patiently
			})
			if len(all) > 0 {
				if err := m.Join(t.Context(), []string{all[0].GossipAddr()}); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, m)
		}
	}
	for _, m := range all {
		await(t, m, "all six", func() bool { return len(m.Members()) == 6 })
	}
	return all
}

func TestMembershipLife(t *testing.T) {
	all := cluster(t, [][]byte{[]byte("0123456789abcdef0123456789abcdef")})
	first, usSecond, euFirst, euSecond := all[0], all[1], all[2], all[3]

	nodes := usSecond.Nodes(us)
	if len(nodes) != 2 || nodes[0].Name != us+"-0" || nodes[0].RPCAddr != "127.0.0.1:9000" || nodes[0].Version != "v1" {
		t.Fatalf("nodes of %s: %+v", us, nodes)
	}
	if nodes[0].Self || !nodes[1].Self {
		t.Errorf("Self is on the wrong node: %+v", nodes)
	}
	if got := first.RegionOf("127.0.0.1:9002"); got != eu {
		t.Errorf("RegionOf = %q", got)
	}
	if first.Alive("mars") || !first.LastSeen("mars").IsZero() || first.RegionOf("1.2.3.4:5") != "" {
		t.Error("an unknown region seems alive")
	}

	// Draining: all nodes choose it last, itself included, and back.
	announced(t, func() error { return euFirst.SetDraining(t.Context(), true) })
	for _, m := range all {
		await(t, m, "eu-0 to drain", func() bool {
			n := m.Nodes(eu)
			return len(n) == 2 && n[1].Name == eu+"-0" && n[1].Draining && !n[0].Draining
		})
	}
	if !first.Alive(eu) {
		t.Error("a draining node is alive")
	}
	announced(t, func() error { return euFirst.SetDraining(t.Context(), false) })
	await(t, first, "eu-0 not to drain", func() bool { n := first.Nodes(eu); return n[0].Name == eu+"-0" && !n[0].Draining })

	// The same of one that cannot record a charge, whose description may change meanwhile.
	announced(t, func() error { return euFirst.SetReady(t.Context(), false) })
	var since time.Time
	unready := func(m *Membership, versions Versions) func() bool {
		return func() bool {
			n := m.Nodes(eu)
			since = n[1].UnreadySince
			return n[1].Name == eu+"-0" && !since.IsZero() && n[0].UnreadySince.IsZero() && n[1].Versions == versions
		}
	}
	for _, m := range all {
		await(t, m, "eu-0 to record no charge", unready(m, Versions{}))
	}
	await(t, first, "eu-0 to record no charge", unready(first, Versions{}))
	was := since
	announced(t, func() error { return euFirst.SetVersions(t.Context(), Versions{Epoch: 2}) })
	await(t, first, "eu-0 to say more", unready(first, Versions{Epoch: 2}))
	if !since.Equal(was) {
		t.Error("it seems to have begun anew")
	}
	announced(t, func() error { return euFirst.SetReady(t.Context(), true) })
	await(t, first, "eu-0 to record charges", func() bool { n := first.Nodes(eu)[0]; return n.Name == eu+"-0" && n.UnreadySince.IsZero() })

	// One node announces its versions: all others get them, and it does not drain.
	announced(t, func() error { return euFirst.SetVersions(t.Context(), Versions{Epoch: 3, Restore: 4}) })
	for _, m := range all {
		await(t, m, "the versions of eu-0", func() bool {
			n := m.Nodes(eu)[0]
			return n.Name == eu+"-0" && n.Versions == Versions{Epoch: 3, Restore: 4} && !n.Draining
		})
	}

	// One node leaves, then the region is empty.
	announced(t, func() error { return euFirst.Leave(t.Context()) })
	await(t, first, "eu-0 to leave", func() bool { return len(first.Nodes(eu)) == 1 })
	if !first.Alive(eu) {
		t.Error("eu has a node left")
	}
	before := time.Now()
	if seen := first.LastSeen(eu); seen.Before(before) {
		t.Errorf("a live region was last seen %v, before now", seen)
	}
	announced(t, func() error { return euSecond.Leave(t.Context()) })
	await(t, first, "eu to be empty", func() bool { return !first.Alive(eu) })
	after := time.Now()
	if seen := first.LastSeen(eu); seen.Before(before) || seen.After(after) {
		t.Errorf("last seen %v, not between %v and %v", seen, before, after)
	}
	if len(first.Nodes(us)) != 2 || len(first.Nodes(as)) != 2 {
		t.Errorf("others left too: %+v", first.Members())
	}
}

func TestMembershipMeasuresRoundTrips(t *testing.T) {
	a := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000" })
	b := startMember(t, func(c *MembershipConfig) {
		c.Node, c.Region, c.RPCAddr = "b", eu, "127.0.0.1:9001"
		c.Seeds = []string{a.GossipAddr()}
	})
	// The seeds of the configuration are knocked at without a Join.
	await(t, b, "a round trip to us", func() bool { rtt, ok := b.RTT(us); return ok && rtt > 0 })
	if _, ok := b.RTT(eu); ok {
		t.Error("b has measured its way to itself")
	}
	if _, ok := b.RTT("mars"); ok {
		t.Error("b has measured its way to mars")
	}
}

func TestMembershipFindsALostSeedAgain(t *testing.T) {
	b := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "b", eu, "127.0.0.1:9001" })
	addr := b.GossipAddr()
	a := startMember(t, func(c *MembershipConfig) {
		c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000"
		c.Seeds = []string{addr}
	})
	await(t, a, "b", func() bool { return a.Alive(eu) })
	// It dies without leaving, and is dropped.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, a, "b to be missed", func() bool { return !a.Alive(eu) })
	// It comes back at the same address, without members.
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	again := startMember(t, func(c *MembershipConfig) {
		c.Node, c.Region, c.RPCAddr = "b", eu, "127.0.0.1:9001"
		if _, err := fmt.Sscan(port, &c.BindPort); err != nil {
			t.Fatal(err)
		}
	})
	await(t, a, "b again", func() bool { return a.Alive(eu) })
	await(t, again, "a", func() bool { return again.Alive(us) })
}

func TestMembershipKeepsStrangersOut(t *testing.T) {
	a := startMember(t, func(c *MembershipConfig) {
		c.Node, c.Region, c.RPCAddr, c.SecretKeys = "a", us, "127.0.0.1:9000", [][]byte{[]byte("0123456789abcdef")}
	})
	for name, secrets := range map[string][][]byte{"another key": {[]byte("fedcba9876543210")}, "no key": nil} {
		b := startMember(t, func(c *MembershipConfig) {
			c.Node, c.Region, c.RPCAddr, c.SecretKeys = "b", eu, "127.0.0.1:9001", secrets
		})
		if err := b.Join(t.Context(), []string{a.GossipAddr()}); err == nil {
			t.Errorf("%s: joined", name)
		}
		if len(a.Members()) != 1 || len(b.Members()) != 1 {
			t.Errorf("%s: %v %v", name, a.Members(), b.Members())
		}
	}
}

// TestMembershipRotatesItsKey is the middle of a rotation: some nodes send with the new key
// already, some still with the old one.
func TestMembershipRotatesItsKey(t *testing.T) {
	before, after := []byte("0123456789abcdef"), []byte("fedcba9876543210fedcba9876543210")
	start := func(name, region string, keys ...[]byte) *Membership {
		return startMember(t, func(c *MembershipConfig) {
			c.Node, c.Region, c.RPCAddr, c.SecretKeys = name, region, "127.0.0.1:9000", keys
		})
	}
	a, b, c := start("a", us, before, after), start("b", eu, after, before), start("c", as, after)
	if err := b.Join(t.Context(), []string{a.GossipAddr()}); err != nil {
		t.Fatal(err)
	}
	await(t, a, "b", func() bool { return a.Alive(eu) })
	await(t, b, "a", func() bool { return b.Alive(us) })
	// Packets too, not only the exchange over a stream: probes measure.
	await(t, a, "a round trip to b", func() bool { _, ok := a.RTT(eu); return ok })
	await(t, b, "a round trip to a", func() bool { _, ok := b.RTT(us); return ok })
	// A node with only the new key cannot decrypt one with only the old key.
	if err := c.Join(t.Context(), []string{a.GossipAddr()}); err == nil {
		t.Error("a node without the old key joined one that sends with it")
	}
	if err := c.Join(t.Context(), []string{b.GossipAddr()}); err != nil {
		t.Errorf("a node with the new key alone does not understand one that sends with it: %v", err)
	}
}

func TestMembershipCloseAndLeaveAreIdempotent(t *testing.T) {
	m := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000" })
	for range 2 {
		if err := m.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetVersions(t.Context(), Versions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("SetVersions after Leave: %v", err)
	}
	if err := m.SetDraining(t.Context(), true); !errors.Is(err, ErrClosed) {
		t.Errorf("SetDraining after Leave: %v", err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Leave(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
	if err := m.Join(t.Context(), []string{"127.0.0.1:1"}); !errors.Is(err, ErrClosed) {
		t.Errorf("Join after Close: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Join(ctx, nil); err != nil {
		t.Errorf("a Join of nobody has nothing to wait for: %v", err)
	}
}

// TestAllLeaveAtOnce: of members that leave together, the last ones have nobody to tell, and do not
// wait until it has heard them.
func TestAllLeaveAtOnce(t *testing.T) {
	var members []*Membership
	for i, name := range []string{"a", "b", "c"} {
		m := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = name, us, "127.0.0.1:900"+strconv.Itoa(i) })
		if i > 0 {
			if err := m.Join(t.Context(), []string{members[0].GossipAddr()}); err != nil {
				t.Fatal(err)
			}
		}
		members = append(members, m)
	}
	for _, m := range members {
		await(t, m, "all three", func() bool { return len(m.Members()) == len(members) })
	}
	left := make(chan error, len(members))
	for _, m := range members {
		go func() { left <- m.Leave(t.Context()) }()
	}
	for range members {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
}

func TestMembershipRefusesBadConfiguration(t *testing.T) {
	taken := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000" })
	_, port, err := net.SplitHostPort(taken.GossipAddr())
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*MembershipConfig){
		"no id":             func(c *MembershipConfig) { c.Deployment = uuid.Nil },
		"no name":           func(c *MembershipConfig) { c.Node = "" },
		"region name":       func(c *MembershipConfig) { c.Region = "US" },
		"RPC address":       func(c *MembershipConfig) { c.RPCAddr = ":9000" },
		"key 2 of 2":        func(c *MembershipConfig) { c.SecretKeys = [][]byte{[]byte("0123456789abcdef"), []byte("short")} },
		"cannot listen":     func(c *MembershipConfig) { _, _ = fmt.Sscan(port, &c.BindPort) },
		"version is longer": func(c *MembershipConfig) { c.Version = strings.Repeat("v", maxVersion+1) },
	} {
		cfg := MembershipConfig{Deployment: deploymentID, Node: "b", Region: us, RPCAddr: "127.0.0.1:9001", BindAddr: "127.0.0.1", LocalTimings: true}
		change(&cfg)
		m, err := NewMembership(cfg)
		if err == nil {
			_ = m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// recorder is a slog.Handler that keeps what it is given.
type recorder struct {
	mu      sync.Mutex
	records []slog.Record
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }
func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, rec)
	return nil
}

func TestViewLogsUndecodableMetadataOnce(t *testing.T) {
	var logged recorder
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := newView(Node{Name: "self"}, func() time.Time { return now }, slog.New(&logged))
	good, err := encodeMeta(Node{Region: eu, RPCAddr: "a:1"})
	if err != nil {
		t.Fatal(err)
	}
	bad := &memberlist.Node{Name: "b", Meta: []byte("not ours")}
	for range 3 {
		v.NotifyUpdate(bad)
	}
	if len(logged.records) != 1 || logged.records[0].Level != slog.LevelWarn || len(v.load().all) != 0 {
		t.Fatalf("%d records, nodes %v", len(logged.records), v.load().all)
	}
	v.NotifyUpdate(&memberlist.Node{Name: "b", Meta: good})
	if len(v.load().byRegion[eu]) != 1 {
		t.Fatal("a node that became well was not taken")
	}
	// A live node with metadata that turns bad is forgotten, and its region with it.
	now = now.Add(time.Minute)
	v.NotifyUpdate(bad)
	if len(v.load().all) != 0 || !v.lastSeen(eu).Equal(now) || len(logged.records) != 2 {
		t.Errorf("nodes %v, last seen %v, %d records", v.load().all, v.lastSeen(eu), len(logged.records))
	}
}

func TestViewFollowsANodeThatMovesToAnotherRegion(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := newView(Node{Name: "self"}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	for _, region := range []string{us, eu} {
		meta, err := encodeMeta(Node{Region: region, RPCAddr: "a:1"})
		if err != nil {
			t.Fatal(err)
		}
		v.NotifyJoin(&memberlist.Node{Name: "n", Meta: meta})
	}
	if s := v.load(); len(s.byRegion[us]) != 0 || len(s.byRegion[eu]) != 1 || !v.lastSeen(us).Equal(now) {
		t.Errorf("%+v, us last seen %v", s.byRegion, v.lastSeen(us))
	}
}

func TestViewSmoothsRoundTrips(t *testing.T) {
	v := newView(Node{Name: "self"}, time.Now, slog.New(slog.DiscardHandler))
	far, near := &memberlist.Node{Name: "far"}, &memberlist.Node{Name: "near"}
	for _, n := range []*memberlist.Node{far, near} {
		var err error
		if n.Meta, err = encodeMeta(Node{Region: eu, RPCAddr: n.Name + ":1"}); err != nil {
			t.Fatal(err)
		}
	}
	v.NotifyPingComplete(far, time.Hour, nil) // not a member yet
	v.NotifyJoin(far)
	v.NotifyJoin(near)
	if _, ok := v.rtt(eu); ok {
		t.Error("a round trip of a stranger was kept")
	}
	v.NotifyPingComplete(far, 800*time.Millisecond, nil)
	v.NotifyPingComplete(near, 80*time.Millisecond, nil)
	v.NotifyPingComplete(near, 160*time.Millisecond, nil)
	if rtt, ok := v.rtt(eu); !ok || rtt != 90*time.Millisecond {
		t.Errorf("rtt %v, want 80 ms and an eighth of the difference", rtt)
	}
	v.NotifyLeave(near)
	if rtt, _ := v.rtt(eu); rtt != 800*time.Millisecond {
		t.Errorf("rtt %v, want that of the node that is left", rtt)
	}
}

func TestGossipLogLevels(t *testing.T) {
	var logged recorder
	l := stdLogger(slog.New(&logged))
	for _, line := range []string{
		"[DEBUG] memberlist: d", "[INFO] memberlist: i", "[WARN] memberlist: w", "[ERR] memberlist: e", "plain",
	} {
		l.Print(line)
	}
	want := []struct {
		level slog.Level
		text  string
	}{{slog.LevelDebug, "d"}, {slog.LevelInfo, "i"}, {slog.LevelWarn, "w"}, {slog.LevelWarn, "e"}, {slog.LevelInfo, "plain"}}
	if len(logged.records) != len(want) {
		t.Fatalf("%d records", len(logged.records))
	}
	for i, w := range want {
		if r := logged.records[i]; r.Level != w.level || r.Message != w.text {
			t.Errorf("line %d: %v %q, want %v %q", i, r.Level, r.Message, w.level, w.text)
		}
	}
}

// TestAnAddressIsReadBesideAnAnnouncement is for the race detector: memberlist rewrites
// the address of its own node with each announcement.
func TestAnAddressIsReadBesideAnAnnouncement(t *testing.T) {
	m := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000" })
	addr := m.GossipAddr()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := range uint64(20) {
			err = errors.Join(err, m.SetVersions(t.Context(), Versions{Epoch: i + 1}))
		}
		done <- err
	}()
	for {
		if got := m.GossipAddr(); got != addr {
			t.Fatalf("the address was %s and is %s", addr, got)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// TestEveryAddressIsIPv6s, too: who listens on 0.0.0.0 is found at an address of IPv6, so that
// one setting is right on machines with either.
func TestEveryAddressIsIPv6s(t *testing.T) {
	probe, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	_ = probe.Close()
	seed := ""
	var members []*Membership
	for i, bind := range []string{"0.0.0.0", "::"} {
		m := startMember(t, func(c *MembershipConfig) {
			c.Node, c.Region, c.RPCAddr, c.BindAddr, c.AdvertiseAddr = fmt.Sprint("n", i), us, fmt.Sprintf("[::1]:900%d", i), bind, "::1"
			if seed != "" {
				c.Seeds = []string{seed}
			}
		})
		_, port, err := net.SplitHostPort(m.GossipAddr())
		if err != nil {
			t.Fatal(err)
		}
		seed = net.JoinHostPort("::1", port)
		members = append(members, m)
	}
	for _, m := range members {
		await(t, m, "the other is found", func() bool { return len(m.Nodes(us)) == 2 })
	}
}
