package region

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// otherID is another deployment.
var otherID = uuid.MustParse("018f0000-0000-4000-8000-00000000000b")

// lines passes each record on, as a line.
type lines chan string

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lines) WithGroup(string) slog.Handler            { return l }
func (l lines) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprint(" ", a)
		return true
	})
	select {
	case l <- line:
	default: // the test has what it waits for
	}
	return nil
}

// namesBoth waits for a line that begins so and names both deployments.
func (l lines) namesBoth(t *testing.T, begins string) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line := <-l:
			if strings.HasPrefix(line, begins) && strings.Contains(line, deploymentID.String()) && strings.Contains(line, otherID.String()) {
				require.NotContains(t, line, "\n")
				return
			}
		case <-late:
			t.Fatalf("waited %v for a line that begins with %q and names both deployments", patience, begins)
		}
	}
}

const metAnother = "a member of another deployment was met"

// TestGossipOfAnotherDeploymentIsRefused gives two deployments the same gossip key, and each an
// address of the other.
func TestGossipOfAnotherDeploymentIsRefused(t *testing.T) {
	secrets := [][]byte{[]byte("0123456789abcdef0123456789abcdef")}
	start := func(of uuid.UUID, log lines, name, region string, seeds ...string) *Membership {
		return startMember(t, func(c *MembershipConfig) {
			c.Deployment, c.Node, c.Region, c.RPCAddr, c.SecretKeys, c.Seeds = of, name, region, "127.0.0.1:9000", secrets, seeds
			c.Logger = slog.New(log)
		})
	}
	at, bt := make(lines, 1000), make(lines, 1000)
	a := start(deploymentID, at, "a", us)
	b := start(deploymentID, at, "b", eu, a.GossipAddr())
	await(t, a, "b", func() bool { return a.Alive(eu) })
	// x has the address of a among its seeds, and then y is where b was.
	x := start(otherID, bt, "x", as, a.GossipAddr())
	at.namesBoth(t, metAnother)
	bt.namesBoth(t, metAnother)
	err := x.Join(t.Context(), []string{a.GossipAddr()})
	require.ErrorContains(t, err, deploymentID.String())
	require.ErrorContains(t, err, otherID.String())

	host, port, err := net.SplitHostPort(b.GossipAddr())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.NoError(t, b.Close())
	y := startMember(t, func(c *MembershipConfig) {
		c.Deployment, c.Node, c.Region, c.RPCAddr, c.SecretKeys, c.Seeds = otherID, "y", eu, "127.0.0.1:9001", secrets, []string{x.GossipAddr()}
		_, err := fmt.Sscan(port, &c.BindPort)
		require.NoError(t, err)
	})
	await(t, x, "y", func() bool { return x.Alive(eu) })
	await(t, a, "b to leave", func() bool { return !a.Alive(eu) })
	err = a.Join(t.Context(), []string{y.GossipAddr()})
	require.ErrorContains(t, err, deploymentID.String())
	require.ErrorContains(t, err, otherID.String())

	for _, n := range a.Members() {
		require.Equal(t, deploymentID, n.Deployment)
	}
	require.Len(t, a.Members(), 1)
	for _, m := range []*Membership{x, y} {
		require.Len(t, m.Members(), 2)
		for _, n := range m.Members() {
			require.Equal(t, otherID, n.Deployment)
		}
	}
}

// TestAMemberOfAnotherDeploymentIsNoMember is of packets, which come without an exchange.
func TestAMemberOfAnotherDeploymentIsNoMember(t *testing.T) {
	a := startMember(t, func(c *MembershipConfig) { c.Node, c.Region, c.RPCAddr = "a", us, "127.0.0.1:9000" })
	b := startMember(t, func(c *MembershipConfig) {
		c.Deployment, c.Node, c.Region, c.RPCAddr = otherID, "b", eu, "127.0.0.1:9001"
		c.tune = nil
	})
	err := a.view.NotifyAlive(b.list.LocalNode())
	require.ErrorContains(t, err, deploymentID.String())
	require.ErrorContains(t, err, otherID.String())
	require.NoError(t, a.view.NotifyAlive(a.list.LocalNode()))
}

// TestAForwardFromAnotherDeploymentIsRefused: both have certificates of one CA, in one trust
// domain.
func TestAForwardFromAnotherDeploymentIsRefused(t *testing.T) {
	for _, named := range []uuid.UUID{otherID, uuid.Nil} {
		local, log := answering("charged"), make(lines, 1000)
		h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t), Logger: slog.New(log)})
		require.NoError(t, err)
		mux := http.NewServeMux()
		h.Mount(mux)
		addr, _ := serve(t, mux)
		node := Node{Name: "n", Region: eu, RPCAddr: addr}
		p := peersOf(t, func(c *PeersConfig) { c.Deployment = otherID }, node)
		if named == uuid.Nil {
			p.http = &http.Client{Transport: NewTransport(nil)}
			t.Cleanup(p.http.CloseIdleConnections)
		}
		_, err = p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
		_, _, read := p.Inspect(t.Context(), eu, claim.Key{Tenant: "acme", Value: "order-1"})
		_, _, _, found := p.Object(t.Context(), eu, "acme", "ch_1")
		for _, err := range []error{err, read, found} {
			require.ErrorContains(t, err, deploymentID.String())
			if named != uuid.Nil {
				require.ErrorIs(t, err, ErrNoAnswer)
				require.ErrorContains(t, err, otherID.String())
			}
		}
		require.Zero(t, local.calls.Load(), "something ran")
		if named != uuid.Nil {
			log.namesBoth(t, "a request of another deployment was refused")
			require.ErrorContains(t, p.Ping(t.Context(), node), deploymentID.String(), "a node of another deployment is a sign of life")
		}
	}
}

