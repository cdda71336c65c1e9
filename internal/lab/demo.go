package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/console"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// DemoConfig describes a demo.
type DemoConfig struct {
	Settings node.Settings
	// Data is the directory of all data; "": a temporary one.
	Data string
	// Listen, PSPListen and MetricsListen are as the flags of homeward demo. PSP is the URL of a
	// simulator to use; "": one is started.
	Listen, PSPListen, MetricsListen, PSP string
	// Gateway has the API that the regions guard; there is no simulator then, and no API of payments.
	// Nil: they are a demo of payments. GatewayTLS is of the regions' listeners; nil: plain HTTP.
	Gateway    *gateway.Config
	GatewayTLS *tls.Config
	// RPCListen is the address of the first region's RPC listener, on this machine; the
	// others take the ports after it. "" is port 7081, and a free port for each that is
	// taken.
	RPCListen string
	// Console is the address of the console: HOST:PORT on this machine; "" is two ports
	// after the simulator's own, and NoConsole none.
	Console    string
	PSPLatency time.Duration
	Distances  map[wan.Pair]time.Duration
	Logger     *slog.Logger
	// Fatal is called when the store can no longer be written.
	Fatal func(error)
	// OwnProcess: the process does little else.
	OwnProcess bool
	// Commands are those that operators may run at its nodes; nil: none.
	Commands node.Commands
}

// NoConsole starts a demo without a console.
const NoConsole = "off"

// Demo is regions in this process, with a provider simulator or in front of another API.
type Demo struct {
	*node.Cluster
	// Data is its directory; Temporary: it is deleted with the demo. PSP is the
	// simulator's URL.
	Data      string
	Temporary bool
	PSP       string

	hint atomic.Pointer[[]string] // of the console

	c         DemoConfig
	listens   []string // of the regions' APIs
	rpcs      []string // of their RPC
	pspListen string
	simulator *Simulator
	provider  *httpjson.Provider
	seal      *seal.Ring
	running   parts.Running
}

// StartDemo starts a demo. If it fails nothing is left running, and no file is left.
func StartDemo(ctx context.Context, c DemoConfig) (*Demo, error) {
	d, err := newDemo(c)
	if err != nil {
		return nil, err
	}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// newDemo lays one out.
func newDemo(c DemoConfig) (d *Demo, err error) {
	d = &Demo{Data: c.Data, PSP: c.PSP, c: c, running: parts.Running{Each: node.DrainTime}}
	if d.listens, d.pspListen, err = layOut(c.Listen, c.PSPListen, len(c.Settings.Regions)); err != nil {
		return nil, err
	}
	if d.rpcs, err = rpcAt(c.Listen, c.RPCListen, len(c.Settings.Regions)); err != nil {
		return nil, err
	}
	d.c.Console = cmp.Or(c.Console, consoleAt(c.Listen, len(c.Settings.Regions)))
	return d, nil
}

func (d *Demo) start(ctx context.Context) error {
	if err := d.running.Start(ctx, d.makeData, d.startSimulator, d.openProvider, d.openSeal, d.startCluster, d.notify); err != nil {
		return errors.Join(err, d.Stop(ctx))
	}
	return nil
}

// Stop drains the nodes, also after ctx has ended.
func (d *Demo) Stop(ctx context.Context) error { return d.running.Stop(ctx) }

func (d *Demo) makeData(context.Context) (stop parts.Stop, err error) {
	if d.Data == "" {
		d.Temporary = true
		d.Data, stop, err = temporary("homeward-demo-")
	}
	return stop, err
}

func (d *Demo) startSimulator(context.Context) (_ parts.Stop, err error) {
	if d.PSP != "" || d.c.Gateway != nil {
		return nil, nil
	}
	if d.simulator, err = StartSimulator("--psp-listen", d.pspListen, simulator.Config{
		Dir: filepath.Join(d.Data, "psp"), Latency: d.c.PSPLatency, Logger: d.c.Logger,
	}); err != nil {
		return nil, err
	}
	d.PSP = "http://" + d.simulator.Addr()
	return d.simulator.Stop, nil
}

func (d *Demo) openProvider(context.Context) (_ parts.Stop, err error) {
	if d.c.Gateway != nil {
		return nil, nil
	}
	var notices httpjson.Notices // none of a simulator that is not this demo's
	if d.simulator != nil {
		notices.Secret = d.simulator.Secret()
	}
	if d.provider, err = httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: d.PSP, Notices: notices,
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
	}); err != nil {
		return nil, err
	}
	return parts.Closing(d.provider.Close), nil
}

func (d *Demo) openSeal(ctx context.Context) (_ parts.Stop, err error) {
	if d.seal, err = node.DemoSeal(ctx, d.Data, d.c.Logger); err != nil {
		return nil, err
	}
	return parts.Closing(d.seal.Close), nil
}

