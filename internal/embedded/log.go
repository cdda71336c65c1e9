package embedded

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logs is the file system of Pebble. A write of a log that fails does not fail for Pebble, which would
// panic at the log's end and take the program with it: it fails the store, before Pebble tells the
// caller. Nothing is written to a log after that, so none has a gap.
type logs struct {
	vfs.FS
	db *DB
	// opened: until then an error is Pebble's, so that of Open.
	opened atomic.Bool
}

// try runs a write of a log.
func (l *logs) try(write func() error) error {
	if l.db.broken.Load() != nil {
		return nil
	}
	err := write()
	if err == nil || !l.opened.Load() {
		return err
	}
	l.db.fail(err)
	return nil
}

// Unwrap implements [vfs.FS].
func (l *logs) Unwrap() vfs.FS { return l.FS }

// Create implements [vfs.FS].
func (l *logs) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return l.file(name, func() (vfs.File, error) { return l.FS.Create(name, c) })
}

// ReuseForWrite implements [vfs.FS].
func (l *logs) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return l.file(name, func() (vfs.File, error) { return l.FS.ReuseForWrite(old, name, c) })
}

func (l *logs) file(name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	if !strings.HasSuffix(name, ".log") {
		return open()
	}
	err = l.try(func() error {
		opened, err := open()
		if err == nil { // with an error, too, opened may not be nil
			f = opened
		}
		return err
	})
	if err == nil && f == nil { // nothing will be written to it
		f, err = vfs.NewMem().Create("log", vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, err
	}
	return &logFile{f, l}, nil
}

type logFile struct {
	vfs.File
	logs *logs
}

func (f *logFile) Write(p []byte) (int, error) {
	return len(p), f.logs.try(func() error { _, err := f.File.Write(p); return err })
}

func (f *logFile) Sync() error     { return f.logs.try(f.File.Sync) }
func (f *logFile) SyncData() error { return f.logs.try(f.File.SyncData) }

func (f *logFile) SyncTo(length int64) (full bool, err error) {
	err = f.logs.try(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *logFile) Close() error {
	err := f.File.Close()
	return f.logs.try(func() error { return err })
}

func (f *logFile) Preallocate(offset, length int64) error {
	return f.logs.try(func() error { return f.File.Preallocate(offset, length) })
}
