package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/testmode"
	"github.com/homeward-io/homeward/region"
)

// lockedLog is a log that goroutines write to.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.text.String()), "\n")
}

func startTwo(t *testing.T, log *slog.Logger, listen string) (*Cluster, error) {
	t.Helper()
	provider, err := httpjson.New(httpjson.Config{Name: "nobody", BaseURL: "http://127.0.0.1:1", Capabilities: psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	return StartCluster(t.Context(), ClusterConfig{
		Dir: t.TempDir(), Payments: Payments{Providers: psp.Providers{provider}}, Tuning: DefaultTuning(), Logger: log,
		Regions: []ClusterRegion{{Region: region.Region{Name: "a", Code: 1}, Listen: listen}, {Region: region.Region{Name: "b", Code: 2}}},
		Tenants: []ClusterTenant{{Tenant: claim.Tenant{ID: "acme", Registrar: "a"}}},
	})
}

// TestANodesLog: no line repeats itself, and none reports a requested end as an error.
func TestANodesLog(t *testing.T) {
	var said lockedLog
	c, err := startTwo(t, slog.New(slog.NewJSONHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})), "")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	require.NoError(t, c.Stop(ctx))
	for _, line := range said.lines() {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		for name := range one {
			require.Equal(t, 1, strings.Count(line, fmt.Sprintf("%q:", name)), "%s in %s", name, line)
		}
		require.NotContains(t, line, "closed network connection")
	}
}

func TestWhatIsLoggedAfterTheEndOfGossip(t *testing.T) {
	log, said := record()
	var n Node
	quiet := slog.New(&untilStop{log.Handler(), &n.leftGossip}).With("component", "memberlist").WithGroup("g")
	quiet.Warn("before")
	require.Contains(t, said.String(), "before")
	require.Contains(t, said.String(), "memberlist")
	n.leftGossip.Store(true)
	quiet.Warn("after")
	require.NotContains(t, said.String(), "after")
}

// TestARowsRegionIsNotTheNodes: the worker names the region of a row beside the
// node's own.
func TestARowsRegionIsNotTheNodes(t *testing.T) {
	var said lockedLog
	c, err := startTwo(t, slog.New(slog.NewJSONHandler(&said, nil)), "")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	defer func() { require.NoError(t, c.Stop(ctx)) }()
	w, err := c.Nodes[0].newWorker(outbox.WorkerConfig{
		Store: c.Nodes[0].c.Store.Queue(outbox.ProviderCalls), Handlers: map[outbox.Kind]outbox.Handler{outbox.KindProviderCall: c.Nodes[0].service.Recover},
	}, func() []string { return []string{"nowhere"} }, slog.New(slog.NewJSONHandler(&said, nil)).With("region", "a"))
	require.NoError(t, err)
	require.Zero(t, w.Round(ctx))
	last := said.lines()[len(said.lines())-1]
	require.Contains(t, last, `"home":"nowhere"`)
	require.Equal(t, 1, strings.Count(last, `"region":`), last)
}

func TestAPortThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	taken := l.Addr().String()
	_, err = startTwo(t, nil, taken)
	var occupied *ListenError
	require.ErrorAs(t, err, &occupied)
	require.Equal(t, "api.listen", occupied.Setting)
	require.EqualError(t, occupied, "api.listen "+taken+": bind: address already in use; choose another address or stop what uses it")

	err = gossipError(taken, errors.New(`membership: could not set up network transport: failed to start TCP listener on "127.0.0.1" port 1: listen tcp `+taken+`: bind: address already in use`))
	require.EqualError(t, err, "gossip.listen "+taken+": bind: address already in use; choose another address or stop what uses it")
	require.ErrorContains(t, gossipError(taken, errors.New("no private IP address found")), "no private IP")
}

func TestAnErrorForOperatorsHasNoClaims(t *testing.T) {
	err := plain(fmt.Errorf("%w: outbox_depth: connection refused", claim.ErrUnavailable))
	require.EqualError(t, err, "outbox_depth: connection refused")
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.NoError(t, plain(nil))
	require.Equal(t, http.ErrServerClosed, plain(http.ErrServerClosed))
}

// TestNobodyIsPagedAboutATestTenant: a line that pages is a warning where it is about a test tenant or
// its provider, and stays a page where it is not.
func TestNobodyIsPagedAboutATestTenant(t *testing.T) {
	var said lockedLog
	log := slog.New(&unpaged{Handler: slog.NewJSONHandler(&said, nil)})
	test := claim.TestTenant("acme")
	log.Error("page: a", "tenant", "acme", "provider", "bank")
	log.Error("page: b", "tenant", test)
	log.With("tenant", test).Error("page: c", "object", "ch_1")
	log.With("node", "n").Error("page: d", "provider", claim.TestProvider)
	log.Error("e", "tenant", test)
	var got []string
	for _, line := range said.lines() {
		var one struct{ Level, Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		got = append(got, one.Level+" "+one.Msg)
	}
	require.Equal(t, []string{"ERROR page: a", "WARN b", "WARN c", "WARN d", "ERROR e"}, got)
	require.Contains(t, said.lines()[2], "ch_1")
}

// TestTheTestProvidersName: an adapter imports no claims, and so has a name of its own.
func TestTheTestProvidersName(t *testing.T) {
	require.Equal(t, claim.TestProvider, testmode.New(nil, nil).Name())
	for _, one := range []string{"provider: {name: test}", "providers: {test: {}}"} {
		_, _, err := LoadServeSettings(write(t, one), nil)
		require.ErrorContains(t, err, "is that of the provider of test tenants")
	}
}
