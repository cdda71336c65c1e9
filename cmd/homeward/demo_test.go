package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestADemoLeavesNothing: what was not to be kept is gone, however the demo ended.
// While it runs its nodes answer where it says.
func TestADemoLeavesNothing(t *testing.T) {
	onlyWith(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	left := func() []os.DirEntry {
		t.Helper()
		entries, err := os.ReadDir(tmp)
		require.NoError(t, err)
		return entries
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, w := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- run(ctx, []string{"demo", "--listen", "127.0.0.1:0"}, streams{w, &errs})
		_ = w.Close()
	}()
	said := bufio.NewScanner(r)
	ready, asked := false, ""
	for said.Scan() {
		if _, node, ok := strings.Cut(said.Text(), " regions --node "); ok {
			asked = node
		}
		if strings.Contains(said.Text(), "Ctrl-C drains") {
			ready = true
			require.Len(t, left(), 1)
			require.Contains(t, does(t, "regions", "--node", asked), "As us-east1-1-")
			interrupt()
		}
	}
	require.Zero(t, <-ended, errs.String())
	require.True(t, ready)
	require.Empty(t, left())

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr := taken.Addr().String()
	refuses(t, []string{"the simulator cannot listen on " + addr, "in use", "--psp-listen"}, "demo", "--listen", "127.0.0.1:0", "--psp-listen", addr)
	refuses(t, []string{"a region's API cannot listen on " + addr, "in use", "--listen"}, "demo", "--listen", addr, "--psp-listen", "127.0.0.1:0")
	refuses(t, []string{"the simulator cannot listen on " + addr, "in use", "--listen"}, "simulator", "--listen", addr)
	require.Empty(t, left())
}
