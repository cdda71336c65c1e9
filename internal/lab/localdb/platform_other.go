//go:build !linux

package localdb

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// account is a user to run as; outside Linux servers run as ourselves.
type account struct{ name string }

func unprivileged() (*account, error) { return nil, nil }

func (*account) attributes() *syscall.SysProcAttr { return nil }

func (*account) give(string) error { return nil }

func (*account) enters(string) error { return nil }

// lock always succeeds: the databases guard their data themselves.
func lock(*os.File) (bool, error) { return true, nil }

func (p process) pause() error {
	return fmt.Errorf("localdb: pause on %s: %w", runtime.GOOS, ErrUnsupported)
}

func (p process) resume() error { return nil } // nothing was paused

// killTree kills the process; PostgreSQL's children notice and end.
func (p process) killTree() { _ = p.Signal(os.Kill) }
