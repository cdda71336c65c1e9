// Package child runs other programs that end with this one, and shows the end of their
// output.
//
// On Linux a child gets a signal when its parent dies, however that dies. Elsewhere
// only an orderly end stops the child.
package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Process is a started program. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	log  *Log
	done chan struct{}
	err  error // of its end; read after done
	// expected: its end was requested.
	expected atomic.Bool
}

// Start starts cmd with standard error going to log, which is closed when the process
// has ended, or could not be started. The process gets the signal death when this one
// dies. It has a process group of its own, so that a terminal's Ctrl-C does not reach
// it, and a stopped child continues when its parent dies, so that it handles that
// signal.
func Start(cmd *exec.Cmd, log *Log, death syscall.Signal) (*Process, error) {
	cmd.Stderr = log.file
	bind(cmd, death)
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that forked ends, not the process: this
		// goroutine keeps its thread for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err != nil {
			_ = log.file.Close() // it printed nothing
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		_ = log.file.Close() // it printed what was expected
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Output runs a short command and returns its output on both streams. The command is
// killed when this process dies.
func Output(cmd *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread() // see Start
	defer runtime.UnlockOSThread()
	bind(cmd, syscall.SIGKILL)
	return cmd.CombinedOutput()
}

// PID returns the process's number, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended; nil is exit code 0. It is set once Done is closed.
func (p *Process) Err() error { return p.err }

// Log is the log that the process was started with.
func (p *Process) Log() *Log { return p.log }

// Alive is false for a nil Process, which was never started.
func (p *Process) Alive() bool {
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

// Expect records that the end of the process was requested, and Expected reports
// whether it was: any other end is unexpected.
func (p *Process) Expect()        { p.expected.Store(true) }
func (p *Process) Expected() bool { return p.expected.Load() }

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Wait reports whether the process ended before ctx did.
func (p *Process) Wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Kill ends the process at once, and returns when it has ended.
func (p *Process) Kill() error {
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Log is a file that children write to, with the position at which one of them began.
type Log struct {
	file *os.File
	from int64 // bytes
}

// OpenLog opens the file at path for appending, and creates it if needed. It keeps
// existing content if keep is set; [Log.Tail] shows none of it either way. The error
// names the file.
func OpenLog(path string, keep bool) (*Log, error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !keep {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return nil, err
	}
	from, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Log{f, from}, nil
}

// Write appends output that a child writes to standard output, if the parent reads
// that.
func (l *Log) Write(p []byte) (int, error) { return l.file.Write(p) }

// tailBytes bounds how much of a log is read for its end: far more than the lines
// that fit an error.
const tailBytes = 64 << 10

// Tail returns the last lines since the log was opened, for the end of an error's text;
// "" if there are none, or if they cannot be read, so that the error itself is still
// shown.
func (l *Log) Tail(lines int) string {
	f, err := os.Open(l.file.Name())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(f, max(l.from, info.Size()-tailBytes), tailBytes))
	return LastLines(text, lines)
}

// LastLines returns the end of a program's output, for the end of an error's text; ""
// if there is none.
func LastLines(text []byte, lines int) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	all := bytes.Split(text, []byte("\n"))
	return "; its last lines:\n  " + string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n  ")))
}
