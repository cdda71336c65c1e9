package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/outbox"
)

// A handler says what becomes of its row. It is called again after a crash, so it must be
// idempotent.
func ExampleHandler() {
	var call func() error
	handler := outbox.Handler(func(context.Context, outbox.Message) outbox.Disposition {
		switch err := call(); {
		case err == nil:
			return outbox.Done()
		case errors.Is(err, errBusy):
			return outbox.Later(time.Second) // not tried: no attempt is counted
		case errors.Is(err, errClosed):
			return outbox.Parked("the account is closed") // no retry mends it
		default:
			return outbox.Failed(err.Error()) // retried, further and further apart
		}
	})
	for _, err := range []error{nil, errBusy, errClosed, errors.New("status 500")} {
		call = func() error { return err }
		fmt.Println(handler(context.Background(), outbox.Message{ID: "ch_1"}))
	}
	// Output:
	// Done
	// Later 1s
	// Parked: the account is closed
	// Failed: status 500
}

var (
	errBusy   = errors.New("busy")
	errClosed = errors.New("closed")
)
