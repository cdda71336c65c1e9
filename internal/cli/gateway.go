package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/telemetry"
)

type gatewayCommands struct {
	Run    gatewayCommand       `cmd:"" default:"withargs" help:"Guard an API that you have, or with --mode shadow only report what guarding it would come to."`
	Report gatewayReportCommand `cmd:"" help:"Show what --mode shadow has found: requests that guarding would have refused, replayed or joined."`
}

type gatewayCommand struct {
	Config        string `type:"path" help:"Settings file (YAML), with the rules of routes under gateway. docs/GATEWAY.md describes them."`
	Upstream      string `placeholder:"URL" help:"Base URL of the API to guard, as in http://127.0.0.1:9000. Required, unless --config names it."`
	DedupeHeader  string `placeholder:"NAME" help:"Header by which the API recognises a repeat for at least 24 h, where no route of --config says: a request in doubt is sent again with it. Idempotency-Key gets the caller's key, any other header one of Homeward's."`
	Mode          string `enum:"guard,shadow," default:"" placeholder:"MODE" help:"guard, or shadow: every request passes, and what guarding would have come to is reported. Default: as --config says, or guard."`
	Data          string `type:"path" default:"homeward-gateway" help:"Directory for all data. Who starts with another one starts without the keys of before: their retries would be sent again."`
	Regions       int    `default:"1" help:"Regions in this process, from 1 to 3. Each has an address of its own."`
	Listen        string `default:"127.0.0.1:8081" help:"Address of the first region; the others take the ports after it. Port 0 takes free ones."`
	RPCListen     string `name:"rpc-listen" placeholder:"HOST:PORT" help:"Address of the first region's RPC listener, on this machine, for --node of operators' commands. Default: 127.0.0.1:7081, and a free port for each that is taken."`
	MetricsListen string `placeholder:"HOST:PORT" help:"Address of the metrics (GET /metrics); default: ten ports after --listen."`
	Console       string `placeholder:"HOST:PORT" help:"Address of the console, on this machine; default: eleven ports after --listen. off: none."`
}

const opensGateway = "the gateway: anybody can send requests to the upstream through it"

func (c *gatewayCommand) Run(ctx context.Context, io streams) error {
	if c.Upstream != "" {
		if _, err := gateway.ReadUpstream(c.Upstream); err != nil {
			return fmt.Errorf("--upstream: %w", err)
		}
	}
	if err := gateway.CheckDedupe(c.DedupeHeader); err != nil {
		return fmt.Errorf("--dedupe-header: %w", err)
	}
	all, credentials, err := node.LoadGatewaySettings(c.Config, os.Environ(), c.change)
	if err != nil {
		return err
	}
	if !all.Gateway.On() {
		return errors.New("there is no API to guard: name it with --upstream, or as gateway.upstream in the file of --config")
	}
	settings := all.Settings
	if c.Regions < 1 || c.Regions > len(settings.Regions) {
		return fmt.Errorf("--regions must be from 1 to %d, is %d", len(settings.Regions), c.Regions)
	}
	settings.Regions = settings.Regions[:c.Regions]
	through, listener, err := node.OpenGateway(all.Gateway, credentials, warnings(io))
	if err != nil {
		return err
	}
	flush, err := telemetry.Setup(ctx, telemetry.Process{Version: build.Version(), Log: warnings(io), AllowPlaintext: true})
	if err != nil {
		return err
	}
	defer flush()
	d, err := lab.StartDemo(ctx, lab.DemoConfig{
		Settings: settings, Data: c.Data, Listen: c.Listen, RPCListen: c.RPCListen, MetricsListen: c.MetricsListen, Console: c.Console, Gateway: through, GatewayTLS: listener,
		Logger: warnings(io), OwnProcess: true, Commands: atNode,
		Fatal: func(err error) { os.Exit(fail(io, err)) }, // as in the demo
	})
	if err != nil {
		return err
	}
	addrs := []opened{{d.MetricsAddr(), opensMetrics}}
	for _, n := range d.Nodes {
		addrs = append(addrs, opened{n.APIAddr(), opensGateway})
	}
	warnOpened(io, addrs...)
	if err := c.welcome(io, d, &all, settings); err != nil {
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

// change puts what the command line says in the place of what a file does.
func (c *gatewayCommand) change(s *gateway.Settings) {
	if c.Upstream != "" {
		s.Upstream = c.Upstream
	}
	if c.DedupeHeader != "" {
		s.Dedupe(c.DedupeHeader)
	}
	if c.Mode != "" {
		s.Mode = c.Mode
	}
}

//go:embed gateway.txt
var gatewayText string

var gatewayTemplate = template.Must(template.New("gateway").Funcs(pasting).Parse(gatewayText))

// welcome prints all addresses and the commands to paste.
func (c *gatewayCommand) welcome(io streams, d *lab.Demo, all *node.GatewaySettings, s node.Settings) error {
	scheme := "http://"
	if all.Gateway.TLS.Cert != "" {
		scheme = "https://"
	}
	var regions []place
	for _, r := range s.Regions {
		n := d.Region(r.Name)
		regions = append(regions, place{r.Name, scheme + n.APIAddr(), n.RPCAddr(), r.Code})
	}
	as, yours := naming(&all.Gateway)
	say := map[string]any{
		"As": as, "Yours": yours, "Apart": all.Gateway.KeysApart(),
		"Upstream": all.Gateway.Guarded(), "Shadow": all.Gateway.Mode == "shadow", "Routes": len(all.Gateway.Routes), "Regions": regions, "Entry": regions[0], "Other": regions[len(regions)-1], "Own": strings.TrimSuffix(gateway.Own, "/"),
		"Order": "order-" + strconv.FormatInt(time.Now().UnixMilli(), 36), "Data": d.Data, "Console": d.ConsoleURL(), "Metrics": "http://" + d.MetricsAddr() + "/metrics",
	}
	var lines strings.Builder
	if err := gatewayTemplate.ExecuteTemplate(&lines, "lines", say); err != nil {
		return err
	}
	d.Hint(strings.Split(strings.TrimSpace(lines.String()), "\n"))
	return gatewayTemplate.Execute(io.out, say)
}

// naming is what shows curl's tenant where the gateway tells tenants apart, and what of that its user is to
// fill in.
func naming(s *gateway.Settings) (as, yours string) {
	t := s.Tenant
	for _, r := range s.Routes {
		if r.Match == "POST /" && r.Tenant != (gateway.Tenant{}) {
			t = r.Tenant
		}
	}
	switch t.From {
	case "header":
		return " -H '" + t.Name + ": TENANT'", "with your tenant for TENANT, from an address or with a certificate that may name it"
	case "claim":
		return " -H 'Authorization: Bearer TOKEN'", "with a token of your issuer for TOKEN"
	case "certificate":
		return " --cert CERT --key KEY", "with a client certificate and its key for CERT and KEY"
	default:
		return "", ""
	}
}
