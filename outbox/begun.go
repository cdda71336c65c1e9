package outbox

import "context"

type begunKey struct{}

// Begun marks ctx as that of work that was begun: a row that was taken, a claim that
// is held. A store that has too little room for everybody keeps some for it, so that
// work which has not begun never stops work which has. It may be marked twice.
func Begun(ctx context.Context) context.Context {
	return context.WithValue(ctx, begunKey{}, true)
}

// IsBegun reports whether ctx is marked so.
func IsBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
