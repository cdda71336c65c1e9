package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/sizing/model"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	// mostOfCockroach is the CPU of CockroachDB's nodes that a charge may take, over
	// their idle, in three regions, everything included.
	mostOfCockroach = 3 * time.Millisecond
	// mostAlone is how much slower than the bare statement one caller's begin or settle
	// may be.
	mostAlone = 1.5
	// leastFresh is the rate on a database that was empty, over the rate once it has
	// statistics: the same, but for noise.
	leastFresh = 0.9
	// inOne is how many charges share a statement where that is measured.
	inOne = 16
)

// orchestrateSQL measures nodes on a database of their own, HTTP to HTTP.
func orchestrateSQL(ctx context.Context, o options, out io.Writer) error {
	return onDatabase(ctx, o, regionNames, func(s *localdb.Server) error { return measureSQL(ctx, o, s, out) })
}

// testbed is what the cases of one database share.
type testbed struct {
	*report
	server   *localdb.Server
	dir      string // for what sides keep on disk, which is nothing here
	bare     *bareBook
	homeward *ledger
	probe    *probe
	sim      *child
}

func measureSQL(ctx context.Context, o options, s *localdb.Server, out io.Writer) (err error) {
	r := newReport(o, out)
	r.on(s)
	dir, err := os.MkdirTemp(o.dir, "homeward-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newTestbed(ctx, r, s, dir)
	if err != nil {
		return err
	}
	if b.sim, err = start(ctx, "simulator"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.sim.stop()) }()
	for _, c := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"sql/charge", b.charges}, {"sql/replay", b.replays}, {"sql/latency", b.latency}, {"sql/empty", b.empty},
		{"sql/bare", b.bareStatements}, {"sql/single", b.single},
	} {
		if !strings.HasPrefix(c.name, o.only) {
			continue
		}
		if err := c.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return r.finish()
}

// regionsOn are those that a product is measured in.
func regionsOn(kind localdb.Kind) []string {
	if kind == localdb.CockroachDB {
		return regionNames
	}
	return regionNames[:1]
}

// newTestbed makes the databases of both sides, as large as each other.
func newTestbed(ctx context.Context, r *report, s *localdb.Server, dir string) (b *testbed, err error) {
	b = &testbed{report: r, server: s, dir: dir}
	if err := configure(ctx, s, r.settings); err != nil {
		return nil, err
	}
	regions := regionsOn(s.Kind())
	if b.bare, err = newBareBook(ctx, s, regions); err != nil {
		return nil, err
	}
	if b.homeward, err = newLedger(ctx, s, "bench_homeward", regions...); err != nil {
		return nil, err
	}
	if b.probe, err = newProbe(s, "bench_homeward"); err != nil {
		return nil, err
	}
	if err := b.homeward.putTenant(ctx); err != nil {
		return nil, err
	}
	// So that each is planned as one that has been used.
	if err := b.homeward.fill(ctx, r.small); err != nil {
		return nil, err
	}
	if err := b.bare.fill(ctx, r.small); err != nil {
		return nil, err
	}
	return b, placeLeases(ctx, s, "bench_homeward", bareDatabase)
}

