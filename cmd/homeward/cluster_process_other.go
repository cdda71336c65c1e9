//go:build !linux

package main

import "syscall"

// bound does nothing: only Linux ties a child's life to its parent's.
func bound() *syscall.SysProcAttr { return nil }

func wake(int) {}
