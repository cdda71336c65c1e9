package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

// assumptions are what is not measured here. All of them are for a reader to change.
type assumptions struct {
	// replays is the share of requests that are retries of finished keys, 0 to 1.
	replays float64
	// busy is the most of all cores that may be busy with the load that a lost region
	// leaves to the others. The rest is for the retries that come with it, and for bursts.
	busy float64
	// nodeCores and databaseCores are those of one machine.
	nodeCores, databaseCores int
	// leastNodes and leastDatabases are machines that a region has at least: one may be
	// out of service, and a database needs a majority of three.
	leastNodes, leastDatabases int
	// averageLoad is the average over a day over the peak: what is stored follows it.
	averageLoad float64
	// recordHours is how long a record is kept, auditDays audit, and booksYears after how
	// long the books are looked at, which are kept for ever.
	recordHours, auditDays, booksYears float64
	// copies is how often the database stores each byte. One more is in each other
	// region, for reads there.
	copies int
	prices prices
}

// prices are of one currency.
type prices struct {
	nodeCoreHour, databaseCoreHour float64
	storageMonth                   float64 // a gigabyte
	trafficGB                      float64 // between regions
	date, source                   string
}

// defaults are the assumptions of docs/SIZING.md.
func defaults() assumptions {
	return assumptions{
		replays: 0.1, busy: 0.6, nodeCores: 8, databaseCores: 16, leastNodes: 2, leastDatabases: 3, averageLoad: 0.5,
		// 24 h of answers and 24 h more of "expired", and an hour until housekeeping.
		recordHours: 49, auditDays: 400, booksYears: 5, copies: 3,
		prices: prices{
			nodeCoreHour: 0.045, databaseCoreHour: 0.055, storageMonth: 0.10, trafficGB: 0.02,
			date: "2026-11", source: "rounded, in USD, of the kind that large clouds list for machines on demand; without support, licences and discounts",
		},
	}
}

// validate refuses what no plan can be made of.
func (a assumptions) validate() error {
	switch {
	case a.replays < 0 || a.replays > 1:
		return errors.New("the share of replays must be from 0 to 1")
	case a.busy <= 0 || a.busy > 1:
		return errors.New("what may be busy must be above 0 and at most 1")
	case a.nodeCores < 1 || a.databaseCores < 1 || a.copies < 1:
		return errors.New("machines have at least one core, and data at least one copy")
	case a.averageLoad <= 0 || a.averageLoad > 1:
		return errors.New("the average is above 0 and at most the peak")
	}
	return nil
}

// plan is what a load takes.
type plan struct {
	// Machines of one region, and how much of them is busy at the peak, with another
	// region lost, and while what that one had not answered comes again.
	nodes, databases           int
	nodeBusy, databaseBusy     [3]float64
	records, audit, books      float64 // gigabytes of all regions, with all copies
	nodeMoney, databaseMoney   float64 // a month
	storageMoney, trafficMoney float64
}

func (p plan) money() float64 { return p.nodeMoney + p.databaseMoney + p.storageMoney + p.trafficMoney }

const (
	hoursPerMonth = 730
	secondsPerDay = 86400
	gigabyte      = 1e9
)

// newPlan applies the formula of docs/SIZING.md to a rate of requests a second at the peak, of
// all regions together.
func newPlan(c model.Costs, db model.Database, a assumptions, rate float64, regions int) (p plan) {
	g := float64(regions)
	survivors := max(1, g-1) // regions that carry the load once one is lost
	// In a region: all well, one lost, and with the lost one's requests of some seconds
	// again within as many.
	loads := [3]float64{rate / g, rate / survivors, rate / survivors * (1 + 1/g)}
	if regions == 1 {
		loads[2] = rate
	}
	cores := func(load, charge, replay float64) float64 {
		return load * ((1-a.replays)*charge + a.replays*replay) / 1e6
	}
	machines := func(charge, replay float64, each, least int) (n int, busy [3]float64) {
		n = max(least, int(math.Ceil(cores(loads[1], charge, replay)/a.busy/float64(each))))
		for i, load := range loads {
			busy[i] = cores(load, charge, replay) / float64(n*each)
		}
		return n, busy
	}
	p.nodes, p.nodeBusy = machines(db.NodeCharge, db.NodeReplay, a.nodeCores, a.leastNodes)
	p.databases, p.databaseBusy = machines(db.DatabaseCharge, db.DatabaseReplay, a.databaseCores, a.leastDatabases)

	charges := rate * a.averageLoad * (1 - a.replays) // a second
	copies := float64(a.copies) + g - 1
	p.records = charges * a.recordHours * 3600 * c.Record * copies / gigabyte
	p.audit = charges * a.auditDays * secondsPerDay * c.Audit * copies / gigabyte
	p.books = charges * a.booksYears * 365 * secondsPerDay * c.Books * copies / gigabyte

	p.nodeMoney = g * float64(p.nodes*a.nodeCores) * a.prices.nodeCoreHour * hoursPerMonth
	p.databaseMoney = g * float64(p.databases*a.databaseCores) * a.prices.databaseCoreHour * hoursPerMonth
	p.storageMoney = (p.records + p.audit + p.books) * a.prices.storageMonth
	p.trafficMoney = charges * c.WAL * (g - 1) * 3600 * hoursPerMonth / gigabyte * a.prices.trafficGB
	return p
}

