package node

import (
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/region"
)

// Tuning holds the settings that all kinds of nodes share: those of the demo, of
// homeward serve, of a node's configuration and of a cluster's. Only this type defines
// their names in files and in the environment.
type Tuning struct {
	// Policy is the life of a claim, the same at every node of the deployment.
	Policy claim.Policy `koanf:"claim"`
	// Outbox paces recovery.
	Outbox OutboxConfig `koanf:"outbox"`
	// Compensations bound automatic refunds, the same at every node of the deployment;
	// the zero value is DefaultCompensations.
	Compensations CompensationSettings `koanf:"compensations"`
	// Events selects the sinks of events; the zero value selects none. A node leaves them to
	// its [Config.Sinks].
	Events EventsSettings `koanf:"events"`
	// DeputyAfter is how long another region must be out of reach before a node acts on
	// its rows; 0 means region.DefaultGrace.
	DeputyAfter time.Duration `koanf:"deputy_after"`
	// TopologyEvery is how long a round of reading the table of regions and the row of
	// restores is; 0 means 5 s.
	TopologyEvery time.Duration `koanf:"topology_every"`
	// SweepEvery is how often the process that started the nodes deletes rows past
	// their windows; 0 means 1 min.
	SweepEvery time.Duration `koanf:"sweep_every"`
	// FiguresEvery is how often the node queries the store for metrics of its rows; 0
	// means 15 s.
	FiguresEvery time.Duration `koanf:"-"`
	// Objects is the gocloud.dev URL of the bucket, the same one for all regions, for
	// response bodies above claim.inline_body. "": a cluster in one process takes a
	// directory beside its store, and a node of its own keeps every body in its row.
	Objects string `koanf:"objects"`
	// Runs is the gocloud.dev URL of the bucket for reports of commands, which the
	// console shows; "": none.
	Runs string `koanf:"runs"`
	// Audit configures the export of audit; a node leaves that to its
	// [Config.AuditObjects].
	Audit AuditSettings `koanf:"audit"`
	// ErrorPages is the base URL of the types of errors, the same at every node; "" is
	// the pages that the node serves.
	ErrorPages problem.Pages `koanf:"error_pages"`
	// Limits: those of tenants are the defaults for tenants without any in their row.
	Limits httpapi.Limits `koanf:",flatten,squash"`
}

// DefaultTuning is the published contract.
func DefaultTuning() Tuning {
	return Tuning{
		Policy:        claim.DefaultPolicy(),
		Compensations: DefaultCompensations(),
		Events:        DefaultEvents(),
		DeputyAfter:   region.DefaultGrace,
		TopologyEvery: defaultTopologyEvery,
		SweepEvery:    defaultSweepEvery,
		Audit:         DefaultAudit(),
		Limits:        httpapi.DefaultLimits(),
	}
}

const (
	defaultTopologyEvery = 5 * time.Second
	defaultSweepEvery    = time.Minute
)

// OutboxConfig is the worker's part of the configuration; zero values take
// outbox.WorkerConfig's defaults.
type OutboxConfig struct {
	Poll  time.Duration `koanf:"poll"`
	Lease time.Duration `koanf:"lease"`
	Batch int           `koanf:"batch"`
}
