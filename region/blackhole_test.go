package region

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
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

// accepted: somebody takes the connection, reads what comes and says nothing.
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
	d.peers, err = NewPeers(PeersConfig{Directory: seen, Deployment: ours, Transport: transport, TLS: caller != nil, Outages: d.outages})
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

// A dial is no answer: the next node is asked, and from then on first, until the node in
// the hole answers a ping.
func TestADialIsNoAnswer(t *testing.T) {
	for name, hole := range map[string]func(context.Context) (net.Conn, error){"hangs": dropped, "times out": timedOut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDark(t, answering("first"), answering("second"))
				d.dig(hole, d.nodes[0])
				body, took, err := d.forward(t, entryTime)
				require.NoError(t, err)
				require.Equal(t, "second", body)
				require.LessOrEqual(t, took, noConnection)
				body, took, err = d.forward(t, entryTime)
				require.NoError(t, err)
				require.Equal(t, "second", body)
				require.Zero(t, took, "it was asked first again")
				require.False(t, d.outages.Lost(eu))
				time.Sleep(2 * DefaultGrace)
				require.False(t, d.outages.Lost(eu), "one of its nodes answers")
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
func TestARegionThatNobodyCanCallIsLost(t *testing.T) {
	for name, hole := range map[string]func(context.Context) (net.Conn, error){
		"SYNs are dropped": dropped, "dials time out": timedOut, "connections are accepted and never answered": accepted,
	} {
		for patience, who := range map[time.Duration]string{entryTime: "who waits", time.Second: "who goes away"} {
			t.Run(name+", "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDark(t, answering("a"), answering("b"), answering("c"), answering("d"))
					d.dig(hole, d.nodes...)
					began := time.Now()
					asked := make(chan struct{})
					go func() {
						defer close(asked)
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
					<-asked
					time.Sleep(10 * DefaultGrace)
					require.True(t, d.outages.Lost(eu), "nobody asks any more, but for pings")
					require.Equal(t, []string{"a", "b", "c", "d"}, d.outages.Silent(eu))

					d.dig(nil, d.nodes[3])
					time.Sleep(probeEvery + probeTimeout)
					require.False(t, d.outages.Lost(eu), "one node that answers is enough")
					body, took, err := d.forward(t, entryTime)
					require.NoError(t, err)
					require.Equal(t, "d", body)
					require.Zero(t, took)
				})
			})
		}
	}
}

// What could not be dialled was not asked: every other node may be tried.
func TestAHealthyNodeIsFoundBesideAnyNumberThatCannotBeDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDark(t, answering("a"), answering("b"), answering("c"), answering("d"), answering("e"))
		order := Choose(d.nodes, requestFor(d.nodes[0], d.nodes...).Key)
		healthy := order[len(order)-1]
		d.dig(timedOut, order[:len(order)-1]...)
		body, took, err := d.forward(t, entryTime)
		require.NoError(t, err)
		require.Equal(t, healthy.Name, body)
		require.Equal(t, time.Duration(len(order)-1)*connectTimeout, took)
	})
}

// A provider may take as long as it likes: the connection stands, and its node is not
// silent, whoever's time is over.
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
