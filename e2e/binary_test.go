package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// binary is the command, built once for all tests that run it as a user does.
var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func buildBinary(t testing.TB) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "homeward-e2e-"); binary.err != nil {
			return
		}
		binary.path = filepath.Join(binary.dir, "homeward")
		args := append(append([]string{"build"}, buildFlags...), "-o", binary.path, "../cmd/homeward")
		out, err := exec.Command("go", args...).CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	require.NoError(t, binary.err)
	return binary.path
}

func removeBinary() {
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
}

// Ports of tests. They lie below the range from which the system hands out others, so that
// they are still free after a restart, and apart from those of e2e/geodns (27000 up), of the
// clusters' nodes (30000 up) and of private databases (below 20000).
const (
	firstPort, endPort = 20000, 27000
	// portsEach is how many a test gets: more than any of its commands takes. All get as
	// many, or those of one would lie among another's.
	portsEach = 40
)

// ports returns the first of portsEach consecutive free ports, which no other test gets.
func ports(t testing.TB) int {
	t.Helper()
	const blocks = (endPort - firstPort) / portsEach
	for i := range blocks {
		base := firstPort + (os.Getpid()*7+portSeq()+i)%blocks*portsEach
		if free(base, portsEach) {
			return base
		}
	}
	require.FailNow(t, "no free ports")
	return 0
}

var portSeq = func() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n += 11
		return n
	}
}()

func free(base, n int) bool {
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// command is a running homeward command.
type command struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdout, stderr *testLog
	dead           chan struct{}
}

func runCommand(t testing.TB, args ...string) *command {
	t.Helper()
	return runCommandIn(t, nil, args...)
}

// runCommandIn is runCommand with variables of its own.
func runCommandIn(t testing.TB, env []string, args ...string) *command {
	t.Helper()
	c := &command{t: t, cmd: exec.Command(buildBinary(t), args...), stdout: &testLog{}, stderr: &testLog{}, dead: make(chan struct{})}
	// Settings in the environment of the tests are not the command's.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOMEWARD_") })
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.dead)
		_ = c.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("homeward %s\n%s%s", strings.Join(args, " "), c.stdout, c.stderr)
		}
	})
	return c
}

func (c *command) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.dead
}

// dump makes the process say what it is doing, on stderr, and end.
func (c *command) dump() {
	_ = c.cmd.Process.Signal(syscall.SIGQUIT)
	<-c.dead
}

func (c *command) end() (<-chan struct{}, *exec.Cmd) { return c.dead, c.cmd }

// ready waits for the command's last line of its start.
func (c *command) ready() {
	c.t.Helper()
	until(c.t, "the cluster is ready", func() bool {
		select {
		case <-c.dead:
			require.FailNow(c.t, "the command ended", "%s", c.stderr)
		default:
		}
		return strings.Contains(c.stdout.String(), "Ctrl-C drains")
	})
}

// exit waits for the end and returns the exit code.
func (c *command) exit() int {
	c.t.Helper()
	receive(c.t, "the end of the command", c.dead)
	return c.cmd.ProcessState.ExitCode()
}

// demo are the addresses of a demo's regions on consecutive ports.
func demoBases(port int) map[string]string {
	bases := map[string]string{}
	for i, r := range regions {
		bases[r] = fmt.Sprintf("http://127.0.0.1:%d", port+i)
	}
	return bases
}

// quickSettings writes the quick policy as a settings file.
func quickSettings(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "homeward.yaml")
	p := quick()
	text := fmt.Sprintf(`
claim:
  lease: %v
  renew_every: %v
  lease_margin: %v
  lease_ceiling: %v
  backoff_min: %v
  backoff_max: %v
  wait_poll: %v
  wait_max: %v
  decline_pause: %v
outbox:
  poll: %v
  lease: %v
replica_lag: 100ms
tenant_rate: 0
tenant_burst: 0
`, p.Lease, p.RenewEvery, p.LeaseMargin, p.LeaseCeiling, p.BackoffMin, p.BackoffMax, p.WaitPoll, p.WaitMax, p.DeclinePause,
		quickOutbox.Poll, quickOutbox.Lease)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