func (d *Demo) startCluster(ctx context.Context) (_ parts.Stop, err error) {
	s := d.c.Settings
	var keys *audit.Keys
	if s.Audit, keys, err = node.DemoAudit(d.Data, s.Audit); err != nil {
		return nil, err
	}
	if s.Runs == "" {
		if s.Runs, err = node.LocalRuns(d.Data); err != nil {
			return nil, err
		}
	}
	c := node.ClusterConfig{
		AuditKeys: keys, Tuning: s.Tuning, ReplicaLag: s.ReplicaLag, Dir: filepath.Join(d.Data, node.StoreDir), Seal: d.seal,
		Network: wan.New(d.c.Distances), MetricsListen: metricsAt(d.c.Listen, d.c.MetricsListen, len(s.Regions)), Logger: d.c.Logger, Fatal: d.c.Fatal, OwnProcess: d.c.OwnProcess, Commands: d.c.Commands,
	}
	var names []string
	for i, r := range s.Regions {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: r.Name, Code: r.Code}, Listen: d.listens[i], RPCListen: d.rpcs[i]})
		names = append(names, r.Name)
	}
	if d.c.Gateway != nil {
		c.Gateway, c.GatewayTLS = d.c.Gateway, d.c.GatewayTLS
	} else {
		c.Payments = node.Payments{Providers: psp.Providers{d.provider}, Notifiers: map[string]psp.Notifier{"simulator": d.provider}}
		for _, t := range merchants(names) {
			c.Tenants = append(c.Tenants, node.ClusterTenant{Tenant: t, APIKeys: []string{DemoKeys()[t.ID]}})
		}
	}
	if c.Console, err = d.console(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, node.StartTime)
	defer cancel()
	taken := (*node.ListenError)(nil)
	d.Cluster, err = node.StartCluster(ctx, c)
	if errors.As(err, &taken) && taken.Setting == node.RPCListen && d.c.RPCListen == "" { // since we looked
		for i := range c.Regions {
			c.Regions[i].RPCListen = net.JoinHostPort(ownHost(d.c.Listen), "0")
		}
		d.Cluster, err = node.StartCluster(ctx, c)
	}
	switch {
	case errors.As(err, &taken) && taken.Setting == node.ConsoleListen:
		return nil, occupied("the console", "--console", taken.Addr, taken.Err)
	case errors.As(err, &taken) && taken.Setting == "metrics.listen":
		return nil, occupied("the metrics", "--metrics-listen", taken.Addr, taken.Err)
	case errors.As(err, &taken) && taken.Setting == node.RPCListen:
		return nil, occupied("a region's RPC", "--rpc-listen", taken.Addr, taken.Err)
	case errors.As(err, &taken):
		return nil, occupied("a region's API", "--listen", taken.Addr, taken.Err)
	case err != nil:
		return nil, err
	}
	return d.Cluster.Stop, nil
}

// consoleAt is where the console listens by default. It is for listen as layOut has taken it, and
// on this machine whatever the regions listen on.
func consoleAt(listen string, regions int) string {
	_, text, _ := net.SplitHostPort(listen)
	port, _ := strconv.Atoi(text)
	if at := port + max(regions, portsToPSP) + 2; port > 0 && at <= 65535 {
		return net.JoinHostPort(ownHost(listen), strconv.Itoa(at))
	}
	return net.JoinHostPort(ownHost(listen), "0")
}

// console is that of the first node: it sees all of them. Who reaches it may act, so it is
// on this machine.
func (d *Demo) console() (*node.Console, error) {
	if d.c.Console == NoConsole {
		return nil, nil
	}
	if host, _, err := net.SplitHostPort(d.c.Console); err != nil || !thisMachine(host) {
		return nil, fmt.Errorf("--console %q: write HOST:PORT with a host of this machine alone, as in 127.0.0.1:8092, or %s", d.c.Console, NoConsole)
	}
	return &node.Console{Listen: d.c.Console, Access: console.ThisMachine{}, Actions: true, Hint: func() []string {
		if lines := d.hint.Load(); lines != nil {
			return *lines
		}
		return nil
	}}, nil
}

// Hint sets the lines that the console shows until a request arrives.
func (d *Demo) Hint(lines []string) { d.hint.Store(&lines) }

// ConsoleURL is the URL of the console; "" if there is none.
func (d *Demo) ConsoleURL() string {
	if addr := d.Nodes[0].ConsoleAddr(); addr != "" {
		return "http://" + addr + "/"
	}
	return ""
}

// notify has a started simulator send notices to the first region.
func (d *Demo) notify(context.Context) (parts.Stop, error) {
	if d.simulator == nil {
		return nil, nil
	}
	return nil, d.simulator.Notify("http://" + d.Nodes[0].APIAddr())
}
