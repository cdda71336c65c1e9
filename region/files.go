package region

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
)

// files is a value that is read from files, and read again when they change. It is not safe
// for concurrent use.
type files[T any] struct {
	paths []string
	read  func() (T, error)
	have  T
	seen  []os.FileInfo // at the last reading; nil: one was missing
	// broken: the last reading failed. Such files are read again even if unchanged, as a
	// certificate may only have been too young.
	broken bool
}

// open reads the files for the first time.
func (f *files[T]) open() (err error) {
	if f.seen, err = stat(f.paths); err == nil {
		f.have, err = f.read()
	}
	return err
}

// check reads the files if they have changed, or if they could not be used. The present value
// stays where they cannot be used; failed says why, once for each change.
func (f *files[T]) check() (reloaded bool, failed error) {
	// Before the reading: a file that changes meanwhile is then read again.
	seen, err := stat(f.paths)
	changed := err == nil && !sameFiles(seen, f.seen) || err != nil && f.seen != nil
	if !changed && !f.broken {
		return false, nil
	}
	f.seen = seen
	var next T
	if err == nil {
		next, err = f.read()
	}
	f.broken = err != nil
	switch {
	case !f.broken:
		f.have = next
		return true, nil
	case changed:
		return false, err
	default:
		return false, nil
	}
}

func stat(paths []string) (all []os.FileInfo, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

func sameFiles(a, b []os.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}

// ServerCertificate is a server's certificate for browsers, which it reads again when its
// files change. It logs invalid files once and does not use them. It is safe for concurrent
// use.
type ServerCertificate struct {
	log   *slog.Logger
	mu    sync.Mutex
	files files[*tls.Certificate]
}

// NewServerCertificate reads both files, in PEM.
func NewServerCertificate(certFile, keyFile string, log *slog.Logger) (*ServerCertificate, error) {
	c := &ServerCertificate{log: log, files: files[*tls.Certificate]{
		paths: []string{certFile, keyFile},
		read: func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			return &pair, err
		},
	}}
	return c, c.files.open()
}

// Get implements tls.Config.GetCertificate.
func (c *ServerCertificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, failed := c.files.check(); failed != nil {
		c.log.Warn("a certificate has changed and cannot be loaded; the former one stays in use", "file", c.files.paths[0], "error", failed)
	}
	return c.files.have, nil
}
