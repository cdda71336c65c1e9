package telemetry

import (
	"context"
	"log/slog"

	"github.com/homeward-io/homeward/internal/span"
)

// Traced is a log handler that adds trace_id and span_id to records that are logged
// within a span.
func Traced(h slog.Handler) slog.Handler { return traced{h} }

type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if at := span.Current(ctx).SpanContext(); at.IsValid() {
		r = r.Clone() // its attributes may be shared
		r.AddAttrs(slog.String("trace_id", at.TraceID().String()), slog.String("span_id", at.SpanID().String()))
	}
	return t.Handler.Handle(ctx, r)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }
