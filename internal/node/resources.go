package node

import (
	"context"
	"errors"
	"log/slog"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/outbox/relay"
)

// resources are the buckets and sinks of a process.
type resources struct {
	objects   *Blobs // nil: every body is in its row
	audit     AuditBucket
	auditKeys *audit.Keys
	runs      *Runs // nil: no report is kept
	sinks     *Sinks
}

// openResources opens what the settings name. keys sign the audit, if it has a bucket. The
// caller closes them.
func openResources(ctx context.Context, t *Tuning, keys *audit.Keys, endpoints relay.Endpoints, log *slog.Logger) (_ *resources, err error) {
	r := &resources{auditKeys: keys}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if t.Objects != "" {
		if r.objects, err = OpenBlobs(ctx, t.Objects); err != nil {
			return nil, err
		}
	}
	if t.Audit.Bucket != "" {
		if r.audit, err = OpenAudit(ctx, t.Audit.Bucket); err != nil {
			return nil, err
		}
	}
	if r.runs, err = OpenRuns(ctx, t.Runs); err != nil {
		return nil, err
	}
	if r.sinks, err = t.Events.open(ctx, endpoints, log); err != nil {
		return nil, err
	}
	return r, nil
}

// auditObjects returns the bucket of the audit, nil if there is none.
func (r *resources) auditObjects() audit.Objects {
	if r.audit.Blobs == nil {
		return nil
	}
	return r.audit
}

// close closes them; call it once no worker uses them. A nil one is closed.
func (r *resources) close() error {
	if r == nil {
		return nil
	}
	if r.sinks != nil {
		r.sinks.Close()
	}
	return errors.Join(r.objects.Close(), r.audit.Blobs.Close(), r.runs.Close())
}
