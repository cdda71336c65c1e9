package region

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
)

// Strangers who open gossip streams make a node hold no more than a few, and of each no
// more than a view of the nodes takes: memberlist reads 20 MiB before it decrypts them.
func TestStrangersStreamsAreBounded(t *testing.T) {
	m, err := NewMembership(MembershipConfig{
		Deployment: deploymentID, Node: "n-1", Region: "us-east1", RPCAddr: "127.0.0.1:1", BindAddr: "127.0.0.1", SecretKeys: [][]byte{make([]byte, 32)},
		tune: func(c *memberlist.Config) { c.TCPTimeout = time.Hour }, // it is the bound that ends them
	})
	require.NoError(t, err)
	defer m.Close()
	const bail = 20 * time.Second // where nothing is bounded
	dial := func() net.Conn {
		c, err := net.Dial("tcp", m.GossipAddr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(bail)))
		return c
	}
	closed := make(chan error)
	ends := func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		closed <- err
	}
	const over = 16
	conns := make([]net.Conn, 0, maxGossipStreams+over)
	for range cap(conns) {
		conns = append(conns, dial())
		go ends(conns[len(conns)-1])
	}
	tooLate := func(err error) bool {
		var late net.Error
		return errors.As(err, &late) && late.Timeout()
	}
	for range over {
		require.False(t, tooLate(<-closed), "as many streams are open as are dialled")
	}
	for _, c := range conns {
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
	}
	for range maxGossipStreams {
		<-closed
	}

	// There is room again, for a stream that claims 20 MiB and is cut long before.
	c := dial()
	head := append([]byte{244, byte(len(clusterLabel))}, clusterLabel...) // memberlist's label header
	head = append(head, 10 /* encrypted */, 1, 0x3f, 0xff, 0xff)          // its length, below memberlist's bound
	sent, err := c.Write(head)
	for err == nil && sent < 20<<20 {
		var n int
		n, err = c.Write(make([]byte, 64<<10))
		sent += n
	}
	require.Error(t, err, "all of it was read")
	require.False(t, tooLate(err), "it was not cut")
}
