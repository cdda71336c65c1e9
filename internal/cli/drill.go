package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/localdb"
)

type drillCommand struct {
	Scenario drill.Scenario `arg:"" help:"What is done to the cluster: region-loss, partition, drain, rolling-restart, psp-outage or db-failover."`
	Region   string         `placeholder:"R" help:"The region that is hit."`
	Load     string         `default:"40/s" placeholder:"N/s" help:"Requests per second, from all regions together."`
	For      time.Duration  `default:"60s" help:"How long the load lasts: a sixth of it, at most 10 s, before the outage, half in it, the rest after it."`
	Patience time.Duration  `default:"2m" help:"How long payments may stay open after the load before they count as lost."`

	Cluster string            `type:"path" placeholder:"DIR" help:"Data directory of the homeward cluster to act on."`
	Compose string            `type:"path" placeholder:"DIR" help:"Directory of the Docker Compose project to act on; with --api and --psp."`
	API     map[string]string `name:"api" mapsep:"," placeholder:"R=URL,…" help:"Where requests enter, several URLs of a region separated by spaces; default: what --cluster says."`
	PSP     string            `name:"psp" placeholder:"URL" help:"The provider simulator; default: what --cluster says."`
	APIKeys []string          `name:"api-key" placeholder:"KEY,…" help:"The tenants that pay, at best with different registrars; default: those of homeward cluster."`

	JSON string `name:"json" type:"path" placeholder:"FILE" help:"Write the report for programs, - for standard output instead of the text."`
	HTML string `name:"html" type:"path" placeholder:"FILE" help:"Write the report as one page, with a picture of the timeline."`
}

// Help is what homeward drill --help adds.
func (drillCommand) Help() string {
	return `Drives load against a running cluster, takes something away, brings it back, and counts: the provider simulator knows how often money moved, and every payment is asked for once more at the end. The exit code is 1 unless there are no duplicates, no differing replays and no lost replies.

Nothing is touched that is not named here. With --cluster the cluster itself is asked, which acts on its own processes and its private database. Nodes of it that are not running are started first:
  region-loss      SIGKILL to the region's nodes, then a start
  partition        SIGSTOP to the region's nodes, then SIGCONT
  drain            homeward region drain, SIGTERM to the nodes once that is safe, a start, undrain
  rolling-restart  SIGTERM to each node and a start, one after the other
  psp-outage       the simulator answers nothing well, through its /_sim/faults
  db-failover      SIGKILL to the region's CockroachDB node, a crash of PostgreSQL, then a start

With --compose the containers of that project whose service is called REGION-… are: region-loss kills and starts them, partition takes them off their networks, rolling-restart stops and starts them. With --api alone only psp-outage is offered.`
}

// errPromises is the verdict as an exit code: the report has said the rest.
var errPromises = errors.New("the drill found broken promises, or could not check them; the report names them")

// drainPatience is how long a drain may take under load: more than the leases of
// everything that was in flight when it began (30 s), and an outbox row's (1 m).
const drainPatience = 3 * time.Minute

func (c *drillCommand) Run(ctx context.Context, io streams) error {
	config, err := c.config(ctx, io)
	if err != nil {
		return err
	}
	if m, ok := config.Means.(clusterMeans); ok {
		if err := m.revive(ctx, config.Say); err != nil {
			return err
		}
	}
	report, err := drill.Run(ctx, config)
	if err != nil {
		return err
	}
	if err := c.write(io, report); err != nil {
		return err
	}
	if !report.Verdict.OK() {
		return errPromises
	}
	return nil
}

