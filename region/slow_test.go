package region

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// slowWay is a way on which each packet takes oneWay, in both directions, and so does a dial's
// answer.
type slowWay struct{ oneWay atomic.Int64 }

func (s *slowWay) trip(d time.Duration) { s.oneWay.Store(int64(d / 2)) }

func (s *slowWay) wait() { time.Sleep(time.Duration(s.oneWay.Load())) }

func (s *slowWay) to(p *pipes) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		s.wait()
		s.wait()
		here, there := net.Pipe()
		called := s.end(there)
		select {
		case p.conns <- called:
			return s.end(here), nil
		case <-p.done:
			return nil, called.Close()
		}
	}
}

// end returns an end of a connection whose writes arrive later, in order. Those that are on the way
// when either end closes are lost.
func (s *slowWay) end(c net.Conn) net.Conn {
	e := &slowEnd{Conn: c, way: s, sent: make(chan packet, 1024), closed: make(chan struct{})}
	go e.deliver()
	return e
}

type packet struct {
	due  time.Time
	data []byte
}

type slowEnd struct {
	net.Conn
	way    *slowWay
	sent   chan packet
	closed chan struct{}
	once   sync.Once
}

func (e *slowEnd) Write(p []byte) (int, error) {
	select {
	case e.sent <- packet{time.Now().Add(time.Duration(e.way.oneWay.Load())), bytes.Clone(p)}:
		return len(p), nil
	case <-e.closed:
		return 0, net.ErrClosed
	}
}

func (e *slowEnd) Close() error {
	e.once.Do(func() { close(e.closed) })
	return e.Conn.Close()
}

func (e *slowEnd) deliver() {
	for {
		select {
		case p := <-e.sent:
			time.Sleep(time.Until(p.due))
			_, _ = e.Conn.Write(p.data)
		case <-e.closed:
			return
		}
	}
}

// A region that has just become slow is alive: calls that are under way get their answer, new
// connections are waited for, and nobody takes the region for one that cannot be reached.
func TestARegionThatHasJustBecomeSlowIsAlive(t *testing.T) {
	// The longest of package wan's distances, and what the scenario slow-region adds to it.
	const trip, slower = 220 * time.Millisecond, 620 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var way slowWay
		way.trip(trip)
		ca := authority(t)
		long := answering("a")
		answer := long.execute
		long.execute = func(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
			select { // a provider's time
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				return claim.Reply{}, ctx.Err()
			}
			return answer(ctx, home, req)
		}
		d := newDarkTLS(t, tlsOf(t, ca, nodeUS, nil), tlsOf(t, ca, nodeEU, nil), long, answering("b"))
		for _, n := range d.nodes {
			d.dig(way.to(d.hanging.nodes[n.RPCAddr]), n)
		}
		underWay := make(chan error, 1)
		go func() {
			body, _, err := d.forward(t, entryTime)
			if err == nil && body != "a" {
				t.Errorf("%q answered", body)
			}
			underWay <- err
		}()
		time.Sleep(3 * trip) // dial, handshake, and it has arrived
		way.trip(slower)
		reply, err := d.peers.Execute(t.Context(), eu, requestFor(d.nodes[1], d.nodes...), 1, us)
		require.NoError(t, err)
		require.Equal(t, "b", string(reply.Response.Body), "over a new connection")
		require.NoError(t, <-underWay)
		require.Equal(t, 1, d.count(d.nodes[0]))
		require.Equal(t, 1, d.count(d.nodes[1]))
		require.Empty(t, d.outages.Silent(eu))
		require.False(t, d.outages.Unreachable(eu))
	})
}
