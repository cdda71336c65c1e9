package localdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// dirPrefix names temporary directories; the next Start looks for left ones.
const dirPrefix = "homeward-localdb-"

// lockName is held by the process that uses a directory.
const lockName = "lock"

// dir is where a server's files are.
type dir struct {
	path      string
	temporary bool
	user      *account
	lock      *os.File // nil when closed
}

// openDir makes path, or a temporary directory when it is "", takes it for this
// process, and sees to it that the user can enter.
func openDir(path string, user *account) (*dir, error) {
	d := &dir{temporary: path == "", user: user}
	var err error
	if d.temporary {
		sweep()
		d.path, err = os.MkdirTemp("", dirPrefix)
	} else {
		d.path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("localdb: %w", err)
	}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *dir) take() error {
	mode := d.passable()
	if err := MakeDir(d.path, mode); err != nil {
		return err
	}
	if d.temporary { // made, with permissions of its own
		if err := os.Chmod(d.path, mode); err != nil {
			return fmt.Errorf("localdb: %w", err)
		}
	}
	if err := d.user.enters(d.path); err != nil {
		return err
	}
	name := filepath.Join(d.path, lockName)
	if d.temporary {
		name += ".new" // sweep must not see it before it is held
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	held, err := lock(f)
	if err == nil && !held {
		err = fmt.Errorf("%s is in use by another server: stop it or choose another directory", d.path)
	}
	if err == nil && d.temporary {
		err = os.Rename(name, filepath.Join(d.path, lockName))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("localdb: %w", err), f.Close())
	}
	d.lock = f
	return nil
}

// usable is an error after close.
func (d *dir) usable() error {
	if d.lock == nil {
		return errors.New("localdb: the server has been stopped")
	}
	return nil
}

// close gives the directory up, and removes it if it is temporary. A second call
// does nothing.
func (d *dir) close() error {
	var err error
	if d.temporary {
		err = os.RemoveAll(d.path)
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

// passable are the permissions of a directory that the server's user has to pass
// through. What must be secret in it is in files of its own.
func (d *dir) passable() os.FileMode {
	if d.user == nil {
		return 0o700
	}
	return 0o711
}

// sub makes a directory inside, which the server's user can enter.
func (d *dir) sub(elem ...string) (string, error) {
	path := filepath.Join(append([]string{d.path}, elem...)...)
	return path, MakeDir(path, d.passable())
}

// MakeDir makes a directory and its missing parents. Whatever the umask, what it
// makes gets the mode; what is there keeps its own.
func MakeDir(path string, mode os.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, os.ErrNotExist) {
		if err := MakeDir(filepath.Dir(path), mode); err != nil {
			return err
		}
		err = os.Mkdir(path, mode)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if errors.Is(err, os.ErrExist) {
		var info os.FileInfo
		if info, err = os.Stat(path); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", path)
		}
	}
	if err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	return nil
}

// sweep removes temporary directories of killed processes. It is best effort: what it cannot remove
// belongs to another user.
func sweep() {
	if runtime.GOOS != "linux" {
		return // no lock would distinguish running owners from dead ones
	}
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*", lockName)) // the pattern is well-formed
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if dead, err := lock(f); err == nil && dead {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = f.Close()
	}
}
