package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that nobody here wrote, in the versions of internal/tools/upstreams.
const (
	// stripeMock answers as Stripe's documents say, and remembers nothing.
	stripeMock = "github.com/stripe/stripe-mock"
	// shipping is the example of Go kit: it books a cargo for each request, however often it is asked.
	shipping = "github.com/go-kit/kit/examples/shipping"
)

// startStranger builds a program, and runs it until the test ends. args get a free address of this
// machine, which is returned as a URL once it listens there.
func startStranger(t *testing.T, program string, args ...string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), filepath.Base(program))
	build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Join("..", "internal", "tools", "upstreams"), "-o", at, program)
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // the race detector's tests have it
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	addr := fmt.Sprintf("127.0.0.1:%d", ports(t))
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "ADDR", addr)
	}
	said, cmd, dead := &testLog{}, exec.Command(at, args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr, cmd.Env = said, said, os.Environ()
	require.NoError(t, cmd.Start())
	go func() {
		defer close(dead)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-dead
		if t.Failed() {
			t.Log(said.String())
		}
	})
	until(t, program+" listens", func() bool {
		select {
		case <-dead:
			require.FailNow(t, "it ended by itself", "%s", said)
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + addr
}

// TestAGatewayBeforeAnAPIOfOthers puts three regions in front of Go kit's example. Without them each
// retry books another cargo.
func TestAGatewayBeforeAnAPIOfOthers(t *testing.T) {
	t.Parallel()
	at := startStranger(t, shipping, "-http.addr=ADDR")
	g := startGateway(t, at)
	const cargos, order = "/booking/v1/cargos", `{"origin":"SESTO","destination":"FIHEL","arrival_deadline":"2030-01-01T00:00:00Z"}`
	booked := func() int {
		got, err := sent(must(http.NewRequestWithContext(g.ctx, http.MethodGet, g.bases[eu]+cargos, nil)))
		require.NoError(t, err)
		var list struct{ Cargos []any }
		require.NoError(t, json.Unmarshal([]byte(got.body), &list), got.body)
		return len(list.Cargos)
	}
	before, key := booked(), orderKey()
	for n := range 5 {
		_, err := post(g.ctx, at, cargos, key, order)
		require.NoError(t, err)
		require.Equal(t, before+n+1, booked(), "it dedupes by itself")
	}
	for _, key := range []string{key, stamped(t, asia)} {
		before := booked()
		retries := make([]*reply, 5)
		var all sync.WaitGroup
		for i := range retries {
			all.Go(func() { retries[i] = final(g.ctx, t, g.bases[regions[i%3]], cargos, key, order) })
		}
		all.Wait()
		for i := range 3 {
			retries = append(retries, final(g.ctx, t, g.bases[regions[i]], cargos, key, order))
		}
		for _, r := range retries {
			require.Equal(t, []any{http.StatusOK, retries[0].body}, []any{r.status, r.body})
		}
		require.Contains(t, retries[0].body, "tracking_id")
		require.Equal(t, before+1, booked())
	}
	// Its refusals are replayed, too.
	key = orderKey()
	no := final(g.ctx, t, g.bases[us], cargos, key, `{}`)
	require.Equal(t, http.StatusBadRequest, no.status, no.body)
	require.Equal(t, no.body, final(g.ctx, t, g.bases[asia], cargos, key, `{}`).body)
}
