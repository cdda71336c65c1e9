package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/child"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
)

// startNodes starts every node and waits until all are ready: first one that the others join.
func (k *Cluster) startNodes(ctx context.Context) (_ parts.Stop, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	k.sayf("%s: starting %d nodes", k.Database.Version, len(k.Nodes))
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	k.gossipKey = base64.StdEncoding.EncodeToString(key[:])
	first := k.Nodes[0]
	if err := k.startNode(first, nil); err != nil {
		return k.drainNodes, err
	}
	if err := first.await(ctx); err != nil {
		return k.drainNodes, err
	}
	for _, n := range k.Nodes[1:] {
		if err := k.startNode(n, []string{first.Gossip}); err != nil {
			return k.drainNodes, err
		}
	}
	for _, n := range k.Nodes {
		if err := n.await(ctx); err != nil {
			return k.drainNodes, err
		}
		go k.watch(n)
	}
	return k.drainNodes, k.simulator.Notify(k.Nodes[0].API)
}

// startNode writes a node's settings and starts it.
func (k *Cluster) startNode(n *Node, seeds []string) error {
	s := &n.settings
	s.Node = node.NodeSettings{Name: n.Name, Region: n.Region}
	at := slices.IndexFunc(k.Nodes, func(one *Node) bool { return one.Name == n.Name })
	inner := func(which int) string { return k.inner(at, which) }
	s.Gossip = node.GossipSettings{Listen: inner(1), Seeds: seeds, Local: true}
	s.Metrics.Listen = inner(2)
	if s.TLS.CA != "" { // regions of operators that may read, and act
		s.Console.Listen, s.Console.Actions = inner(3), true
	}
	if n.again {
		n.listenAgain(s)
	}
	s.RPC.Listen, s.RPC.Advertise = inner(innerEach-1), inner(0) // its gate's
	s.Runs = k.Runs
	s.Database.MaxConns, s.Provider.BaseURL, s.Drain = clusterConns, k.Simulator, node.DrainTime-killTime
	text, err := s.YAML()
	if err != nil {
		return err
	}
	file := filepath.Join(k.Data, n.Name+".yaml")
	n.log = filepath.Join(k.Data, n.Name+".log")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return n.start(file, k.environ(n.Region))
}

// listenAgain lets a node listen at its former addresses.
func (n *Node) listenAgain(s *node.ServeSettings) {
	s.API.Listen, s.Gossip.Listen = strings.TrimPrefix(n.API, "http://"), n.Gossip
	s.Metrics.Listen = strings.TrimSuffix(strings.TrimPrefix(n.Metrics, "http://"), "/metrics")
	if s.Console.Listen != "" {
		s.Console.Listen = n.Console
	}
}

// secrets are the variables of secrets that the cluster makes or is given for itself; the
// rest of the environment is the nodes' too.
var secrets = []string{node.DatabaseURL, node.GossipKey, node.ProviderKey, node.ProviderWebhooks, node.SealKeys}

// settings are the beginnings of the names of variables that the cluster decides on.
var settings = []string{
	"HOMEWARD_NODE__", "HOMEWARD_API__", "HOMEWARD_RPC__", "HOMEWARD_TLS__", "HOMEWARD_GOSSIP__", "HOMEWARD_METRICS__", "HOMEWARD_CONSOLE__", "HOMEWARD_PROVIDER__", "HOMEWARD_PROVIDERS__",
}

// refuseSettings names variables that would not do what they say.
func refuseSettings(environ []string) error {
	var errs []error
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(name, s) }) {
			errs = append(errs, fmt.Errorf("%s is set, but the cluster command sets it for its nodes; unset it, or run nodes of your own with homeward serve", name))
		}
	}
	return errors.Join(errs...)
}

