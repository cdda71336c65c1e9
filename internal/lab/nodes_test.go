package lab

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// TestWhatTheClusterDecidesIsRefused: a variable that would be dropped in silence is named.
func TestWhatTheClusterDecidesIsRefused(t *testing.T) {
	require.NoError(t, refuseSettings([]string{"HOMEWARD_CLAIM__LEASE=20s", "HOMEWARD_DATABASE_URL=x", "PATH=/bin"}))
	err := refuseSettings([]string{"HOMEWARD_PROVIDER__KIND=stripe", "HOMEWARD_CLAIM__LEASE=20s", "HOMEWARD_PROVIDERS__A__KEY=hunter2"})
	require.ErrorContains(t, err, "HOMEWARD_PROVIDER__KIND is set")
	require.ErrorContains(t, err, "HOMEWARD_PROVIDERS__A__KEY is set")
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "LEASE")
}

// TestADirectoryInUseKeepsItsCertificates: a cluster that is refused its directory, as another one runs
// there, leaves the files of that one's nodes alone.
func TestADirectoryInUseKeepsItsCertificates(t *testing.T) {
	data := t.TempDir()
	running, err := StartSimulator("--psp-listen", "127.0.0.1:0", simulator.Config{Dir: filepath.Join(data, "psp")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, running.Stop(t.Context())) })
	ca := Certs{Dir: filepath.Join(data, "certs")}.CA()
	require.NoError(t, os.MkdirAll(filepath.Dir(ca), 0o700))
	require.NoError(t, os.WriteFile(ca, []byte("of the nodes that run"), 0o600))
	k, err := NewCluster(ClusterConfig{Data: data, Listen: "127.0.0.1:0", NodesPerRegion: 1, TLS: true, Say: func(string) {}})
	require.NoError(t, err)
	require.ErrorContains(t, errors.Join(k.Start(t.Context()), k.Stop(t.Context())), "is in use")
	text, err := os.ReadFile(ca)
	require.NoError(t, err)
	require.Equal(t, "of the nodes that run", string(text))
}

// TestAProcessAgainListensWhereItDid: as people and Prometheus use the addresses of the console and
// the metrics. Its RPC is behind its gate, which stays.
func TestAProcessAgainListensWhereItDid(t *testing.T) {
	n := &Node{
		Name: "us-east1-1", Region: "us-east1", API: "http://127.0.0.1:1", RPC: "127.0.0.1:2", Gossip: "127.0.0.1:3",
		Metrics: "http://127.0.0.1:4/metrics", Console: "127.0.0.1:5",
	}
	fresh := n.next()
	require.True(t, fresh.again)
	s := &node.ServeSettings{Console: node.ConsoleSettings{Listen: "127.0.0.1:0"}}
	fresh.listenAgain(s)
	require.Equal(t, []string{"127.0.0.1:1", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"},
		[]string{s.API.Listen, s.Gossip.Listen, s.Metrics.Listen, s.Console.Listen})
}

// TestWhatANodeAnswersToAProbe: an API key that no node takes ends the wait.
func TestWhatANodeAnswersToAProbe(t *testing.T) {
	status := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer srv.Close()
	n := &Node{Name: "us-east1-1", API: srv.URL}
	for answer, there := range map[int]bool{http.StatusNotFound: true, http.StatusServiceUnavailable: false} {
		status = answer
		got, err := n.reaches(t.Context(), "k", "hw_live_1")
		require.NoError(t, err)
		require.Equal(t, there, got)
	}
	status = http.StatusUnauthorized
	_, err := n.reaches(t.Context(), "k", "hw_live_1")
	require.ErrorContains(t, err, "us-east1-1 answers 401: the API key of the cluster's merchant was rotated; start the cluster again")
}
