package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/console"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// papers are certificates of one deployment, made for a test.
type papers struct {
	*testing.T
	ca  *devcerts.Authority
	dir string
}

func newPapers(t *testing.T) papers {
	t.Helper()
	ca, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	p := papers{t, ca, t.TempDir()}
	require.NoError(t, os.WriteFile(p.file("ca"), ca.PEM(), 0o600))
	return p
}

func (p papers) file(name string) string { return filepath.Join(p.dir, name+".pem") }

// of are the files of a certificate of who.
func (p papers) of(name string, who region.Identity) TLSSettings {
	p.Helper()
	uri, err := who.URI(defaultTrustDomain)
	require.NoError(p, err)
	return p.write(name, uri)
}

func (p papers) write(name string, uri *url.URL) TLSSettings {
	p.Helper()
	cert, key, err := p.ca.Issue(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), uri)
	require.NoError(p, err)
	require.NoError(p, os.WriteFile(p.file(name), cert, 0o600))
	require.NoError(p, os.WriteFile(p.file(name+"-key"), key, 0o600))
	return TLSSettings{Cert: p.file(name), Key: p.file(name + "-key"), CA: p.file("ca"), TrustDomain: defaultTrustDomain}
}

// browser shows the certificate of t, or none.
func (p papers) browser(t *TLSSettings) *http.Client {
	p.Helper()
	roots := x509.NewCertPool()
	require.True(p, roots.AppendCertsFromPEM(p.ca.PEM()))
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // the node's own names no host
	if t != nil {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		require.NoError(p, err)
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config}
	p.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type nobody struct{}

func (nobody) Look(context.Context, admin.Question) *admin.Overview {
	return &admin.Overview{Node: "n1"}
}

// serve runs a console until the test ends.
func (p papers) serve(c *Console) string {
	p.Helper()
	handler, err := console.New(console.Config{Deployment: nobody{}, Access: c.Access})
	require.NoError(p, err)
	server := c.server(handler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p, err)
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }()
	p.Cleanup(func() {
		require.NoError(p, server.Close())
		require.ErrorIs(p, <-done, http.ErrServerClosed)
	})
	return "https://" + l.Addr().String() + "/"
}

func (p papers) get(c *http.Client, url string) (int, string, *tls.ConnectionState, error) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, url, nil)
	require.NoError(p, err)
	res, err := c.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { require.NoError(p, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.TLS, err
}

// TestOnlyOperatorsSeeTheConsole: outside the demo a certificate of the deployment identifies the
// viewer, and a node's certificate is refused.
func TestOnlyOperatorsSeeTheConsole(t *testing.T) {
	p := newPapers(t)
	own := p.of("node", region.Identity{Region: "us-east1", Node: "n1"})
	certs, err := own.open("us-east1", nil)
	require.NoError(t, err)
	c, err := ConsoleSettings{Listen: "127.0.0.1:0"}.open(certs, "", nil)
	require.NoError(t, err)
	at := p.serve(c)

	jo := p.of("jo", region.Identity{Operator: "jo"})
	status, body, _, err := p.get(p.browser(&jo), at)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "User: operator jo (reader); this console only reads.")

	status, body, _, err = p.get(p.browser(&own), at)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "is not an operator")

	_, _, _, err = p.get(p.browser(nil), at)
	require.Error(t, err, "without a certificate every request is refused")
	stranger := newPapers(t).of("jo", region.Identity{Operator: "jo"})
	_, _, _, err = p.get(p.browser(&stranger), at)
	require.Error(t, err, "nor with one of another deployment")
}

// TestBrowsersAreShownACertificateOfTheirOwn, and a new one once its files have changed.
func TestBrowsersAreShownACertificateOfTheirOwn(t *testing.T) {
	p := newPapers(t)
	own := p.of("node", region.Identity{Region: "us-east1", Node: "n1"})
	certs, err := own.open("us-east1", nil)
	require.NoError(t, err)
	host := &url.URL{Scheme: "https", Host: "console.example"}
	shown := p.write("host", host)
	c, err := ConsoleSettings{Listen: "127.0.0.1:0", Cert: shown.Cert, Key: shown.Key}.open(certs, "", nil)
	require.NoError(t, err)
	at := p.serve(c)
	jo := p.of("jo", region.Identity{Operator: "jo"})
	_, _, state, err := p.get(p.browser(&jo), at)
	require.NoError(t, err)
	require.Equal(t, host.String(), state.PeerCertificates[0].URIs[0].String())

	log, said := record()
	pair, err := region.NewServerCertificate(shown.Cert, shown.Key, log)
	require.NoError(t, err)
	first, err := pair.Get(nil)
	require.NoError(t, err)
	p.write("host", host)
	later := time.Now().Add(time.Minute)
	require.NoError(t, os.Chtimes(shown.Cert, later, later))
	second, err := pair.Get(nil)
	require.NoError(t, err)
	require.NotEqual(t, first.Leaf.SerialNumber, second.Leaf.SerialNumber)
	require.NoError(t, os.WriteFile(shown.Cert, []byte("broken"), 0o600))
	third, err := pair.Get(nil)
	require.NoError(t, err)
	require.Equal(t, second, third, "what is broken is not used")
	require.Contains(t, said.String(), "cannot be loaded")
}

func TestAConsoleWithAnIssuerAsksForNoCertificate(t *testing.T) {
	c, err := ConsoleSettings{Listen: "127.0.0.1:0", OIDC: OIDCSettings{
		Issuer: "https://id.example", ClientID: "c", URL: "https://console.example", Operators: []string{"sre"},
	}}.open(nil, "shh", nil)
	require.NoError(t, err)
	require.IsType(t, &console.OIDC{}, c.Access)
	require.Nil(t, c.Certs)
	c, err = ConsoleSettings{}.open(nil, "", nil)
	require.NoError(t, err)
	require.Nil(t, c, "without an address there is none")
}
