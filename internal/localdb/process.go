package localdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Signals, as the products understand them.
const (
	signalCrash = syscall.SIGQUIT // PostgreSQL: "immediate shutdown", as in a crash
	signalFast  = syscall.SIGINT  // PostgreSQL: "fast shutdown", without waiting for clients
	signalDrain = syscall.SIGTERM // CockroachDB: drain, then end
)

// process is a running program and its log.
type process struct {
	cmd     *exec.Cmd
	logPath string
	logFrom int64         // where in the log this run begins
	done    chan struct{} // closed when it has ended
	err     error         // of its end; read after done
	// expected: its end was asked for.
	expected atomic.Bool
}

// startProcess starts cmd with standard error appended to a log. On Linux the
// process gets the signal deathSignal when this one dies.
func startProcess(cmd *exec.Cmd, logPath string, user *account, deathSignal syscall.Signal) (*process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("localdb: %w", err)
	}
	defer func() { _ = logFile.Close() }() // the child has its own
	end, err := logFile.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("localdb: %w", err)
	}
	cmd.Stderr = logFile
	cmd.SysProcAttr = attributes(user, deathSignal)
	p := &process{cmd: cmd, logPath: logPath, logFrom: end, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that forked ends, not the process:
		// this goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("localdb: %w", err)
	}
	return p, nil
}

// run runs a short command to its end and returns what it printed. It dies with
// this process.
func run(cmd *exec.Cmd, user *account) (string, error) {
	runtime.LockOSThread() // see startProcess
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = attributes(user, syscall.SIGKILL)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("localdb: %s: %w%s", cmd.Path, err, lastLines(out))
	}
	return string(out), err
}

// alive is false for a process that was never started.
func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end asks for the process's end with a signal, kills it when the context is
// over, and returns when it is gone.
func (p *process) end(ctx context.Context, sig syscall.Signal) {
	p.expected.Store(true)
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.kill() // where there are no signals
		return
	}
	_ = p.resume() // a stopped process does not act on its signals
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
	}
}

// kill ends the process and its children with SIGKILL.
func (p *process) kill() {
	if !p.alive() {
		return
	}
	p.expected.Store(true)
	p.killTree()
	<-p.done
}

// errPortTaken: somebody else listens there.
var errPortTaken = errors.New("the port is taken")

// failed is the error for a process that ended when it should not have.
func (p *process) failed(path string) error {
	tail := p.tail()
	// PostgreSQL says "Address already in use", Go programs say it in lower case.
	if strings.Contains(tail, "ddress already in use") {
		return fmt.Errorf("localdb: %s ended: %w%s", path, errPortTaken, tail)
	}
	return fmt.Errorf("localdb: %s ended: %v%s", path, p.err, tail)
}

// tail is the end of this run's log, for an error's text.
func (p *process) tail() string {
	f, err := os.Open(p.logPath)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	// An unreadable log must not hide the error that it would explain.
	log, _ := io.ReadAll(io.NewSectionReader(f, p.logFrom, 1<<20))
	return lastLines(log)
}

// logLines is how much of a log an error shows: a reason and its context.
const logLines = 20

func lastLines(log []byte) string {
	log = bytes.TrimSpace(log)
	if len(log) == 0 {
		return ""
	}
	lines := bytes.Split(log, []byte("\n"))
	lines = lines[max(0, len(lines)-logLines):]
	return "; its last lines:\n" + string(bytes.Join(lines, []byte("\n")))
}

// freePort chooses a port on loopback that nobody listens on. It is below the
// range from which systems take the ports of outgoing connections (32768 up), so
// that a killed server finds its port free again.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 15000 + rand.IntN(32768-15000)
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
