package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probeEvery is how often a balancer asks each node, and probeTime how long it
	// waits: a cloud's take 5 s or more, which DNS would wait for on top.
	probeEvery = 250 * time.Millisecond
	probeTime  = time.Second
	// dialTime bounds a connection to a node: it is on this machine.
	dialTime = time.Second
)

// balancer is the load balancer of a region: it listens at the region's address and
// gives each connection to one of the region's nodes, in turn. It asks each node at
// /readyz and takes those that are ready. When none is it takes any that lives, as
// clouds' do ("fail open"): a drained region still answers retries, and its 503 at
// /readyz is what DNS must see. It reads and repeats nothing of what passes.
type balancer struct {
	listener net.Listener
	nodes    []*target
	turn     atomic.Uint64
	cancel   context.CancelFunc
	work     sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // nil once it is closed
}

type target struct {
	addr  string // host:port
	ready atomic.Bool
}

// balance starts the balancer of nodes, host:port each.
func balance(listen string, nodes []string) (*balancer, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("a region's load balancer cannot listen on %s: %w; choose another -port, or stop what uses it", listen, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{listener: l, cancel: cancel, open: map[net.Conn]struct{}{}}
	for _, addr := range nodes {
		n := &target{addr: addr}
		b.nodes = append(b.nodes, n)
		b.work.Go(func() { n.probe(ctx) })
	}
	b.work.Go(func() { b.accept(ctx) })
	return b, nil
}

// probe notes whether the node is ready until ctx ends.
func (n *target) probe(ctx context.Context) {
	client := &http.Client{Timeout: probeTime, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		n.ready.Store(answersReady(ctx, client, "http://"+n.addr))
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return
		}
	}
}

// answersReady reports whether base answers GET /readyz with 200.
func answersReady(ctx context.Context, client *http.Client, base string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // the status was all
	return res.StatusCode == http.StatusOK
}

func (b *balancer) accept(ctx context.Context) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.work.Go(func() { b.serve(ctx, conn) })
	}
}

// keep notes a connection, so that close ends it; false once it is closed.
func (b *balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return false
	}
	b.open[conn] = struct{}{}
	return true
}

func (b *balancer) forget(conn net.Conn) {
	b.mu.Lock()
	delete(b.open, conn)
	b.mu.Unlock()
	_ = conn.Close()
}

// serve carries bytes both ways until one side ends. Without a node the connection ends
// at once.
func (b *balancer) serve(ctx context.Context, merchant net.Conn) {
	defer b.forget(merchant)
	if !b.keep(merchant) {
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
	go carry(node, merchant)
	go carry(merchant, node)
	<-ended
	<-ended
}

// dial connects to the next node: a ready one, or else any.
func (b *balancer) dial(ctx context.Context) net.Conn {
	dialer := net.Dialer{Timeout: dialTime}
	first := int(b.turn.Add(1) % uint64(len(b.nodes)))
	for _, ready := range []bool{true, false} {
		for i := range b.nodes {
			n := b.nodes[(first+i)%len(b.nodes)]
			if n.ready.Load() != ready {
				continue
			}
			if conn, err := dialer.DialContext(ctx, "tcp", n.addr); err == nil {
				return conn
			}
		}
	}
	return nil
}

// close ends it, and every connection.
func (b *balancer) close() error {
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
