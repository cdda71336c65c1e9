package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"sync"

	"github.com/homeward-io/homeward/internal/parts"
)

// Gate is in front of a node's RPC port, like a firewall: the other nodes and operators dial it,
// and it forwards their traffic. Another gate is between a region's nodes and the database. Shut, it
// lets nothing through in either direction and ends no connection, so that a caller gets no
// handshake (with TLS; else no answer), as behind a firewall that drops packets. Open again, it
// passes on the bytes that it kept, as retransmitted packets.
// It is safe for concurrent use.
type Gate struct {
	listener net.Listener
	to       string // the node's own listener
	links    sync.WaitGroup
	end      context.CancelFunc
	ctx      context.Context // of the links

	mu      sync.Mutex
	shut    bool
	against []int         // processes; nil: all
	changed chan struct{} // closed at the next change
}

// OpenGate listens at addr, host:port, and connects callers to the listener at to.
func OpenGate(addr, to string) (*Gate, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("a gate: %w", err)
	}
	g := &Gate{listener: l, to: to, changed: make(chan struct{})}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.links.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			g.links.Go(func() { g.link(conn) })
		}
	})
	return g, nil
}

// Addr is where it listens, host:port.
func (g *Gate) Addr() string { return g.listener.Addr().String() }

// Close ends the gate and all connections through it.
func (g *Gate) Close() error {
	err := g.listener.Close()
	g.end()
	g.links.Wait()
	return err
}

// Set shuts the gate, for the connections of some processes alone (Linux only) or, nil, for all; or
// opens it.
func (g *Gate) Set(shut bool, against []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.against = shut, against
	close(g.changed)
	g.changed = make(chan struct{})
}

// pass waits until the gate lets a caller through.
func (g *Gate) pass(caller net.Conn) error {
	for {
		g.mu.Lock()
		shut, against, changed := g.shut, g.against, g.changed
		g.mu.Unlock()
		if !shut || against != nil && !ownedBy(caller, against) {
			return nil
		}
		select {
		case <-changed:
		case <-g.ctx.Done():
			return g.ctx.Err()
		}
	}
}

// link carries one connection to its end.
func (g *Gate) link(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	if g.pass(caller) != nil {
		return
	}
	node, err := (&net.Dialer{}).DialContext(g.ctx, "tcp", g.to)
	if err != nil {
		return // it is not there, and the caller finds the connection closed
	}
	defer func() { _ = node.Close() }()
	stop := context.AfterFunc(g.ctx, func() { _, _ = caller.Close(), node.Close() })
	defer stop()
	var ways sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{caller: node, node: caller} {
		ways.Go(func() {
			_, _ = io.Copy(gated{g, caller, to}, from)
			// Half a connection is of no use to HTTP/2.
			_, _ = caller.Close(), node.Close()
		})
	}
	ways.Wait()
}

// gated writes once the gate lets the caller's connection through.
type gated struct {
	g      *Gate
	caller net.Conn
	to     net.Conn
}

func (w gated) Write(p []byte) (int, error) {
	if err := w.g.pass(w.caller); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// startGates opens the gates before the nodes' RPC ports, and those between each region's nodes and
// the private database.
func (k *Cluster) startGates(context.Context) (_ parts.Stop, err error) {
	if k.innerPort, err = innerPorts(innerEach * len(k.Nodes)); err != nil {
		return nil, err
	}
	stop := func(context.Context) error {
		var errs []error
		for _, g := range slices.Concat(k.gates, slices.Collect(maps.Values(k.databaseGates))) {
			errs = append(errs, g.Close())
		}
		return errors.Join(errs...)
	}
	for i := range k.Nodes {
		g, err := OpenGate(k.inner(i, 0), k.inner(i, innerEach-1))
		if err != nil {
			return stop, err
		}
		k.gates = append(k.gates, g)
	}
	k.databaseGates = map[string]*Gate{}
	for _, r := range k.regions {
		if k.server == nil {
			break
		}
		u, err := url.Parse(k.urls[r])
		if err != nil {
			return stop, errors.New("the private database has no URL") // the error would quote its password
		}
		g, err := OpenGate(loopback(0), u.Host)
		if err != nil {
			return stop, err
		}
		u.Host = g.Addr()
		k.databaseGates[r], k.urls[r] = g, u.String()
	}
	return stop, nil
}

// inner is one of the inner addresses of the node at i.
func (k *Cluster) inner(i, which int) string { return loopback(k.innerPort + innerEach*i + which) }

// drop shuts the gate of the node at i: for what a region's nodes send or, "", for all.
func (k *Cluster) drop(i int, from string) error {
	var against []int
	if from != "" {
		if !slices.Contains(k.regions, from) {
			return fmt.Errorf("there is no region %q", from)
		}
		if err := canOwn(); err != nil {
			return err
		}
		for _, n := range k.Nodes {
			if n.Region == from && !n.gone() {
				against = append(against, n.PID)
			}
		}
	}
	k.gates[i].Set(true, against)
	return nil
}
