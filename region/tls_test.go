package region

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
)

// domain is the tests' deployment.
const domain = "homeward"

func uri(t *testing.T, who Identity) *url.URL {
	t.Helper()
	u, err := who.URI(domain)
	require.NoError(t, err)
	return u
}

func parseURI(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// validity is ten hours, of which one has passed.
func validity() (from, to time.Time) {
	return time.Now().Add(-time.Hour), time.Now().Add(9 * time.Hour)
}

func authority(t *testing.T) *devcerts.Authority {
	t.Helper()
	from, to := validity()
	a, err := devcerts.NewAuthority(from, to)
	require.NoError(t, err)
	return a
}

// certFiles are one node's.
type certFiles struct {
	t             *testing.T
	cert, key, ca string
}

func newCertFiles(t *testing.T) *certFiles {
	dir := t.TempDir()
	return &certFiles{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

// write replaces a file as a renewal of certificates should: in one step.
func (f *certFiles) write(path string, text []byte) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(f.t, os.Rename(path+".new", path))
}

func (f *certFiles) issue(by *devcerts.Authority, names ...*url.URL) {
	f.t.Helper()
	from, to := validity()
	f.issueFor(by, from, to, names...)
}

func (f *certFiles) issueFor(by *devcerts.Authority, from, to time.Time, names ...*url.URL) {
	f.t.Helper()
	cert, key, err := by.Issue(from, to, names...)
	require.NoError(f.t, err)
	f.write(f.cert, cert)
	f.write(f.key, key)
}

func (f *certFiles) trust(by ...*devcerts.Authority) {
	f.t.Helper()
	var all []byte
	for _, a := range by {
		all = append(all, a.PEM()...)
	}
	f.write(f.ca, all)
}

func (f *certFiles) config() TLSConfig {
	return TLSConfig{CertFile: f.cert, KeyFile: f.key, CAFile: f.ca, TrustDomain: domain}
}

// tlsOf is a node or operator that by vouches for.
func tlsOf(t *testing.T, by *devcerts.Authority, who Identity, log *slog.Logger) *TLS {
	t.Helper()
	f := newCertFiles(t)
	f.issue(by, uri(t, who))
	f.trust(by)
	cfg := f.config()
	cfg.Region, cfg.Logger = who.Region, log
	certs, err := NewTLS(cfg)
	require.NoError(t, err)
	return certs
}

// serveTLS runs handler until the test ends and returns its address.
func serveTLS(t *testing.T, handler http.Handler, certs *TLS) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := NewServer(handler, certs)
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// startTLSNode serves local as a node of eu.
func startTLSNode(t *testing.T, local Local, certs *TLS, log *slog.Logger) Node {
	t.Helper()
	h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t), Logger: log})
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Mount(mux)
	return Node{Name: "n", Region: eu, RPCAddr: serveTLS(t, mux, certs)}
}

func tlsPeers(t *testing.T, certs *TLS, log *slog.Logger, nodes ...Node) *Peers {
	t.Helper()
	return peersOf(t, func(c *PeersConfig) { c.TLS, c.Transport, c.Logger = true, NewTransport(certs), log }, nodes...)
}

// said are a recorder's log lines: message and attributes.
func (r *recorder) said() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.records {
		line := rec.Message
		rec.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		lines = append(lines, line)
	}
	return lines
}

// signalling is a recorder that signals each line.
type signalling struct {
	recorder
	wrote chan struct{}
}

func newSignalling() *signalling { return &signalling{wrote: make(chan struct{}, 1000)} }

func (s *signalling) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s *signalling) Handle(ctx context.Context, rec slog.Record) error {
	err := s.recorder.Handle(ctx, rec)
	s.wrote <- struct{}{}
	return err
}

// await returns the line that has all of parts, which the other end may write a
// little later than this end fails.
func (s *signalling) await(t *testing.T, parts ...string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
	lines:
		for _, line := range s.said() {
			for _, p := range parts {
				if !strings.Contains(line, p) {
					continue lines
				}
			}
			return line
		}
		select {
		case <-s.wrote:
		case <-deadline:
			t.Fatalf("no line with %q in:\n%s", parts, strings.Join(s.said(), "\n"))
		}
	}
}

var (
	nodeUS   = Identity{Region: us, Node: "us-1"}
	nodeEU   = Identity{Region: eu, Node: "eu-1"}
	operator = Identity{Operator: "ada"}
)

