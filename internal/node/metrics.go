package node

import (
	"context"
	"errors"
	"net"

	"github.com/homeward-io/homeward/internal/telemetry"
)

// openMetrics is [telemetry.OpenMetrics] with the setting's name in its listener's error.
func openMetrics(ctx context.Context, p telemetry.Process, listen string) (*telemetry.Metrics, error) {
	m, err := telemetry.OpenMetrics(ctx, p, listen)
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = listenError("metrics.listen", listen, err)
	}
	return m, err
}
