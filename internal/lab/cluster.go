package lab

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/region"
)

const (
	// clusterConns is a node's share of the database's connections: all nodes share a few
	// processors, and PostgreSQL allows 100 by default.
	clusterConns = 8
	// clusterStartTime bounds the start of the nodes: seconds, on a busy machine.
	clusterStartTime = 2 * time.Minute
	// killTime is what a node gets beyond its own bound of a drain.
	killTime = 5 * time.Second
	// clusterCertLife is how long the nodes' certificates are good for: longer than a
	// cluster on a laptop runs.
	clusterCertLife = 90 * 24 * time.Hour
	// databaseName is that of the private database.
	databaseName = "homeward"
)

// ClusterConfig describes a local cluster.
type ClusterConfig struct {
	// Data is the directory of all data; "": a temporary one.
	Data string
	// Listen and PSPListen are as the flags of homeward cluster.
	Listen, PSPListen string
	PSPLatency        time.Duration
	NodesPerRegion    int
	TLS               bool
	// Database is the URL of the database to use, which is empty or was made by a cluster in
	// Data; "": Start starts one of the given kind.
	Database string
	Start    localdb.Kind
	// Say receives the progress, a line at a time, and Ended the nodes that exit by
	// themselves.
	Say    func(line string)
	Ended  func(error)
	Logger *slog.Logger
}

// NewCluster prepares a cluster. Nothing runs yet.
func NewCluster(c ClusterConfig) (*Cluster, error) {
	if err := refuseSettings(os.Environ()); err != nil {
		return nil, err
	}
	k := &Cluster{Data: c.Data, c: c, running: parts.Running{Each: node.DrainTime}}
	for _, r := range node.DefaultSettings().Regions {
		k.regions = append(k.regions, r.Name)
	}
	listens, pspListen, err := layOut(c.Listen, c.PSPListen, len(k.regions)*c.NodesPerRegion)
	if err != nil {
		return nil, err
	}
	k.pspListen = pspListen
	for i, listen := range listens {
		region := k.regions[i%len(k.regions)]
		n := &Node{Name: fmt.Sprintf("%s-%d", region, i/len(k.regions)+1), Region: region, settings: node.DefaultServeSettings()}
		n.settings.API.Listen = listen
		k.Nodes = append(k.Nodes, n)
	}
	if err := portsFree("a node's API", "--listen", listens...); err != nil {
		return nil, err
	}
	if err := portsFree("the simulator", "--psp-listen", pspListen); err != nil {
		return nil, err
	}
	return k, nil
}

// Cluster is a cluster of processes on this machine.
type Cluster struct {
	State
	// Data is its directory, set once it has started; Temporary: it is deleted with the cluster.
	Data      string
	Temporary bool
	// Codes are the region codes, set once it has started.
	Codes map[string]claim.RegionCode

	c         ClusterConfig
	made      made // kept in Data
	regions   []string
	pspListen string
	server    *localdb.Server   // the private database; nil if one was given
	urls      map[string]string // of the database, by region; secret
	gossipKey string            // in base64; secret
	sealKeys  string            // as in node.SealKeys; secret
	innerPort int               // see innerPorts
	gates     []*Gate           // before the RPC ports of Nodes
	// databaseGates are between each region's nodes and the private database.
	databaseGates map[string]*Gate
	simulator     *Simulator
	running       parts.Running
}

// Start starts everything in the order of dependencies; the control socket for drills
// comes last. After a failure the started parts run until Stop.
func (k *Cluster) Start(ctx context.Context) error {
	return k.running.Start(ctx,
		k.makeData, k.nameRuns, k.makeSeal, k.startSimulator, k.makeCerts, k.startDatabase, k.makeDatabase, k.migrate, k.placeLeases, k.putTenants,
		k.startGates, k.startNodes, k.meet, k.writeState, k.startControl,
	)
}

// Stop stops everything that was started, in reverse, also after ctx has ended.
func (k *Cluster) Stop(ctx context.Context) error { return k.running.Stop(ctx) }

func (k *Cluster) sayf(format string, args ...any) { k.c.Say(fmt.Sprintf(format, args...)) }

func (k *Cluster) makeData(context.Context) (stop parts.Stop, err error) {
	if k.Data == "" {
		k.Temporary = true
		k.made = made{APIKeys: map[string]string{}}
		k.Data, stop, err = temporary("homeward-cluster-")
		return stop, err
	}
	// PostgreSQL started by root runs as another user, who must be able to enter the
	// directory. Secrets are in files that only this user can read.
	if err := localdb.MakeDir(k.Data, 0o711); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	k.made, err = readMade(k.Data)
	return nil, err
}

// nameRuns sets where drills store their reports: in the cluster's directory, unless the
// environment names a bucket.
func (k *Cluster) nameRuns(context.Context) (_ parts.Stop, err error) {
	if k.Runs = os.Getenv(node.RunsVariable); k.Runs == "" {
		k.Runs, err = node.LocalRuns(k.Data)
	}
	return nil, err
}

// makeSeal makes the nodes' sealing key, in the cluster's directory, unless the environment
// has keys.
func (k *Cluster) makeSeal(context.Context) (parts.Stop, error) {
	text, err := node.Secret(os.Environ(), node.SealKeys)
	if err != nil || text != "" {
		k.sealKeys = text
		return nil, err
	}
	k.sealKeys, err = node.DemoSealKeys(k.Data)
	return nil, err
}

// makeCerts makes the nodes' certificates, new ones at every start: after the simulator, which has the
// directory for itself, as another cluster's nodes may be using those that are there.
func (k *Cluster) makeCerts(context.Context) (parts.Stop, error) {
	if !k.c.TLS {
		return nil, nil
	}
	d := Certs{Dir: filepath.Join(k.Data, "certs"), TrustDomain: node.DefaultServeSettings().TLS.TrustDomain, Life: clusterCertLife, Force: true}
	person := region.Identity{Operator: OperatorName, Role: region.RoleTreasurer}
	who := []region.Identity{person}
	for _, n := range k.Nodes {
		is := region.Identity{Region: n.Region, Node: n.Name}
		n.settings.TLS = d.Files(is)
		who = append(who, is)
	}
	files := d.Files(person)
	k.Operator = &operator.Certificate{Cert: files.Cert, Key: files.Key, CA: files.CA, TrustDomain: files.TrustDomain}
	return nil, d.Write(who)
}

func (k *Cluster) startSimulator(context.Context) (_ parts.Stop, err error) {
	if k.simulator, err = StartSimulator("--psp-listen", k.pspListen, simulator.Config{
		Dir: filepath.Join(k.Data, "psp"), Latency: k.c.PSPLatency, Logger: k.c.Logger,
	}); err != nil {
		return nil, err
	}
	k.Simulator = "http://" + k.simulator.Addr()
	return k.simulator.Stop, nil
}
