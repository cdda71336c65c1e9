package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"

	"github.com/homeward-io/homeward/internal/child"
	"github.com/homeward-io/homeward/internal/node"
)

// Node is one node and its process, as the state file tells of them.
type Node struct {
	Name   string `json:"name"`
	Region string `json:"region"`
	PID    int    `json:"pid"`
	API    string `json:"api"`    // http://host:port
	RPC    string `json:"rpc"`    // host:port
	Gossip string `json:"gossip"` // host:port

	settings node.ServeSettings
	again    bool   // not the node's first process
	log      string // file
	proc     *child.Process
	ready    chan struct{} // closed when it has said so
}

// readyLine is what serve prints when it is ready.
var readyLine = regexp.MustCompile(`(?m)^homeward \S+ in \S+: API (http://\S+), RPC (\S+), gossip (\S+), database .*$`)

// start starts the process of a node whose settings are in a file. It ends with
// this process.
func (n *Node) start(file string, environ []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	log, err := child.OpenLog(n.log, n.again) // what the one before said last is why people look
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	cmd := exec.Command(self, "serve", "--config", file) //nolint:noctx // it is drained, not killed, when the context ends
	cmd.Env, cmd.Stdout = environ, &readyWatch{node: n, log: log}
	n.ready = make(chan struct{})
	if n.proc, err = child.Start(cmd, log, syscall.SIGKILL); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.PID = n.proc.PID()
	return nil
}

// readyWatch passes standard output on to the log and looks for the line that
// says where the node listens.
type readyWatch struct {
	node *Node
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
func (n *Node) await(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case <-n.proc.Done():
		return n.ended()
	case <-ctx.Done():
		return fmt.Errorf("node %s is not ready: %w; see %s", n.Name, context.Cause(ctx), n.log)
	}
}

// ended says how the process ended, and what it said last.
func (n *Node) ended() error {
	how := "with exit code 0"
	if err := n.proc.Err(); err != nil {
		how = "with " + err.Error()
	}
	return fmt.Errorf("node %s (process %d) ended %s%s", n.Name, n.PID, how, n.proc.Log().Tail(logLines))
}

// drain asks the process to finish, and kills it when ctx ends first. It returns
// when the process is gone. One that had ended before is nothing new.
func (n *Node) drain(ctx context.Context) error {
	if n.gone() {
		return nil
	}
	n.proc.Expect()
	select {
	case <-n.ready:
	default: // it may not listen to signals yet, and has nothing in hand
		return n.kill()
	}
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("node %s: %w", n.Name, err), n.kill())
	}
	wake(n.PID)
	if !n.proc.Wait(ctx) {
		return errors.Join(fmt.Errorf("node %s did not drain in time and was killed", n.Name), n.kill())
	}
	if n.proc.Err() != nil {
		return n.ended()
	}
	return nil
}

func (n *Node) kill() error {
	if err := n.proc.Kill(); err != nil {
		return fmt.Errorf("node %s: process %d cannot be killed: %w", n.Name, n.PID, err)
	}
	return nil
}

// gone: it was killed, stopped, ended by itself, or was never started.
func (n *Node) gone() bool { return !n.proc.Alive() }

// logLines is how much of a log is shown: a reason and what led to it.
const logLines = 5
