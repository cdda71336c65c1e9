// Command sizing computes how many nodes, database cores, gigabytes and how much money
// a load takes, from the cost of a charge.
//
//	go run ./e2e/sizing                            the tables of docs/SIZING.md
//	go run ./e2e/sizing -rates 7000 -regions 3     for another load
//	go run ./e2e/sizing -database-charge 3000      for another cost, in microseconds
//	go run ./e2e/sizing -write docs/SIZING.md      into the page
//
// Costs are read from docs/BENCHMARKS.md, which make bench SUITE=report writes. Every cost, price
// and assumption is a flag: -help lists them. The formula is package model's NewPlan, the
// simulation its Simulation.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var given model.Costs
	a, s := model.DefaultAssumptions(), model.DefaultSimulation()
	rates, regions := []float64{1000, 10_000, 50_000, 100_000}, []float64{2, 3}
	f := flag.NewFlagSet("sizing", flag.ContinueOnError)
	page := f.String("costs", "docs/BENCHMARKS.md", "page with the block of measured costs")
	write := f.String("write", "", "page to write the tables into, between its marks; default: they are printed")
	costs := map[string]*float64{
		"node-charge": &given.NodeCharge, "node-replay": &given.NodeReplay, "database-charge": &given.DatabaseCharge, "database-replay": &given.DatabaseReplay,
		"database-idle": &given.DatabaseIdle, "wal": &given.WAL, "audit-bytes": &given.Audit, "books-bytes": &given.Books,
	}
	for name, usage := range map[string]string{
		"node-charge": "CPU of a node for a charge", "node-replay": "CPU of a node for a replay", "database-charge": "CPU of the database for a charge",
		"database-replay": "CPU of the database for a replay",
	} {
		f.Float64Var(costs[name], name, 0, usage+", in microseconds; default: as measured")
	}
	f.Float64Var(costs["database-idle"], "database-idle", 0, "cores of the database that idle nodes use; default: as measured")
	f.Float64Var(costs["wal"], "wal", 0, "bytes of WAL for a charge; default: as measured")
	f.Float64Var(costs["audit-bytes"], "audit-bytes", 0, "bytes of audit for a charge; default: as measured")
	f.Float64Var(costs["books-bytes"], "books-bytes", 0, "bytes in the books for a charge; default: as measured")
	list(f, "rates", "requests per second at the peak, of all regions together, separated by commas", &rates)
	list(f, "regions", "numbers of regions, separated by commas", &regions)
	f.Float64Var(&a.Replays, "replays", a.Replays, "share of requests that are retries of finished keys")
	f.Float64Var(&a.Busy, "busy", a.Busy, "most of all cores that may be busy, with a region lost")
	f.IntVar(&a.NodeCores, "node-cores", a.NodeCores, "cores of a node")
	f.IntVar(&a.DatabaseCores, "database-cores", a.DatabaseCores, "cores of a machine of the database")
	f.IntVar(&a.LeastNodes, "least-nodes", a.LeastNodes, "nodes that a region has at least")
	f.IntVar(&a.LeastDatabases, "least-databases", a.LeastDatabases, "machines of the database that a region has at least")
	f.Float64Var(&a.AverageLoad, "average", a.AverageLoad, "average load of a day over the peak")
	f.Float64Var(&a.RecordBytes, "record-bytes", a.RecordBytes, "bytes of a record, until its key is free again")
	f.Float64Var(&a.RecordHours, "record-hours", a.RecordHours, "how long that is")
	f.Float64Var(&a.AuditDays, "audit-days", a.AuditDays, "how long audit is kept")
	f.Float64Var(&a.BooksYears, "books-years", a.BooksYears, "after how many years the books, which are kept for ever, are looked at")
	f.IntVar(&a.Copies, "copies", a.Copies, "copies of each byte in its home region")
	f.Float64Var(&a.Prices.NodeCoreHour, "price-node-core", a.Prices.NodeCoreHour, "price of a node's core, an hour")
	f.Float64Var(&a.Prices.DatabaseCoreHour, "price-database-core", a.Prices.DatabaseCoreHour, "price of a core of the database, an hour")
	f.Float64Var(&a.Prices.StorageMonth, "price-storage", a.Prices.StorageMonth, "price of a stored gigabyte, a month")
	f.Float64Var(&a.Prices.TrafficGB, "price-traffic", a.Prices.TrafficGB, "price of a gigabyte between regions")
	f.StringVar(&a.Prices.Date, "price-date", a.Prices.Date, "when prices were looked up")
	f.StringVar(&a.Prices.Source, "price-source", a.Prices.Source, "where prices are from")
	f.Float64Var(&s.Provider, "provider", s.Provider, "how long the provider takes, in seconds")
	f.Float64Var(&s.Patience, "patience", s.Patience, "how long clients wait before they send again, in seconds")
	f.IntVar(&s.Tries, "tries", s.Tries, "how often they send")
	f.Float64Var(&s.Peak, "peak", s.Peak, "seconds of the peak that are simulated")
	f.Float64Var(&s.Detect, "detect", s.Detect, "seconds until requests of a lost region go to the others")
	f.Float64Var(&s.Spread, "spread", s.Spread, "seconds within which what it had not answered comes again")
	f.Float64Var(&s.After, "after", s.After, "seconds after that which are simulated")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "of the simulation's chance")
	f.SetOutput(io.Discard) // a mistake is one line, and not all flags
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(out)
			f.Usage()
			return err
		}
		return fmt.Errorf("%w; see -help", err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	c, err := read(*page)
	set := map[string]bool{}
	f.Visit(func(g *flag.Flag) { set[g.Name] = true })
	if err != nil && !(set["node-charge"] && set["node-replay"] && set["database-charge"] && set["database-replay"]) {
		return fmt.Errorf("%w; or give the four CPU costs as flags", err)
	}
	for name, to := range map[string]*float64{
		"node-charge": &c.NodeCharge, "node-replay": &c.NodeReplay, "database-charge": &c.DatabaseCharge, "database-replay": &c.DatabaseReplay,
		"database-idle": &c.DatabaseIdle, "wal": &c.WAL, "audit-bytes": &c.Audit, "books-bytes": &c.Books,
	} {
		if !set[name] {
			continue
		}
		if *write != "" {
			return fmt.Errorf("-write takes measured costs only: leave out -%s", name)
		}
		*to = *costs[name]
	}
	var numbers []int
	for _, n := range regions {
		numbers = append(numbers, int(n))
	}
	text, err := model.Tables(c, a, s, rates, numbers)
	if err != nil {
		return err
	}
	if *write == "" {
		_, err = io.WriteString(out, text)
		return err
	}
	old, err := os.ReadFile(*write)
	if err != nil {
		return err
	}
	renewed, err := model.Renew(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", *write, err)
	}
	half := *write + ".new"
	if err := os.WriteFile(half, []byte(renewed), 0o644); err != nil {
		return err
	}
	return os.Rename(half, *write)
}

// read finds the costs of a page.
func read(page string) (model.Costs, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return model.Costs{}, fmt.Errorf("%w: make bench SUITE=report writes it", err)
	}
	c, err := model.ReadCosts(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", page, err)
	}
	return c, err
}

// list is a flag of numbers above 0.
func list(f *flag.FlagSet, name, usage string, into *[]float64) {
	f.Func(name, usage+fmt.Sprintf(" (default %v)", *into), func(text string) error {
		*into = nil
		for one := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseFloat(one, 64)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of 1 or more", one)
			}
			*into = append(*into, n)
		}
		return nil
	})
}
