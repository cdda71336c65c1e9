// Package fault turns a panic into an error, so that a panic on one row fails
// that row and not the process with every other row in progress.
//
// Code that starts a goroutine to handle rows must defer [Recover] in it. The
// worker counts the row as failed and parks it after some tries: see
// outbox.Faulted. A panic does not show what was done before it, so the outcome of
// a payment is unknown.
//
// Fatal errors of the runtime (concurrent map writes, out of memory, endless
// recursion) still end the process.
package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
)

// Error is a recovered panic. As a value of a log line it shows the stack.
type Error struct {
	// Value is the panic's value.
	Value any
	Stack []byte
}

// maxText bounds the stored text of a panic, in bytes.
const maxText = 300

// Error returns one line that every store can store: short, valid UTF-8 and without
// NUL.
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

// Recover must be deferred directly, not called from within another function. It turns
// a panic into an *[Error] and stores it in err. Without a panic it does nothing.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Value: p, Stack: debug.Stack()}
	}
}

// Caught runs f and returns its panic, nil if there was none. Use it for functions
// that return no error.
func Caught(f func()) *Error {
	var err error
	func() {
		defer Recover(&err)
		f()
	}()
	caught, _ := errors.AsType[*Error](err)
	return caught
}
