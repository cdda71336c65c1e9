// Package fault turns a panic into an error, so that what our code cannot bear in
// one row costs that row, and not the process with every other row in hand.
//
// Whoever starts a goroutine that works rows defers [Recover] in it, since nobody
// else can. A row that was being worked on counts as failed, and is parked after
// some tries: see outbox.Faulted. A panic says nothing of what was done before it,
// so what becomes of money under it is unknown.
//
// What the runtime itself gives up on (maps that are written at once, memory, an
// endless recursion) ends the process all the same.
package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
)

// Error is a panic that was caught. As a value of a log line it shows the stack.
type Error struct {
	// Value is what was thrown.
	Value any
	Stack []byte
}

// maxText bounds what is kept of a panic's text in a row, in bytes.
const maxText = 300

// Error is one line that every store can keep: short, valid UTF-8 and without NUL.
func (e *Error) Error() string {
	text := strings.ReplaceAll(strings.ToValidUTF8(fmt.Sprint(e.Value), "\uFFFD"), "\x00", "\uFFFD")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…" // the cut may be inside a character
	}
	return "our code panicked: " + text
}

// LogValue implements [slog.LogValuer].
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", fmt.Sprint(e.Value)), slog.String("stack", string(e.Stack)))
}

// Recover is deferred, itself and not from within another function. It turns a panic
// into an *[Error], in the place of the error that err points to, and does nothing
// where there is none.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Value: p, Stack: debug.Stack()}
	}
}

// Caught runs f and returns its panic, nil if there was none. It is for what returns
// no error.
func Caught(f func()) *Error {
	var err error
	func() {
		defer Recover(&err)
		f()
	}()
	caught, _ := errors.AsType[*Error](err)
	return caught
}
