package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// noHomes is printed when the last active region goes.
const noHomes = "no region gives new keys a home now, so new payments get 503 until one is active again"

const us, eu, asia = "us-east1", "europe-west1", "asia-northeast1"

// regional is a cluster in this process, with a node in each of three regions.
type regional struct {
	*node.Cluster
	t *testing.T
}

// startRegional makes the command call its first node by default.
func startRegional(t *testing.T) *regional {
	t.Helper()
	onlyWith(t)
	provider, err := httpjson.New(httpjson.Config{Name: "nobody", BaseURL: "http://127.0.0.1:1", Capabilities: psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	c := node.ClusterConfig{Dir: t.TempDir(), Payments: node.Payments{Providers: psp.Providers{provider}}, Tuning: node.DefaultTuning()}
	for i, r := range []string{us, eu, asia} {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: r, Code: claim.RegionCode(i + 1)}})
	}
	c.Tenants = []node.ClusterTenant{{Tenant: claim.Tenant{ID: "acme", Registrar: us}}}
	cluster, err := node.StartCluster(t.Context(), c)
	require.NoError(t, err)
	r := &regional{cluster, t}
	t.Cleanup(func() { require.NoError(t, parts.Within(context.Background(), node.DrainTime, cluster.Stop)) })
	t.Setenv(node.NodeAddress, cluster.Region(us).RPCAddr())
	return r
}

// begin makes a claim in a region without a worker.
func (r *regional) begin(home, key string) claim.Record {
	r.t.Helper()
	store, err := r.DB.Region(home)
	require.NoError(r.t, err)
	begun, err := store.Begin(r.t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "1", "n", "ch_"+key))
	require.NoError(r.t, err)
	require.Equal(r.t, claim.Won, begun.Decision)
	return begun.Record
}

func (r *regional) settle(rec claim.Record) {
	r.t.Helper()
	store, err := r.DB.Region(rec.Home)
	require.NoError(r.t, err)
	_, err = store.Settle(r.t.Context(), rec, claim.Verdict{Outcome: &claim.Done{Response: claim.Response{Status: 201}}})
	require.NoError(r.t, err)
}

// stop stops the node of a region, and returns once the first node knows.
func (r *regional) stop(name string) {
	r.t.Helper()
	require.NoError(r.t, parts.Within(r.t.Context(), node.DrainTime, r.Cluster.Region(name).Stop))
	for members := r.Nodes[0].Membership(); ; {
		changed := members.Changed()
		if len(members.Nodes(name)) == 0 {
			return
		}
		<-changed
	}
}

func TestRegions(t *testing.T) {
	r := startRegional(t)
	r.begin(eu, "held")
	table := does(t, "regions")
	require.Regexp(t, `(?m)^europe-west1 +2 +active +1 +\S+ +now +1 +1 +0 +- +0$`, table)
	require.Regexp(t, `(?m)^us-east1 +1 +active +1 +- +now +0 +0 +0 +- +0$`, table)
	for _, n := range r.Nodes {
		require.Regexp(t, fmt.Sprintf(`(?m)^%s +%s +ready +1 +0 +0 +dev +%s$`, n.Name(), n.Region(), n.RPCAddr()), table)
	}
	require.Contains(t, table, "As "+r.Nodes[0].Name()+" sees it, at epoch 1.")

	var o struct {
		Epoch   int
		Regions []struct {
			Name, Status string
			Backlog      struct {
				InFlight int `json:"in_flight"`
			}
		}
		Members []struct {
			Part struct {
				Epoch    int
				NotReady string `json:"not_ready"`
			}
		}
	}
	does(t, "region", "down", asia, "--yes")
	require.NoError(t, json.Unmarshal([]byte(does(t, "regions", "--json")), &o))
	require.Equal(t, 2, o.Epoch)
	require.Len(t, o.Members, 3)
	require.Equal(t, "down", o.Regions[0].Status)
	require.Equal(t, "region asia-northeast1 is down", o.Members[0].Part.NotReady)
	require.Equal(t, eu, o.Regions[1].Name)
	require.Equal(t, 1, o.Regions[1].Backlog.InFlight)
}

