package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTime bounds the start of a child, stopTime its end.
	startTime = 60 * time.Second
	stopTime  = 60 * time.Second
)

// greeting is the line that a child prints once it is ready.
type greeting struct {
	// Serving are the addresses to load, in the order of the regions.
	Serving []string
	// Gossip is the gossip address for other nodes; "" for none.
	Gossip string
}

// child is a running process of this binary. It ends when its stdin does, so that none
// outlives the orchestrator, however that ends.
type child struct {
	greeting
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// profileEnv names the file that a child writes the CPU profile of its life to.
const profileEnv = "HOMEWARD_BENCH_PROFILE"

// start runs a role until it is ready. It is a process group of its own: ^C is for the
// orchestrator, which stops its children in order.
func start(ctx context.Context, profile, role string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"role:" + role}, args...)...)
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	if profile != "" {
		cmd.Env = append(cmd.Environ(), profileEnv+"="+profile)
	}
	c := &child{cmd: cmd}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
	err = json.NewDecoder(out).Decode(&c.greeting)
	kill.Stop()
	if err != nil {
		_ = c.stdin.Close()
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", role, err), cmd.Wait())
	}
	return c, nil
}

// stop asks the child to end and waits until it has. A nil child has ended.
func (c *child) stop() error {
	if c == nil {
		return nil
	}
	_ = c.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.cmd.Args[1:], " "), err)
	}
	return nil
}

// greet is the child's side: it prints hello, and returns when stdin ends or ctx does.
func greet(ctx context.Context, hello greeting, in io.Reader, out io.Writer) error {
	if path := os.Getenv(profileEnv); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); _ = f.Close() }() // an unfinished profile does not open
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(hello); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, in) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// serve serves each server on a free port as a child.
func serve(ctx context.Context, in io.Reader, out io.Writer, servers ...*http.Server) (err error) {
	var hello greeting
	for _, s := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		hello.Serving = append(hello.Serving, l.Addr().String())
		var serving sync.WaitGroup
		serving.Go(func() { _ = s.Serve(l) }) // until the server is closed
		defer func() {
			err = errors.Join(err, s.Close())
			serving.Wait()
		}()
	}
	return greet(ctx, hello, in, out)
}
