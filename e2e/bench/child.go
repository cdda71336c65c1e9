package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// startTime bounds the start of a child, stopTime its end: opening a store
	// of a million keys takes a second, closing it as long.
	startTime = 60 * time.Second
	stopTime  = 60 * time.Second
)

// greeting is the line that a serving child prints once it is ready.
type greeting struct {
	// Serving are the addresses to load, in the order of the regions.
	Serving []string
	// Control answers GET /usage and /profile.
	Control string
	// Gossip is the gossip address for other nodes; "" for none.
	Gossip string
}

// child is a running process of this binary. It ends when its stdin does, so
// that none outlives the orchestrator, however that ends.
type child struct {
	greeting
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// command is this binary in another role, as a process group of its own: ^C is
// for the orchestrator, which stops its children in order.
func command(ctx context.Context, role string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"role:" + role}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}

// start runs a serving role until it is ready.
func start(ctx context.Context, role string, args ...string) (*child, error) {
	cmd, err := command(ctx, role, args...)
	if err != nil {
		return nil, err
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

// stop asks the child to end and waits until it has.
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

// serveChild is the child's side: greet, and serve until stdin ends or ctx does. more
// adds to what Control answers.
func serveChild(ctx context.Context, serving []string, in io.Reader, out io.Writer, more ...func(*http.ServeMux)) error {
	return serveGreeting(ctx, greeting{Serving: serving}, in, out, more...)
}

// serveGreeting is serveChild with more to say; Control is filled in.
func serveGreeting(ctx context.Context, hello greeting, in io.Reader, out io.Writer, more ...func(*http.ServeMux)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /usage", func(w http.ResponseWriter, _ *http.Request) {
		u, err := readUsage()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(u) // a reader that is gone has given up
	})
	mux.HandleFunc("GET /profile", pprof.Profile)
	for _, add := range more {
		add(mux)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: startTime}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends with Close below
	hello.Control = l.Addr().String()
	if err := json.NewEncoder(out).Encode(hello); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, in) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	err = s.Close()
	<-done
	return err
}

// usage is what a process has used since its start.
type usage struct {
	CPU      time.Duration // user and system
	PeakKiB  int64         // VmHWM: the largest resident set so far
	Mallocs  uint64
	HeapHeld uint64 // bytes the Go runtime holds for the heap
}

func readUsage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage{}, err
	}
	u := usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &u.PeakKiB); err != nil {
				return usage{}, fmt.Errorf("/proc/self/status: %q: %w", line, err)
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Mallocs, u.HeapHeld = m.Mallocs, m.HeapSys-m.HeapReleased
	return u, nil
}

// fetchUsage asks the control address of another process.
func fetchUsage(ctx context.Context, control string) (u usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+control+"/usage", nil)
	if err != nil {
		return u, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	return u, json.NewDecoder(res.Body).Decode(&u)
}

// saveProfile writes a CPU profile of the next seconds to path.
func saveProfile(ctx context.Context, control, path string, seconds int) (err error) {
	url := fmt.Sprintf("http://%s/profile?seconds=%d", control, max(1, seconds))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}
