package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/e2e/balancer"
)

const (
	// probeEvery is how often a region's load balancer asks each node, and probeTime how
	// long it waits: a cloud's take 5 s or more, which DNS would wait for on top.
	probeEvery = 250 * time.Millisecond
	probeTime  = time.Second
)

// entrance is the load balancer of a region. It asks each node at /readyz and takes those
// that are ready. When none is it takes any, as clouds' do ("fail open"): a drained region
// still answers retries, and its 503 at /readyz is what DNS must see.
type entrance struct {
	*balancer.Balancer
	nodes   []*target
	cancel  context.CancelFunc
	probing sync.WaitGroup
}

type target struct {
	addr  string // host:port
	ready atomic.Bool
}

// enter opens a region's entrance to its nodes, host:port each.
func enter(listen string, nodes []string) (_ *entrance, err error) {
	e := &entrance{}
	for _, addr := range nodes {
		e.nodes = append(e.nodes, &target{addr: addr})
	}
	if e.Balancer, err = balancer.Start(listen, e.open); err != nil {
		return nil, fmt.Errorf("%w; choose another -port, or stop what uses it", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	for _, n := range e.nodes {
		e.probing.Go(func() { n.probe(ctx) })
	}
	return e, nil
}

// open are the nodes that are ready, or else all.
func (e *entrance) open() []string {
	var ready, all []string
	for _, n := range e.nodes {
		if all = append(all, n.addr); n.ready.Load() {
			ready = append(ready, n.addr)
		}
	}
	if len(ready) == 0 {
		return all
	}
	return ready
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

// close ends it.
func (e *entrance) close() error {
	e.cancel()
	e.probing.Wait()
	return e.Close()
}
