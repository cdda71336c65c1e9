package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

type demoCommand struct {
	Data          string        `type:"path" help:"Directory for all data; default: a temporary one."`
	Listen        string        `default:"127.0.0.1:8081" help:"Address of the first region; the others take the ports after it. Port 0 takes free ones."`
	PSPListen     string        `name:"psp-listen" help:"Address of the simulator; default: nine ports after --listen."`
	RPCListen     string        `name:"rpc-listen" placeholder:"HOST:PORT" help:"Address of the first region's RPC listener, on this machine, for --node of operators' commands; the others take the ports after it. Default: 127.0.0.1:7081, and a free port for each that is taken."`
	MetricsListen string        `placeholder:"HOST:PORT" help:"Address of the metrics (GET /metrics); default: the port after the simulator's."`
	Console       string        `placeholder:"HOST:PORT" help:"Address of the console, on this machine; default: two ports after the simulator's own. off: none."`
	PSP           string        `name:"psp" help:"Use the simulator at this URL instead of starting one."`
	PSPLatency    time.Duration `name:"psp-latency" default:"80ms" help:"Latency of the simulator."`
	WAN           string        `name:"wan" placeholder:"A:B=80ms,…" help:"Round trips between regions; default: realistic ones."`
	Config        string        `type:"path" help:"Settings file (YAML)."`
}

func (c *demoCommand) Run(ctx context.Context, io streams) error {
	defer outliveReaders()() // a temporary directory is removed all the same
	settings, err := node.LoadSettings(c.Config, os.Environ())
	if err != nil {
		return err
	}
	if c.PSPLatency < 0 || c.PSPLatency > simulator.MaxLatency {
		return fmt.Errorf("--psp-latency must be from 0 to %v, is %v", simulator.MaxLatency, c.PSPLatency)
	}
	var names []string
	for _, r := range settings.Regions {
		names = append(names, r.Name)
	}
	distances, err := wan.Parse(c.WAN, names, wan.Defaults(names))
	if err != nil {
		return fmt.Errorf("--wan: %w", err)
	}
	flush, err := telemetry.Setup(ctx, telemetry.Process{
		Version: build.Version(), Log: warnings(io), AllowPlaintext: true, // no payment yet
	})
	if err != nil {
		return err
	}
	defer flush()
	d, err := lab.StartDemo(ctx, lab.DemoConfig{
		Settings: settings, Data: c.Data, Listen: c.Listen, PSPListen: c.PSPListen, RPCListen: c.RPCListen, MetricsListen: c.MetricsListen, PSP: c.PSP, PSPLatency: c.PSPLatency, Console: c.Console,
		Distances: distances, Logger: warnings(io), OwnProcess: true, Commands: atNode,
		Fatal: func(err error) {
			// The store can acknowledge nothing more. What it acknowledged is on disk,
			// so exiting now is the safe answer to every request in progress.
			os.Exit(fail(io, err))
		},
	})
	if err != nil {
		return err
	}
	warnOpened(io, c.opened(d)...)
	if err := c.welcome(io, d, settings); err != nil {
		return errors.Join(err, d.Stop(ctx))
	}
	<-ctx.Done()
	fmt.Fprintln(io.out, "\ndraining: requests in hand are finished, new ones are refused")
	if err := d.Stop(ctx); err != nil {
		return err
	}
	fmt.Fprintln(io.out, "drained")
	return nil
}

// opened is a listener's address, and what those who reach it may do.
type opened struct{ addr, what string }

const (
	opensAPI       = "the API, whose keys are published: anybody can charge, refund and read"
	opensSimulator = "the simulator: anybody can move money there, read its books, change its faults, and turn its webhooks to other hosts"
	opensMetrics   = "the metrics: anybody can read them"
)

// warnOpened names every address that other machines reach, with what it opens to them.
func warnOpened(io streams, all ...opened) {
	for _, o := range all {
		if host, _, err := net.SplitHostPort(strings.TrimPrefix(o.addr, "http://")); err == nil && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			fmt.Fprintf(io.err, "warning: %s accepts callers from other machines; it is %s\n", o.addr, o.what)
		}
	}
}

// opened is where a demo listens, but for RPC and console, which are on this machine always.
func (c *demoCommand) opened(d *lab.Demo) (all []opened) {
	for _, n := range d.Nodes {
		all = append(all, opened{n.APIAddr(), opensAPI})
	}
	if c.PSP == "" {
		all = append(all, opened{d.PSP, opensSimulator})
	}
	return append(all, opened{d.MetricsAddr(), opensMetrics})
}

//go:embed demo.txt
var welcomeText string

var welcomeTemplate = template.Must(template.New("welcome").Funcs(pasting).Parse(welcomeText))

// pasting is for templates with lines that people paste into a shell.
var pasting = template.FuncMap{"sh": shellWord}

// plainWord is what a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// shellWord is text as one word of such a line.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// place is a region and the address of its API.
type place struct {
	Name, URL string
	RPC       string // host:port
	Code      claim.RegionCode
}

// welcome prints all addresses and the commands to paste.
func (c *demoCommand) welcome(io streams, d *lab.Demo, s node.Settings) error {
	var regions []place
	for _, r := range s.Regions {
		n := d.Region(r.Name)
		regions = append(regions, place{r.Name, "http://" + n.APIAddr(), n.RPCAddr(), r.Code})
	}
	say, err := requests(regions, d.PSP)
	if err != nil {
		return err
	}
	say["Keys"] = lab.DemoKeys()
	say["Data"], say["Temporary"], say["Console"] = d.Data, d.Temporary, d.ConsoleURL()
	say["Metrics"] = "http://" + d.MetricsAddr() + "/metrics"
	var lines strings.Builder
	if err := welcomeTemplate.ExecuteTemplate(&lines, "lines", say); err != nil {
		return err
	}
	d.Hint(strings.Split(strings.TrimSpace(lines.String()), "\n"))
	return welcomeTemplate.Execute(io.out, say)
}

// requests is what the template of that name in demo.txt needs besides Keys, and Command, which is
// this one as its user has called it.
func requests(regions []place, psp string) (map[string]any, error) {
	other := regions[min(1, len(regions)-1)]
	stamped, err := claim.Stamp(other.Code, nil)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"Command": os.Args[0], "Regions": regions, "PSP": psp, "Stamped": stamped,
		"Entry": regions[0], "Other": other, "Third": regions[len(regions)-1],
		"Order": "order-" + strconv.FormatInt(time.Now().Unix(), 36),
	}, nil
}
