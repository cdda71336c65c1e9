package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/homeward-io/homeward/internal/localdb"
)

// The nodes of a cluster are its children and bound to its life, so a drill asks
// the cluster to take them away and to bring them back. It does so by HTTP on a
// Unix socket that only the cluster's user can open:
//
//	POST /nodes/NAME/kill       SIGKILL
//	POST /nodes/NAME/stop       SIGTERM: drains, and ends
//	POST /nodes/NAME/start      what was killed or stopped, at the same addresses
//	POST /nodes/NAME/freeze     SIGSTOP: connections are accepted, nothing answers
//	POST /nodes/NAME/thaw       SIGCONT
//	POST /database/REGION/kill  the private database: CockroachDB's node of the region,
//	POST /database/REGION/start PostgreSQL's only one
//
// Each answers once it is done, 204; otherwise with one line that says why not.
const (
	controlDir  = "control" // of the data directory, entered by nobody else
	controlFile = "socket"
	// maxSocketPath is what Linux and the BSDs take for a socket's address, in bytes.
	maxSocketPath = 103
	// maxControlError bounds how much of a refusal is read, in bytes: a line and the
	// end of a log.
	maxControlError = 64 << 10
)

// clusterControl does what drills ask for, one thing at a time.
type clusterControl struct {
	k   *localCluster
	ctx context.Context // of what takes long; ends with the cluster
	mu  sync.Mutex
}

// startControl listens for drills. A cluster whose directory has too long a name
// for a socket runs without.
func (k *localCluster) startControl(context.Context) error {
	dir := filepath.Join(k.data, controlDir)
	path := filepath.Join(dir, controlFile)
	if len(path) > maxSocketPath {
		k.say("drills cannot act on this cluster: %s is too long a name for a socket; choose a shorter --data", path)
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // an earlier cluster was killed
		return fmt.Errorf("control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &clusterControl{k: k, ctx: ctx}
	server := &http.Server{Handler: c.handler(), ReadHeaderTimeout: connectTime}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	k.Control = path
	k.onStop(func(ctx context.Context) error {
		cancel()
		err := server.Shutdown(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return k.saveState()
}

func (c *clusterControl) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(where, what string) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := do(r.PathValue("where"), r.PathValue("what")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	handle("POST /nodes/{where}/{what}", c.node)
	handle("POST /database/{where}/{what}", c.database)
	return mux
}

func (c *clusterControl) node(name, what string) error {
	i := slices.IndexFunc(c.k.Nodes, func(n *clusterNode) bool { return n.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no node %q", name)
	}
	n := c.k.Nodes[i]
	if what == "start" {
		return c.start(i)
	}
	if n.gone() {
		return fmt.Errorf("node %s is not running", name)
	}
	switch what {
	case "kill":
		n.proc.Expect()
		return n.kill()
	case "stop":
		return withDrainTime(c.ctx, n.drain)
	case "freeze":
		return n.told(freeze(n.PID))
	case "thaw":
		return n.told(thaw(n.PID))
	}
	return fmt.Errorf("a node knows kill, stop, start, freeze and thaw, not %q", what)
}

// start gives a node another process at the addresses that it had.
func (c *clusterControl) start(i int) error {
	old := c.k.Nodes[i]
	if !old.gone() {
		return fmt.Errorf("node %s is running", old.Name)
	}
	var seeds []string
	for _, n := range c.k.Nodes {
		if n != old && !n.gone() {
			seeds = append(seeds, n.Gossip)
		}
	}
	fresh := &clusterNode{
		Name: old.Name, Region: old.Region, API: old.API, RPC: old.RPC, Gossip: old.Gossip,
		settings: old.settings, again: true,
	}
	if err := c.k.startNode(fresh, seeds); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	if err := fresh.await(ctx); err != nil {
		fresh.proc.Expect()
		return errors.Join(err, fresh.kill())
	}
	c.k.Nodes[i] = fresh
	go c.k.watch(fresh)
	return c.k.saveState()
}

// database ends or starts the private database, as far as it is the region's.
func (c *clusterControl) database(region, what string) error {
	if err := c.k.Database.offers(); err != nil {
		return err
	}
	if !slices.Contains(c.k.regions, region) {
		return fmt.Errorf("there is no region %q", region)
	}
	switch what {
	case "kill":
		return c.k.server.Kill(region)
	case "start":
		return c.k.server.Restart(c.ctx, region)
	}
	return fmt.Errorf("a database knows kill and start, not %q", what)
}

// offers says why the database cannot be ended and started again; nil if it can.
func (d *databaseState) offers() error {
	switch {
	case !d.Private:
		return errors.New("the database is not the cluster's own, so it is left alone; start the cluster without HOMEWARD_DATABASE_URL")
	case d.Kind == localdb.CockroachDB && !d.Durable:
		return errors.New("the private CockroachDB keeps its data in memory and would not come back; start the cluster with --data DIR")
	}
	return nil
}

// told says whose process could not be signalled.
func (n *clusterNode) told(err error) error {
	if err != nil {
		return fmt.Errorf("node %s: process %d: %w", n.Name, n.PID, err)
	}
	return nil
}

// clusterClient asks a cluster, as its state file describes it, to act.
type clusterClient struct {
	state clusterState
	http  *http.Client
}

// clusterState is what the state file tells those who did not start the cluster.
type clusterState struct {
	Database  databaseState  `json:"database"`
	Simulator string         `json:"simulator"`
	Control   string         `json:"control"`
	Nodes     []*clusterNode `json:"nodes"`
}

// readCluster reads the state file of the cluster whose data is in dir.
func readCluster(dir string) (*clusterClient, error) {
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--cluster: %w; name the data directory of a homeward cluster that is running", err)
	}
	c := &clusterClient{}
	if err := json.Unmarshal(text, &c.state); err != nil {
		return nil, fmt.Errorf("--cluster: %s: %w", path, err)
	}
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.state.Control)
	}}}
	return c, nil
}

// post asks for one thing and returns once it is done.
func (c *clusterClient) post(ctx context.Context, kind, where, what string) error {
	if c.state.Control == "" {
		return errors.New("this cluster has no control socket; choose a shorter --data for it")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cluster/"+kind+"/"+url.PathEscape(where)+"/"+what, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("the cluster does not answer on %s: %w; is it running?", c.state.Control, err)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxControlError))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("the cluster did not finish its answer: %w", err)
	}
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the cluster refuses to %s %s: %s", what, where, strings.TrimSpace(string(text)))
	}
	return nil
}
