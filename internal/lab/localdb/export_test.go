//go:build linux

package localdb

import (
	"bytes"
	"testing"
)

// Path is the server's directory.
func (s *Server) Path() string { return s.dir.path }

// Gone reports whether a process has ended, reaped or not.
func Gone(t testing.TB, pid int) bool {
	t.Helper()
	s := state(pid)
	return s == nil || bytes.ContainsAny(s, "ZX")
}

// Children of a process.
func Children(pid int) []int { return children(pid) }

// State of a process, as in proc(5).
func State(pid int) string { return string(state(pid)) }