func TestRegionDrain(t *testing.T) {
	r := startRegional(t)
	held := r.begin(asia, "held")
	for range 2 { // it goes on draining, and can be waited for again
		code, out, errs := homeward(t, "region", "drain", asia, "--timeout", "1s")
		require.Equal(t, 1, code)
		require.Contains(t, out, asia+" is draining, epoch 2")
		require.Contains(t, out, "done: every live node has epoch 2\n")
		require.Contains(t, out, "done: readiness fails at the nodes of "+asia)
		require.Contains(t, out, "waiting: claims in flight: 1\n")
		require.NotContains(t, out, "safe to take down")
		// On a busy machine a node may be late with its versions.
		require.Regexp(t, `not safe to take down after 1s: (.* does not answer .*; )?claims in flight: 1; outbox rows: 1, of which 0 are due; `, errs)
		require.Contains(t, errs, "homeward region undrain "+asia)
	}
	require.Regexp(t, `(?m)^asia-northeast1 +3 +draining `, does(t, "regions"))

	r.settle(held)
	out := does(t, "region", "drain", asia)
	require.Contains(t, out, "done: no claim is in flight\ndone: the outbox is empty\nsafe to take down: "+asia)
	out = does(t, "region", "undrain", asia)
	require.Contains(t, out, asia+" is active, epoch 3")
	require.Contains(t, out, "every live node has epoch 3\n")
	require.Contains(t, does(t, "region", "undrain", asia), "epoch 3", "twice is once")
}

// TestRegionDrainWithParkedRows: they wait for a person, and not for the region.
func TestRegionDrainWithParkedRows(t *testing.T) {
	r := startRegional(t)
	rec := r.begin(eu, "held")
	store, err := r.DB.Region(eu)
	require.NoError(t, err)
	require.NoError(t, store.Queue(outbox.ProviderCalls).Park(t.Context(), eu, claimtest.Call(rec, 0), "look\nat it"))
	out := does(t, "region", "drain", eu)
	require.Contains(t, out, "1 parked rows")
	require.Contains(t, out, `parked in europe-west1: ch_held of tenant acme: "look\nat it"`)
	require.Contains(t, out, "safe to take down: "+eu)
	require.Contains(t, does(t, "regions"), "parked in europe-west1: ch_held")
}

// TestDrainOfTheLastActiveRegion: without --yes nothing is done, and with it the output does not
// name other homes for new keys.
func TestDrainOfTheLastActiveRegion(t *testing.T) {
	startRegional(t)
	does(t, "region", "down", asia, "--yes")
	require.Contains(t, does(t, "region", "drain", eu), "new keys get other homes")
	refuses(t, []string{us, "last active region", "503", "--yes"}, "region", "drain", us)
	require.Regexp(t, `(?m)^us-east1 +1 +active `, does(t, "regions"))
	out := does(t, "region", "drain", us, "--yes")
	require.Contains(t, out, us+" is draining")
	require.Contains(t, out, "no region gives new keys a home")
	require.NotContains(t, out, "other homes")
	refuses(t, []string{"last active region"}, "region", "drain", us)
	does(t, "region", "undrain", eu)
	require.Contains(t, does(t, "region", "drain", us), "new keys get other homes")
	require.Contains(t, does(t, "region", "down", eu, "--yes"), noHomes)
	require.NotContains(t, does(t, "region", "up", us)+does(t, "region", "down", eu, "--yes"), noHomes)
}

// TestDrainOfTheLastRegionWithNodes: an active region without a live node answers nothing.
func TestDrainOfTheLastRegionWithNodes(t *testing.T) {
	r := startRegional(t)
	r.stop(asia)
	require.Contains(t, does(t, "region", "drain", eu), "safe to take down: "+eu)
	refuses(t, []string{"no node of another active region is alive", us, "--yes"}, "region", "drain", us)
	require.Regexp(t, `(?m)^us-east1 +1 +active `, does(t, "regions"))
	require.Contains(t, does(t, "region", "drain", us, "--yes"), "safe to take down: "+us)
}

// TestTwoDrainsAtOnce: of two operators who each expect the other's region to take new keys, one at
// least reads that none does.
func TestTwoDrainsAtOnce(t *testing.T) {
	startRegional(t)
	does(t, "region", "down", asia, "--yes")
	var both sync.WaitGroup
	var said [2]string
	for i, name := range []string{us, eu} {
		both.Go(func() {
			_, out, errs := homeward(t, "region", "drain", name)
			said[i] = out + errs
		})
	}
	both.Wait()
	require.Regexp(t, "last active region|no region gives new keys a home", said[0]+said[1])
}

// TestOneReasonIsPrintedOnce: every region's rows are behind the same database.
func TestOneReasonIsPrintedOnce(t *testing.T) {
	var out strings.Builder
	printUncounted(streams{&out, &out}, []admin.RegionState{{Name: asia, Unknown: "gone"}, {Name: eu}, {Name: us, Unknown: "gone"}, {Name: "mars", Unknown: "far"}})
	require.Equal(t, "? the rows of asia-northeast1, us-east1 cannot be counted: gone\n? the rows of mars cannot be counted: far\n", out.String())
}

