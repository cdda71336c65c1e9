package notice

import "github.com/homeward-io/homeward/payment/psp"

// What [Receiver.Receive] refuses a notice for because of the notice itself: those of
// psp.Notifier, for rooms that know no providers.
var (
	ErrForged    = psp.ErrForged
	ErrStale     = psp.ErrStale
	ErrMalformed = psp.ErrMalformed
	ErrUnchecked = psp.ErrUnchecked
)

// MaxNotice bounds the body of a notice, in bytes.
const MaxNotice = psp.MaxNotice
