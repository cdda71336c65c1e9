package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/homeward-io/homeward/internal/node"
)

// clusterNode is one node and its process, as the state file tells of them.
type clusterNode struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	PID    int    `json:"pid"`
	API    string `json:"api"`    // http://host:port
	RPC    string `json:"rpc"`    // host:port
	Gossip string `json:"gossip"` // host:port

	settings node.ServeSettings
	again    bool   // not the node's first process
	log      string // file
	cmd      *exec.Cmd
	ready    chan struct{} // closed when it has said so
	done     chan struct{} // closed when it has ended
	err      error         // of its end; read after done
	// expected: its end was asked for.
	expected atomic.Bool
}

// readyLine is what serve prints when it is ready.
var readyLine = regexp.MustCompile(`(?m)^homeward \S+ in \S+: API (http://\S+), RPC (\S+), gossip (\S+), database .*$`)

// start starts the process of a node whose settings are in a file. It ends with
// this process.
func (n *clusterNode) start(file string, environ []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	mode := os.O_TRUNC
	if n.again { // what the one before said last is why people look
		mode = os.O_APPEND
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|mode, 0o600)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.cmd = exec.Command(self, "serve", "--config", file) //nolint:noctx // it is drained, not killed, when the context ends
	n.cmd.Env = environ
	n.cmd.Stdout, n.cmd.Stderr = &readyWatch{node: n, log: log}, log
	n.cmd.SysProcAttr = bound()
	n.ready, n.done = make(chan struct{}), make(chan struct{})
	started := make(chan error)
	go func() {
		// A child is bound to the thread that made it: this goroutine keeps its
		// thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := n.cmd.Start()
		started <- err
		if err == nil {
			n.err = n.cmd.Wait()
			close(n.done)
		}
		_ = log.Close() // what was to be said in it has been
	}()
	if err := <-started; err != nil {
		n.cmd = nil
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.PID = n.cmd.Process.Pid
	return nil
}

// readyWatch passes standard output on to the log and looks for the line that
// says where the node listens.
type readyWatch struct {
	node *clusterNode
	log  io.Writer
	seen bytes.Buffer
}

func (w *readyWatch) Write(p []byte) (int, error) {
	select {
	case <-w.node.ready:
	default:
		w.seen.Write(p)
		if m := readyLine.FindSubmatch(w.seen.Bytes()); m != nil {
			w.node.API, w.node.RPC, w.node.Gossip = string(m[1]), string(m[2]), string(m[3])
			close(w.node.ready)
		}
	}
	return w.log.Write(p)
}

// await returns once the node is ready.
func (n *clusterNode) await(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-n.done:
		return n.ended()
	case <-ctx.Done():
		return fmt.Errorf("node %s is not ready: %w; see %s", n.Name, context.Cause(ctx), n.log)
	}
}

// ended says how the process ended, and what it said last.
func (n *clusterNode) ended() error {
	how := "with exit code 0"
	if n.err != nil {
		how = "with " + n.err.Error()
	}
	return fmt.Errorf("node %s (process %d) ended %s%s", n.Name, n.PID, how, lastLines(n.log))
}

// drain asks the process to finish, and kills it when ctx ends first. It returns
// when the process is gone. One that had ended before is nothing new.
func (n *clusterNode) drain(ctx context.Context) error {
	if n.cmd == nil {
		return nil
	}
	select {
	case <-n.done:
		return nil
	default:
	}
	n.expected.Store(true)
	select {
	case <-n.ready:
	default: // it may not listen to signals yet, and has nothing in hand
		return n.kill()
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(fmt.Errorf("node %s: %w", n.Name, err), n.kill())
	}
	wake(n.PID)
	select {
	case <-n.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("node %s did not drain in time and was killed", n.Name), n.kill())
	}
	if n.err != nil {
		return n.ended()
	}
	return nil
}

func (n *clusterNode) kill() error {
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("node %s: process %d cannot be killed: %w", n.Name, n.PID, err)
	}
	<-n.done
	return nil
}

const (
	// logLines is how much of a log is shown: a reason and what led to it.
	logLines = 5
	// logTail bounds how much of it is read for that, in bytes.
	logTail = 16 << 10
)

// lastLines is the end of a log, for the end of an error's text.
func lastLines(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // an unreadable log must not hide the error that it would explain
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, info.Size()-logTail), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(f, logTail))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] == "" {
		return ""
	}
	return "; its last lines:\n  " + strings.Join(lines[max(0, len(lines)-logLines):], "\n  ")
}