func TestIdentitiesStandInURIs(t *testing.T) {
	require.Equal(t, "spiffe://homeward/region/us-east1/node/us-1", uri(t, nodeUS).String())
	require.Equal(t, "spiffe://homeward/operator/ada/role/reader", uri(t, operator).String())
	require.Equal(t, "spiffe://homeward/operator/ada/role/treasurer", uri(t, Identity{Operator: "ada", Role: RoleTreasurer}).String())
	for text, role := range map[string]Role{"/operator/ada": RoleReader, "/operator/ada/role/reader": RoleReader, "/operator/ada/role/operator": RoleOperator, "/operator/ada/role/treasurer": RoleTreasurer} {
		id, err := identify(spiffeid.RequireFromString("spiffe://homeward" + text))
		require.NoError(t, err)
		require.Equal(t, Identity{Operator: "ada", Role: role}, id, text)
	}
	for _, bad := range []string{"/operator/ada/role/admin", "/operator/ada/role/role 2", "/operator/ada/treasurer", "/operator/ada/role"} {
		id, err := spiffeid.FromString("spiffe://homeward" + bad)
		if err == nil {
			_, err = identify(id)
		}
		require.Error(t, err, bad)
	}
	for _, bad := range []Identity{{Operator: "ada", Role: RoleTreasurer + 1}, {}, {Region: us}, {Node: "n"}, {Region: "US", Node: "n"}, {Region: us, Node: "a/b"}, {Operator: "a b"}} {
		_, err := bad.URI(domain)
		require.Error(t, err, "%+v", bad)
	}
	for name, want := range map[string]bool{"homeward": true, "pay.example": true, "": false, "Homeward": false, "a b": false, "spiffe://homeward": false} {
		require.Equal(t, want, ValidTrustDomain(name), name)
	}
	_, err := nodeUS.URI("Not One")
	require.ErrorContains(t, err, "trust domain")
}

func TestForwardsBetweenNodesThatProveWhoTheyAre(t *testing.T) {
	ca := authority(t)
	var caller Identity
	var protocol uint16
	local := answering("ok")
	answer := local.execute
	local.execute = func(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
		caller, _ = CallerOf(ctx)
		return answer(ctx, home, req)
	}
	local.inspect = func(context.Context, string, claim.Key) (claim.Status, bool, error) {
		return claim.Status{}, false, nil
	}
	local.object = func(context.Context, string, string, string) (claim.State, claim.Response, bool, error) {
		return 0, claim.Response{}, false, nil
	}
	h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Mount(mux)
	from := make(map[string]bool)
	addr := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol = r.TLS.Version
		from[r.Proto+r.TLS.NegotiatedProtocol+r.RemoteAddr] = true
		mux.ServeHTTP(w, r)
	}), tlsOf(t, ca, nodeEU, nil))
	node := Node{Name: "n", Region: eu, RPCAddr: addr}
	p := tlsPeers(t, tlsOf(t, ca, nodeUS, nil), nil, node)
	for range 5 {
		reply, err := p.Execute(t.Context(), eu, requestFor(node, node), 1, us)
		require.NoError(t, err)
		require.Equal(t, "ok", string(reply.Response.Body))
	}
	_, _, err = p.Inspect(t.Context(), eu, claim.Key{Tenant: "acme", Value: "k"})
	require.NoError(t, err)
	_, _, _, err = p.Object(t.Context(), eu, "acme", "ch_1")
	require.NoError(t, err)
	require.NoError(t, p.Ping(t.Context(), node))
	require.Equal(t, nodeUS, caller)
	require.Equal(t, uint16(tls.VersionTLS13), protocol)
	require.Len(t, from, 1, "one connection")
	for how := range from {
		require.True(t, strings.HasPrefix(how, "HTTP/2.0h2"), how)
	}
}

