package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"text/template"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

type demoCommand struct {
	Data       string        `type:"path" help:"Directory that keeps everything; default: a temporary one."`
	Listen     string        `default:"127.0.0.1:8081" help:"Address of the first region; the others take the ports after it. Port 0 takes free ones."`
	PSPListen  string        `name:"psp-listen" help:"Address of the simulator; default: nine ports after --listen."`
	PSP        string        `name:"psp" help:"Use the simulator at this URL instead of starting one."`
	PSPLatency time.Duration `name:"psp-latency" default:"80ms" help:"How long the simulator takes."`
	WAN        string        `name:"wan" placeholder:"A:B=80ms,…" help:"Round trips between regions; default: real ones."`
	Config     string        `type:"path" help:"Settings file (YAML)."`
}

// drainTime bounds a shutdown: more than the provider's slowest healthy answer.
const drainTime = 45 * time.Second

// startTime bounds a start: opening the store and the regions meeting.
const startTime = 30 * time.Second

// portsToPSP keeps the simulator on :8090 beside the regions on :8081 to :8083.
const portsToPSP = 9

func (c *demoCommand) Run(ctx context.Context, io streams) (err error) {
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
		Version: node.Version, Log: warnings(io), AllowPlaintext: true, // nobody has paid anything
	})
	if err != nil {
		return err
	}
	defer flush()
	listens, pspListen, err := addresses(c.Listen, c.PSPListen, len(names))
	if err != nil {
		return err
	}
	data, temporary := c.Data, false
	if data == "" {
		if data, err = os.MkdirTemp("", "homeward-demo-"); err != nil {
			return fmt.Errorf("temporary directory: %w; name one with --data", err)
		}
		temporary = true
		defer func() { err = errors.Join(err, os.RemoveAll(data)) }() // last of all
	}

	url, secret := c.PSP, relay.NewSecret()
	var sim *runningSimulator
	if url == "" {
		sim, err = startSimulator("--psp-listen", pspListen, simulator.Config{Dir: filepath.Join(data, "psp"), Latency: c.PSPLatency, Logger: warnings(io)})
		if err != nil {
			return err
		}
		url = "http://" + sim.addr
		defer func() { err = errors.Join(err, withDrainTime(ctx, sim.stop)) }()
	}
	provider, err := httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: url, Notices: httpjson.Notices{Secret: secret},
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()

	ring, err := node.DemoSeal(ctx, data, warnings(io))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ring.Close()) }()
	cluster, err := startDemo(ctx, settings, node.ClusterConfig{
		Dir: filepath.Join(data, node.StoreDir), Seal: ring, Provider: provider, Notifiers: map[string]psp.Notifier{"simulator": provider}, Network: wan.New(distances), Logger: warnings(io),
		Fatal: func(err error) {
			// The store can acknowledge nothing more. What it acknowledged is on
			// disk, so dying now is the safe answer to every request in hand.
			os.Exit(fail(io, err))
		},
	}, listens)
	if err != nil {
		return err
	}
	if sim != nil {
		if err := sim.notify("http://"+cluster.Nodes[0].APIAddr(), secret); err != nil {
			return errors.Join(err, withDrainTime(ctx, cluster.Stop))
		}
	}
	if err := c.welcome(io, cluster, settings, url, data, temporary); err != nil {
		return errors.Join(err, withDrainTime(ctx, cluster.Stop))
	}
	<-ctx.Done()
	fmt.Fprintln(io.out, "\ndraining: requests in hand are finished, new ones are refused")
	if err := withDrainTime(ctx, cluster.Stop); err != nil {
		return err
	}
	fmt.Fprintln(io.out, "drained")
	return nil
}

func withDrainTime(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return stop(ctx)
}

func startDemo(ctx context.Context, s node.Settings, c node.ClusterConfig, listens []string) (*node.Cluster, error) {
	c.Tuning, c.ReplicaLag = s.Tuning, s.ReplicaLag
	for i, r := range s.Regions {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: r.Name, Code: r.Code}, Listen: listens[i]})
	}
	var names []string
	for _, r := range s.Regions {
		names = append(names, r.Name)
	}
	c.Tenants = demoTenants(names)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cluster, err := node.StartCluster(ctx, c)
	if taken := (*node.ListenError)(nil); errors.As(err, &taken) {
		return nil, occupied("a region's API", "--listen", taken.Addr, taken.Err)
	}
	return cluster, err
}

// demoKey opens the door for the first of the demo's merchants.
const demoKey = "sk_demo_acme"

// demoTenants are two merchants whose pins are kept in different regions, so that
// both rows of the table in the README can be seen.
func demoTenants(regions []string) []node.ClusterTenant {
	return []node.ClusterTenant{
		{Tenant: claim.Tenant{ID: "acme", Name: "Acme Rockets", Registrar: regions[0]}, APIKeys: []string{demoKey}},
		{Tenant: claim.Tenant{ID: "globex", Name: "Globex", Registrar: regions[min(1, len(regions)-1)]}, APIKeys: []string{"sk_demo_globex"}},
	}
}

// addresses lays n APIs and the simulator, unless it is elsewhere, out from one
// address.
func addresses(listen, pspListen string, n int) (apis []string, psp string, err error) {
	toPSP := max(n, portsToPSP)
	host, text, err := net.SplitHostPort(listen)
	port, perr := strconv.Atoi(text)
	if err != nil || perr != nil || port < 0 || port+toPSP > 65535 {
		return nil, "", fmt.Errorf("--listen %q: write HOST:PORT with a port from 0 to %d", listen, 65535-toPSP)
	}
	at := func(offset int) string {
		if port == 0 {
			return net.JoinHostPort(host, "0")
		}
		return net.JoinHostPort(host, strconv.Itoa(port+offset))
	}
	for i := range n {
		apis = append(apis, at(i))
	}
	if psp = pspListen; psp == "" {
		psp = at(toPSP)
	}
	return apis, psp, nil
}

//go:embed demo.txt
var welcomeText string

var welcomeTemplate = template.Must(template.New("welcome").Parse(welcomeText))

// place is a region and where its API is.
type place struct {
	Name, URL string
	RPC       string // host:port
	Code      claim.RegionCode
}

// welcome prints where everything is and what to paste.
func (c *demoCommand) welcome(io streams, cluster *node.Cluster, s node.Settings, psp, data string, temporary bool) error {
	var regions []place
	for _, r := range s.Regions {
		n := cluster.Region(r.Name)
		regions = append(regions, place{r.Name, "http://" + n.APIAddr(), n.RPCAddr(), r.Code})
	}
	say, err := requests(regions, psp)
	if err != nil {
		return err
	}
	say["Data"], say["Temporary"] = data, temporary
	return welcomeTemplate.Execute(io.out, say)
}

// requests is what the template of that name in demo.txt needs, and Command, which
// is this one as whoever reads it has called it.
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
