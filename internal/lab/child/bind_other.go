//go:build !linux

package child

import (
	"os/exec"
	"syscall"
)

// bind does nothing: only Linux ties a child's life to its parent's.
func bind(*exec.Cmd, syscall.Signal) {}