// TestWhatListensThere: the error of a wrong address names what may listen there.
func TestWhatListensThere(t *testing.T) {
	r := startRegional(t)
	refuses(t, []string{"no node answers", "node's API", "rpc.listen"}, "regions", "--node", r.Nodes[0].APIAddr())

	dir := t.TempDir()
	does(t, "dev-certs", "--dir", dir, "--regions", "us-east1", "--nodes", "1")
	cert := func(name string) []string {
		return []string{"--cert", filepath.Join(dir, name+".pem"), "--key", filepath.Join(dir, name+"-key.pem"), "--ca", filepath.Join(dir, "ca.pem")}
	}
	files, err := region.NewTLS(region.TLSConfig{
		CertFile: filepath.Join(dir, "us-east1-1.pem"), KeyFile: filepath.Join(dir, "us-east1-1-key.pem"), CAFile: filepath.Join(dir, "ca.pem"), TrustDomain: "homeward",
	})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := region.NewServer(http.NotFoundHandler(), files)
	go func() { _ = server.ServeTLS(l, "", "") }()
	defer func() { require.NoError(t, server.Close()) }()
	refuses(t, []string{"no node answers", "speaks TLS", "--cert"}, "regions", "--node", l.Addr().String())
	refuses(t, []string{"no node answers", "without TLS", "--cert"}, append([]string{"regions", "--node", r.Nodes[0].RPCAddr()}, cert("operator")...)...)

	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = plain.Close() }()
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-x\r\n"))
			_ = conn.Close()
		}
	}()
	refuses(t, []string{"no node answers", "does not speak HTTP", "rpc.listen"}, "regions", "--node", plain.Addr().String())
}

func TestRegionDownAndUp(t *testing.T) {
	r := startRegional(t)
	gone := r.Cluster.Region(asia)
	refuses(t, []string{gone.Name(), "alive", "homeward region drain " + asia, "--yes"}, "region", "down", asia)
	out := does(t, "region", "down", asia, "--yes")
	require.Contains(t, out, asia+" is down, epoch 2")
	require.Contains(t, out, "every live node has epoch 2\n")
	out = does(t, "region", "up", asia)
	require.Contains(t, out, asia+" is active, epoch 3")
	require.Contains(t, out, "it takes traffic: 1 of its nodes is alive\n")

	r.stop(asia)
	require.Contains(t, does(t, "region", "drain", asia), "safe to take down", "there is no node to wait for")
	require.Contains(t, does(t, "region", "down", asia), "is down, epoch 5")
	require.Regexp(t, `(?m)^asia-northeast1 +3 +down +0 `, does(t, "regions"))
	out = does(t, "region", "up", asia)
	require.Contains(t, out, "no node of "+asia+" is alive: it takes traffic once its nodes have started\n")
	require.NotContains(t, out, "it takes traffic:")
}

func TestWhichNodeACommandCalls(t *testing.T) {
	r := startRegional(t)
	refuses(t, []string{`no region "mars"`, asia, eu, us}, "region", "drain", "mars")
	refuses(t, []string{"--timeout"}, "region", "drain", asia, "--timeout", "0s")
	refuses(t, []string{"--node", "HOST:PORT"}, "regions", "--node", "nowhere")
	refuses(t, []string{"no node answers at 127.0.0.1:1:", "--node", "--cluster"}, "regions", "--node", "127.0.0.1:1")
	refuses(t, []string{"--cert", "--key", "--ca"}, "regions", "--cert", "a.pem")
	refuses(t, []string{"--cluster", "cluster.json"}, "regions", "--cluster", t.TempDir())

	// A cluster's first node may be dead; the flag overrides the environment.
	t.Setenv(node.NodeAddress, "")
	dir := t.TempDir()
	state := lab.State{Nodes: []*lab.Node{{Name: "dead", RPC: "127.0.0.1:1"}, {Name: "alive", RPC: r.Cluster.Region(eu).RPCAddr()}}}
	require.NoError(t, state.Write(dir))
	require.Contains(t, does(t, "regions", "--cluster", dir), "As "+r.Cluster.Region(eu).Name())
	out := does(t, "regions", "--cluster", dir, "--node", r.Cluster.Region(asia).RPCAddr())
	require.Contains(t, out, "As "+r.Cluster.Region(asia).Name())
	require.Equal(t, 3, strings.Count(out, " ready "))
}

// TestToolsVariablesAreNoSettings: with them set a node starts, too.
func TestToolsVariablesAreNoSettings(t *testing.T) {
	onlyWith(t, node.NodeAddress+"=127.0.0.1:7081", node.Operator+"CERT=a.pem", "HOMEWARD_NODE__REGION=europe-west1")
	require.Contains(t, does(t, "config", "check", "--settings-only"), "region: europe-west1")
}
