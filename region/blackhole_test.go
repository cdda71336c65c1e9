package region

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

// entryTime is what an entry gives a forward: its own time for a request, which is
// DefaultTryTimeout, less what it needs to answer.
const entryTime = DefaultTryTimeout - 100*time.Millisecond

// hanging dials nodes over pipes. Those in holes give no connection.
type hanging struct {
	nodes map[string]*pipes // by address

	mu    sync.Mutex
	holes map[string]func(context.Context) (net.Conn, error)
	dials map[string]int
}

func (h *hanging) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	h.mu.Lock()
	h.dials[addr]++
	hole := h.holes[addr]
	h.mu.Unlock()
	if hole != nil {
		return hole(ctx)
	}
	return h.nodes[addr].dial(ctx, "", "")
}

func (h *hanging) dig(hole func(context.Context) (net.Conn, error), nodes ...Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range nodes {
		h.holes[n.RPCAddr] = hole
	}
}

func (h *hanging) count(n Node) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials[n.RPCAddr]
}

// dropped: no SYN is ever answered, and the kernel is more patient than anybody.
func dropped(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// timedOut: the same, and the dialer gives up by itself.
func timedOut(context.Context) (net.Conn, error) {
	time.Sleep(connectTimeout)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

// accepted: a server takes the connection, reads and answers nothing.
func accepted(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	return here, nil
}

// dark is a region of nodes that can be put in holes, as gossip sees it: alive.
type dark struct {
	*hanging
	peers   *Peers
	outages *Outages
	nodes   []Node
}

func newDark(t *testing.T, locals ...Local) *dark { return newDarkTLS(t, nil, nil, locals...) }

func newDarkTLS(t *testing.T, caller, called *TLS, locals ...Local) *dark {
	t.Helper()
	d := &dark{hanging: &hanging{
		nodes: map[string]*pipes{}, holes: map[string]func(context.Context) (net.Conn, error){}, dials: map[string]int{},
	}}
	var stops []func()
	for i, local := range locals {
		n := Node{Name: string(rune('a' + i)), Region: eu, RPCAddr: string(rune('a'+i)) + ":1"}
		p, stop := piped(t, local, called)
		d.hanging.nodes[n.RPCAddr] = p
		stops = append(stops, stop)
		d.nodes = append(d.nodes, n)
	}
	transport := NewTransport(caller)
	transport.of("").DialContext, transport.of(eu).DialContext = d.dial, d.dial
	seen := directory{eu: d.nodes}
	d.outages = NewOutages(OutagesConfig{
		Self: us, Topology: threeRegions(t), Directory: seen, Seen: func(string) time.Time { return time.Now() },
	})
	var err error
	d.peers, err = NewPeers(PeersConfig{Directory: seen, Deployment: deploymentID, Transport: transport, TLS: caller != nil, Outages: d.outages})
	require.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.outages.Run(ctx, d.peers.Ping) })
	t.Cleanup(func() {
		end()
		running.Wait()
		require.NoError(t, d.peers.Close())
		for _, stop := range stops {
			stop()
		}
		time.Sleep(2 * connectTimeout) // dials that nobody waits for any more end by themselves
	})
	return d
}

// forward asks the region for a key that prefers its first node, as an entry does.
func (d *dark) forward(t *testing.T, patience time.Duration) (body string, took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	reply, err := d.peers.Execute(ctx, eu, requestFor(d.nodes[0], d.nodes...), 1, us)
	return string(reply.Response.Body), time.Since(began), err
}

// A dial is no answer: the forward goes to the next node, and later ones go there first, until the
// node in the hole answers a ping.
func TestADialIsNoAnswer(t *testing.T) {
	for name, hole := range map[string]func(context.Context) (net.Conn, error){"hangs": dropped, "times out": timedOut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDark(t, answering("first"), answering("second"))
				d.dig(hole, d.nodes[0])
				body, took, err := d.forward(t, entryTime)
				require.NoError(t, err)
				require.Equal(t, "second", body)
				require.LessOrEqual(t, took, tripTimeout)
				body, took, err = d.forward(t, entryTime)
				require.NoError(t, err)
				require.Equal(t, "second", body)
				require.Zero(t, took, "it was requested first again")
				require.False(t, d.outages.Unreachable(eu))
				time.Sleep(2 * DefaultGrace)
				require.False(t, d.outages.Unreachable(eu), "one of its nodes answers")
				require.False(t, d.outages.Lost(eu))
				require.Equal(t, []string{"a"}, d.outages.Silent(eu))

				d.dig(nil, d.nodes[0])
				time.Sleep(probeEvery + probeTimeout)
				require.Empty(t, d.outages.Silent(eu))
				body, _, err = d.forward(t, entryTime)
				require.NoError(t, err)
				require.Equal(t, "first", body)
			})
		})
	}
}

