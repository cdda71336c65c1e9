package lab

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
)

// TestADemoNeedsNoIPv4 if its APIs listen on IPv6's loopback.
func TestADemoNeedsNoIPv4(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	require.NoError(t, probe.Close())
	settings := node.DefaultSettings()
	d, err := StartDemo(t.Context(), DemoConfig{
		Settings: settings, Data: t.TempDir(), Listen: "[::1]:0", Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Stop(t.Context())) })
	all := []string{d.PSP, d.ConsoleURL(), "http://" + d.MetricsAddr()}
	for _, n := range d.Nodes {
		all = append(all, "http://"+n.APIAddr(), "http://"+n.RPCAddr(), "http://"+n.GossipAddr())
	}
	for _, addr := range all {
		require.True(t, strings.HasPrefix(addr, "http://[::1]:"), addr)
	}
}
