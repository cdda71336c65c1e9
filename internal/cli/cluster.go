package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/template"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

type clusterCommand struct {
	Data           string        `type:"path" help:"Directory for all data; default: a temporary one."`
	Listen         string        `default:"127.0.0.1:8081" help:"Address of the first node; the first of the other regions take the ports after it, then come the second ones. Port 0 takes free ones."`
	PSPListen      string        `name:"psp-listen" help:"Address of the simulator; default: nine ports after --listen."`
	PSPLatency     time.Duration `name:"psp-latency" default:"80ms" help:"Latency of the simulator."`
	NodesPerRegion int           `default:"2" help:"Number of nodes in each region."`
	NoTLS          bool          `name:"no-tls" help:"Clear text between the nodes, for debugging."`
	Start          localdb.Kind  `placeholder:"KIND" help:"Database to start, cockroachdb or postgresql; default: CockroachDB if there is one, else PostgreSQL."`
}

// Help returns the text that homeward cluster --help adds.
func (clusterCommand) Help() string {
	return `Each node is a "homeward serve" of its own, with other settings from the environment as usual: HOMEWARD_CLAIM__LEASE=10s.

With HOMEWARD_DATABASE_URL set and --data the nodes use that database. It must be empty, or be one that a cluster has made in this directory: no other gets regions, merchants or keys. Without it a private one is started, of the software that is found on this machine: CockroachDB in COCKROACH_BINARY or on PATH, with a node in each region, or PostgreSQL.`
}

// maxNodesPerRegion is what a large laptop can run: some 50 MB each.
const maxNodesPerRegion = 10

func (c *clusterCommand) Run(ctx context.Context, io streams) error {
	defer outliveReaders()() // its nodes and its database are stopped all the same
	config, err := c.config(io)
	if err != nil {
		return err
	}
	k, err := lab.NewCluster(config)
	if err != nil {
		return err
	}
	if err = k.Start(ctx); err == nil {
		if err = c.welcome(io, k); err == nil {
			<-ctx.Done()
		}
	}
	if ctx.Err() != nil { // Ctrl-C, before or after it was ready: as requested
		err = nil
		fmt.Fprintln(io.out, "\ndraining: requests in hand are finished, new ones are refused")
	}
	if err := errors.Join(err, k.Stop(ctx)); err != nil {
		return err
	}
	fmt.Fprintln(io.out, "drained")
	return nil
}

func (c *clusterCommand) config(io streams) (lab.ClusterConfig, error) {
	config := lab.ClusterConfig{
		Data: c.Data, Listen: c.Listen, PSPListen: c.PSPListen, PSPLatency: c.PSPLatency, NodesPerRegion: c.NodesPerRegion, TLS: !c.NoTLS, Start: c.Start,
		Say:    func(line string) { fmt.Fprintln(io.out, line) },
		Ended:  func(err error) { fmt.Fprintf(io.err, "homeward: %v\n", err) },
		Logger: warnings(io),
	}
	if c.PSPLatency < 0 || c.PSPLatency > simulator.MaxLatency {
		return config, fmt.Errorf("--psp-latency must be from 0 to %v, is %v", simulator.MaxLatency, c.PSPLatency)
	}
	if c.NodesPerRegion < 1 || c.NodesPerRegion > maxNodesPerRegion {
		return config, fmt.Errorf("--nodes-per-region must be from 1 to %d, is %d", maxNodesPerRegion, c.NodesPerRegion)
	}
	if !slices.Contains([]localdb.Kind{"", localdb.CockroachDB, localdb.PostgreSQL}, c.Start) {
		return config, fmt.Errorf("--start must be %s or %s, is %q", localdb.CockroachDB, localdb.PostgreSQL, c.Start)
	}
	var err error
	if config.Database, err = node.Secret(os.Environ(), node.DatabaseURL); err != nil {
		return config, err
	}
	if config.Database != "" && c.Start != "" {
		return config, fmt.Errorf("--start %s and %s exclude each other; leave one out", c.Start, node.DatabaseURL)
	}
	if config.Database != "" && c.Data == "" {
		return config, fmt.Errorf("%s needs --data DIR: the cluster keeps there which database it has made, and its API keys; or unset the variable to get a private database", node.DatabaseURL)
	}
	return config, nil
}

//go:embed cluster.txt
var clusterText string

// clusterTemplate shares the demo's requests.
var clusterTemplate = template.Must(template.Must(welcomeTemplate.Clone()).New("cluster").Parse(clusterText))

// welcome prints all addresses and the commands to paste.
func (c *clusterCommand) welcome(io streams, k *lab.Cluster) error {
	var regions []place
	for _, n := range k.Nodes[:len(k.Regions())] {
		regions = append(regions, place{n.Region, n.API, n.RPC, k.Codes[n.Region]})
	}
	say, err := requests(regions, k.Simulator)
	if err != nil {
		return err
	}
	say["Operator"] = k.Operator
	say["Keys"] = k.APIKeys
	say["Nodes"], say["Database"], say["State"] = k.Nodes, k.Database.Version, lab.StateFile(k.Data)
	say["Data"], say["Temporary"] = k.Data, k.Temporary
	open := []opened{{k.Simulator, opensSimulator}}
	for _, n := range k.Nodes {
		open = append(open, opened{n.API, "the API, for who has one of the keys below"})
	}
	warnOpened(io, open...)
	return clusterTemplate.Execute(io.out, say)
}