// A region that gossip sees and nobody can call is lost after the grace, however many nodes
// it has and however little patience callers have.
func TestARegionThatCannotBeCalledIsLost(t *testing.T) {
	for name, hole := range map[string]func(context.Context) (net.Conn, error){
		"SYNs are dropped": dropped, "dials time out": timedOut, "connections are accepted and never answered": accepted,
	} {
		for patience, who := range map[time.Duration]string{entryTime: "who waits", time.Second: "a caller that disconnects"} {
			t.Run(name+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDark(t, answering("a"), answering("b"), answering("c"), answering("d"))
					d.dig(hole, d.nodes...)
					require.False(t, d.outages.Unreachable(eu))
					began := time.Now()
					requested := make(chan struct{})
					go func() {
						defer close(requested)
						for !d.outages.Lost(eu) {
							if _, _, err := d.forward(t, patience); !errors.Is(err, ErrNoAnswer) {
								t.Errorf("%v", err)
							}
						}
					}()
					for !d.outages.Lost(eu) && time.Since(began) < time.Minute {
						time.Sleep(probeEvery / 10)
					}
					require.LessOrEqual(t, time.Since(began), DefaultGrace+probeEvery/10)
					require.True(t, d.outages.Unreachable(eu))
					<-requested
					time.Sleep(10 * DefaultGrace)
					require.True(t, d.outages.Lost(eu), "nobody asks any more, but for pings")
					require.Equal(t, []string{"a", "b", "c", "d"}, d.outages.Silent(eu))

					d.dig(nil, d.nodes[3])
					// A ping may be under way, and the next may get its connection as that ends.
					time.Sleep(probeTimeout + 2*probeEvery)
					require.False(t, d.outages.Unreachable(eu), "one node that answers is enough")
					body, took, err := d.forward(t, entryTime)
					require.NoError(t, err)
					require.Equal(t, "d", body)
					require.Zero(t, took)
				})
			})
		}
	}
}

// A node that could not be dialled got no request: every other node may be tried.
func TestAHealthyNodeIsFoundBesideAnyNumberThatCannotBeDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDark(t, answering("a"), answering("b"), answering("c"), answering("d"), answering("e"))
		order := Choose(d.nodes, requestFor(d.nodes[0], d.nodes...).Key)
		healthy := order[len(order)-1]
		d.dig(timedOut, order[:len(order)-1]...)
		body, took, err := d.forward(t, entryTime)
		require.NoError(t, err)
		require.Equal(t, healthy.Name, body)
		require.Equal(t, time.Duration(len(order)-1)*tripTimeout, took)
	})
}

// A provider may take as long as it likes: the connection lives, and its node is not silent, even
// when the caller's time is over.
func TestASlowAnswerIsNoSilence(t *testing.T) {
	t.Run("clear text", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { slowAnswer(t, nil, nil) })
	})
	t.Run("TLS", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ca := authority(t)
			slowAnswer(t, tlsOf(t, ca, nodeUS, nil), tlsOf(t, ca, nodeEU, nil))
		})
	})
}

func slowAnswer(t *testing.T, caller, called *TLS) {
	slow := answering("slow")
	answer := slow.execute
	slow.execute = func(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return claim.Reply{}, ctx.Err()
		}
		return answer(ctx, home, req)
	}
	d := newDarkTLS(t, caller, called, slow, answering("second"))
	body, took, err := d.forward(t, entryTime)
	require.NoError(t, err)
	require.Equal(t, "slow", body)
	require.Equal(t, time.Minute, took)
	_, _, err = d.forward(t, time.Second)
	require.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, ErrNoAnswer), "%v", err)
	require.Equal(t, 1, d.count(d.nodes[0]))
	require.Zero(t, d.count(d.nodes[1]), "there was no time for another")
	time.Sleep(2 * DefaultGrace)
	require.Empty(t, d.outages.Silent(eu))
	require.False(t, d.outages.Lost(eu))
}

// narrow is a way that drops packets of more than 600 bytes in one direction, as a tunnel does
// whose ICMP is filtered. What follows a dropped packet on its connection waits for it.
type narrow struct {
	answers bool // drops what nodes send; otherwise what is sent to them
	healed  atomic.Bool
}

func (n *narrow) to(p *pipes) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		if n.answers {
			p.conns <- &narrowed{Conn: there, way: n}
			return here, nil
		}
		p.conns <- there
		return &narrowed{Conn: here, way: n}, nil
	}
}

type narrowed struct {
	net.Conn
	way   *narrow
	stuck atomic.Bool
}

