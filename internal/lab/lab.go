// Package lab runs deployments on one machine: the demo, which is a cluster in this
// process; the local cluster, whose nodes are processes of their own on a private
// database; the provider simulator for both; and certificates for development. It also
// implements the means by which a drill breaks a cluster.
//
// Nothing here is for production, and only commands import it. It may import every
// package except those of requests, and accesses a database only through its migrator
// and its tenants.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/parts"
)

// portsToPSP keeps the simulator on :8090 beside the regions on :8081 to :8083.
const portsToPSP = 9

// DemoKeys returns the demo's API keys, by tenant. They are published, and so they are in no
// other store than the demo's own. A cluster mints its own, see [State].
func DemoKeys() map[string]string {
	return map[string]string{
		"acme": "sk_demo_acme", "globex": "sk_demo_globex",
		claim.TestTenant("acme"): "sk_demo_acme_test", claim.TestTenant("globex"): "sk_demo_globex_test",
	}
}

// merchants are two tenants with registrars in different regions, for both rows of the table
// in the README, and their test sides.
func merchants(regions []string) []claim.Tenant {
	all := []claim.Tenant{
		{ID: "acme", Name: "Acme Rockets", Registrar: regions[0]},
		{ID: "globex", Name: "Globex", Registrar: regions[min(1, len(regions)-1)]},
	}
	for _, t := range all {
		t.ID = claim.TestTenant(t.ID)
		all = append(all, t)
	}
	return all
}

// layOut lays n APIs and the simulator, unless it is elsewhere, out from one
// address.
func layOut(listen, pspListen string, n int) (apis []string, psp string, err error) {
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

// rpcPort is where operators' commands send requests by default.
const rpcPort = 7081

// rpcAt lays n RPC listeners of a demo out: from rpcListen on, which is a flag's and so is
// kept; "" is [rpcPort] and the ports after it, or free ones in the place of those that are
// taken, and where the APIs take free ones.
func rpcAt(listen, rpcListen string, n int) (at []string, err error) {
	host, port := ownHost(listen), rpcPort
	if _, text, _ := net.SplitHostPort(listen); rpcListen == "" && text == "0" {
		port = 0
	}
	if rpcListen != "" {
		var text string
		var perr error
		host, text, err = net.SplitHostPort(rpcListen)
		port, perr = strconv.Atoi(text)
		if err != nil || perr != nil || !thisMachine(host) || port < 0 || port+n-1 > 65535 {
			return nil, fmt.Errorf("--rpc-listen %q: write HOST:PORT with a host of this machine alone and a port from 0 to %d, as in 127.0.0.1:%d", rpcListen, 65536-n, rpcPort)
		}
	}
	for i := range n {
		addr := net.JoinHostPort(host, "0")
		if port > 0 {
			addr = net.JoinHostPort(host, strconv.Itoa(port+i))
		}
		if rpcListen == "" && portsFree("", "", addr) != nil {
			addr = net.JoinHostPort(host, "0")
		}
		at = append(at, addr)
	}
	return at, nil
}

// Default ports of a cluster's nodes. They are below the range from which systems take the ports of
// outgoing connections (32768 up), so that a killed node finds its own free when it is started
// again.
const (
	innerFrom, innerTo = 30000, 32768
	// innerEach are a node's: RPC, gossip, metrics and console, and the RPC behind its gate.
	innerEach = 5
)

// innerPorts returns the first of n consecutive free ports. Clusters that start at once look at
// different ones first.
func innerPorts(n int) (int, error) {
	blocks := (innerTo - innerFrom) / n
	for i := range blocks {
		first := innerFrom + (os.Getpid()+i)%blocks*n
		addrs := make([]string, n)
		for j := range addrs {
			addrs[j] = loopback(first + j)
		}
		if portsFree("", "", addrs...) == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("the nodes need %d free ports side by side from %d to %d on 127.0.0.1, and there are none; stop other clusters, or start fewer nodes", n, innerFrom, innerTo-1)
}

// ownHost is this machine's address for listeners beside listen that no other machine uses: that of
// listen, if it is IPv6's, for machines without IPv4.
func ownHost(listen string) string {
	if host, _, _ := net.SplitHostPort(listen); strings.Contains(host, ":") && thisMachine(host) {
		return host
	}
	return "127.0.0.1"
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// thisMachine reports whether only this machine reaches a host.
func thisMachine(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// metricsAt is where metrics are scraped by default: on the port after the simulator's own. It is
// for listen as layOut has taken it.
func metricsAt(listen, metricsListen string, n int) string {
	host, port, _ := net.SplitHostPort(listen)
	at, _ := strconv.Atoi(port)
	switch {
	case metricsListen != "":
		return metricsListen
	case at == 0 || at+max(n, portsToPSP)+1 > 65535:
		return net.JoinHostPort(host, "0")
	default:
		return net.JoinHostPort(host, strconv.Itoa(at+max(n, portsToPSP)+1))
	}
}

// occupied is the error of an address on which the process cannot listen, with the flag that sets
// it.
func occupied(who, flag, addr string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) { // which names the address again
		err = op.Err
	}
	if flag != "--listen" && flag != "--rpc-listen" {
		flag = "--listen, which moves everything, or " + flag
	}
	return fmt.Errorf("%s cannot listen on %s: %w; choose another address with %s, or stop what uses it", who, addr, err, flag)
}

// portsFree finds out what a node would find out too, but not a minute later.
func portsFree(who, flag string, addrs ...string) error {
	for _, a := range addrs {
		l, err := net.Listen("tcp", a)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return occupied(who, flag, a, err)
		}
	}
	return nil
}

// temporary makes a directory that ends with its part.
func temporary(prefix string) (dir string, remove parts.Stop, err error) {
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, fmt.Errorf("temporary directory: %w; name one with --data", err)
	}
	return dir, func(context.Context) error { return os.RemoveAll(dir) }, nil
}
