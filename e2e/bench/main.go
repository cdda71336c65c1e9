package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
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
	"role:cluster":   clusterRole,
	"role:nodes":     nodesRole,
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			return role(ctx, args[1:], in, out)
		}
	}
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	return newBench(ctx, o, out).run(ctx)
}

// options is what one invocation measures.
type options struct {
	runs     int
	warm     time.Duration // before a run's window, unmeasured
	window   time.Duration // measured time of one run
	paced    time.Duration // the same at a fixed rate
	calm     time.Duration // before idle nodes are watched
	idle     time.Duration // for which they are watched
	keys     int           // finished keys that are replayed
	lag      time.Duration // of replicas, in */away
	only     string
	page     string   // Markdown file to write, "" for none
	runsFile string   // every run in the format of go test -bench, "" for none
	profile  string   // directory for CPU profiles, "" for none
	dir      string   // stores and databases go below it
	settings []string // of a CockroachDB cluster, "name=value"
	quick    bool     // figures mean nothing and are not judged
}

func parseOptions(args []string, out io.Writer) (options, error) {
	o := options{keys: 1000}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.only, "only", "", "run only the cases with this prefix, such as cockroachdb/ or postgresql/charge")
	f.IntVar(&o.runs, "runs", 5, "how often each side runs, in turns")
	seconds := f.Float64("seconds", 2, "how long each run is measured; twice as long at a fixed rate, and ten times of idle nodes")
	f.BoolVar(&o.quick, "quick", false, "short runs that prove only that every case runs; no budget is judged")
	f.StringVar(&o.page, "page", "", "Markdown file to write budgets and costs to")
	f.StringVar(&o.runsFile, "out", "", "file for every run, which benchstat -col /side compares; default: none")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of each side's last run")
	f.StringVar(&o.dir, "dir", "", "directory on the disk to measure; default: a temporary one")
	f.Func("cluster-setting", "NAME=VALUE, a setting of the private CockroachDB, may be repeated", func(text string) error {
		if name, value, ok := strings.Cut(text, "="); !ok || strings.ContainsFunc(name+value, func(c rune) bool { return c <= ' ' || c == ';' }) {
			return fmt.Errorf("%q is not NAME=VALUE", text)
		}
		o.settings = append(o.settings, text)
		return nil
	})
	f.SetOutput(io.Discard) // a mistake is one line, and not all flags
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(out)
			f.Usage()
			return o, err
		}
		return o, fmt.Errorf("%w; see -help", err)
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	case o.runs < 1 || *seconds <= 0:
		return o, errors.New("-runs and -seconds must be above 0")
	case o.page != "" && (o.only != "" || o.quick):
		return o, errors.New("a page has every budget, measured: give -page without -only and -quick")
	}
	o.window = time.Duration(*seconds * float64(time.Second))
	o.warm, o.paced, o.calm, o.idle = 500*time.Millisecond, 2*o.window, counted, 10*o.window
	o.lag = 4800 * time.Millisecond // the store's default, that of a CockroachDB follower read
	if o.quick {
		o.warm, o.window, o.paced, o.calm, o.idle = 50*time.Millisecond, 250*time.Millisecond, 250*time.Millisecond, 0, 250*time.Millisecond
		o.keys, o.lag = 20, 50*time.Millisecond
	}
	return o, nil
}