// TestAnAnswerOfAnotherDeploymentIsNone: an address of gossip leads to a node, or to anything
// else, that answers as if it were right.
func TestAnAnswerOfAnotherDeploymentIsNone(t *testing.T) {
	for _, named := range []string{otherID.String(), "", "nonsense"} {
		h, err := NewHandler(HandlerConfig{Local: answering("another's"), Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
		require.NoError(t, err)
		mux := http.NewServeMux()
		h.Mount(mux)
		addr, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux.ServeHTTP(&renamed{w, named}, r) }))
		other := Node{Name: "n", Region: eu, RPCAddr: addr}
		right := startNode(t, "right", answering("ours"))
		log := make(lines, 1000)
		p := peersOf(t, func(c *PeersConfig) { c.Logger = slog.New(log) }, other, right)
		reply, err := p.Execute(t.Context(), eu, requestFor(other, other, right), 1, us)
		require.NoError(t, err)
		require.Equal(t, "ours", string(reply.Response.Body))
		if named == otherID.String() {
			log.namesBoth(t, "a forward failed on the wire")
		}
	}
}

// renamed names another deployment in its answer.
type renamed struct {
	http.ResponseWriter
	as string
}

func (r *renamed) WriteHeader(status int) {
	r.Header().Set(deploymentHeader, r.as)
	r.ResponseWriter.WriteHeader(status)
}

func (r *renamed) Write(b []byte) (int, error) {
	r.Header().Set(deploymentHeader, r.as)
	return r.ResponseWriter.Write(b)
}

// TestAToolsDeploymentIsThatOfTheFirstAnswer: a command is about one deployment, whatever
// addresses it has.
func TestAToolsDeploymentIsThatOfTheFirstAnswer(t *testing.T) {
	at := func(of uuid.UUID) string {
		addr, _ := serve(t, OfDeployment(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), of, true, slog.New(slog.DiscardHandler)))
		return "http://" + addr
	}
	first, second := at(deploymentID), at(otherID)
	transport := NewTransport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	tool := NewClient(transport, uuid.Nil)
	get := func(url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		res, err := tool.Do(req)
		if err == nil {
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.NoError(t, res.Body.Close())
		}
		return err
	}
	require.NoError(t, get(first))
	require.NoError(t, get(first))
	var other *OtherDeploymentError
	require.ErrorAs(t, get(second), &other)
	require.Equal(t, OtherDeploymentError{Own: deploymentID, Other: otherID}, *other)
}

// ofAnother counts the lines so far that name both deployments.
func (l lines) ofAnother() (n int) {
	for {
		select {
		case line := <-l:
			if strings.Contains(line, deploymentID.String()) && strings.Contains(line, otherID.String()) {
				n++
			}
		default:
			return n
		}
	}
}

// TestAnotherDeploymentIsLoggedOnce: it is met again with each probe of a seed and with each
// exchange, and memberlist has a line of its own for each.
func TestAnotherDeploymentIsLoggedOnce(t *testing.T) {
	log := make(lines, 1000)
	a := startMember(t, func(c *MembershipConfig) {
		c.Deployment, c.Node, c.Region, c.RPCAddr = deploymentID, "a", us, "127.0.0.1:9000"
	})
	x := startMember(t, func(c *MembershipConfig) {
		c.Deployment, c.Node, c.Region, c.RPCAddr, c.Logger = otherID, "x", eu, "127.0.0.1:9001", slog.New(log)
	})
	for range 3 {
		require.Error(t, x.Join(t.Context(), []string{a.GossipAddr()}))
	}
	require.Equal(t, 1, log.ofAnother())

	clock := time.Unix(0, 0)
	v := newView(Node{Deployment: deploymentID, Name: "a"}, func() time.Time { return clock }, slog.New(log))
	meet := func(name string, of uuid.UUID) {
		meta, err := encodeMeta(Node{Deployment: of, Name: name, Region: eu, RPCAddr: "127.0.0.1:9001"})
		require.NoError(t, err)
		peer := &memberlist.Node{Name: name, Meta: meta}
		require.Error(t, v.NotifyMerge([]*memberlist.Node{peer}))
		require.Error(t, v.NotifyAlive(peer))
	}
	for range 3 {
		meet("x", otherID)
		meet("y", otherID)
	}
	require.Equal(t, 2, log.ofAnother(), "one for each member")
	third := uuid.MustParse("018f0000-0000-4000-8000-00000000000c")
	meet("x", third)
	require.Contains(t, <-log, third.String(), "it is of another one now")
	clock = clock.Add(strangerAgain)
	meet("x", otherID)
	require.Equal(t, 1, log.ofAnother(), "it is still there")
	for i := range 3 * maxStrangers {
		meet(fmt.Sprint("n", i), otherID)
	}
	require.Equal(t, maxStrangers-1, log.ofAnother())
	require.Len(t, v.strangers.logged, maxStrangers)
}

// TestACallerOfAnotherDeploymentIsLoggedOnce: a node that it takes for its own is pinged every
// second.
func TestACallerOfAnotherDeploymentIsLoggedOnce(t *testing.T) {
	log := make(lines, 1000)
	h := OfDeployment(http.NotFoundHandler(), deploymentID, false, slog.New(log))
	for i := range 6 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:%d", i%2, 40000+i)
		r.Header.Set(deploymentHeader, otherID.String())
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code)
	}
	require.Equal(t, 2, log.ofAnother(), "one for each caller")
}
