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
	// RegionLoss ends a region's nodes without a word and starts them again.
	RegionLoss Scenario = "region-loss"
	// Partition makes a region's nodes unreachable while they live on.
	Partition Scenario = "partition"
	// Drain takes a region out of service in an orderly way, stops its nodes when
	// that is said to be safe, starts them and ends the drain.
	Drain Scenario = "drain"
	// RollingRestart restarts every node, one after the other, each in order.
	RollingRestart Scenario = "rolling-restart"
	// PSPOutage makes the provider answer nothing, though it moves some money.
	PSPOutage Scenario = "psp-outage"
	// DBFailover ends a database server without a word and starts it again.
	DBFailover Scenario = "db-failover"
)

// Scenarios lists them all.
func Scenarios() []Scenario {
	return []Scenario{RegionLoss, Partition, Drain, RollingRestart, PSPOutage, DBFailover}
}

// needsRegion: the others concern the whole cluster.
func (s Scenario) needsRegion() bool {
	return s == RegionLoss || s == Partition || s == Drain || s == DBFailover
}

// hitsNodes: without a node to hit nothing happens.
func (s Scenario) hitsNodes() bool {
	return s == RegionLoss || s == Partition || s == Drain || s == RollingRestart
}

// holds: something stays away between its beginning and its end. Only then it can
// be said when keys were served again.
func (s Scenario) holds() bool { return s != RollingRestart && s != Drain }

// Node is one process of the cluster.
type Node struct{ Name, Region string }

// Means are what a cluster offers to be done to it. Methods return once it is
// done; a node is ready again when Start returns. Each may be called from one
// goroutine at a time. There are so many because a cluster can be broken in as many ways,
// and each kind of cluster offers all of them.
type Means interface {
	// Offers says how a scenario is carried out here, for people, or why it cannot
	// be.
	Offers(s Scenario, region string) (how string, err error)
	Nodes() []Node
	Kill(ctx context.Context, node string) error
	// Stop lets the node finish its work and end.
	Stop(ctx context.Context, node string) error
	Start(ctx context.Context, node string) error
	// Cut takes the node's network, or its time; Join gives it back.
	Cut(ctx context.Context, node string) error
	Join(ctx context.Context, node string) error
	KillDatabase(ctx context.Context, region string) error
	StartDatabase(ctx context.Context, region string) error
	// Drain returns once the region may be taken down.
	Drain(ctx context.Context, region string, say func(string)) error
	Undrain(ctx context.Context, region string, say func(string)) error
}

// fault is a scenario made ready. end is called after begin, even after one that
// failed halfway, and leaves the cluster as it was.
type fault struct {
	begin, end func(ctx context.Context) error
}

func (d *drill) fault() (fault, error) {
	m, region := d.c.Means, d.c.Region
	mine := func(do ...func(context.Context, string) error) func(context.Context) error {
		return func(ctx context.Context) error {
			var errs []error
			for _, n := range m.Nodes() {
				for _, one := range do {
					if n.Region == region {
						errs = append(errs, one(ctx, n.Name))
					}
				}
			}
			return errors.Join(errs...)
		}
	}
	switch d.c.Scenario {
	case RegionLoss:
		return fault{mine(m.Kill), mine(m.Start)}, nil
	case Partition:
		return fault{mine(m.Cut), mine(m.Join)}, nil
	case DBFailover:
		return fault{
			func(ctx context.Context) error { return m.KillDatabase(ctx, region) },
			func(ctx context.Context) error { return m.StartDatabase(ctx, region) },
		}, nil
	case Drain:
		return fault{
			func(ctx context.Context) error {
				d.shun(region) // as geo-DNS does when readiness fails
				if err := m.Drain(ctx, region, d.c.Say); err != nil {
					return err
				}
				return mine(m.Stop)(ctx) // which is said to be safe
			},
			func(ctx context.Context) error {
				defer d.shun("")
				return errors.Join(mine(m.Start)(ctx), m.Undrain(ctx, region, d.c.Say))
			},
		}, nil
	case RollingRestart:
		return fault{d.rollingRestart, func(context.Context) error { return nil }}, nil
	case PSPOutage:
		return d.provider.outage(), nil
	}
	return fault{}, fmt.Errorf("there is no drill %q; choose one of %s", d.c.Scenario, names(Scenarios()))
}

// rollingRestart leaves no node down, whatever happens.
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

// known reports whether a scenario exists.
func (s Scenario) known() bool { return slices.Contains(Scenarios(), s) }
