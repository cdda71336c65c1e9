// Package balancer stands in for load balancers: those of a cloud's regions, and the
// Services of Kubernetes.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTime bounds a connection to a node: it is on this machine.
const dialTime = time.Second

// Balancer listens at an address and passes each connection to a node, in turn. It
// neither parses nor retries anything, so that a caller sees every failure.
type Balancer struct {
	listener net.Listener
	nodes    func() []string
	turn     atomic.Uint64
	cancel   context.CancelFunc
	work     sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // nil once it is closed
}

// Start starts a balancer at host:port. nodes returns, for each connection, the
// candidates as host:port; it is called concurrently. If none accepts the connection it
// is closed.
func Start(listen string, nodes func() []string) (*Balancer, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("a load balancer cannot listen on %s: %w", listen, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Balancer{listener: l, nodes: nodes, cancel: cancel, open: map[net.Conn]struct{}{}}
	b.work.Go(func() { b.accept(ctx) })
	return b, nil
}

// Addr is its address, host:port.
func (b *Balancer) Addr() string { return b.listener.Addr().String() }

func (b *Balancer) accept(ctx context.Context) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.work.Go(func() { b.serve(ctx, conn) })
	}
}

// keep notes a connection, so that Close ends it; false once it is closed.
func (b *Balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return false
	}
	b.open[conn] = struct{}{}
	return true
}

func (b *Balancer) forget(conn net.Conn) {
	b.mu.Lock()
	delete(b.open, conn)
	b.mu.Unlock()
	_ = conn.Close()
}

// serve carries bytes both ways until one side ends.
func (b *Balancer) serve(ctx context.Context, caller net.Conn) {
	defer b.forget(caller)
	if !b.keep(caller) {
		return
	}
	node := b.dial(ctx)
	if node == nil {
		return
	}
	defer b.forget(node)
	if !b.keep(node) {
		return
	}
	ended := make(chan struct{}, 2)
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // however it ended, both sides end
		_ = to.(*net.TCPConn).CloseWrite()
		ended <- struct{}{}
	}
	go carry(node, caller)
	go carry(caller, node)
	<-ended
	<-ended
}

// dial connects to the next of the nodes that takes it.
func (b *Balancer) dial(ctx context.Context) net.Conn {
	dialer := net.Dialer{Timeout: dialTime}
	nodes := b.nodes()
	turn := b.turn.Add(1)
	for i := range nodes {
		if conn, err := dialer.DialContext(ctx, "tcp", nodes[(turn+uint64(i))%uint64(len(nodes))]); err == nil {
			return conn
		}
	}
	return nil
}

// Close closes it, and every connection.
func (b *Balancer) Close() error {
	b.cancel()
	err := b.listener.Close()
	b.mu.Lock()
	for conn := range b.open {
		err = errors.Join(err, conn.Close())
	}
	b.open = nil
	b.mu.Unlock()
	b.work.Wait()
	return err
}
