package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
)

type drillCommand struct {
	Scenario drill.Scenario `arg:"" help:"The scenario: region-loss, partition, blackhole, drain, rolling-restart, psp-outage, db-failover or database-path."`
	Region   string         `placeholder:"R" help:"The region to break."`
	Only     string         `placeholder:"NODE" help:"The one node of the region to break, for blackhole."`
	From     string         `placeholder:"R" help:"The one region that loses its calls, for blackhole."`
	Load     string         `default:"40/s" placeholder:"N/s" help:"Requests per second, from all regions together."`
	For      time.Duration  `default:"60s" help:"Duration of the load: a sixth of it, at most 10 s, before the outage, half during it, the rest after it."`
	Patience time.Duration  `default:"2m" help:"Time after the load until an open payment counts as lost."`

	Cluster string            `type:"path" placeholder:"DIR" help:"Data directory of the homeward cluster to act on."`
	Compose string            `type:"path" placeholder:"DIR" help:"Directory of the Docker Compose project to act on; with --api and --psp."`
	API     map[string]string `name:"api" mapsep:"," placeholder:"R=URL,…" help:"API URLs by region, several separated by spaces; default: from --cluster."`
	PSP     string            `name:"psp" placeholder:"URL" help:"URL of the provider simulator; default: from --cluster."`

	runsFlags
	JSON string `name:"json" type:"path" placeholder:"FILE" help:"Write the report for programs, - for standard output instead of the text."`
	HTML string `name:"html" type:"path" placeholder:"FILE" help:"Write the report as one page, with a picture of the timeline."`

	fallback string // the cluster's bucket of runs
}

// Help returns the text that homeward drill --help adds.
func (drillCommand) Help() string {
	return `Drives load against a running cluster, takes something away, brings it back, and counts: the provider simulator counts how often money moved, and every payment is requested once more at the end. The exit code is 1 unless there are no duplicates, no differing replays and no lost replies.

The tenants of a --cluster's API keys pay. HOMEWARD_API_KEYS, or the file that HOMEWARD_API_KEYS_FILE names, has those of others, with commas, ideally of tenants with different registrars.

Nothing is touched that is not named here. With --cluster the request goes to the cluster itself, which acts on its own processes and its private database. Nodes of it that are not running are started first:
  region-loss      SIGKILL to the region's nodes, and to its node of a private CockroachDB, then a start
  partition        SIGSTOP to the region's nodes, then SIGCONT
  blackhole        the gates before the region's RPC ports let nothing pass, or nothing of --from, then everything; gossip goes on
  drain            homeward region drain, SIGTERM to the nodes once that is safe, a start, undrain
  rolling-restart  SIGTERM to each node and a start, one after the other
  psp-outage       the simulator answers nothing well, through its /_sim/faults
  db-failover      SIGKILL to the region's CockroachDB node, a crash of PostgreSQL, then a start
  database-path    the gate between the region's nodes and the private database lets nothing pass, then everything; the nodes reach each other

With --compose the containers of that project whose service is called REGION-… are: region-loss kills and starts them, partition takes them off their networks, rolling-restart stops and starts them. With --api alone only psp-outage is offered.`
}

// errPromises is a failed verdict's exit code: the report has the rest.
var errPromises = errors.New("the drill found broken promises, or could not check them; the report names them")

func (c *drillCommand) Run(ctx context.Context, io streams) error {
	defer outliveReaders()() // what it has broken is restored all the same
	if err := c.Scenario.Check(); err != nil {
		return err
	}
	config, err := c.config(ctx, io)
	if err != nil {
		return err
	}
	if m, ok := config.Means.(*lab.ClusterMeans); ok {
		if err := m.Revive(ctx, config.Say); err != nil {
			return err
		}
	}
	of := runs.Run{Kind: runs.Drill, Of: strings.TrimSpace(string(c.Scenario) + " " + c.Region), Region: c.Region}
	report, unkept, err := kept(ctx, c.url(c.fallback), of, func(k *runs.Kept) (*drill.Report, error) {
		say := config.Say
		config.Say = func(line string) {
			k.Step(ctx, line)
			say(line)
		}
		return drill.Run(ctx, config)
	}, reportOfDrill)
	if err != nil {
		return err
	}
	if err := errors.Join(c.write(io, report), unkept); err != nil {
		return err
	}
	if !report.Verdict.OK() {
		return errPromises
	}
	return nil
}

// config merges the flags with the facts about the cluster.
func (c *drillCommand) config(ctx context.Context, io streams) (drill.Config, error) {
	config := drill.Config{
		Scenario: c.Scenario, Region: c.Region, Node: c.Only, From: c.From, For: c.For, Patience: c.Patience, Provider: c.PSP,
		// Not on standard output, which may be a program's.
		Say: func(line string) { fmt.Fprintln(io.err, line) },
	}
	keys, err := node.Secret(os.Environ(), node.APIKeys)
	if err != nil {
		return config, err
	}
	config.APIKeys = strings.FieldsFunc(keys, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if config.Rate, err = strconv.ParseFloat(strings.TrimSuffix(c.Load, "/s"), 64); err != nil {
		return config, fmt.Errorf("--load %q: write requests per second, as in 40/s", c.Load)
	}
	for name, urls := range c.API {
		config.Regions = append(config.Regions, drill.Region{Name: name, URLs: strings.Fields(urls)})
	}
	slices.SortFunc(config.Regions, func(a, b drill.Region) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case c.Cluster != "" && c.Compose != "":
		return config, errors.New("--cluster and --compose exclude each other; leave one out")
	case c.Cluster != "":
		state, err := lab.ReadState(c.Cluster)
		if err != nil {
			return config, fmt.Errorf("--cluster: %w; name the data directory of a homeward cluster that is running", err)
		}
		c.fallback = state.Runs
		config.Means, config.Provider = state.Means(), cmp.Or(config.Provider, state.Simulator)
		if len(config.Regions) == 0 {
			config.Regions = state.Regions()
		}
		for _, tenant := range slices.Sorted(maps.Keys(state.APIKeys)) {
			if keys == "" && claim.Livemode(tenant) { // a test key moves nothing that can be counted
				config.APIKeys = append(config.APIKeys, state.APIKeys[tenant])
			}
		}
	case c.Compose != "":
		if config.Means, err = lab.ReadCompose(ctx, c.Compose, config.Regions); err != nil {
			return config, err
		}
	default:
		config.Means = lab.NoMeans{}
	}
	if len(config.Regions) == 0 {
		return config, errors.New("no cluster is named; name the data directory of a homeward cluster with --cluster, or addresses with --api and --psp")
	}
	return config, nil
}

// write prints the verdict and writes the requested files.
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
