package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/region/admin"
)

// askFlags select the running node to query, and the caller's identity.
type askFlags struct {
	Node    string `placeholder:"HOST:PORT" env:"HOMEWARD_NODE" help:"RPC address of the node to query (${env}). Default: those of --cluster, else 127.0.0.1:7081."`
	Cluster string `type:"path" placeholder:"DIR" help:"Data directory of a running homeward cluster, which says where its nodes and certificates are."`
	proofFlags
}

// proofFlags select the caller's identity.
type proofFlags struct {
	Cert        string `type:"path" env:"HOMEWARD_OPERATOR_CERT" help:"Operator's certificate, where the nodes have certificates (${env}). PEM, like the other two."`
	Key         string `type:"path" env:"HOMEWARD_OPERATOR_KEY" help:"Key of the operator's certificate (${env})."`
	CA          string `name:"ca" type:"path" env:"HOMEWARD_OPERATOR_CA" help:"The deployment's CA (${env})."`
	TrustDomain string `name:"trust-domain" default:"homeward" env:"HOMEWARD_OPERATOR_TRUST_DOMAIN" help:"The deployment's name in its certificates (${env})."`
}

// defaultNode is the default RPC address of a node.
const defaultNode = "127.0.0.1:7081"

// withOperator queries the nodes that f names, as the identity that f names.
func (f askFlags) withOperator(io streams, do func(*operator.Operator) error) error {
	a := operator.Access{Nodes: []string{defaultNode}, Certificate: operator.Certificate{Cert: f.Cert, Key: f.Key, CA: f.CA, TrustDomain: f.TrustDomain}}
	if f.Cluster != "" {
		state, err := lab.ReadState(f.Cluster)
		if err != nil {
			return fmt.Errorf("--cluster: %w; it must be the data directory of a cluster that runs", err)
		}
		if f.Cert == "" && state.Operator != nil {
			a.Certificate = *state.Operator
		}
		a.Nodes = state.Access().Nodes
	}
	if f.Node != "" {
		a.Nodes = []string{f.Node}
	}
	o, err := operator.Open(a, func(line string) { fmt.Fprintln(io.out, line) })
	if err != nil {
		return err
	}
	defer o.Close()
	return do(o)
}

