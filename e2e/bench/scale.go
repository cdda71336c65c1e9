package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	// mostGrowth is what "does not grow with the number of nodes" leaves for noise.
	mostGrowth = 1.1
	// quietly is for how many windows of a run the database is watched while its nodes
	// are idle: what they ask for comes in seconds, and what each but the first does in
	// minutes.
	quietly = 10
	// counted is when all that has been asked for is counted: a backend of PostgreSQL tells
	// of its transactions 10 s after the last of them at the latest (pgstat.c,
	// PGSTAT_IDLE_INTERVAL).
	counted = 11 * time.Second
	// leastCarried of the rate must have been carried, or what a charge cost is not what it
	// costs at that rate: choose another one with -rate.
	leastCarried = 0.95
	// leastSeen is in cores: less than that the clock ticks of /proc do not tell apart.
	leastSeen = 0.002
)

var (
	idleCPUs       = measure{"database CPU while idle", func(f figures) float64 { return max(leastSeen, f.idleCores) }, inCores}
	idleStatements = measure{"statements while idle", func(f figures) float64 { return f.idleStatements }, func(v float64) string { return fmt.Sprintf("%.1f/s", v) }}
	idleNodes      = measure{"CPU while idle", func(f figures) float64 { return f.idleNodes }, inCores}
)

func inCores(v float64) string { return fmt.Sprintf("%.3f cores", v) }

// orchestrateScale measures several nodes on one database.
func orchestrateScale(ctx context.Context, o options, out io.Writer) error {
	return onDatabase(ctx, o, regionNames[:1], func(s *localdb.Server) error { return measureScale(ctx, o, s, out) })
}

func measureScale(ctx context.Context, o options, s *localdb.Server, out io.Writer) (err error) {
	r := newReport(o, out)
	r.on(s)
	dir, err := os.MkdirTemp(o.dir, "homeward-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := configure(ctx, s, r.settings); err != nil {
		return err
	}
	l, err := newLedger(ctx, s, "bench_scale")
	if err != nil {
		return err
	}
	if err := l.putTenant(ctx); err != nil {
		return err
	}
	if err := l.fill(ctx, r.small); err != nil {
		return err
	}
	p, err := newProbe(s, "bench_scale")
	if err != nil {
		return err
	}
	sim, err := start(ctx, "simulator") // one, see side
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.stop()) }()
	// With no node at all, as for every other suite.
	alone, err := p.idle(ctx, r.idle)
	if err != nil {
		return err
	}
	c := comparison{name: "scale/paced", title: fmt.Sprintf("%.0f charges/s to all nodes of a region together", r.rate), conns: middle, probe: p}
	for _, n := range r.nodes {
		c.sides = append(c.sides, side{name: fmt.Sprintf("%d-nodes", n)})
	}
	series := make([][]figures, len(r.nodes))
	for turn := range r.runs {
		for i := range r.nodes {
			if turn%2 == 1 {
				i = len(r.nodes) - 1 - i
			}
			f, err := scaleOnce(ctx, r, l, p, sim, r.nodes[i], alone)
			if err != nil {
				return fmt.Errorf("%d nodes: %w", r.nodes[i], err)
			}
			series[i] = append(series[i], f)
		}
	}
	r.add(c, series)
	r.printf("  no node: %.3f cores of the database\n", alone.Cores)
	for i, n := range r.nodes {
		cores, statements, nodes := spreadOf(series[i], idleCPUs.of), spreadOf(series[i], idleStatements.of), spreadOf(series[i], idleNodes.of)
		r.printf("  %d idle: %s of the database (%.3f–%.3f), %s (%.1f–%.1f), %s of the nodes (%.3f–%.3f)\n", n,
			idleCPUs.print(cores.median), cores.min, cores.max, idleStatements.print(statements.median), statements.min, statements.max,
			idleNodes.print(nodes.median), nodes.min, nodes.max)
		r.alone(fmt.Sprintf("%s, %d nodes: rate", c.name, n), spreadOf(series[i], rate), aSecond, true, leastCarried*r.rate)
		if i == 0 {
			r.cost(func(m *model.Costs) { m.DatabaseIdle = cores.median })
			continue
		}
		of := fmt.Sprintf("%s, %d nodes to %d", c.name, n, r.nodes[0])
		for _, m := range []measure{cpus, dbCosts, idleCPUs, idleStatements} {
			r.atMost(of, m, series[0], series[i], mostGrowth)
		}
	}
	return r.finish()
}

// scaleOnce starts so many nodes, each a process, watches the database while they have
// nothing to do, and loads all of them at once.
func scaleOnce(ctx context.Context, r *report, l *ledger, p *probe, sim *child, nodes int, idle usageRate) (f figures, err error) {
	spec := loadSpec{Conns: middle, Rate: r.rate, OneRegion: true, Warm: r.warm, Window: r.paced, Probe: p}
	args := []string{"-db=" + l.url, "-psp=" + sim.Serving[0]}
	for i := range nodes {
		n, err := start(ctx, "node", args...)
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		spec.Addrs = append(spec.Addrs, n.Serving[0])
		if i == 0 {
			spec.Control, args = n.Control, append(args, "-seed="+n.Gossip)
		} else {
			spec.Controls = append(spec.Controls, n.Control)
		}
	}
	quiet, cores, err := l.watch(ctx, p, spec, max(r.warm, r.calm), r.idle)
	if err != nil {
		return f, err
	}
	before, err := l.count(ctx)
	if err != nil {
		return f, err
	}
	result, err := load(ctx, spec)
	if err != nil {
		return f, err
	}
	after, err := l.count(ctx)
	if err == nil && after-before != result.Made {
		err = fmt.Errorf("%d charges were answered and %d are stored", result.Made, after-before)
	}
	result.CPU -= time.Duration(cores * float64(result.Elapsed))
	f = newFigures(result.over(idle))
	f.idleCores, f.idleStatements, f.idleNodes = quiet.Cores, quiet.Statements, cores
	return f, err
}

// watch watches idle nodes and their database for a while, after a calm: what the database
// does, and the cores that the nodes use. Vacuums of what was done before are not theirs,
// and go on afterwards.
func (l *ledger) watch(ctx context.Context, p *probe, nodes loadSpec, calm, d time.Duration) (rate usageRate, cores float64, err error) {
	if err := l.vacuums(ctx, false); err != nil {
		return rate, 0, err
	}
	// They have met once the start of each is over; what they ask at their start is not
	// what they ask for ever.
	if err := sleepUntil(ctx, time.Now().Add(calm)); err != nil {
		return rate, 0, err
	}
	g := &generator{loadSpec: nodes}
	before, err := g.usage(ctx)
	if err != nil {
		return rate, 0, err
	}
	from := time.Now()
	if rate, err = p.idle(ctx, d); err != nil {
		return rate, 0, err
	}
	after, err := g.usage(ctx)
	cores = (after.CPU - before.CPU).Seconds() / time.Since(from).Seconds()
	return rate, cores, errors.Join(err, l.vacuums(ctx, true))
}

// vacuums lets PostgreSQL vacuum by itself, or not.
func (l *ledger) vacuums(ctx context.Context, on bool) error {
	if l.kind != localdb.PostgreSQL {
		return nil
	}
	return l.connected(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET autovacuum = %t", on)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT pg_reload_conf()")
		return err
	})
}
