// Command wan makes the distance between the regions of the cluster in Docker, and
// partitions them.
//
//	wan serve FROM
//
// is one region's way out: a toxiproxy whose proxies lead to nodes and databases and carry half the
// round-trip time between both regions (those of package wan) in each direction. They are in the
// variables WAN_WAYS and WAN_MORE, each as PORT=REGION=HOST:PORT, with blanks in between. Its HTTP
// API is on port 8474.
//
//	wan cut NETWORK...
//	wan mend NETWORK...
//
// drops packets to some networks, or sends them again. It needs CAP_NET_ADMIN and runs
// in the network namespace of the container to cut off: that one's packets are lost while
// those of the other side still arrive. The host needs no firewall, kernel module or
// traffic shaping.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"

	distances "github.com/homeward-io/homeward/internal/wan"
)

// apiAddr is toxiproxy's own port.
const apiAddr = ":8474"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wan:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("write: wan serve FROM, or wan cut|mend NETWORK...")

func run(args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	switch args[0] {
	case "serve":
		return serve(args[1], strings.Fields(os.Getenv("WAN_WAYS")+" "+os.Getenv("WAN_MORE")))
	case "cut":
		return each(args[1:], netlink.RouteReplace)
	case "mend":
		return each(args[1:], func(r *netlink.Route) error {
			if err := netlink.RouteDel(r); !errors.Is(err, syscall.ESRCH) { // it was not cut
				return err
			}
			return nil
		})
	}
	return errUsage
}

// each changes the route that drops packets to each network.
func each(networks []string, change func(*netlink.Route) error) error {
	for _, n := range networks {
		_, dst, err := net.ParseCIDR(n)
		if err != nil {
			return err
		}
		if err := change(&netlink.Route{Dst: dst, Type: syscall.RTN_BLACKHOLE}); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

// way is one proxy.
type way struct{ port, region, upstream string }

func parseWay(text string) (way, error) {
	parts := strings.SplitN(text, "=", 3)
	if len(parts) != 3 {
		return way{}, fmt.Errorf("%q is not a route; write PORT=REGION=HOST:PORT", text)
	}
	return way{parts[0], parts[1], parts[2]}, nil
}

// serve runs the proxies until a signal.
func serve(from string, texts []string) error {
	log := zerolog.New(os.Stdout).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), log)
	for _, text := range texts {
		w, err := parseWay(text)
		if err != nil {
			return err
		}
		proxy := toxiproxy.NewProxy(server, w.region+":"+w.port, ":"+w.port, w.upstream)
		if err := server.Collection.Add(proxy, true); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for _, direction := range []stream.Direction{stream.Upstream, stream.Downstream} {
			if err := delay(proxy, direction, oneWay(from, w.region)); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
	}
	api := &http.Server{Addr: apiAddr, Handler: server.Routes(), ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- api.ListenAndServe() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return api.Close()
	}
}

// delay adds the toxic named latency. The tests change its time.
func delay(proxy *toxiproxy.Proxy, direction stream.Direction, d time.Duration) error {
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name":"latency_%[1]s","type":"latency","stream":%[1]q,"attributes":{"latency":%[2]d}}`, direction, d.Milliseconds())))
	return err
}

// oneWay returns half the round-trip time of two regions, 0 within one.
func oneWay(from, to string) time.Duration {
	for _, rtt := range distances.Defaults([]string{from, to}) {
		return rtt / 2
	}
	return 0
}
