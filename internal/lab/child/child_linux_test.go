package child_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAChildEndsWithItsParent: at the other ends of both pipes is the child of a
// process that is killed, and nothing else would end it.
func TestAChildEndsWithItsParent(t *testing.T) {
	parent := role("parent")
	stdin, err := parent.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	parent.Stdout = w
	require.NoError(t, parent.Start())
	require.NoError(t, w.Close())
	_, err = io.WriteString(stdin, "up\n")
	require.NoError(t, err)
	up := make([]byte, len("up\n"))
	_, err = io.ReadFull(r, up)
	require.NoError(t, err)
	require.Equal(t, "up\n", string(up))
	require.NoError(t, parent.Process.Kill())
	_, err = parent.Process.Wait() // and not parent.Wait, which closes stdin
	require.NoError(t, err)
	rest, err := io.ReadAll(r) // until both have ended
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, stdin.Close())
	require.NoError(t, r.Close())
}

// TestAChildOutlivesTheThread that started it.
func TestAChildOutlivesTheThread(t *testing.T) {
	e := newEcho(t)
	thread, done := make(chan int), make(chan struct{})
	defer close(done)
	on := func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			thread <- 0 // but for the first one, which is kept from the next attempt
			<-done
			return
		}
		e.start()
		thread <- syscall.Gettid()
	}
	id := 0
	for id == 0 {
		go on()
		id = <-thread
	}
	e.started(t)
	task := fmt.Sprintf("/proc/self/task/%d", id)
	for {
		if _, err := os.Stat(task); os.IsNotExist(err) {
			break
		}
		runtime.Gosched()
	}
	_, err := io.WriteString(e.stdin, "still here")
	require.NoError(t, err)
	require.NoError(t, e.stdin.Close())
	said, err := io.ReadAll(e.stdout)
	require.NoError(t, err)
	require.Equal(t, "still here", string(said))
	<-e.Done()
	require.NoError(t, e.Err())
}
