package relay

import (
	"context"
	"log/slog"

	"github.com/homeward-io/homeward/outbox"
)

// Log is the sink that writes one line for each event. Of the payload it logs
// only the object's id.
type Log struct{ Logger *slog.Logger }

// Deliver implements [Sink].
func (l Log) Deliver(ctx context.Context, e Event) outbox.Disposition {
	l.Logger.InfoContext(ctx, "event", "id", e.ID, "type", e.Type, "object", e.Object, "tenant", e.Tenant)
	return outbox.Done()
}