func (c *narrowed) Write(p []byte) (int, error) {
	if len(p) > 600 && !c.way.healed.Load() {
		c.stuck.Store(true)
	}
	if c.stuck.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// echoing answers each request with its body.
func echoing() *fakeLocal {
	return &fakeLocal{execute: func(_ context.Context, _ string, req claim.Request) (claim.Reply, error) {
		return claim.Reply{Response: claim.Response{Status: 201, Body: req.Input.Canonical}, Home: eu, State: claim.Completed}, nil
	}}
}

// A way that small calls pass and large ones do not is no way: small answers end no silence,
// and a region behind it is lost like any other that nobody can call.
func TestAWayThatDropsLargePacketsIsNoWay(t *testing.T) {
	small, large := []byte(`{}`), bytes.Repeat([]byte{'x'}, 1000)
	call := func(t *testing.T, d *dark, body []byte) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), entryTime)
		defer cancel()
		req := requestFor(d.nodes[0], d.nodes...)
		req.Input.Canonical = body
		reply, err := d.peers.Execute(ctx, eu, req, 1, us)
		if err == nil && !bytes.Equal(reply.Response.Body, body) {
			t.Errorf("answered %q", reply.Response.Body)
		}
		return err
	}
	for direction, answers := range map[string]bool{"requests": false, "answers": true} {
		t.Run(direction+", every node", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDark(t, echoing(), echoing())
				way := &narrow{answers: answers}
				for _, n := range d.nodes {
					d.dig(way.to(d.hanging.nodes[n.RPCAddr]), n)
				}
				require.NoError(t, call(t, d, small), "small ones pass")
				began := time.Now()
				require.ErrorIs(t, call(t, d, large), ErrNoAnswer)
				requested := make(chan struct{})
				go func() {
					defer close(requested)
					for !d.outages.Lost(eu) && time.Since(began) < time.Minute {
						_ = call(t, d, small)
						time.Sleep(probeEvery / 10)
					}
				}()
				for !d.outages.Lost(eu) && time.Since(began) < time.Minute {
					time.Sleep(probeEvery / 10)
				}
				require.LessOrEqual(t, time.Since(began), DefaultGrace+probeEvery/10)
				<-requested
				answered := 0
				for range 100 {
					if call(t, d, small) == nil {
						answered++
					}
					time.Sleep(probeEvery / 10)
					require.True(t, d.outages.Lost(eu), "a small answer ended it")
					require.Equal(t, []string{"a", "b"}, d.outages.Silent(eu))
				}
				require.NotZero(t, answered, "no small call passed, so this showed nothing")

				way.healed.Store(true)
				time.Sleep(2 * (probeEvery + probeTimeout)) // connections that are stuck end first
				require.Empty(t, d.outages.Silent(eu))
				require.False(t, d.outages.Lost(eu))
				require.NoError(t, call(t, d, large))
			})
		})
		t.Run(direction+", one node", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDark(t, echoing(), echoing())
				d.dig((&narrow{answers: answers}).to(d.hanging.nodes[d.nodes[0].RPCAddr]), d.nodes[0])
				require.NoError(t, call(t, d, small))
				require.NoError(t, call(t, d, large), "the other answers")
				for range 300 {
					require.Equal(t, []string{"a"}, d.outages.Silent(eu))
					began := time.Now()
					require.NoError(t, call(t, d, large))
					require.Zero(t, time.Since(began), "it got the request first again")
					require.False(t, d.outages.Lost(eu))
					time.Sleep(probeEvery / 10)
				}
			})
		})
	}
}

// After a caller disconnects before a large call has failed, the node is in doubt. No small answer
// ends that.
func TestASmallAnswerEndsNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutages(t, sight{eu: time.Now().Add(time.Hour), as: time.Now().Add(time.Hour)})
		o.Doubted(euNode, time.Now())
		time.Sleep(DefaultGrace)
		o.Answered(euNode)
		o.probe(t.Context(), func(context.Context, Node) error { return errors.New("no answer") })
		wantLost(t, o, eu)
	})
}

// A ping carries more than the largest packet each way, and a node takes no larger one.
func TestAPingIsLargerThanAnyPacket(t *testing.T) {
	var requests, answer atomic.Int64
	node := startNode(t, "n", answering("ok"))
	p := peersOf(t, func(c *PeersConfig) { c.Transport = sizing{NewTransport(nil), &requests, &answer} }, node)
	require.NoError(t, p.Ping(t.Context(), node))
	require.Greater(t, requests.Load(), int64(9000))
	require.Greater(t, answer.Load(), int64(9000))

	_, err := p.client(node.RPCAddr).Ping(t.Context(), connect.NewRequest(&peerv1.PingRequest{Padding: make([]byte, 3*pingBytes)}))
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%v", err)
	_, err = p.client(node.RPCAddr).Execute(t.Context(), connect.NewRequest(&peerv1.ExecuteRequest{CanonicalBody: make([]byte, 3*pingBytes)}))
	require.NotEqual(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%v", err)
}

// sizing records the size of a call's bodies.
type sizing struct {
	*Transport
	requests, answer *atomic.Int64
}

func (s sizing) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests.Store(r.ContentLength)
	resp, err := s.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = counted{resp.Body, s.answer}
	}
	return resp, err
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
