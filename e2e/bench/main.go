package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// roles are the processes that the orchestrator starts.
var roles = map[string]func(ctx context.Context, args []string, in io.Reader, out io.Writer) error{
	"role:simulator": simulatorRole,
	"role:floor":     floorRole,
	"role:reader":    readerRole,
	"role:homeward":  homewardRole,
	"role:node":      nodeRole,
	"role:sqlfloor":  sqlFloorRole,
	"role:sqlreader": sqlReaderRole,
	"role:fill":      fillRole,
	"role:load":      loadRole,
	"role:flood":     floodRole,
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			return role(ctx, args[1:], in, out)
		}
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	switch {
	case o.page != "":
		return orchestratePage(ctx, o, out)
	case o.webhooks:
		return orchestrateWebhooks(ctx, o, out)
	case o.store:
		return orchestrateStore(ctx, o, out)
	case o.sql:
		return orchestrateSQL(ctx, o, out)
	case o.scale:
		return orchestrateScale(ctx, o, out)
	}
	return orchestrate(ctx, o, out)
}

// options is what one invocation measures.
type options struct {
	runs    int
	window  time.Duration // measured time of one run
	warm    time.Duration // before it, unmeasured
	paced   time.Duration // window of the runs at a fixed rate
	rounds  time.Duration // window of case vii, several rounds of compaction
	calm    time.Duration // before idle nodes are watched, with scale
	idle    time.Duration // for which they are watched
	conns   []int
	keys    int // finished keys that are replayed
	small   int // stored keys of case vii, few and many
	large   int
	stored  []int         // many, and more than many
	lag     time.Duration // replica lag of case iv
	rate    float64       // requests per second at a fixed rate
	rates   []float64     // charges per second over a slow provider
	only    string
	out     string // benchstat file, "" for none
	profile string // directory for CPU profiles, "" for none
	dir     string // stores go below it
	strict  bool
	store   bool          // the SQL store's cases instead
	slice   time.Duration // of a run, before it is the other side's turn; with store only
	// webhooks: charges beside a flood of notices instead, of so many a second.
	webhooks bool
	notices  float64
	page     string // Markdown file of all suites, "" for none
	// sql: HTTP to HTTP on a database; scale: several nodes on one.
	sql, scale bool
	nodes      []int        // how many, with scale
	settings   []string     // of a CockroachDB cluster, "name=value"
	all        *[]target    // every suite's go here; nil for nowhere
	costs      *model.Costs // what is measured for docs/SIZING.md goes here; nil for nowhere
}

// suites that were asked for, of those that are not the first.
func (o options) suites() (n int) {
	for _, asked := range []bool{o.store, o.webhooks, o.sql, o.scale} {
		if asked {
			n++
		}
	}
	return n
}

// hugeStore is how many keys -huge stores; it takes several gigabytes and a quarter of an hour.
const hugeStore = 10_000_000

// storeSlice: a shared machine's mood lasts for seconds, and should meet both
// sides. Much less would measure how goroutines start.
const storeSlice = 500 * time.Millisecond

// middle is the number of connections that the targets are set for.
const middle = 64

