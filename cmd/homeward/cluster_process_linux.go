package main

import "syscall"

// bound ties a child's life to this process's, however that ends. A process group
// of its own keeps a terminal's Ctrl-C from the child, which is ours to end.
func bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze stops a process where it stands; thaw lets it go on.
func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
func thaw(pid int) error   { return syscall.Kill(pid, syscall.SIGCONT) }

// wake lets a process go on that somebody has stopped, so that it acts on its
// signals.
func wake(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) }
