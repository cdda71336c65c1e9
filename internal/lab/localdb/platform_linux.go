package localdb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is a user to run as.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns the user that runs PostgreSQL: nil for ours, an unprivileged one if we are
// root, which PostgreSQL refuses.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("localdb: user %s: %w", name, err)
		}
		return &account{name, uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("localdb: PostgreSQL refuses to run as root, and there is no user postgres or nobody: start this as another user")
}

// attributes make a child u's.
func (u *account) attributes() *syscall.SysProcAttr {
	if u == nil {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid}}
}

// give makes a path u's own.
func (u *account) give(path string) error {
	if u == nil {
		return nil
	}
	return os.Chown(path, int(u.uid), int(u.gid))
}

// enters reports whether u can pass through every directory down to path. It reads permission bits
// and no access lists.
func (u *account) enters(path string) error {
	if u == nil {
		return nil
	}
	for d := path; ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return fmt.Errorf("localdb: %w", err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("localdb: %s: no owner known", d)
		}
		bit := os.FileMode(0o001)
		switch {
		case st.Uid == u.uid:
			bit = 0o100
		case st.Gid == u.gid:
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return fmt.Errorf("localdb: PostgreSQL runs as user %s (it refuses root), who cannot enter %s: choose another directory or chmod o+x it", u.name, d)
		}
		if d == filepath.Dir(d) {
			return nil
		}
	}
}

// lock takes a file's lock, which its holder's death frees. It returns false if another process
// holds it.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// pause stops the process, then its children: a stopped parent starts no new ones. PostgreSQL's
// children have process groups of their own.
func (p process) pause() error {
	if err := p.signalTree(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("localdb: pause: %w", err)
	}
	return nil
}

func (p process) resume() error {
	if err := p.signalTree(syscall.SIGCONT); err != nil {
		return fmt.Errorf("localdb: resume: %w", err)
	}
	return nil
}

// killTree sends SIGKILL to the children too: a stopped child would not notice that its parent has
// ended. The parent is stopped first, so that none is missed.
func (p process) killTree() {
	_ = p.signalTree(syscall.SIGSTOP) // what cannot be stopped has ended
	_ = p.signalTree(syscall.SIGKILL)
}

// signalTree signals the process and then, after it has stopped on SIGSTOP, its children. Those
// that have ended are no error.
func (p process) signalTree(sig syscall.Signal) error {
	pid := p.PID()
	if sig == syscall.SIGKILL {
		// The children first: a parent that has ended has none.
		for _, child := range children(pid) {
			_ = syscall.Kill(child, sig)
		}
		return p.Signal(sig)
	}
	if err := p.Signal(sig); err != nil {
		return err
	}
	seen := map[int]bool{}
	for {
		fresh := false
		for _, child := range children(pid) {
			if !seen[child] {
				seen[child], fresh = true, true
				if err := syscall.Kill(child, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
					return err
				}
			}
		}
		// The signal reaches a parent that is in the middle of a fork afterwards.
		stopping := sig == syscall.SIGSTOP && p.Alive() && !bytes.ContainsAny(state(pid), "TtZX")
		if !fresh && !stopping {
			return nil
		}
	}
}

// children lists the child processes of pid.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	var found []int
	for _, path := range stats {
		if fields := stat(path); len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// state is a process's state as in proc(5), nil when it has ended.
func state(pid int) []byte {
	if fields := stat(fmt.Sprintf("/proc/%d/stat", pid)); len(fields) > 0 {
		return fields[0]
	}
	return nil
}

// stat returns what follows a process's name in its stat file: state, parent, …
// The name may hold blanks and brackets, so the last bracket counts.
func stat(path string) [][]byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil // it has ended
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}