// environ is what a region's nodes are started with. The secrets are nowhere
// else: not in a file, not on a command line.
func (k *Cluster) environ(region string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(secrets, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(env, node.DatabaseURL+"="+k.urls[region], node.GossipKey+"="+k.gossipKey, node.SealKeys+"="+k.sealKeys, node.ProviderWebhooks+"="+k.simulator.Secret())
}

// watch logs a node that ends by itself or is killed, as drills do.
func (k *Cluster) watch(n *Node) {
	<-n.proc.Done()
	if !n.proc.Expected() {
		k.c.Ended(n.ended())
	}
}

// drainNodes ends all nodes at once.
func (k *Cluster) drainNodes(ctx context.Context) error {
	errs := make([]error, len(k.Nodes))
	var g errgroup.Group
	for i, n := range k.Nodes {
		g.Go(func() error {
			errs[i] = n.drain(ctx)
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return errors.Join(errs...)
}

// meet waits until every node reaches every region.
func (k *Cluster) meet(ctx context.Context) (parts.Stop, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	for _, n := range k.Nodes {
		for _, r := range k.regions {
			key, err := claim.Stamp(k.Codes[r], nil)
			if err != nil {
				return nil, err
			}
			for {
				there, err := n.reaches(ctx, key, k.APIKeys["acme"])
				if err != nil {
					return nil, err
				}
				if there {
					break
				}
				select {
				case <-n.proc.Done():
					return nil, n.ended()
				case <-ctx.Done():
					return nil, fmt.Errorf("node %s does not reach %s: %w; see %s", n.Name, r, context.Cause(ctx), n.log)
				case <-time.After(meetEvery):
				}
			}
		}
	}
	return nil, nil
}

// meetEvery is how often a node is polled: gossip takes a few rounds of some 100 ms, and no signal
// of it reaches another process.
const meetEvery = 25 * time.Millisecond

// reaches requests from a node the state of an unused key at home in another region. Only that
// region can answer that there is none, and the request changes nothing. It fails if no later
// answer can differ.
func (n *Node) reaches(ctx context.Context, key, apiKey string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.API+"/v1/idempotency-keys/"+url.PathEscape(key), nil)
	if err != nil {
		return false, fmt.Errorf("node %s: %w", n.Name, err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil // it may come yet
	}
	_, err = io.Copy(io.Discard, res.Body)
	err = errors.Join(err, res.Body.Close())
	if res.StatusCode == http.StatusUnauthorized {
		return false, fmt.Errorf("node %s answers 401: the API key of the cluster's merchant was rotated; start the cluster again, which mints another", n.Name)
	}
	return err == nil && res.StatusCode == http.StatusNotFound, nil
}

// Node is one node and its process, as in the state file.
type Node struct {
	Name    string `json:"name"`
	Region  string `json:"region"`
	PID     int    `json:"pid"`
	API     string `json:"api"`     // http://host:port
	RPC     string `json:"rpc"`     // host:port
	Gossip  string `json:"gossip"`  // host:port
	Metrics string `json:"metrics"` // the URL; "none" for none
	Console string `json:"console"` // host:port; "none" for none

	settings node.ServeSettings
	again    bool   // not the node's first process
	log      string // file
	proc     *child.Process
	ready    chan struct{} // closed when it has logged that
}

// readyLine is what serve prints when it is ready.
var readyLine = regexp.MustCompile(`(?m)^homeward \S+ in \S+: API (http://\S+), RPC (\S+), gossip (\S+), database .*, metrics (\S+), console (\S+)$`)

// start starts the process of a node with its settings in a file. It ends with this process.
func (n *Node) start(file string, environ []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	log, err := child.OpenLog(n.log, n.again) // people look for the last lines of the one before
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	cmd := exec.Command(self, "serve", "--config", file) //nolint:noctx // it is drained, not killed, when the context ends
	cmd.Env, cmd.Stdout = environ, &readyWatch{node: n, log: log}
	n.ready = make(chan struct{})
	if n.proc, err = child.Start(cmd, log, syscall.SIGKILL); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.PID = n.proc.PID()
	return nil
}

// readyWatch passes standard output on to the log and looks for the line with the node's address.
type readyWatch struct {
	node *Node
	log  io.Writer
	seen bytes.Buffer
}

func (w *readyWatch) Write(p []byte) (int, error) {
	select {
	case <-w.node.ready:
	default:
		w.seen.Write(p)
		if m := readyLine.FindSubmatch(w.seen.Bytes()); m != nil {
			w.node.API, w.node.RPC, w.node.Gossip, w.node.Metrics, w.node.Console = string(m[1]), string(m[2]), string(m[3]), string(m[4]), string(m[5])
			close(w.node.ready)
		}
	}
	return w.log.Write(p)
}

// await returns once the node is ready.
func (n *Node) await(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-n.proc.Done():
		return n.ended()
	case <-ctx.Done():
		return fmt.Errorf("node %s is not ready: %w; see %s", n.Name, context.Cause(ctx), n.log)
	}
}

// ended returns how the process ended, with its last line.
func (n *Node) ended() error {
	how := "with exit code 0"
	if err := n.proc.Err(); err != nil {
		how = "with " + err.Error()
	}
	return fmt.Errorf("node %s (process %d) ended %s%s", n.Name, n.PID, how, n.proc.Log().Tail(logLines))
}

// drain asks the process to finish, and kills it when ctx ends first. It returns when the process
// has ended. One that had ended before is no error.
func (n *Node) drain(ctx context.Context) error {
	if n.gone() {
		return nil
	}
	n.proc.Expect()
	select {
	case <-n.ready:
	default: // it may not listen to signals yet, and has no work in progress
		return n.kill()
	}
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("node %s: %w", n.Name, err), n.kill())
	}
	wake(n.PID)
	if !n.proc.Wait(ctx) {
		return errors.Join(fmt.Errorf("node %s did not drain in time and was killed", n.Name), n.kill())
	}
	if n.proc.Err() != nil {
		return n.ended()
	}
	return nil
}

func (n *Node) kill() error {
	if err := n.proc.Kill(); err != nil {
		return fmt.Errorf("node %s: process %d cannot be killed: %w", n.Name, n.PID, err)
	}
	return nil
}

// no process: it was killed, stopped, ended by itself, or was never started.
func (n *Node) gone() bool { return !n.proc.Alive() }

// logLines is how much of a log is shown: a reason and what led to it.
const logLines = 5
