package psp

import "context"

// Accounted is a [Provider] that can report the account of its key.
type Accounted interface {
	// Account returns the provider's own id of the account, the same for each key of it. "" and no
	// error: there is none to report. An error is one line with the reason why it cannot be read
	// now; nothing follows from it.
	Account(ctx context.Context) (id string, err error)
}
