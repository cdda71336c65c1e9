package telemetry

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// maxLines and maxLineBytes bound what waits for a reader: some seconds of a busy
	// node's log, and little memory.
	maxLines     = 4096
	maxLineBytes = 1 << 20
	// linesTime bounds the wait for the reader at the end of the process.
	linesTime = 2 * time.Second
)

// Lines passes lines to a reader for which no writer waits: if the reader stalls, lines
// that do not fit are dropped, and those that it refuses are lost as well. Both are counted.
// It is safe for concurrent use.
type Lines struct {
	out     io.Writer
	note    *slog.Logger // nil: what is dropped is only counted
	lines   chan []byte
	bytes   atomic.Int64 // in lines
	dropped atomic.Int64
	stop    chan struct{}
	stopped chan struct{}
}

// NewLines returns the lines of out, which nothing else may write to. The caller must call
// Close.
func NewLines(out io.Writer) *Lines { return newLines(out, nil) }

func newLines(out io.Writer, note *slog.Logger) *Lines {
	l := &Lines{out: out, note: note, lines: make(chan []byte, maxLines), stop: make(chan struct{}), stopped: make(chan struct{})}
	go l.pass()
	return l
}

// NewLog returns a process's log on out, as JSON, and its lines. Once the reader of out reads again
// after lines were dropped, a line has their number.
func NewLog(out io.Writer, level slog.Level) (*slog.Logger, *Lines) {
	json := func(w io.Writer) *slog.Logger {
		return slog.New(Traced(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})))
	}
	l := newLines(out, json(out))
	return json(l), l
}

// Dropped returns how many lines were dropped unread.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Write takes one line, or drops it. It does not block, and never fails.
func (l *Lines) Write(line []byte) (int, error) {
	size := int64(len(line))
	if l.bytes.Add(size) > maxLineBytes {
		l.drop(size)
		return len(line), nil
	}
	select {
	case l.lines <- append([]byte(nil), line...): // the caller may reuse it
	default:
		l.drop(size)
	}
	return len(line), nil
}

func (l *Lines) drop(size int64) {
	l.bytes.Add(-size)
	l.dropped.Add(1)
}

// Close waits until the lines are written, for linesTime at most. Later lines are dropped.
func (l *Lines) Close() {
	close(l.stop)
	select {
	case <-l.stopped:
	case <-time.After(linesTime):
	}
}

// pass writes lines until Close.
func (l *Lines) pass() {
	defer close(l.stopped)
	var said int64 // of dropped
	one := func(line []byte) {
		_, err := l.out.Write(line)
		l.bytes.Add(-int64(len(line)))
		if err != nil {
			l.dropped.Add(1)
			return
		}
		// What waited was logged before what was dropped.
		if dropped := l.dropped.Load(); dropped > said && l.note != nil && len(l.lines) == 0 {
			l.note.Warn("lines of the log were dropped: its reader did not read", "lines", dropped-said)
			said = dropped
		}
	}
	for {
		select {
		case line := <-l.lines:
			one(line)
		case <-l.stop:
			for {
				select {
				case line := <-l.lines:
					one(line)
				default:
					return
				}
			}
		}
	}
}
