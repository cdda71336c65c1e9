package lab

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/drill"
)

// fakeDocker puts a docker on PATH that records its calls and has one project. It returns the path
// of the record.
func fakeDocker(t *testing.T, project, inspected string) (orders string) {
	t.Helper()
	dir := t.TempDir()
	orders = filepath.Join(dir, "orders")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inspected"), []byte(inspected), 0o600))
	script := `#!/bin/sh
case "$1" in
ps) [ "$5" = "label=com.docker.compose.project.working_dir=` + project + `" ] && echo c1 c2 c3 ;;
inspect) cat "` + dir + `/inspected" ;;
*) echo "$@" >>"` + orders + `" ;;
esac
exit 0
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return orders
}

// Only the containers of the named project are acted on, each by its service's name.
func TestComposeMeans(t *testing.T) {
	calls := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 || r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer api.Close()
	_, port, ok := strings.Cut(strings.TrimPrefix(api.URL, "http://"), ":")
	require.True(t, ok)
	inspected := `[
		{"Id": "c1", "Config": {"Labels": {"com.docker.compose.service": "us-east1-1"}}, "NetworkSettings": {
			"Networks": {"net": {"IPAddress": "10.213.1.11", "IPAMConfig": {"IPv4Address": "10.213.1.11"}, "Aliases": ["us-east1-1"]}},
			"Ports": {"8081/tcp": [{"HostPort": "` + port + `"}], "7081/tcp": null}}},
		{"Id": "c2", "Config": {"Labels": {"com.docker.compose.service": "europe-west1-1"}}, "NetworkSettings": {"Networks": {"net": {"IPAddress": "10.213.2.11", "IPAMConfig": null}}}},
		{"Id": "c3", "Config": {"Labels": {"com.docker.compose.service": "database-us-east1"}}}
	]`
	orders := fakeDocker(t, "/projects/one", inspected)
	regions := []drill.Region{{Name: "europe-west1", URLs: []string{"http://10.213.9.9:8081"}}, {Name: "us-east1", URLs: []string{api.URL}}}
	ctx := t.Context()

	_, err := ReadCompose(ctx, "/projects/two", regions)
	require.ErrorContains(t, err, "/projects/two")
	m, err := ReadCompose(ctx, "/projects/one", regions)
	require.NoError(t, err)
	require.Equal(t, []drill.Node{{Name: "europe-west1-1", Region: "europe-west1"}, {Name: "us-east1-1", Region: "us-east1"}}, m.Nodes())
	for s, offered := range map[drill.Scenario]bool{
		drill.RegionLoss: true, drill.Partition: true, drill.RollingRestart: true, drill.PSPOutage: true, drill.DBFailover: true, drill.Drain: false, drill.Blackhole: false, drill.DatabasePath: false,
	} {
		_, err := m.Offers(s, "us-east1")
		require.Equal(t, offered, err == nil, "%s: %v", s, err)
	}
	_, err = m.Offers(drill.RegionLoss, "asia-northeast1")
	require.ErrorContains(t, err, "asia-northeast1-")
	_, err = m.Offers(drill.DBFailover, "europe-west1")
	require.ErrorContains(t, err, "database-europe-west1")
	short := ComposeMeans{containers: m.containers, regions: append([]drill.Region{{Name: "europe"}, {Name: "us"}}, regions...)}
	require.Equal(t, m.Nodes(), short.Nodes(), "a region with a name that begins another's is not hit for it")

	for _, do := range []func(context.Context, string) error{m.Kill, m.Start, m.Stop, m.Cut, m.Join} {
		require.NoError(t, do(ctx, "us-east1-1"))
	}
	require.Equal(t, 2, calls, "a starting node is polled until it is ready")
	require.NoError(t, m.KillDatabase(ctx, "us-east1"))
	require.NoError(t, m.StartDatabase(ctx, "us-east1"))
	require.ErrorContains(t, m.Kill(ctx, "asia-northeast1-1"), "asia-northeast1-1")
	require.ErrorContains(t, m.Start(ctx, "europe-west1-1"), "--api")
	text, err := os.ReadFile(orders)
	require.NoError(t, err)
	require.Equal(t, []string{
		"kill c1", "start c1", "stop c1", "network disconnect net c1", "network connect --ip 10.213.1.11 --alias us-east1-1 net c1",
		"kill c3", "start c3", "start c2",
	}, strings.Split(strings.TrimSpace(string(text)), "\n"))
}

// TestReviveBeforeADrill: what is dead is started by the cluster, what lives is left
// alone.
func TestReviveBeforeADrill(t *testing.T) {
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, alive.Close()) }()
	const dead = "127.0.0.1:1"                // where nobody listens
	dir, err := os.MkdirTemp("", "homeward-") // a socket's path must be short
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	var calls []string
	refused := false
	control := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.URL.Path)
		if refused {
			http.Error(w, "no room", http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = control.Serve(socket) }()
	defer func() { require.NoError(t, control.Close()) }()

	state := State{Control: socket.Addr().String(), Nodes: []*Node{
		{Name: "us-east1-1", API: "http://" + alive.Addr().String()}, {Name: "us-east1-2", API: "http://" + dead},
	}}
	require.NoError(t, state.Write(dir))
	read, err := ReadState(dir)
	require.NoError(t, err)
	var said []string
	m := read.Means()
	require.NoError(t, m.Revive(t.Context(), func(line string) { said = append(said, line) }))
	require.Equal(t, []string{"/nodes/us-east1-2/start"}, calls)
	require.Equal(t, []string{"starting us-east1-2, which was not running"}, said)
	refused = true
	require.ErrorContains(t, m.Revive(t.Context(), func(string) {}), "no room")
}

// What a cluster cannot bring back is not taken away.
func TestDatabaseOffers(t *testing.T) {
	for name, c := range map[string]struct {
		state Database
		says  string
	}{
		"not private":   {Database{Kind: "postgresql"}, "HOMEWARD_DATABASE_URL"},
		"in memory":     {Database{Kind: "cockroachdb", Private: true}, "--data"},
		"on disk":       {Database{Kind: "cockroachdb", Private: true, Durable: true}, ""},
		"survives Kill": {Database{Kind: "postgresql", Private: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&State{Database: c.state}).Means().Offers(drill.DBFailover, "us-east1")
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}