type regionsCommand struct {
	askFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the deployment as one node sees it.
func (c *regionsCommand) Run(ctx context.Context, io streams) error {
	return c.withOperator(io, func(o *operator.Operator) error {
		all, err := o.Overview(ctx, 0)
		if err != nil {
			return err
		}
		if c.JSON {
			return indented(io, all)
		}
		return printOverview(io, all)
	})
}

func printOverview(io streams, o *admin.Overview) error {
	t := regionColumns.list(io)
	for _, r := range o.Regions {
		seen, rtt, rows := "never", "-", []any{"?", "?", "?", "?", "?"}
		if !r.LastSeen.IsZero() {
			seen = ago(r.LastSeen)
		}
		if r.RTT >= 0 {
			rtt = r.RTT.Round(100 * time.Microsecond).String()
		}
		if b := r.Backlog; b != nil {
			oldest := "-"
			if !b.OldestDue.IsZero() {
				oldest = ago(b.OldestDue)
			}
			rows = []any{b.InFlight, b.Pending, b.Due, oldest, b.Parked}
		}
		t.row(append([]any{r.Name, r.Code, r.Status, len(o.Of(r.Name)), rtt, seen}, rows...)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(io.out)
	nodes := nodeColumns.list(io)
	for _, m := range o.Members {
		health, epoch, requests, forwards := "does not answer", any("?"), any("?"), any("?")
		if m.Unready {
			health = "not ready, by gossip"
		}
		if p := m.Part; p != nil {
			health = "ready"
			if p.NotReady != "" {
				health = "not ready: " + p.NotReady
			}
			epoch, requests, forwards = p.Epoch, p.Requests, p.Forwards
		}
		nodes.row(m.Name, m.Region, health, epoch, requests, forwards, cmp.Or(m.Version, "-"), m.RPCAddr)
	}
	if err := nodes.Flush(); err != nil {
		return err
	}
	for _, m := range o.Members {
		if m.Unknown != "" {
			fmt.Fprintf(io.out, "? %s does not answer: %s\n", m.Name, m.Unknown)
		}
	}
	printSilent(io.out, o)
	printUncounted(io, o.Regions)
	for _, line := range operator.Parked(o.Regions...) {
		fmt.Fprintln(io.out, line)
	}
	fmt.Fprintf(io.out, "As %s sees it, at epoch %d.\n", o.Node, o.Epoch)
	return nil
}

// printUncounted prints each reason once: if the database is down, it is down for every
// region.
func printUncounted(io streams, regions []admin.RegionState) {
	var reasons []string
	names := map[string][]string{}
	for _, r := range regions {
		if r.Unknown == "" {
			continue
		}
		if names[r.Unknown] == nil {
			reasons = append(reasons, r.Unknown)
		}
		names[r.Unknown] = append(names[r.Unknown], r.Name)
	}
	for _, why := range reasons {
		fmt.Fprintf(io.out, "? the rows of %s cannot be counted: %s\n", strings.Join(names[why], ", "), why)
	}
}

// ago is short, by this machine's clock.
func ago(t time.Time) string {
	d := time.Since(t).Round(time.Second)
	if d < time.Second {
		return "now"
	}
	return d.String() + " ago"
}

type regionCommand struct {
	Drain   regionDrainCommand    `cmd:"" help:"Drain a region, and wait until it is safe to take down."`
	Undrain regionActivateCommand `cmd:"" help:"End a drain: the region's nodes take traffic and new keys again."`
	Down    regionDownCommand     `cmd:"" help:"Mark a region as down: the others act on its rows at once."`
	Up      regionActivateCommand `cmd:"" help:"Mark a region as back: its nodes, once they run, take traffic and new keys again."`
}

// Help returns the text that homeward region --help adds.
func (regionCommand) Help() string {
	return `A status decides where keys that have no home yet get one, what GET /readyz says, and, once a region is down, that the others need not wait for it. It never moves a key: what is at home in a region stays so, and retries of it are answered. Setting a status again changes nothing.`
}

type regionDrainCommand struct {
	askFlags
	runsFlags
	Region  string        `arg:"" help:"The region's name."`
	Timeout time.Duration `default:"10m" help:"How long to wait. The region keeps draining after that."`
	Yes     bool          `help:"Drain the last active region, or the last with live nodes, too. No other one answers then."`
}

func (c *regionDrainCommand) Run(ctx context.Context, io streams) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout must be above 0, is %v", c.Timeout)
	}
	bucket := c.url("")
	if bucket == "" && c.Cluster != "" {
		if state, err := lab.ReadState(c.Cluster); err == nil { // otherwise withOperator reports it
			bucket = state.Runs
		}
	}
	return c.withOperator(io, func(o *operator.Operator) error {
		found, unkept, err := kept(ctx, bucket, runs.Run{Kind: runs.Drain, Of: c.Region, Region: c.Region}, func(*runs.Kept) (*drained, error) {
			err := o.Drain(ctx, c.Region, c.Timeout, c.Yes)
			if errors.Is(err, operator.ErrNotSafe) {
				return &drained{region: c.Region, why: err}, nil
			}
			return &drained{region: c.Region}, err
		}, reportOfDrain)
		if err != nil {
			return err
		}
		return errors.Join(found.why, unkept)
	})
}

type regionActivateCommand struct {
	askFlags
	Region string `arg:"" help:"The region's name."`
}

func (c *regionActivateCommand) Run(ctx context.Context, io streams) error {
	return c.withOperator(io, func(o *operator.Operator) error { return o.Activate(ctx, c.Region) })
}

type regionDownCommand struct {
	askFlags
	Region string `arg:"" help:"The region's name."`
	Yes    bool   `help:"Take it down although nodes of it are alive."`
}

func (c *regionDownCommand) Run(ctx context.Context, io streams) error {
	return c.withOperator(io, func(o *operator.Operator) error { return o.Down(ctx, c.Region, c.Yes) })
}