// config puts together what the flags and the cluster say.
func (c *drillCommand) config(ctx context.Context, io streams) (drill.Config, error) {
	config := drill.Config{
		Scenario: c.Scenario, Region: c.Region, For: c.For, Patience: c.Patience, Provider: c.PSP, APIKeys: c.APIKeys,
		// Not on standard output, which may be a program's.
		Say: func(line string) { fmt.Fprintln(io.err, line) },
	}
	var err error
	if config.Rate, err = strconv.ParseFloat(strings.TrimSuffix(c.Load, "/s"), 64); err != nil {
		return config, fmt.Errorf("--load %q: write requests per second, as in 40/s", c.Load)
	}
	if len(config.APIKeys) == 0 {
		for _, t := range demoTenants([]string{"", ""}) {
			config.APIKeys = append(config.APIKeys, t.APIKeys...)
		}
	}
	for name, urls := range c.API {
		config.Regions = append(config.Regions, drill.Region{Name: name, URLs: strings.Fields(urls)})
	}
	slices.SortFunc(config.Regions, func(a, b drill.Region) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case c.Cluster != "" && c.Compose != "":
		return config, errors.New("--cluster and --compose exclude each other; leave one out")
	case c.Cluster != "":
		cluster, err := readCluster(c.Cluster)
		if err != nil {
			return config, err
		}
		cluster.fill(&config, c.Cluster)
	case c.Compose != "":
		if config.Means, err = readCompose(ctx, c.Compose, config.Regions); err != nil {
			return config, err
		}
	default:
		config.Means = noMeans{}
	}
	if len(config.Regions) == 0 {
		return config, errors.New("no cluster is named; name the data directory of a homeward cluster with --cluster, or addresses with --api and --psp")
	}
	return config, nil
}

// write prints the verdict and makes the files that were asked for.
func (c *drillCommand) write(io streams, r *drill.Report) error {
	var errs []error
	if c.HTML != "" {
		errs = append(errs, writeFile(c.HTML, r.HTML))
	}
	switch c.JSON {
	case "":
	case "-":
		return errors.Join(append(errs, r.JSON(io.out))...)
	default:
		errs = append(errs, writeFile(c.JSON, r.JSON))
	}
	return errors.Join(append(errs, r.Text(io.out))...)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// noMeans are those of a cluster that is only named by its addresses.
type noMeans struct{}

func (noMeans) Offers(s drill.Scenario, _ string) (string, error) {
	if s == drill.PSPOutage {
		return pspOutageHow, nil
	}
	return "", fmt.Errorf("%s needs to act on the cluster, and addresses alone offer no means; name it with --cluster or --compose", s)
}

const pspOutageHow = "the provider simulator is told to answer nothing well, and to move money for three calls of ten all the same"

// errNotOffered is never seen: a drill asks for nothing that is not offered.
var errNotOffered = errors.New("this cluster does not offer that")

func (noMeans) Nodes() []drill.Node                                 { return nil }
func (noMeans) Kill(context.Context, string) error                  { return errNotOffered }
func (noMeans) Stop(context.Context, string) error                  { return errNotOffered }
func (noMeans) Start(context.Context, string) error                 { return errNotOffered }
func (noMeans) Cut(context.Context, string) error                   { return errNotOffered }
func (noMeans) Join(context.Context, string) error                  { return errNotOffered }
func (noMeans) KillDatabase(context.Context, string) error          { return errNotOffered }
func (noMeans) StartDatabase(context.Context, string) error         { return errNotOffered }
func (noMeans) Drain(context.Context, string, func(string)) error   { return errNotOffered }
func (noMeans) Undrain(context.Context, string, func(string)) error { return errNotOffered }

// fill takes from a cluster's state file what the flags do not say.
func (c *clusterClient) fill(config *drill.Config, dir string) {
	config.Means = clusterMeans{noMeans{}, c, dir}
	if config.Provider == "" {
		config.Provider = c.state.Simulator
	}
	if len(config.Regions) > 0 {
		return
	}
	for _, n := range c.state.Nodes {
		i := slices.IndexFunc(config.Regions, func(r drill.Region) bool { return r.Name == n.Region })
		if i < 0 {
			i = len(config.Regions)
			config.Regions = append(config.Regions, drill.Region{Name: n.Region})
		}
		config.Regions[i].URLs = append(config.Regions[i].URLs, n.API)
	}
}

// clusterMeans are those of a homeward cluster: it is asked, and acts on its own
// processes.
type clusterMeans struct {
	noMeans
	c   *clusterClient
	dir string // the cluster's
}

func (m clusterMeans) Offers(s drill.Scenario, region string) (string, error) {
	var nodes []string
	for _, n := range m.Nodes() {
		if n.Region == region {
			nodes = append(nodes, n.Name)
		}
	}
	mine := strings.Join(nodes, " and ")
	switch s {
	case drill.PSPOutage:
		return pspOutageHow, nil
	case drill.RegionLoss:
		return "SIGKILL to " + mine + ", then a start of each", nil
	case drill.Partition:
		return "SIGSTOP to " + mine + ", then SIGCONT", nil
	case drill.Drain:
		return "homeward region drain, SIGTERM to " + mine + " when that is safe; then a start of each, and undrain", nil
	case drill.RollingRestart:
		return "SIGTERM to each node in turn, and a start", nil
	case drill.DBFailover:
		if err := m.c.state.Database.offers(); err != nil {
			return "", fmt.Errorf("%s: %w", s, err)
		}
		if m.c.state.Database.Kind == localdb.CockroachDB {
			return "SIGKILL to the CockroachDB node of " + region + ", then a start", nil
		}
		return "a crash of PostgreSQL, which every region uses, then a start", nil
	}
	return m.noMeans.Offers(s, region)
}

// revive starts the nodes that somebody has killed: a drill is of a cluster that is
// whole.
func (m clusterMeans) revive(ctx context.Context, say func(string)) error {
	for _, n := range m.c.state.Nodes {
		switch there, err := listens(ctx, n.API); {
		case err != nil:
			return fmt.Errorf("node %s: %w", n.Name, err)
		case there:
			continue
		}
		say("starting " + n.Name + ", which was not running")
		if err := m.Start(ctx, n.Name); err != nil {
			return err
		}
	}
	return nil
}

// listens reports whether anybody listens at http://host:port. Without an answer in
// time somebody may: a process that was stopped has its port still.
func listens(ctx context.Context, base string) (bool, error) {
	u, err := url.Parse(base)
	if err != nil {
		return false, err
	}
	dialling, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialling, "tcp", u.Host)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return false, nil
		}
		return true, ctx.Err()
	}
	return true, conn.Close()
}

