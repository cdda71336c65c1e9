package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
)

// The nodes of a cluster are its child processes, so a drill asks the cluster to stop
// them and to start them again. It does so by HTTP on a Unix socket that only the
// cluster's user can open:
//
//	POST /nodes/NAME/kill       SIGKILL
//	POST /nodes/NAME/stop       SIGTERM: drains, and ends
//	POST /nodes/NAME/start      what was killed or stopped, at the same addresses
//	POST /nodes/NAME/freeze     SIGSTOP: connections are accepted, nothing answers
//	POST /nodes/NAME/thaw       SIGCONT
//	POST /nodes/NAME/drop       nothing passes its RPC port, ?from=REGION: nothing of that region's
//	POST /nodes/NAME/pass       everything does again
//	POST /database/REGION/kill  the private database: CockroachDB's node of the region,
//	POST /database/REGION/start PostgreSQL's only one
//	POST /database/REGION/cut   nothing passes between it and the region's nodes
//	POST /database/REGION/join  everything does again
//
// Each answers once it is done, 204; otherwise with one line that gives the reason.
const (
	controlDir  = "control" // of the data directory, which no other user enters
	controlFile = "socket"
	// maxSocketPath is what Linux and the BSDs take for a socket's address, in bytes.
	maxSocketPath = 103
	// maxControlError bounds how much of a refusal is read, in bytes: a line and the
	// end of a log.
	maxControlError = 64 << 10
)

// control does what drills ask for, one thing at a time.
type control struct {
	k   *Cluster
	ctx context.Context // of what takes long; ends with the cluster
	mu  sync.Mutex
}

// startControl listens for drills. A cluster whose directory has too long a name
// for a socket runs without.
func (k *Cluster) startControl(context.Context) (parts.Stop, error) {
	dir := filepath.Join(k.Data, controlDir)
	path := filepath.Join(dir, controlFile)
	if len(path) > maxSocketPath {
		k.sayf("drills cannot act on this cluster: %s is too long a name for a socket; choose a shorter --data", path)
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // an earlier cluster was killed
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{Handler: (&control{k: k, ctx: ctx}).handler(), ReadHeaderTimeout: node.ConnectTime}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	k.Control = path
	return func(ctx context.Context) error {
		cancel()
		err := server.Shutdown(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, k.Write(k.Data)
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(where, what, from string) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err := do(r.PathValue("where"), r.PathValue("what"), r.URL.Query().Get("from")); err != nil {
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

func (c *control) node(name, what, from string) error {
	i := slices.IndexFunc(c.k.Nodes, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no node %q", name)
	}
	n := c.k.Nodes[i]
	switch what {
	case "start":
		return c.start(i)
	case "drop":
		return c.k.drop(i, from)
	case "pass":
		c.k.gates[i].Set(false, nil)
		return nil
	}
	if n.gone() {
		return fmt.Errorf("node %s is not running", name)
	}
	switch what {
	case "kill":
		n.proc.Expect()
		return n.kill()
	case "stop":
		return parts.Within(c.ctx, node.DrainTime, n.drain)
	case "freeze":
		return n.named(freeze(n.PID))
	case "thaw":
		return n.named(thaw(n.PID))
	}
	return fmt.Errorf("a node has kill, stop, start, freeze, thaw, drop and pass, not %q", what)
}

// start gives a node another process at the addresses that it had.
func (c *control) start(i int) error {
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
	fresh := old.next()
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
	return c.k.Write(c.k.Data)
}

// next is a process to come of n, which listens wherever n did.
func (n *Node) next() *Node {
	return &Node{
		Name: n.Name, Region: n.Region, API: n.API, RPC: n.RPC, Gossip: n.Gossip, Metrics: n.Metrics, Console: n.Console,
		settings: n.settings, again: true,
	}
}

// database ends or starts the private database, as far as it is the region's.
func (c *control) database(region, what, _ string) error {
	if !slices.Contains(c.k.regions, region) {
		return fmt.Errorf("there is no region %q", region)
	}
	if what == "cut" || what == "join" {
		g := c.k.databaseGates[region]
		if g == nil {
			return errNotOurs
		}
		g.Set(what == "cut", nil)
		return nil
	}
	if err := c.k.Database.offers(); err != nil {
		return err
	}
	switch what {
	case "kill":
		return c.k.server.Kill(region)
	case "start":
		return c.k.server.Restart(c.ctx, region)
	}
	return fmt.Errorf("a database has kill, start, cut and join, not %q", what)
}

// named adds the node to an error of a signal.
func (n *Node) named(err error) error {
	if err != nil {
		return fmt.Errorf("node %s: process %d: %w", n.Name, n.PID, err)
	}
	return nil
}
