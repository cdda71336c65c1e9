package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/region"
)

// oneNode is a directory with the address of one node.
type oneNode struct{ region.Node }

func (o oneNode) Nodes(string) []region.Node { return []region.Node{o.Node} }

// TestStrangersCannotForward: the processes of a cluster refuse whoever cannot
// prove to be one of them, say so, and go on.
func TestStrangersCannotForward(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	text, err := os.ReadFile(c.path)
	require.NoError(t, err)
	var state struct {
		Operator struct{ Cert, Key, CA string }
	}
	require.NoError(t, json.Unmarshal(text, &state))
	target := c.state.Nodes[0]
	require.Equal(t, us, target.Region)
	at := oneNode{region.Node{Name: target.Name, Region: us, RPCAddr: target.RPC}}
	logged := func(says ...string) {
		t.Helper()
		until(t, "the node has logged "+strings.Join(says, ", "), func() bool {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(c.path), target.Name+".log"))
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				all := true
				for _, s := range says {
					all = all && strings.Contains(line, s)
				}
				if all {
					return true
				}
			}
			return false
		})
	}
	person, err := region.NewTLS(region.TLSConfig{CertFile: state.Operator.Cert, KeyFile: state.Operator.Key, CAFile: state.Operator.CA, TrustDomain: "homeward"})
	require.NoError(t, err)
	deployment := deploymentAt(t, person, target.RPC)
	// A charge of another merchant's money, by a caller that reaches the port.
	steal := func(certs *region.TLS, transport http.RoundTripper, entry string) error {
		p, err := region.NewPeers(region.PeersConfig{Directory: at, Deployment: deployment, Transport: transport, TLS: certs != nil || transport != nil})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		_, err = p.Execute(c.ctx, us, claim.Request{
			Key: claim.Key{Tenant: "acme", Value: stamped(t, us)}, Operation: "charge",
			Input: claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: []byte(`{"amount":1,"currency":"usd","payment_method":"pm_card_visa"}`)},
		}, 1, entry)
		return err
	}

	require.ErrorIs(t, steal(nil, nil, eu), region.ErrNoAnswer, "in clear text")
	logged("a peer connection was refused", `"remote":"127.0.0.1:`, "first record does not look like a TLS handshake")

	anybody := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer anybody.CloseIdleConnections()
	require.ErrorIs(t, steal(nil, anybody, eu), region.ErrNoAnswer, "without a certificate")
	logged("a peer connection was refused", `"remote":"127.0.0.1:`, "didn't provide a certificate")

	now := time.Now()
	other, err := devcerts.NewAuthority(now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(t, err)
	name, err := region.Identity{Region: eu, Node: "europe-west1-1"}.URI("homeward")
	require.NoError(t, err)
	cert, key, err := other.Issue(now.Add(-time.Hour), now.Add(time.Hour), name)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	forged := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}, ForceAttemptHTTP2: true}
	defer forged.CloseIdleConnections()
	require.ErrorIs(t, steal(nil, forged, eu), region.ErrNoAnswer, "of another CA")
	logged("a peer connection was refused", `"remote":"127.0.0.1:`, "unknown authority")

	require.ErrorIs(t, steal(person, region.NewTransport(person), eu), region.ErrRefused, "an operator")
	logged("a peer request was refused", `"remote":"127.0.0.1:`, "operator dev (treasurer) is no node")

	dir := filepath.Dir(state.Operator.Cert)
	asian, err := region.NewTLS(region.TLSConfig{
		CertFile: filepath.Join(dir, asia+"-1.pem"), KeyFile: filepath.Join(dir, asia+"-1-key.pem"), CAFile: state.Operator.CA, TrustDomain: "homeward",
	})
	require.NoError(t, err)
	require.ErrorIs(t, steal(asian, region.NewTransport(asian), eu), region.ErrRefused, "a node of another region")
	logged("a peer request was refused", `"remote":"127.0.0.1:`, "node "+asia+"-1 of "+asia+" may not forward for "+eu)
	c.moved(0)

	// Those who can prove it go on.
	sent := c.at(eu, demoCharge(stamped(t, us), 100), http.StatusCreated)
	require.Equal(t, us, sent.Header.Get("Homeward-Home-Region"))
	require.Equal(t, "1", sent.Header.Get("Homeward-Hops"))
	c.moved(1)
	c.interrupt()
}

// deploymentAt is the deployment that a node names in its answers.
func deploymentAt(t *testing.T, operator *region.TLS, rpc string) uuid.UUID {
	t.Helper()
	transport := region.NewTransport(operator)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(region.Towards(t.Context(), ""), http.MethodPost, "https://"+rpc+"/homeward.admin.v1.AdminService/Part", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	id, err := uuid.Parse(res.Header.Get("Homeward-Deployment"))
	require.NoError(t, err)
	return id
}
