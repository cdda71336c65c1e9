package lab

import "syscall"

// freeze suspends a process; thaw resumes it.
func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
func thaw(pid int) error   { return syscall.Kill(pid, syscall.SIGCONT) }

// wake resumes a suspended process, so that it acts on its signals.
func wake(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) }
