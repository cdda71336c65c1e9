package node

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// untilStop drops what is logged once a node has left gossip on purpose: that its
// last packets find their socket closed is no news.
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
