package lab

import "syscall"

// freeze stops a process where it stands; thaw lets it go on.
func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
func thaw(pid int) error   { return syscall.Kill(pid, syscall.SIGCONT) }

// wake lets a process go on that somebody has stopped, so that it acts on its
// signals.
func wake(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) }
