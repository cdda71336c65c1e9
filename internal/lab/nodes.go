package lab

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
)

// startNodes starts every node and waits until all are ready: first one that the
// others can ask where everybody is.
func (k *Cluster) startNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	k.sayf("%s: starting %d nodes", k.Database.Version, len(k.Nodes))
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	k.gossipKey = base64.StdEncoding.EncodeToString(key[:])
	first := k.Nodes[0]
	if err := k.startNode(first, nil); err != nil {
		return err
	}
	if err := first.await(ctx); err != nil {
		return err
	}
	for _, n := range k.Nodes[1:] {
		if err := k.startNode(n, []string{first.Gossip}); err != nil {
			return err
		}
	}
	for _, n := range k.Nodes {
		if err := n.await(ctx); err != nil {
			return err
		}
		go k.watch(n)
	}
	return k.simulator.Notify(k.Nodes[0].API, k.webhooks)
}

// startNode writes a node's settings and starts it.
func (k *Cluster) startNode(n *Node, seeds []string) error {
	s := &n.settings
	s.Node = node.NodeSettings{Name: n.Name, Region: n.Region}
	s.RPC.Listen, s.Gossip = "127.0.0.1:0", node.GossipSettings{Listen: "127.0.0.1:0", Seeds: seeds, Local: true}
	if n.again { // where the others, and callers, know it
		s.API.Listen, s.RPC.Listen, s.Gossip.Listen = strings.TrimPrefix(n.API, "http://"), n.RPC, n.Gossip
	}
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

// ours are the variables, or the beginnings of their names, that the cluster
// decides on; the rest of the environment is the nodes' too.
var ours = []string{
	node.DatabaseURL, node.GossipKey, node.ProviderKey, node.ProviderWebhooks,
	"HOMEWARD_NODE__", "HOMEWARD_API__", "HOMEWARD_RPC__", "HOMEWARD_TLS__", "HOMEWARD_GOSSIP__", "HOMEWARD_PROVIDER__",
}

// environ is what a region's nodes are started with. The secrets are nowhere
// else: not in a file, not on a command line.
func (k *Cluster) environ(region string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(v, name) })
	})
	return append(env, node.DatabaseURL+"="+k.urls[region], node.GossipKey+"="+k.gossipKey, node.ProviderWebhooks+"="+k.webhooks)
}

// watch tells of a node that ends by itself or is killed, as drills do.
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
func (k *Cluster) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("no answer within %v", clusterStartTime))
	defer cancel()
	for _, n := range k.Nodes {
		for _, r := range k.regions {
			key, err := claim.Stamp(k.Codes[r], nil)
			if err != nil {
				return err
			}
			for !n.reaches(ctx, key) {
				select {
				case <-n.proc.Done():
					return n.ended()
				case <-ctx.Done():
					return fmt.Errorf("node %s does not reach %s: %w; see %s", n.Name, r, context.Cause(ctx), n.log)
				case <-time.After(meetEvery):
				}
			}
		}
	}
	return nil
}

// meetEvery is how often a node is asked: gossip's news takes a few rounds of
// some 100 ms, and there is no signal for it that reaches another process.
const meetEvery = 25 * time.Millisecond

// reaches asks a node for a key that nobody uses and that another region is home
// to. Only that region can say that there is nothing, and asking changes nothing.
func (n *Node) reaches(ctx context.Context, key string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.API+"/v1/idempotency-keys/"+url.PathEscape(key), nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+APIKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close()) == nil && res.StatusCode == http.StatusNotFound
}