// TestStrangersAreRefusedAndLogged: none of them reaches the executor, whatever it presents. The
// handler logs each with its name and the reason.
func TestStrangersAreRefusedAndLogged(t *testing.T) {
	ca, other := authority(t), authority(t)
	hour := time.Hour
	now := time.Now()
	for name, tc := range map[string]struct {
		issue func(f *certFiles)
		says  string
	}{
		"no certificate": {nil, "didn't provide a certificate"},
		"of another CA":  {func(f *certFiles) { f.issue(other, uri(t, nodeUS)) }, "unknown authority"},
		"expired":        {func(f *certFiles) { f.issueFor(ca, now.Add(-2*hour), now.Add(-hour), uri(t, nodeUS)) }, "expired"},
		"not yet valid":  {func(f *certFiles) { f.issueFor(ca, now.Add(hour), now.Add(2*hour), uri(t, nodeUS)) }, "not yet valid"},
		"nobody's":       {func(f *certFiles) { f.issue(ca) }, "no URI SAN"},
		"two people's":   {func(f *certFiles) { f.issue(ca, uri(t, nodeUS), uri(t, operator)) }, "more than one URI SAN"},
		"another deployment's": {
			func(f *certFiles) { f.issue(ca, parseURI(t, "spiffe://elsewhere/region/us-east1/node/n")) }, "elsewhere",
		},
		"of another form":    {func(f *certFiles) { f.issue(ca, parseURI(t, "spiffe://homeward/ns/default/sa/web")) }, "spiffe://homeward/region/REGION"},
		"no region's":        {func(f *certFiles) { f.issue(ca, parseURI(t, "spiffe://homeward/region/US/node/n")) }, "spiffe://homeward/region/REGION"},
		"a web site's":       {func(f *certFiles) { f.issue(ca, parseURI(t, "https://homeward/region/us-east1/node/n")) }, "scheme"},
		"the root of domain": {func(f *certFiles) { f.issue(ca, parseURI(t, "spiffe://homeward")) }, "spiffe://homeward/region/REGION"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newSignalling()
			local := answering("ok")
			node := startTLSNode(t, local, tlsOf(t, ca, nodeEU, slog.New(log)), slog.New(log))
			// A stranger believes anybody; with its own checks it would not get far.
			raw := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
			if tc.issue != nil {
				f := newCertFiles(t)
				tc.issue(f)
				pair, err := tls.LoadX509KeyPair(f.cert, f.key)
				require.NoError(t, err)
				raw.Certificates = []tls.Certificate{pair}
			}
			transport := &http.Transport{TLSClientConfig: raw, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			client := peerv1connect.NewPeerServiceClient(&http.Client{Transport: transport}, "https://"+node.RPCAddr)
			req := requestFor(node, node)
			_, err := client.Execute(t.Context(), connect.NewRequest(toExecuteRequest(eu, &req, 1, us)))
			require.Error(t, err)
			require.False(t, connect.IsWireError(err), "the server answered: %v", err)
			log.await(t, "refused", "remote=127.0.0.1:", tc.says)
			require.Zero(t, local.calls.Load())
		})
	}
}

func TestWhoMayForwardWhat(t *testing.T) {
	ca := authority(t)
	log := newSignalling()
	local := answering("ok")
	node := startTLSNode(t, local, tlsOf(t, ca, nodeEU, nil), slog.New(log))
	req := requestFor(node, node)

	// A node of us that claims that the request arrived at as.
	p := tlsPeers(t, tlsOf(t, ca, nodeUS, nil), nil, node)
	_, err := p.Execute(t.Context(), eu, req, 1, as)
	require.ErrorIs(t, err, ErrRefused)
	log.await(t, "refused", "rpc=execute", "remote=127.0.0.1:", "node us-1 of us-east1 may not forward for "+as)

	// An operator may forward nothing.
	p = tlsPeers(t, tlsOf(t, ca, operator, nil), nil, node)
	_, err = p.Execute(t.Context(), eu, req, 1, us)
	require.ErrorIs(t, err, ErrRefused)
	_, _, err = p.Inspect(t.Context(), eu, req.Key)
	require.ErrorIs(t, err, ErrRefused)
	_, _, _, err = p.Object(t.Context(), eu, "acme", "ch_1")
	require.ErrorIs(t, err, ErrRefused)
	for _, rpc := range []string{"execute", "inspect", "object"} {
		log.await(t, "refused", "rpc="+rpc, "remote=127.0.0.1:", "operator ada (reader) is no node")
	}
	require.NoError(t, p.Ping(t.Context(), node), "asking after its health is free")
	require.Zero(t, local.calls.Load())
}

func TestAServerThatIsNotOfTheHomeIsRefused(t *testing.T) {
	ca, other := authority(t), authority(t)
	client := tlsOf(t, ca, nodeUS, nil)
	for name, tc := range map[string]struct {
		server *TLS
		says   string
	}{
		"of another region": {tlsOf(t, ca, Identity{Region: as, Node: "as-1"}, nil), "node as-1 of " + as},
		"an operator":       {tlsOf(t, ca, operator, nil), "operator ada"},
		"of another CA":     {tlsOf(t, other, nodeEU, nil), "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			var log recorder
			impostor, second := answering("impostor"), answering("second")
			nodes := []Node{startTLSNode(t, impostor, tc.server, nil), startTLSNode(t, second, tlsOf(t, ca, nodeEU, nil), nil)}
			nodes[1].Name = "second"
			reply, err := tlsPeers(t, client, slog.New(&log), nodes...).Execute(t.Context(), eu, requestFor(nodes[0], nodes...), 1, us)
			require.NoError(t, err, "the next node answers")
			require.Equal(t, "second", string(reply.Response.Body))
			require.Zero(t, impostor.calls.Load())
			lines := log.said()
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], "failed on the wire")
			require.Contains(t, lines[0], "addr="+nodes[0].RPCAddr)
			require.Contains(t, lines[0], tc.says)
		})
	}
}