// tables is what docs/SIZING.md shows, in Markdown. A database that is one server has one
// region.
func tables(c model.Costs, a assumptions, rates []float64, regions []int) (string, error) {
	if err := a.validate(); err != nil {
		return "", err
	}
	var t strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&t, format+"\n", args...) }
	p("## What it is made from\n")
	p("Measured on %s, commit %s, %s; from [BENCHMARKS.md](BENCHMARKS.md):\n", c.Date, c.Commit, c.Machine)
	p("| | CPU of a node: a charge, a replay | CPU of the database: a charge, a replay |\n| --- | --- | --- |")
	for _, db := range c.Databases {
		for _, v := range []float64{db.NodeCharge, db.NodeReplay, db.DatabaseCharge, db.DatabaseReplay} {
			if !(v > 0) || math.IsInf(v, 0) {
				return "", fmt.Errorf("a cost on %s came out as %v: measure for longer", db.Name, v)
			}
		}
		p("| %s | %.0f µs, %.0f µs | %.0f µs, %.0f µs |", db.Name, db.NodeCharge, db.NodeReplay, db.DatabaseCharge, db.DatabaseReplay)
	}
	p("\nOn PostgreSQL a charge writes %.0f B of WAL, and leaves a record of %.0f B, %.0f B of audit and %.0f B in the books.\n", c.WAL, c.Record, c.Audit, c.Books)
	p("Assumed, each a flag of the program:\n")
	p("| | |\n| --- | --- |")
	p("| replays | %.0f %% of requests |", 100*a.replays)
	p("| busy at most, with a region lost | %.0f %% of cores |", 100*a.busy)
	p("| machines | nodes of %d cores, databases of %d; a region has at least %d and %d |", a.nodeCores, a.databaseCores, a.leastNodes, a.leastDatabases)
	p("| average load | %.0f %% of the peak |", 100*a.averageLoad)
	p("| records, audit | for %.0f h, for %.0f days |", a.recordHours, a.auditDays)
	p("| books | for ever; the tables show them after %.0f years |", a.booksYears)
	p("| copies | %d at home, one in each other region |", a.copies)
	p("| prices (%s, %s) | node core %.3f an hour, database core %.3f an hour, storage %.2f a GB and month, traffic %.2f a GB between regions |",
		a.prices.date, a.prices.source, a.prices.nodeCoreHour, a.prices.databaseCoreHour, a.prices.storageMonth, a.prices.trafficGB)
	for _, db := range c.Databases {
		p("\n## On %s\n", db.Name)
		p("Nodes and databases are machines of one region, all others are of all regions together. Busy is of nodes, then of databases: at the peak, with a region lost, and while what it had not answered comes again.\n")
		p("| requests/s | regions | nodes | databases | busy | one lost | retries | records | audit | books | money a month | of which nodes, databases, storage, traffic |")
		p("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
		counts := regions
		if strings.HasPrefix(db.Name, "PostgreSQL") {
			counts = []int{1}
		}
		for _, rate := range rates {
			for _, n := range counts {
				x := newPlan(c, db, a, rate, n)
				p("| %s | %d | %d | %d | %s | %s | %s | %s | %s | %s | %s | %s, %s, %s, %s |", thousands(rate), n, x.nodes, x.databases,
					x.busy(0), x.busy(1), x.busy(2), gigabytes(x.records), gigabytes(x.audit), gigabytes(x.books),
					thousands(x.money()), thousands(x.nodeMoney), thousands(x.databaseMoney), thousands(x.storageMoney), thousands(x.trafficMoney))
			}
		}
	}
	return t.String(), nil
}

func (p plan) busy(i int) string {
	return fmt.Sprintf("%.0f %%, %.0f %%", 100*p.nodeBusy[i], 100*p.databaseBusy[i])
}

// gigabytes are written in terabytes from 1,000.
func gigabytes(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.1f TB", v/1000)
	}
	return fmt.Sprintf("%.0f GB", v)
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
