package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "geodns:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	cluster, listen string
	port            int
	ttl             time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("geodns", flag.ContinueOnError)
	flags.StringVar(&o.cluster, "cluster", "", "data directory of a running homeward cluster; default: the one that runs in a temporary directory")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:5533", "where PowerDNS answers, host:port")
	flags.IntVar(&o.port, "port", 8080, "port of the regions' load balancers, each at an address of its own")
	flags.DurationVar(&o.ttl, "ttl", 5*time.Second, "how long an answer may be kept, whole seconds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.ttl < time.Second || o.ttl%time.Second != 0 {
		return fmt.Errorf("-ttl is %v; write whole seconds, as in 5s", o.ttl)
	}
	if o.cluster == "" {
		var err error
		if o.cluster, err = onlyCluster(os.TempDir()); err != nil {
			return err
		}
	}
	state, err := lab.ReadState(o.cluster)
	if err != nil {
		return fmt.Errorf("-cluster: %w; name the data directory of a homeward cluster that is running", err)
	}
	f, err := startFront(ctx, o, state)
	if err == nil {
		if err = f.welcome(ctx, o, out); err == nil {
			f.watch(ctx, out)
		}
	}
	if ctx.Err() != nil { // Ctrl-C: a requested end
		err = nil
	}
	return errors.Join(err, f.stop(ctx))
}

// onlyCluster finds the one cluster that was started without --data.
func onlyCluster(dir string) (string, error) {
	found, err := filepath.Glob(lab.StateFile(filepath.Join(dir, "homeward-cluster-*")))
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 1:
		return filepath.Dir(found[0]), nil
	case 0:
		return "", errors.New("no cluster runs in a temporary directory; start one with make cluster, or name its directory with -cluster DIR")
	}
	return "", fmt.Errorf("%d clusters seem to run; name the directory of one with -cluster DIR: %s", len(found), strings.Join(found, ", "))
}

// front is what merchants meet before a node: DNS, and a load balancer for each region.
type front struct {
	sites     []site
	dns       *powerDNS
	entrances []*entrance
	dir       string
	apiKey    string
}

// startFront starts it for a cluster. It must be stopped even after an error.
func startFront(ctx context.Context, o options, state *lab.State) (f *front, err error) {
	f = &front{apiKey: state.APIKeys["acme"]}
	regions := state.Regions()
	var names []string
	for _, r := range regions {
		names = append(names, r.Name)
	}
	if f.sites, err = sitesOf(names); err != nil {
		return f, err
	}
	if f.dir, err = os.MkdirTemp("", "homeward-geodns-"); err != nil {
		return f, err
	}
	for i, r := range regions {
		var nodes []string
		for _, u := range r.URLs {
			nodes = append(nodes, strings.TrimPrefix(u, "http://"))
		}
		e, err := enter(netip.AddrPortFrom(f.sites[i].addr, uint16(o.port)).String(), nodes)
		if err != nil {
			return f, err
		}
		f.entrances = append(f.entrances, e)
	}
	f.dns, err = startPowerDNS(ctx, f.dir, o.listen, f.sites, o.port, o.ttl)
	return f, err
}

// stop ends what was started, last things first, also after ctx has ended.
func (f *front) stop(ctx context.Context) error {
	var errs []error
	if f.dns != nil {
		errs = append(errs, f.dns.stop(ctx))
	}
	for _, e := range slices.Backward(f.entrances) {
		errs = append(errs, e.close())
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}

// regionAt is the region of an address.
func (f *front) regionAt(addr netip.Addr) string {
	for _, s := range f.sites {
		if s.addr == addr {
			return s.region
		}
	}
	return addr.String()
}

// sentTo describes for people where a customer is sent.
func (f *front) sentTo(ctx context.Context, c customer) (string, error) {
	addrs, _, err := f.dns.lookup(ctx, c.subnet)
	if err != nil {
		return "", err
	}
	var regions []string
	for _, a := range addrs {
		regions = append(regions, f.regionAt(a))
	}
	slices.Sort(regions)
	return strings.Join(regions, " or "), nil
}

//go:embed welcome.txt
var welcomeText string

var welcomeTemplate = template.Must(template.New("welcome").Parse(welcomeText))

// welcome prints where everything is and what to paste.
func (f *front) welcome(ctx context.Context, o options, out io.Writer) error {
	host, port, _ := strings.Cut(o.listen, ":")
	dig := fmt.Sprintf("dig @%s -p %s %s +short", host, port, strings.TrimSuffix(name, "."))
	type row struct{ Name, Where, What string }
	var regions, clients []row
	for _, s := range f.sites {
		regions = append(regions, row{s.region, netip.AddrPortFrom(s.addr, uint16(o.port)).String(), s.name})
	}
	for _, c := range customers {
		region, err := f.sentTo(ctx, c)
		if err != nil {
			return err
		}
		clients = append(clients, row{c.name, dig + " +subnet=" + c.subnet.String(), region})
	}
	return welcomeTemplate.Execute(out, map[string]any{
		"Name": strings.TrimSuffix(name, "."), "Listen": o.listen, "TTL": o.ttl, "Every": checkEvery, "Regions": regions, "Customers": clients,
		"Dig": dig, "Port": o.port, "Subnet": customers[0].subnet, "APIKey": f.apiKey, "Cluster": o.cluster, "Drained": f.sites[1].region, "Lost": f.sites[0].region,
	})
}

// watchEvery is how often every customer's answer is looked at.
const watchEvery = 250 * time.Millisecond

// watch reports every answer that changes, until ctx ends or PowerDNS does.
func (f *front) watch(ctx context.Context, out io.Writer) {
	was := map[string]string{}
	for {
		for _, c := range customers {
			now, err := f.sentTo(ctx, c)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				now = err.Error()
			}
			if before, seen := was[c.name]; seen && before != now {
				fmt.Fprintf(out, "%s  %-10s %s\n", time.Now().Format("15:04:05.0"), c.name, now)
			}
			was[c.name] = now
		}
		select {
		case <-time.After(watchEvery):
		case <-f.dns.proc.Done():
			fmt.Fprintf(out, "PowerDNS ended: %v%s\n", f.dns.proc.Err(), f.dns.proc.Log().Tail(logLines))
			return
		case <-ctx.Done():
			return
		}
	}
}