func parseOptions(args []string) (options, error) {
	o := options{rate: 200, rates: pacedRates, nodes: []int{1, 2, 4, 8}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := f.Bool("quick", false, "a smoke test: one short run of each case at 64 connections, under a minute in all")
	f.BoolVar(&o.store, "store", false, "measure the SQL store, on a private CockroachDB or PostgreSQL that is found here")
	f.BoolVar(&o.webhooks, "webhooks", false, "measure charges beside a flood of webhooks, on the embedded store and on a private database that is found here")
	f.BoolVar(&o.sql, "sql", false, "measure charges on a private CockroachDB or PostgreSQL that is found here, HTTP to HTTP")
	f.BoolVar(&o.scale, "scale", false, "measure 1, 2, 4 and 8 nodes on one private database that is found here")
	huge := f.Bool("huge", false, "case vii with ten million keys, too: minutes and gigabytes more")
	f.Func("cluster-setting", "NAME=VALUE, a setting of a private CockroachDB, may be repeated; with -sql and -scale only", func(text string) error {
		if name, value, ok := strings.Cut(text, "="); !ok || strings.ContainsFunc(name+value, func(c rune) bool { return c <= ' ' || c == ';' }) {
			return fmt.Errorf("%q is not NAME=VALUE", text)
		}
		o.settings = append(o.settings, text)
		return nil
	})
	f.StringVar(&o.page, "report", "", "Markdown file to write the results of all suites to")
	f.Float64Var(&o.notices, "notices", 2000, "webhooks per second; with -webhooks only")
	f.Float64Var(&o.rate, "rate", o.rate, "charges per second of cases iv and webhooks, and of -scale, where one node must be able to carry them")
	f.IntVar(&o.runs, "runs", 5, "how often each side runs, in turns")
	seconds := f.Float64("seconds", 4, "how long each run is measured; runs at a fixed rate take twice, those on filled stores five times as long")
	f.IntVar(&o.small, "small", 10_000, "stored keys of case vii and of store/stored, few")
	f.IntVar(&o.large, "large", 1_000_000, "stored keys of case vii and of store/stored, many")
	f.Func("conns", "numbers of connections, separated by commas (default 16,64,256; with -store 1,16,64, with -sql 1,16,64,256)", o.setConns)
	f.StringVar(&o.only, "only", "", "run only the cases whose names start so: ii/, iii/, iv/, v/, vii/, viii/, or store/raw, store/stored, or webhooks/embedded, webhooks/sql, or sql/charge, sql/replay, sql/latency, sql/empty, sql/bare, sql/single")
	f.StringVar(&o.out, "out", filepath.Join(os.TempDir(), "homeward-bench.txt"), "file for benchstat; empty for none (default of a suite: its name is in it, as in homeward-bench-sql.txt)")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of each side's last run")
	f.StringVar(&o.dir, "dir", "", "directory on the disk to measure; default: a temporary one")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 when a target is missed")
	f.SetOutput(io.Discard) // a mistake is one line, and not all flags
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(os.Stdout)
			f.Usage()
			return o, err
		}
		return o, fmt.Errorf("%w; see -help", err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	if o.notices <= 0 || o.rate <= 0 || o.suites() > 1 {
		return o, errors.New("-notices and -rate must be above 0, and -store, -webhooks, -sql and -scale be given apart")
	}
	if o.page != "" && (o.suites() > 0 || o.only != "") {
		return o, errors.New("-report runs every case: give it without -store, -webhooks, -sql, -scale and -only")
	}
	if o.runs < 1 || *seconds <= 0 || o.small < 1 || o.large <= o.small {
		return o, errors.New("-runs, -seconds and -small must be above 0, and -large above -small")
	}
	named := map[string]bool{}
	f.Visit(func(given *flag.Flag) { named[given.Name] = true })
	suite := ""
	switch {
	case o.store:
		suite = "-store"
	case o.webhooks:
		suite = "-webhooks"
	case o.sql:
		suite = "-sql"
	case o.scale:
		suite = "-scale"
	}
	if o.conns == nil {
		o.conns = connsOf[suite]
	}
	if !named["out"] {
		o.out = filepath.Join(os.TempDir(), "homeward-bench"+suite+".txt")
	}
	if o.page != "" && !named["seconds"] {
		*seconds = reportSeconds
	}
	if o.stored = []int{o.large}; *huge {
		o.stored = append(o.stored, hugeStore)
	}
	o.window = time.Duration(*seconds * float64(time.Second))
	o.warm, o.paced, o.rounds, o.keys = time.Second, 2*o.window, 5*o.window, 1000
	o.slice, o.calm, o.idle = storeSlice, counted, quietly*o.window
	o.lag = 4800 * time.Millisecond // the store's default, that of a CockroachDB follower read
	if o.page != "" {
		o.warm = reportWarm
	}
	if *quick {
		o = o.quick()
	}
	return o, nil
}

// connsOf are the connections of each suite's cases. Suites that are not in it have some
// of their own.
var connsOf = map[string][]int{"": {16, middle, 256}, "-store": {1, 16, middle}, "-sql": {1, 16, middle, 256}}

// reportSeconds is how long each run of a whole report is measured, and reportWarm what
// comes before it, so that it takes some half an hour on two cores.
const (
	reportSeconds = 2
	reportWarm    = 500 * time.Millisecond
)

func (o *options) setConns(list string) error {
	o.conns = nil
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of connections", text)
		}
		o.conns = append(o.conns, n)
	}
	return nil
}

// quick shrinks everything but what is checked.
func (o options) quick() options {
	o.runs, o.window, o.warm, o.paced, o.rounds = 1, time.Second, 200*time.Millisecond, time.Second, time.Second
	o.conns, o.keys, o.lag = []int{middle}, 100, 200*time.Millisecond
	o.small, o.large, o.calm = 1000, 10_000, o.warm
	o.stored, o.nodes = []int{o.large}, []int{1, 2}
	return o
}