// TestAConnectionServesTheRegionThatItWasProvedFor: gossip that moves an address
// to another region does not take the connection's proof with it.
func TestAConnectionServesTheRegionThatItWasProvedFor(t *testing.T) {
	ca := authority(t)
	local := answering("ok")
	node := startTLSNode(t, local, tlsOf(t, ca, nodeEU, nil), nil)
	p := tlsPeers(t, tlsOf(t, ca, nodeUS, nil), nil)
	p.Directory = directory{eu: {node}, as: {node}}
	req := requestFor(node, node)
	_, err := p.Execute(t.Context(), eu, req, 1, us)
	require.NoError(t, err)
	_, err = p.Execute(t.Context(), as, req, 1, us)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.ErrorContains(t, err, "not a node of "+as)
	require.EqualValues(t, 1, local.calls.Load())

	bare := &http.Client{Transport: p.http.Transport}
	_, err = bare.Post("https://"+node.RPCAddr+pingPath, "application/json", strings.NewReader("{}"))
	require.ErrorIs(t, err, errNowhere)
}

// TestAnyNodeIsStillANode: tools that ask whichever node they find.
func TestAnyNodeIsStillANode(t *testing.T) {
	ca := authority(t)
	tool := tlsOf(t, ca, operator, nil)
	node := startTLSNode(t, answering("ok"), tlsOf(t, ca, nodeEU, nil), nil)
	node.Region = ""
	who, err := calls(t, tool, node)
	require.NoError(t, err)
	require.Equal(t, "eu-1", who)
	impostor := startTLSNode(t, answering("ok"), tlsOf(t, ca, Identity{Operator: "eve"}, nil), nil)
	impostor.Region = ""
	_, err = calls(t, tool, impostor)
	require.ErrorContains(t, err, "operator eve")
}

func TestTLSRefusesFilesThatCannotWork(t *testing.T) {
	ca, other := authority(t), authority(t)
	for says, spoil := range map[string]func(*certFiles, *TLSConfig){
		"no such file":              func(f *certFiles, _ *TLSConfig) { require.NoError(t, os.Remove(f.ca)) },
		"CA file":                   func(f *certFiles, _ *TLSConfig) { f.write(f.ca, []byte("nothing")) },
		"trust domain":              func(_ *certFiles, c *TLSConfig) { c.TrustDomain = "Not One" },
		"of the trust domain other": func(f *certFiles, _ *TLSConfig) { f.issue(ca, parseURI(t, "spiffe://other/region/us-east1/node/n")) },
		"this node is of " + us:     func(f *certFiles, _ *TLSConfig) { f.issue(ca, uri(t, nodeEU)) },
		"operator ada":              func(f *certFiles, _ *TLSConfig) { f.issue(ca, uri(t, operator)) },
		"is not valid by":           func(f *certFiles, _ *TLSConfig) { f.issue(other, uri(t, nodeUS)) },
		"with key":                  func(f *certFiles, _ *TLSConfig) { f.write(f.key, []byte("nothing")) },
		"no URI SAN":                func(f *certFiles, _ *TLSConfig) { f.issue(ca) },
		"REGION":                    func(f *certFiles, _ *TLSConfig) { f.issue(ca, parseURI(t, "spiffe://homeward/web")) },
	} {
		f := newCertFiles(t)
		f.issue(ca, uri(t, nodeUS))
		f.trust(ca)
		cfg := f.config()
		cfg.Region = us
		_, err := NewTLS(cfg)
		require.NoError(t, err)
		spoil(f, &cfg)
		_, err = NewTLS(cfg)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestWithoutTLSNoCertificateIsRequired keeps one machine simple.
func TestWithoutTLSNoCertificateIsRequired(t *testing.T) {
	require.NoError(t, admitNode(t.Context(), us))
	_, ok := CallerOf(t.Context())
	require.False(t, ok)
	_, err := callerOf(nil, time.Now())
	require.ErrorContains(t, err, "no certificate")
}

func TestHandshakeLog(t *testing.T) {
	var log recorder
	l := handshakeLog{slog.New(&log)}
	for _, line := range []string{
		"http: TLS handshake error from [::1]:4711: tls: client didn't provide a certificate\n",
		"http: TLS handshake error from 10.0.0.1:4711: EOF\n",
		"http: Accept error: too many open files\n",
	} {
		n, err := fmt.Fprint(l, line)
		require.NoError(t, err)
		require.Equal(t, len(line), n)
	}
	require.Equal(t, []string{
		"a peer connection was refused remote=[::1]:4711 error=tls: client didn't provide a certificate",
		"a peer connection was closed before its handshake remote=10.0.0.1:4711",
		"the peer listener reported an error error=http: Accept error: too many open files",
	}, log.said())
	require.Equal(t, slog.LevelDebug, log.records[1].Level)
}