func (m clusterMeans) Nodes() (all []drill.Node) {
	for _, n := range m.c.state.Nodes {
		all = append(all, drill.Node{Name: n.Name, Region: n.Region})
	}
	return all
}

func (m clusterMeans) Kill(ctx context.Context, node string) error {
	return m.c.post(ctx, "nodes", node, "kill")
}

func (m clusterMeans) Stop(ctx context.Context, node string) error {
	return m.c.post(ctx, "nodes", node, "stop")
}

func (m clusterMeans) Start(ctx context.Context, node string) error {
	return m.c.post(ctx, "nodes", node, "start")
}

func (m clusterMeans) Cut(ctx context.Context, node string) error {
	return m.c.post(ctx, "nodes", node, "freeze")
}

func (m clusterMeans) Join(ctx context.Context, node string) error {
	return m.c.post(ctx, "nodes", node, "thaw")
}

func (m clusterMeans) KillDatabase(ctx context.Context, region string) error {
	return m.c.post(ctx, "database", region, "kill")
}

func (m clusterMeans) StartDatabase(ctx context.Context, region string) error {
	return m.c.post(ctx, "database", region, "start")
}

func (m clusterMeans) Drain(ctx context.Context, region string, say func(string)) error {
	c := regionDrainCommand{askFlags: askFlags{Cluster: m.dir}, Region: region, Timeout: drainPatience}
	return c.Run(ctx, linesTo(say))
}

func (m clusterMeans) Undrain(ctx context.Context, region string, say func(string)) error {
	c := regionUndrainCommand{askFlags: askFlags{Cluster: m.dir}, Region: region}
	return c.Run(ctx, linesTo(say))
}

// lineWriter passes on what a command prints, a line at a time.
type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w(strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

func linesTo(say func(string)) streams { return streams{lineWriter(say), lineWriter(say)} }