// configure changes settings of a CockroachDB cluster; admission control has to be off in
// a build with an unpatched Go, or its nodes wedge under load.
func configure(ctx context.Context, s *localdb.Server, settings []string) error {
	if s.Kind() != localdb.CockroachDB || len(settings) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, s.URL("", ""))
	if err != nil {
		return err
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		if _, err = conn.Exec(ctx, "SET CLUSTER SETTING "+name+" = "+value); err != nil {
			break
		}
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// putTenant makes the one tenant, with its API key.
func (l *ledger) putTenant(ctx context.Context) error {
	db, _, err := l.open(ctx, l.url, 2)
	if err != nil {
		return err
	}
	return errors.Join(db.PutTenant(ctx, tenant(), apiKey), db.Close())
}

// databases are the arguments of a role that serves each region from its own node of the
// server.
func (b *testbed) databases(name string) (args []string) {
	for _, region := range regionsOn(b.server.Kind()) {
		args = append(args, "-db="+b.server.URL(region, name))
	}
	return args
}

// sides are the floor, Homeward with opaque keys and with stamped ones, and with an
// event that is told.
func (b *testbed) sides(spec loadSpec, psp time.Duration) (floor, opaque, stamped, told side) {
	of := func(name, role, database string, tally func(context.Context) (int, error)) side {
		return side{name: name, role: role, args: b.databases(database), spec: spec, everywhere: true, psp: psp, sim: b.sim, tally: tally}
	}
	floor = of("floor", "sqlfloor", bareDatabase, bareTable{b.bare, "bare_claims"}.count)
	opaque = of("homeward", "node", "bench_homeward", b.homeward.count)
	stamped, told = opaque, opaque
	stamped.name, stamped.spec.Stamped = "homeward-stamped", true
	told.name, told.args = "homeward-told", append(slices.Clone(opaque.args), "-told")
	return floor, opaque, stamped, told
}

func (b *testbed) measure(ctx context.Context, c *comparison) ([][]figures, error) {
	c.probe = b.probe
	series, err := compare(ctx, b.options, *c, b.dir)
	if err != nil {
		return nil, fmt.Errorf("%d connections: %w", c.conns, err)
	}
	b.add(*c, series)
	return series, nil
}

// charges measures new charges against the two bare statements.
func (b *testbed) charges(ctx context.Context) error {
	for _, n := range b.conns {
		floor, opaque, stamped, told := b.sides(loadSpec{Warm: b.warm, Window: b.window, Conns: n}, 0)
		c := comparison{name: "sql/charge", title: "New charges on a database", conns: n, sides: []side{floor, opaque, stamped}}
		if n == middle {
			c.sides = append(c.sides, told)
		}
		series, err := b.measure(ctx, &c)
		if err != nil {
			return err
		}
		if n != middle {
			continue
		}
		for i, s := range c.sides[1:] {
			what, runs := fmt.Sprintf("%s, %s, %d connections", c.name, s.name, n), series[i+1]
			switch {
			case b.server.Kind() == localdb.CockroachDB:
				b.alone(what+": "+dbCosts.name, spreadOf(runs, database), inMillis, false, float64(mostOfCockroach))
			case s.name != "homeward-told":
				b.atLeast(what, rates, series[0], runs, leastOfFloor)
				b.atMost(what, tails, series[0], runs, mostTail)
			}
		}
		b.cost(func(m *model.Costs) {
			told := series[3]
			m.NodeCharge, m.DatabaseCharge = spreadOf(told, cpu).median/1e3, spreadOf(told, database).median/1e3
			m.WAL = spreadOf(told, wal).median
		})
	}
	if b.server.Kind() == localdb.PostgreSQL {
		return b.storage(ctx)
	}
	return nil
}

// storage asks what charges leave on disk, indexes included.
func (b *testbed) storage(ctx context.Context) error {
	return b.homeward.connected(ctx, func(conn *pgx.Conn) error {
		// What housekeeping would take away is no part of a charge.
		if _, err := conn.Exec(ctx, "VACUUM"); err != nil {
			return err
		}
		var charges, booked, total, audit, books float64
		err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM claims), (SELECT count(*) FROM ledger),
			(SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r')::float8,
			pg_total_relation_size('audit')::float8, pg_total_relation_size('ledger')::float8`).Scan(&charges, &booked, &total, &audit, &books)
		if err != nil || charges == 0 || booked == 0 {
			return errors.Join(err, fmt.Errorf("%.0f claims, %.0f transactions: nothing to measure", charges, booked))
		}
		record, audit, books := (total-audit-books)/charges, audit/charges, books/booked
		b.printf("  a charge leaves %.0f bytes until its key is free again, %.0f of audit and %.0f in the books, indexes included\n", record, audit, books)
		b.cost(func(m *model.Costs) { m.Record, m.Audit, m.Books = record, audit, books })
		return nil
	})
}

// replays measures replays against a handler that reads one row.
func (b *testbed) replays(ctx context.Context) error {
	_, homeward, _, _ := b.sides(loadSpec{Warm: b.warm, Window: b.window, Conns: middle, Replay: b.keys}, 0)
	reader := homeward
	reader.name, reader.role, reader.args, reader.tally = "reader", "sqlreader", b.databases(bareDatabase), bareTable{b.bare, "bare_rows"}.count
	c := comparison{name: "sql/replay", title: "Replays of finished keys on a database", conns: middle, sides: []side{reader, homeward}}
	for i := range c.sides {
		c.sides[i].everywhere = false
	}
	series, err := b.measure(ctx, &c)
	if err != nil {
		return err
	}
	b.cost(func(m *model.Costs) {
		m.NodeReplay, m.DatabaseReplay = spreadOf(series[1], cpu).median/1e3, spreadOf(series[1], database).median/1e3
	})
	return nil
}

// latency measures what charges add to a slow provider. The rates are for one server: a
// cluster of three regions on one machine would be measured beyond what it can carry.
func (b *testbed) latency(ctx context.Context) error {
	if b.server.Kind() == localdb.CockroachDB {
		b.printf("\nsql/latency is not run on CockroachDB.\n")
		return nil
	}
	for _, rate := range b.rates {
		n := connsAt(rate)
		floor, opaque, _, _ := b.sides(loadSpec{Warm: b.warm, Window: b.paced, Conns: n, Rate: rate}, pspLatency)
		c := comparison{name: fmt.Sprintf("sql/latency-%.0f", rate), title: fmt.Sprintf("Charges over an 80 ms provider, %.0f/s, on a database", rate), conns: n, sides: []side{floor, opaque}}
		if _, err := b.measure(ctx, &c); err != nil {
			return err
		}
	}
	return nil
}

// empty measures nodes on a database that was empty when they started, against the same
// database once it has statistics and the nodes are new: plans are kept for as long as a
// connection, and those for empty tables must be as good. CockroachDB keeps none here.
func (b *testbed) empty(ctx context.Context) error {
	if b.server.Kind() == localdb.CockroachDB {
		b.printf("\nsql/empty is not run on CockroachDB: sessions plan each statement anew there.\n")
		return nil
	}
	c := comparison{
		name: "sql/empty", title: "New charges on a database with statistics, and on one that was empty", conns: middle,
		sides: []side{{name: "analysed"}, {name: "empty"}}, probe: b.probe,
	}
	results := make([][]loadResult, len(c.sides))
	var idles []usageRate
	spec := loadSpec{Warm: b.warm, Window: b.window, Conns: middle}
	for run := range b.runs {
		name := fmt.Sprintf("bench_empty_%d", run)
		l, err := newLedger(ctx, b.server, name)
		if err != nil {
			return err
		}
		if err := l.putTenant(ctx); err != nil {
			return err
		}
		idle, err := b.probe.idle(ctx, b.window/2)
		if err != nil {
			return err
		}
		idles = append(idles, idle)
		s := side{role: "node", args: b.databases(name), spec: spec, sim: b.sim, tally: l.count}
		s.spec.Probe = b.probe
		for _, i := range []int{1, 0} { // it is empty only once
			s.name = c.sides[i].name
			result, err := s.run(ctx, b.dir)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			results[i] = append(results[i], result)
			if err := l.connected(ctx, func(conn *pgx.Conn) error { _, err := conn.Exec(ctx, "ANALYZE"); return err }); err != nil {
				return err
			}
		}
		if err := b.server.DropDatabase(ctx, name); err != nil {
			return err
		}
	}
	all := series(results, idles)
	b.add(c, all)
	b.atLeast(c.name, rates, all[0], all[1], leastFresh)
	return nil
}

var (
	barePrint = make([]byte, 32)
	bareBody  = []byte(requestBody)
)

// bareStatements measures what statements cost the database that do less and less of a
// charge, and that many charges share.
func (b *testbed) bareStatements(ctx context.Context) error {
	callers, err := b.bare.callers(ctx, middle)
	if err != nil {
		return err
	}
	defer callers.close()
	c := comparison{name: "sql/bare", title: "Charges of bare statements, without HTTP and provider", conns: middle, probe: b.probe}
	sides := []storeSide{
		{name: "row", tally: bareTable{b.bare, "bare_rows"}, call: callers.row(bareRow("bare_rows"))},
		{name: "row-indexed-lease", tally: bareTable{b.bare, "bare_indexed"}, call: callers.row(bareRow("bare_indexed"))},
		{name: "claim-outbox-due", tally: bareTable{b.bare, "bare_claims"}, call: callers.call},
		{name: fmt.Sprintf("%d-rows", inOne), tally: bareTable{b.bare, "bare_many"}, call: callers.many(bareMany("bare_many")), per: inOne},
		{name: fmt.Sprintf("%d-rows-indexed-lease", inOne), tally: bareTable{b.bare, "bare_many_indexed"}, call: callers.many(bareMany("bare_many_indexed")), per: inOne},
		{name: fmt.Sprintf("%d-claims-outbox-due", inOne), tally: bareTable{b.bare, "bare_many_calls"}, call: callers.many(bareManyCalls("bare_many_calls")), per: inOne},
		{name: fmt.Sprintf("%d-rows-indexed-lease-audit", inOne), tally: bareTable{b.bare, "bare_many_told"}, call: callers.many(bareManyTold("bare_many_told")), per: inOne},
	}
	series, err := takeTurns(ctx, b.report, &c, sides, nil)
	if err != nil {
		return err
	}
	b.add(c, series)
	return nil
}

// single measures one caller's begin and settle, each against the bare statement on a row
// with the index on its lease.
func (b *testbed) single(ctx context.Context) (err error) {
	callers, err := b.bare.callers(ctx, 1)
	if err != nil {
		return err
	}
	defer callers.close()
	db, _, err := b.homeward.open(ctx, b.homeward.url, 16)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	view, err := db.Region(regionNames[0])
	if err != nil {
		return err
	}
	of, verdict := bareRow("bare_indexed"), b.homeward.charges.done(claim.Minted{ID: sampleID, Created: time.Now(), Receipt: "R-FILL-FILL-FILL"})
	bareCharge := func(ctx context.Context) (begun time.Time, err error) {
		key := uuid.NewString()
		if err := send(ctx, callers.pools[0], 1, of.begin, regionNames[0], tenantID, key, "ch_"+key, barePrint); err != nil {
			return begun, err
		}
		begun = time.Now()
		return begun, send(ctx, callers.pools[0], 1, of.settle, regionNames[0], tenantID, key, bareBody)
	}
	storeCharge := func(ctx context.Context) (begun time.Time, err error) {
		a, err := b.homeward.charges.next()
		if err != nil {
			return begun, err
		}
		a.Stamped = true
		held, err := begin(ctx, view, a)
		if err != nil {
			return begun, err
		}
		begun = time.Now()
		_, err = view.Settle(ctx, held, verdict)
		return begun, err
	}
	sides := []func(context.Context) (begun time.Time, err error){bareCharge, storeCharge}
	begins, settles := make([][]figures, len(sides)), make([][]figures, len(sides))
	for run := range b.runs {
		var total [2][2]callTotal // by side, then begin and settle
		slices := max(1, int(b.window/b.slice))
		for n := range slices {
			for i := range sides {
				if (run+n)%2 == 1 {
					i = len(sides) - 1 - i
				}
				if err := alternately(ctx, b.window/time.Duration(slices), sides[i], &total[i]); err != nil {
					return err
				}
			}
		}
		for i := range total {
			begins[i] = append(begins[i], newFigures(total[i][0].result()))
			settles[i] = append(settles[i], newFigures(total[i][1].result()))
		}
	}
	for _, step := range []struct {
		name   string
		series [][]figures
	}{{"begin", begins}, {"settle", settles}} {
		c := comparison{name: "sql/single-" + step.name, title: "One caller's " + step.name + ", alone on the database", conns: 1, sides: []side{{name: "bare"}, {name: "store"}}}
		b.add(c, step.series)
		b.atMost(c.name+", 1 connection", medians, step.series[0], step.series[1], mostAlone)
	}
	return nil
}

// alternately makes charges one after the other for a while, and adds up how long their
// two steps take.
func alternately(ctx context.Context, window time.Duration, charge func(context.Context) (time.Time, error), total *[2]callTotal) error {
	begin, settle := newHistogram(), newHistogram()
	if _, err := charge(ctx); err != nil { // statements are prepared, connections warm
		return err
	}
	from := time.Now()
	for at := from; at.Sub(from) < window || begin.TotalCount() == 0; {
		begun, err := charge(ctx)
		if err != nil {
			return err
		}
		ended := time.Now()
		if err := errors.Join(begin.RecordValue(int64(begun.Sub(at))), settle.RecordValue(int64(ended.Sub(begun)))); err != nil {
			return err
		}
		at = ended
	}
	for i, h := range []*hdrhistogram.Histogram{begin, settle} {
		r := loadResult{Requests: h.TotalCount(), Elapsed: time.Since(from), Latency: h.Export()}
		if err := total[i].add(r, int(r.Requests), nil); err != nil {
			return err
		}
	}
	return nil
}
