package notice

import "github.com/homeward-io/homeward/payment/psp"

// Errors of [Receiver.Receive] about the notice itself: those of psp.Notifier, for packages that do
// not import psp.
var (
	ErrForged    = psp.ErrForged
	ErrStale     = psp.ErrStale
	ErrMalformed = psp.ErrMalformed
	ErrUnchecked = psp.ErrUnchecked
)

// MaxNotice bounds the body of a notice, in bytes.
const MaxNotice = psp.MaxNotice
