package child_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/child"
)

// roleEnv makes the test binary one of the roles.
const roleEnv = "HOMEWARD_CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "": // the tests
		os.Exit(m.Run())
	case "echo": // echoes its input, until that ends
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
	case "grumble": // prints three lines and fails
		_, _ = io.WriteString(os.Stderr, "one\ntwo\nthree\n")
		os.Exit(3)
	case "parent": // has a child, which has our standard input and output, and waits for it
		if log, err := child.OpenLog(os.DevNull, true); err == nil {
			cmd := role("echo")
			cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
			if p, err := child.Start(cmd, log, syscall.SIGKILL); err == nil {
				<-p.Done()
			}
		}
		os.Exit(1)
	}
}

// role is this binary as one of the roles.
func role(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+name)
	return cmd
}

// grumble's log is at path.
func grumble(t *testing.T, path string, keep bool) *child.Process {
	t.Helper()
	log, err := child.OpenLog(path, keep)
	require.NoError(t, err)
	p, err := child.Start(role("grumble"), log, syscall.SIGKILL)
	require.NoError(t, err)
	<-p.Done()
	return p
}

func TestTailIsOfThisRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	p := grumble(t, path, false)
	require.False(t, p.Alive())
	require.False(t, p.Expected())
	require.ErrorContains(t, p.Err(), "exit status 3")
	require.Equal(t, "; its last lines:\n  two\n  three", p.Log().Tail(2))
	require.NoError(t, p.Kill(), "one that has ended")

	p = grumble(t, path, true)
	require.Equal(t, "; its last lines:\n  one\n  two\n  three", p.Log().Tail(9))
	said, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\none\ntwo\nthree\n", string(said))

	p = grumble(t, path, false)
	require.NoError(t, os.Remove(path))
	require.Empty(t, p.Log().Tail(9), "nothing can be read")
}

func TestLastLines(t *testing.T) {
	require.Empty(t, child.LastLines([]byte(" \n\n"), 3))
	require.Equal(t, "; its last lines:\n  b\n  c", child.LastLines([]byte("a\nb\nc\n"), 2))
	out, err := child.Output(role("grumble"))
	require.ErrorContains(t, err, "exit status 3")
	require.Equal(t, "one\ntwo\nthree\n", string(out))
}

func TestNothingToStart(t *testing.T) {
	log, err := child.OpenLog(filepath.Join(t.TempDir(), "log"), false)
	require.NoError(t, err)
	_, err = child.Start(exec.Command(filepath.Join(t.TempDir(), "none")), log, syscall.SIGKILL)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = log.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrClosed)
	require.False(t, (*child.Process)(nil).Alive())
	_, err = child.OpenLog(t.TempDir(), true)
	require.Error(t, err)
}

func TestKill(t *testing.T) {
	e := newEcho(t)
	e.start()
	e.started(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, e.Wait(over))
	require.True(t, e.Alive())
	e.Expect()
	require.NoError(t, e.Kill())
	require.True(t, e.Wait(t.Context()))
	require.False(t, e.Alive())
	require.True(t, e.Expected())
	require.Error(t, e.Err())
}

// echo is a child that answers.
type echo struct {
	*child.Process
	start    func()
	err      error // of start
	stdin    io.WriteCloser
	stdout   *os.File
	childEnd *os.File // their end of stdout
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	log, err := child.OpenLog(filepath.Join(t.TempDir(), "log"), false)
	require.NoError(t, err)
	cmd, e := role("echo"), &echo{}
	e.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	e.stdout, e.childEnd, err = os.Pipe()
	require.NoError(t, err)
	cmd.Stdout = e.childEnd
	e.start = func() { e.Process, e.err = child.Start(cmd, log, syscall.SIGKILL) }
	return e
}

func (e *echo) started(t *testing.T) {
	t.Helper()
	require.NoError(t, e.err)
	require.NoError(t, e.childEnd.Close())
	t.Cleanup(func() {
		require.NoError(t, e.Kill())
		require.NoError(t, e.stdout.Close())
	})
}
