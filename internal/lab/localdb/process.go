package localdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/homeward-io/homeward/internal/lab/child"
)

// Signals, as the products understand them.
const (
	signalCrash = syscall.SIGQUIT // PostgreSQL: "immediate shutdown", as in a crash
	signalFast  = syscall.SIGINT  // PostgreSQL: "fast shutdown", without waiting for clients
	signalDrain = syscall.SIGTERM // CockroachDB: drain, then end
)

// process is a running program, with the children that it has itself.
type process struct{ *child.Process }

// startProcess starts cmd as user, with standard error appended to a log. On Linux
// the process gets the signal deathSignal when this one dies.
func startProcess(cmd *exec.Cmd, logPath string, user *account, deathSignal syscall.Signal) (process, error) {
	log, err := child.OpenLog(logPath, true)
	if err != nil {
		return process{}, fmt.Errorf("localdb: %w", err)
	}
	cmd.SysProcAttr = user.attributes()
	p, err := child.Start(cmd, log, deathSignal)
	if err != nil {
		return process{}, fmt.Errorf("localdb: %w", err)
	}
	return process{p}, nil
}

// run runs a short command to its end and returns what it printed. It dies with
// this process.
func run(cmd *exec.Cmd, user *account) (string, error) {
	cmd.SysProcAttr = user.attributes()
	out, err := child.Output(cmd)
	if err != nil {
		err = fmt.Errorf("localdb: %s: %w%s", cmd.Path, err, child.LastLines(out, logLines))
	}
	return string(out), err
}

// end asks for the process's end with a signal, kills it when the context is over, and returns when
// it has ended.
func (p process) end(ctx context.Context, sig syscall.Signal) {
	p.Expect()
	if err := p.Signal(sig); err != nil {
		p.kill() // where there are no signals
		return
	}
	_ = p.resume() // a stopped process does not act on its signals
	if !p.Wait(ctx) {
		p.kill()
	}
}

// kill ends the process and its children with SIGKILL.
func (p process) kill() {
	if !p.Alive() {
		return
	}
	p.Expect()
	p.killTree()
	<-p.Done()
}

// errPortTaken: another process listens there.
var errPortTaken = errors.New("the port is taken")

// logLines is how much of a log an error shows: a reason and its context.
const logLines = 20

// failed is the error for a process that ended when it should not have.
func (p process) failed(path string) error {
	tail := p.tail()
	// PostgreSQL says "Address already in use", Go programs say it in lower case.
	if strings.Contains(tail, "ddress already in use") {
		return fmt.Errorf("localdb: %s ended: %w%s", path, errPortTaken, tail)
	}
	return fmt.Errorf("localdb: %s ended: %v%s", path, p.Err(), tail)
}

// tail is the end of this run's log, for an error's text.
func (p process) tail() string { return p.Log().Tail(logLines) }

// freePort chooses a port on loopback without a listener. It is below the range from which systems
// take the ports of outgoing connections (32768 up), so that a killed server finds its port free
// again, and below those of a cluster's nodes and of the end-to-end tests.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + rand.IntN(20000-15000)
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("localdb: no free port: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// environment is ours without the variables that would configure the child.
func environment(without string, with ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, without) {
			env = append(env, v)
		}
	}
	return append(env, with...)
}
