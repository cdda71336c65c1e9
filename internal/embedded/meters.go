package embedded

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/homeward-io/homeward/internal/meter"
)

// observe records Pebble's figures about the disk.
func (db *DB) observe(s *meter.Set) error {
	return s.Observe(func(o *meter.Observer) {
		db.closeMu.RLock()
		defer db.closeMu.RUnlock()
		if db.closed {
			return
		}
		m := db.pebble.Metrics()
		o.Is(meter.Compactions, float64(m.Compact.Count))
		o.Is(meter.CompactionDebt, float64(m.Compact.EstimatedDebt))
		o.Is(meter.DiskUsage, float64(m.DiskSpaceUsage()))
		if m.LogWriter.FsyncLatency == nil {
			return
		}
		var syncs dto.Metric
		if err := m.LogWriter.FsyncLatency.Write(&syncs); err == nil {
			o.Is(meter.Syncs, float64(syncs.GetHistogram().GetSampleCount()))
			o.Is(meter.SyncTime, syncs.GetHistogram().GetSampleSum()/1e9) // Pebble counts nanoseconds
		}
	})
}
