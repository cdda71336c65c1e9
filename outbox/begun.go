package outbox

import "context"

type begunKey struct{}

// Begun marks ctx as the context of work in progress: a taken row, a held claim. A
// store under load reserves capacity for such contexts, so that new work never
// blocks work in progress. Marking a context twice has no further effect.
func Begun(ctx context.Context) context.Context {
	return context.WithValue(ctx, begunKey{}, true)
}

// IsBegun reports whether ctx is marked so.
func IsBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
