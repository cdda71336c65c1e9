package node

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// untilStop drops gossip's log lines after the node has left on purpose: failed sends
// on the closed socket are expected.
type untilStop struct {
	slog.Handler
	left *atomic.Bool
}

func (h *untilStop) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.left.Load() && h.Handler.Enabled(ctx, level)
}

func (h *untilStop) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &untilStop{h.Handler.WithAttrs(attrs), h.left}
}

func (h *untilStop) WithGroup(name string) slog.Handler {
	return &untilStop{h.Handler.WithGroup(name), h.left}
}
