package region

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
)

// reloading is a server with files that a test replaces, on a clock of its own.
type reloading struct {
	*certFiles
	certs *TLS
	log   *recorder
	ahead *atomic.Int64
}

func newReloading(t *testing.T, who Identity, by *devcerts.Authority, trusted ...*devcerts.Authority) *reloading {
	t.Helper()
	r := &reloading{certFiles: newCertFiles(t), log: &recorder{}, ahead: new(atomic.Int64)}
	r.issue(by, uri(t, who))
	r.trust(trusted...)
	cfg := r.config()
	cfg.Logger = slog.New(r.log)
	cfg.clock = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	var err error
	r.certs, err = NewTLS(cfg)
	require.NoError(t, err)
	return r
}

// pass lets the time of the next look come.
func (r *reloading) pass() { r.ahead.Add(int64(checkEvery)) }

// calls makes one request over a connection of its own.
func calls(t *testing.T, certs *TLS, node Node) (server string, err error) {
	t.Helper()
	transport := NewTransport(certs)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(Towards(t.Context(), node.Region), http.MethodPost, "https://"+node.RPCAddr+pingPath, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(deploymentHeader, deploymentID.String())
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	who, err := callerOf(res.TLS, time.Now())
	return who.Node, err
}

func TestCertificatesAreReplacedUnderARunningServer(t *testing.T) {
	ca, other := authority(t), authority(t)
	client := tlsOf(t, ca, nodeUS, nil)
	s := newReloading(t, nodeEU, ca, ca)
	node := startTLSNode(t, answering("ok"), s.certs, nil)
	expect := func(want string) {
		t.Helper()
		s.pass()
		got, err := calls(t, client, node)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	expect("eu-1")
	require.Empty(t, s.log.said())

	s.issue(ca, uri(t, Identity{Region: eu, Node: "eu-2"}))
	expect("eu-2")
	require.Len(t, s.log.said(), 1)
	require.Contains(t, s.log.said()[0], "reloaded identity=node eu-2 of "+eu)

	// A list that cannot be used is not used, and is logged once.
	for name, spoil := range map[string]func(){
		"no certificate": func() { s.write(s.cert, []byte("-----BEGIN")) },
		"another key": func() {
			f := newCertFiles(t)
			f.issue(ca, uri(t, nodeEU))
			text, err := os.ReadFile(f.key)
			require.NoError(t, err)
			s.write(s.key, text)
		},
		"of an unknown CA": func() { s.issue(other, uri(t, nodeEU)) },
		"expired":          func() { s.issueFor(ca, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute), uri(t, nodeEU)) },
		"gone":             func() { require.NoError(t, os.Remove(s.key)) },
	} {
		before := len(s.log.said())
		spoil()
		for range 3 {
			expect("eu-2")
		}
		lines := s.log.said()[before:]
		require.Len(t, lines, 1, name)
		require.Contains(t, lines[0], "cannot be used")
		s.issue(ca, uri(t, Identity{Region: eu, Node: "eu-2"}))
		expect("eu-2")
	}
	// A certificate that is too young is used once it is not, without being written
	// again.
	s.issueFor(ca, time.Now().Add(10*time.Minute), time.Now().Add(time.Hour), uri(t, Identity{Region: eu, Node: "eu-3"}))
	expect("eu-2")
	s.ahead.Add(int64(11 * time.Minute))
	s.certs.credentials()
	require.Equal(t, "eu-3", s.certs.Identity().Node)
}

// TestAFileIsNotReadForEveryHandshake: within a second nothing is looked at.
func TestAFileIsNotReadForEveryHandshake(t *testing.T) {
	ca := authority(t)
	at := time.Now()
	f := newCertFiles(t)
	f.issue(ca, uri(t, nodeEU))
	f.trust(ca)
	cfg := f.config()
	cfg.clock = func() time.Time { return at }
	certs, err := NewTLS(cfg)
	require.NoError(t, err)
	f.issue(ca, uri(t, Identity{Region: eu, Node: "eu-2"}))
	at = at.Add(checkEvery - 1)
	require.Equal(t, "eu-1", certs.Identity().Node)
	at = at.Add(1)
	require.Equal(t, "eu-2", certs.Identity().Node)
}

// TestTheCAIsReplacedStepByStep is the runbook's rotation, in which every pair of
// nodes understands each other after every step.
func TestTheCAIsReplacedStepByStep(t *testing.T) {
	before, after := authority(t), authority(t)
	a, b := newReloading(t, nodeUS, before, before), newReloading(t, nodeEU, before, before)
	nodeA := startTLSNode(t, answering("ok"), a.certs, nil)
	nodeA.Region = us
	nodeB := startTLSNode(t, answering("ok"), b.certs, nil)
	meet := func(step string) {
		t.Helper()
		a.pass()
		b.pass()
		_, err := calls(t, a.certs, nodeB)
		require.NoError(t, err, step)
		_, err = calls(t, b.certs, nodeA)
		require.NoError(t, err, step)
	}
	meet("before")
	for _, step := range []struct {
		name string
		do   func(r *reloading, who Identity)
	}{
		{"both CAs are trusted", func(r *reloading, _ Identity) { r.trust(before, after) }},
		{"certificates of the new one", func(r *reloading, who Identity) { r.issue(after, uri(t, who)) }},
		{"the old one was removed", func(r *reloading, _ Identity) { r.trust(after) }},
	} {
		step.do(a, nodeUS)
		meet(step.name + ", at one")
		step.do(b, nodeEU)
		meet(step.name + ", at both")
	}
	require.Len(t, a.log.said(), 3)
	stale := tlsOf(t, before, Identity{Region: us, Node: "old"}, nil)
	_, err := calls(t, stale, nodeB)
	require.Error(t, err, "the old CA is no good any more")
}

// TestANodeDoesNotLockItselfOut: a CA that is taken away too early is kept.
func TestANodeDoesNotLockItselfOut(t *testing.T) {
	before, after := authority(t), authority(t)
	s := newReloading(t, nodeEU, before, before, after)
	node := startTLSNode(t, answering("ok"), s.certs, nil)
	s.trust(after)
	s.pass()
	_, err := calls(t, tlsOf(t, before, nodeUS, nil), node)
	require.NoError(t, err)
	require.Len(t, s.log.said(), 1)
	require.Contains(t, s.log.said()[0], "is not valid by CA file")
}

// TestAnOldConnectionIsReplacedWithoutLoss: what was replaced is looked at in
// handshakes only, so there must be some.
func TestAnOldConnectionIsReplacedWithoutLoss(t *testing.T) {
	ca := authority(t)
	s := newReloading(t, nodeEU, ca, ca)
	h, err := NewHandler(HandlerConfig{Local: answering("ok"), Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Mount(mux)
	var last atomic.Value
	node := Node{Name: "n", Region: eu, RPCAddr: serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r.RemoteAddr)
		mux.ServeHTTP(w, r)
	}), s.certs)}
	p := tlsPeers(t, tlsOf(t, ca, nodeUS, nil), nil, node)
	ask := func() string {
		t.Helper()
		_, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
		require.NoError(t, err)
		return last.Load().(string)
	}
	first := ask()
	s.ahead.Store(int64(maxConnAge / 2))
	require.Equal(t, first, ask())
	// The answer to this one ends the connection, which the client learns with it or
	// a little later.
	s.ahead.Store(int64(maxConnAge + time.Minute))
	for deadline := time.Now().Add(patience); ask() == first; {
		require.True(t, time.Now().Before(deadline), "the connection is kept")
	}
	// The new one is as old as any new one.
	second := ask()
	require.Equal(t, second, ask())
}

