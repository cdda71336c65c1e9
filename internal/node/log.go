package node

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
)

// pagePrefix begins the lines that wake the person on call.
const pagePrefix = "page: "

// unpaged logs what would page about a test tenant as a warning: no money is at stake.
type unpaged struct {
	slog.Handler
	test bool // its attributes say so
}

func ofTest(a slog.Attr) bool {
	switch a.Key {
	case "tenant":
		return !claim.Livemode(a.Value.String())
	case "provider":
		return a.Value.String() == claim.TestProvider
	default:
		return false
	}
}

func (h *unpaged) Handle(ctx context.Context, r slog.Record) error {
	message, pages := strings.CutPrefix(r.Message, pagePrefix)
	if !pages {
		return h.Handler.Handle(ctx, r)
	}
	test := h.test
	r.Attrs(func(a slog.Attr) bool {
		test = test || ofTest(a)
		return !test
	})
	if !test {
		return h.Handler.Handle(ctx, r)
	}
	quiet := slog.NewRecord(r.Time, slog.LevelWarn, message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		quiet.AddAttrs(a)
		return true
	})
	if !h.Enabled(ctx, quiet.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, quiet)
}

func (h *unpaged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &unpaged{h.Handler.WithAttrs(attrs), h.test || slices.ContainsFunc(attrs, ofTest)}
}

func (h *unpaged) WithGroup(name string) slog.Handler {
	return &unpaged{h.Handler.WithGroup(name), h.test}
}

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
