package lab

import (
	"log/slog"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
)

// TestADemoHasItsRPCWhereDocsSay: on fixed ports, unless they are taken or nothing is fixed.
func TestADemoHasItsRPCWhereDocsSay(t *testing.T) {
	var want []string
	var held net.Listener // one of them, or another process's
	for i := range 3 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(rpcPort+i))
		l, err := net.Listen("tcp", addr)
		switch {
		case err != nil: // taken already
			addr = "127.0.0.1:0"
		case held == nil && i > 0:
			held, addr = l, "127.0.0.1:0"
			defer func() { require.NoError(t, held.Close()) }()
		default:
			require.NoError(t, l.Close())
		}
		want = append(want, addr)
	}
	at, err := rpcAt("127.0.0.1:8081", "", 3)
	require.NoError(t, err)
	require.Equal(t, want, at, "a free one in the place of each that is taken")

	at, err = rpcAt("127.0.0.1:0", "", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:0", "127.0.0.1:0"}, at)
	at, err = rpcAt("127.0.0.1:8081", "[::1]:9000", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:9000", "[::1]:9001"}, at, "requested ports stay, taken or not")
	for _, wrong := range []string{"7081", "0.0.0.0:7081", "127.0.0.1:65535", "127.0.0.1:x"} {
		_, err = rpcAt("127.0.0.1:8081", wrong, 2)
		require.ErrorContains(t, err, "--rpc-listen", wrong)
	}
}

// TestAnRPCPortThatIsTakenMeanwhile: the demo starts on free ones, unless a flag names one.
func TestAnRPCPortThatIsTakenMeanwhile(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr := taken.Addr().String()
	d, err := newDemo(DemoConfig{Settings: node.DefaultSettings(), Listen: "127.0.0.1:0", Console: NoConsole, Logger: slog.New(slog.DiscardHandler), Data: t.TempDir()})
	require.NoError(t, err)
	d.rpcs[1] = addr
	require.NoError(t, d.start(t.Context()))
	for _, n := range d.Nodes {
		require.NotEqual(t, addr, n.RPCAddr())
	}
	require.NoError(t, d.Stop(t.Context()))
	d.c.RPCListen = addr
	require.ErrorContains(t, d.start(t.Context()), "a region's RPC cannot listen on "+addr)
}

// TestInnerPorts: a node that is started again must find its ports free, so they are none of
// those that systems give to outgoing connections.
func TestInnerPorts(t *testing.T) {
	first, err := innerPorts(24)
	require.NoError(t, err)
	require.GreaterOrEqual(t, first, innerFrom)
	require.LessOrEqual(t, first+24, innerTo)
	l, err := net.Listen("tcp", loopback(first+23))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	other, err := innerPorts(24)
	require.NoError(t, err)
	require.NotEqual(t, first, other, "one of its ports is taken")
	_, err = innerPorts(innerTo)
	require.ErrorContains(t, err, "start fewer nodes")
}
