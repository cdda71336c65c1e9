package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// The processes are found, and what they and their children do is counted, after those
// have ended, too.
func TestProbeSeesTheDatabaseWork(t *testing.T) {
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	p, err := newProbe(s, "postgres")
	require.NoError(t, err)
	require.Len(t, p.Processes, 1)
	r, err := p.open(t.Context())
	require.NoError(t, err)
	defer r.close(t.Context())
	before, err := r.read(t.Context())
	require.NoError(t, err)

	other, err := p.open(t.Context())
	require.NoError(t, err)
	busy := func() {
		_, err := other.conns[0].Exec(t.Context(), "CREATE TABLE IF NOT EXISTS t AS SELECT sum(sqrt(n)) FROM generate_series(1, 2000000) AS g (n)")
		require.NoError(t, err)
	}
	busy()
	working, err := r.read(t.Context())
	require.NoError(t, err)
	require.Greater(t, working.CPU, before.CPU)
	require.Greater(t, working.WAL, before.WAL)
	other.close(t.Context())
	require.Eventually(t, func() bool {
		ended, err := r.read(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, ended.CPU, working.CPU, "what a connection's process used went with it")
		return ended.Statements > before.Statements
	}, 30*time.Second, 100*time.Millisecond, "statements are told within a second or so")

	idle, err := p.idle(t.Context(), 20*time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, idle.Cores, 0.)

	_, err = listenerOn("1")
	require.ErrorContains(t, err, "port 1")
}

func TestNoProbeReadsNothing(t *testing.T) {
	var p *probe
	r, err := p.open(t.Context())
	require.NoError(t, err)
	got, err := r.read(t.Context())
	require.NoError(t, err)
	require.Zero(t, got)
	r.close(t.Context())
}

func TestParseStat(t *testing.T) {
	p, err := parseStat("12 (a ) b) S 7 12 12 0 -1 4194560 100 200 0 0 10 20 30 40 20 0 1 0")
	require.NoError(t, err)
	require.Equal(t, process{parent: 7, cpu: time.Second}, p)
	_, err = parseStat("12 (short) S 7")
	require.Error(t, err)

	all := map[int]process{1: {0, time.Hour}, 7: {1, 1}, 8: {7, 2}, 9: {8, 4}, 20: {1, 8}}
	require.Equal(t, time.Duration(7), below(all, []int{7}))
	require.Equal(t, time.Duration(14), below(all, []int{8, 20}))
}

// A child is found among others only by its port.
func TestListenerIsAChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "read x", "port=61234")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid, err := listenerOn("61234")
	require.NoError(t, err)
	require.Equal(t, cmd.Process.Pid, pid)
	require.NotEqual(t, os.Getpid(), pid)
	require.NoError(t, in.Close())
	_ = cmd.Wait() // read says no at the end of its input
}