// TestSessionsAreNotResumed: a resumed one would skip every check of this file.
func TestSessionsAreNotResumed(t *testing.T) {
	ca := authority(t)
	node := startTLSNode(t, answering("ok"), tlsOf(t, ca, nodeEU, nil), nil)
	raw := tlsOf(t, ca, nodeUS, nil).Client(eu)
	raw.ClientSessionCache, raw.NextProtos = tls.NewLRUClientSessionCache(1), []string{"h2"}
	for range 3 {
		conn, err := tls.Dial("tcp", node.RPCAddr, raw)
		require.NoError(t, err)
		require.False(t, conn.ConnectionState().DidResume)
		// Tickets come behind the handshake; the server's first frame is behind them.
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

func TestACertificateThatExpiresUnderItsConnectionIsRefused(t *testing.T) {
	ca := authority(t)
	log := newSignalling()
	s := newReloading(t, nodeEU, ca, ca)
	s.certs.log = slog.New(log)
	local := answering("ok")
	node := startTLSNode(t, local, s.certs, nil)
	p := tlsPeers(t, tlsOf(t, ca, nodeUS, nil), nil, node)
	_, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
	require.NoError(t, err)
	s.ahead.Store(int64(10 * time.Hour))
	_, err = p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
	require.ErrorIs(t, err, ErrNoAnswer)
	log.await(t, "refused", "remote=127.0.0.1:", "expired since")
	require.EqualValues(t, 1, local.calls.Load())
}

func TestACertificateThatShouldHaveBeenRenewedIsLoggedOnce(t *testing.T) {
	ca := authority(t)
	r := newReloading(t, nodeEU, ca, ca)
	r.ahead.Store(int64(6 * time.Hour))
	r.certs.Identity()
	require.Empty(t, r.log.said())
	r.ahead.Store(int64(8 * time.Hour)) // of nine that are left
	for range 3 {
		r.pass()
		r.certs.Identity()
	}
	require.Len(t, r.log.said(), 1)
	require.Contains(t, r.log.said()[0], "expires soon")
}
