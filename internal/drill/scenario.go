package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scenario is what a drill does to a cluster.
type Scenario string

// The scenarios.
const (
	// RegionLoss kills a region's nodes, with a database server of its own, and starts them again.
	RegionLoss Scenario = "region-loss"
	// Partition makes a region's nodes unreachable while they run.
	Partition Scenario = "partition"
	// Blackhole drops what is sent to the RPC ports of a region, of one of its nodes, or
	// what one other region sends there; gossip and APIs stay reachable.
	Blackhole Scenario = "blackhole"
	// Drain drains a region, stops its nodes when that is reported safe, starts them
	// and activates the region.
	Drain Scenario = "drain"
	// RollingRestart restarts every node gracefully, one after the other.
	RollingRestart Scenario = "rolling-restart"
	// PSPOutage stops the provider's answers, though it moves some money.
	PSPOutage Scenario = "psp-outage"
	// DBFailover kills a database server and starts it again.
	DBFailover Scenario = "db-failover"
	// DatabasePath drops what a region's nodes and the database send each other; the nodes reach
	// each other, and the others the database.
	DatabasePath Scenario = "database-path"
)

// Scenarios lists them all.
func Scenarios() []Scenario {
	return []Scenario{RegionLoss, Partition, Blackhole, Drain, RollingRestart, PSPOutage, DBFailover, DatabasePath}
}

// needsRegion: the others affect the whole cluster.
func (s Scenario) needsRegion() bool {
	return s == RegionLoss || s == Partition || s == Blackhole || s == Drain || s == DBFailover || s == DatabasePath
}

// hitsNodes: without a node to hit nothing happens.
func (s Scenario) hitsNodes() bool {
	return s == RegionLoss || s == Partition || s == Blackhole || s == Drain || s == RollingRestart
}

// holds: something is away from its begin to its end. Only then the report has the time at which
// keys were served again.
func (s Scenario) holds() bool { return s != RollingRestart && s != Drain }

// Node is one process of the cluster.
type Node struct{ Name, Region string }

// Means are the ways to break a cluster. Methods return once the change is done; a node
// is ready again when Start returns. Each may be called from one goroutine at a time.
// The interface is large because a cluster can break in as many ways, and each kind of
// cluster offers all of them.
type Means interface {
	// Offers describes, for people, how a scenario is executed here, or returns why it
	// cannot be.
	Offers(s Scenario, region string) (how string, err error)
	Nodes() []Node
	Kill(ctx context.Context, node string) error
	// Stop stops the node gracefully.
	Stop(ctx context.Context, node string) error
	Start(ctx context.Context, node string) error
	// Cut takes away the node's network, or suspends it; Join undoes that.
	Cut(ctx context.Context, node string) error
	Join(ctx context.Context, node string) error
	// Drop drops what is sent to the node's RPC port, by the nodes of region from or, "", by
	// all, and ends no connection; Pass undoes that.
	Drop(ctx context.Context, node, from string) error
	Pass(ctx context.Context, node string) error
	// HasDatabase reports whether the region has a database server of its own.
	HasDatabase(region string) bool
	KillDatabase(ctx context.Context, region string) error
	StartDatabase(ctx context.Context, region string) error
	// CutDatabase drops what the region's nodes and the database send each other, and ends no
	// connection; JoinDatabase undoes that.
	CutDatabase(ctx context.Context, region string) error
	JoinDatabase(ctx context.Context, region string) error
	// Drain returns once the region may be taken down.
	Drain(ctx context.Context, region string, say func(string)) error
	Undrain(ctx context.Context, region string, say func(string)) error
}

// fault is a prepared scenario. end is called after begin, even if that failed halfway,
// and restores the cluster.
type fault struct {
	begin, end func(ctx context.Context) error
}

func (d *drill) fault() (fault, error) {
	m, region := d.c.Means, d.c.Region
	eachNode := func(do ...func(context.Context, string) error) func(context.Context) error {
		return func(ctx context.Context) error {
			var errs []error
			for _, n := range m.Nodes() {
				for _, one := range do {
					if n.Region == region && (d.c.Node == "" || n.Name == d.c.Node) {
						errs = append(errs, one(ctx, n.Name))
					}
				}
			}
			return errors.Join(errs...)
		}
	}
	switch d.c.Scenario {
	case RegionLoss:
		kill, start := eachNode(m.Kill), eachNode(m.Start)
		if !m.HasDatabase(region) {
			return fault{kill, start}, nil
		}
		return fault{
			func(ctx context.Context) error { return errors.Join(kill(ctx), m.KillDatabase(ctx, region)) },
			func(ctx context.Context) error { return errors.Join(m.StartDatabase(ctx, region), start(ctx)) },
		}, nil
	case Partition:
		return fault{eachNode(m.Cut), eachNode(m.Join)}, nil
	case Blackhole:
		drop := func(ctx context.Context, node string) error { return m.Drop(ctx, node, d.c.From) }
		return fault{eachNode(drop), eachNode(m.Pass)}, nil
	case DBFailover:
		return fault{
			func(ctx context.Context) error { return m.KillDatabase(ctx, region) },
			func(ctx context.Context) error { return m.StartDatabase(ctx, region) },
		}, nil
	case DatabasePath:
		return fault{
			func(ctx context.Context) error { return m.CutDatabase(ctx, region) },
			func(ctx context.Context) error { return m.JoinDatabase(ctx, region) },
		}, nil
	case Drain:
		return fault{
			func(ctx context.Context) error {
				d.shun(region) // as geo-DNS does when readiness fails
				if err := m.Drain(ctx, region, d.c.Say); err != nil {
					return err
				}
				return eachNode(m.Stop)(ctx) // which is reported to be safe
			},
			func(ctx context.Context) error {
				defer d.shun("")
				return errors.Join(eachNode(m.Start)(ctx), m.Undrain(ctx, region, d.c.Say))
			},
		}, nil
	case RollingRestart:
		return fault{d.rollingRestart, func(context.Context) error { return nil }}, nil
	case PSPOutage:
		return d.provider.outage(), nil
	}
	return fault{}, d.c.Scenario.Check()
}

// rollingRestart leaves no node down, whatever fails.
func (d *drill) rollingRestart(ctx context.Context) error {
	for _, n := range d.c.Means.Nodes() {
		d.c.Say("restarting " + n.Name)
		stopped := d.c.Means.Stop(ctx, n.Name)
		if err := errors.Join(stopped, d.c.Means.Start(context.WithoutCancel(ctx), n.Name)); err != nil {
			return err
		}
	}
	return nil
}

func names(all []Scenario) string {
	var s []string
	for _, one := range all {
		s = append(s, string(one))
	}
	return strings.Join(s, ", ")
}

// Check returns an error that lists the scenarios if s is none of them.
func (s Scenario) Check() error {
	if slices.Contains(Scenarios(), s) {
		return nil
	}
	return fmt.Errorf("there is no drill %q; choose one of %s", s, names(Scenarios()))
}
