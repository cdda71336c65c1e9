package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/region"
)

func TestANodeRunsACommand(t *testing.T) {
	var log strings.Builder
	d := newDeployment(t, "n1", us)
	d.run = func(_ context.Context, args []string, out, errs io.Writer) int {
		if args[0] == "panics" {
			panic("no store is like this")
		}
		fmt.Fprint(out, strings.Repeat("o", 3*maxPrinted), args)
		fmt.Fprint(errs, "oh")
		return 3
	}
	addr := serve(t, nil, d.admin(slog.New(slog.NewTextHandler(&log, nil)), nil))
	c := adminAt(t, addr, nil)
	var out, errs strings.Builder
	exit, err := c.Run(t.Context(), []string{"endpoint", "set", "acme", "https://u:secret@host"}, &out, &errs)
	require.NoError(t, err)
	require.Equal(t, 3, exit)
	require.Equal(t, strings.Repeat("o", 3*maxPrinted)+"[endpoint set acme https://u:secret@host]", out.String())
	require.Equal(t, "oh", errs.String())
	require.Contains(t, log.String(), "command=endpoint")
	require.NotContains(t, log.String(), "secret")

	_, err = c.Run(t.Context(), []string{"panics"}, &out, &errs)
	require.ErrorContains(t, err, "a fault in Homeward")
	_, err = c.Run(t.Context(), nil, &out, &errs)
	require.ErrorContains(t, err, "must have 1 to 100 words")
	_, err = c.Run(t.Context(), make([]string, MaxArgs+1), &out, &errs)
	require.ErrorContains(t, err, "this one has 101")

	d.run = nil
	_, err = adminAt(t, serve(t, nil, d.admin(nil, nil)), nil).Run(t.Context(), []string{"outbox"}, &out, &errs)
	require.ErrorContains(t, err, "runs no commands")
	_, err = adminAt(t, dead, nil).Run(t.Context(), []string{"outbox"}, &out, &errs)
	require.ErrorIs(t, err, region.ErrNoAnswer, "the command may go to another node")
}

// When a node is lost, it may have run the requested command or not.
func TestACommandOfALostNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 { // the client may try again by itself before it has sent anything
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1)) // the command has started
			_ = conn.Close()
		}
	}()
	_, err = adminAt(t, l.Addr().String(), nil).Run(t.Context(), []string{"outbox", "retry"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "check how much the command did")
	require.NotErrorIs(t, err, region.ErrNoAnswer)
	require.NoError(t, l.Close())
	<-done
}

// TestReadersLeaveRoomForWhoActs: a reader who does not read on, as in a pager, keeps its command.
func TestReadersLeaveRoomForWhoActs(t *testing.T) {
	now := time.Now()
	ca, err := devcerts.NewAuthority(now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(t, err)
	d := newDeployment(t, "n1", us)
	var inside, all sync.WaitGroup
	leave := make(chan struct{})
	d.run = func(context.Context, []string, io.Writer, io.Writer) int {
		inside.Done()
		<-leave
		return 0
	}
	server := tlsOf(t, ca, region.Identity{Region: us, Node: "n1"})
	addr := serve(t, server, d.admin(nil, server))
	ask := func(c *Client) {
		inside.Add(1)
		all.Go(func() {
			_, err := c.Run(t.Context(), []string{"ledger"}, io.Discard, io.Discard)
			assert.NoError(t, err)
		})
		inside.Wait()
	}
	reader := adminAt(t, addr, tlsOf(t, ca, region.Identity{Operator: "mo"}))
	operator := adminAt(t, addr, tlsOf(t, ca, region.Identity{Operator: "jo", Role: region.RoleOperator}))
	for range maxRuns - 1 {
		ask(reader)
	}
	_, err = reader.Run(t.Context(), []string{"ledger"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "wait for one of them")
	ask(operator)
	_, err = operator.Run(t.Context(), []string{"ledger"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "the node runs 4 commands already")
	close(leave)
	all.Wait()
}

func TestANodeRunsAFewCommandsAtATime(t *testing.T) {
	d := newDeployment(t, "n1", us)
	var inside sync.WaitGroup
	inside.Add(maxRuns)
	leave := make(chan struct{})
	d.run = func(context.Context, []string, io.Writer, io.Writer) int {
		inside.Done()
		<-leave
		return 0
	}
	c := adminAt(t, serve(t, nil, d.admin(nil, nil)), nil)
	var all sync.WaitGroup
	for range maxRuns {
		all.Go(func() {
			_, err := c.Run(t.Context(), []string{"ledger"}, io.Discard, io.Discard)
			require.NoError(t, err)
		})
	}
	inside.Wait()
	_, err := c.Run(t.Context(), []string{"ledger"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "wait for one of them")
	close(leave)
	all.Wait()
}
