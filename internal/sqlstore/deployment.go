package sqlstore

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DeploymentID returns the random id that a migration gave to the rows, as the first session
// has read it. Copies and restored backups have the same one; no two deployments do.
func (db *DB) DeploymentID(context.Context) (uuid.UUID, error) {
	if id := db.of.id.Load(); id != nil {
		return *id, nil
	}
	return uuid.Nil, claimError("deployment", pgx.ErrNoRows)
}

// DeploymentID is [DB.DeploymentID].
func (v *View) DeploymentID(ctx context.Context) (uuid.UUID, error) { return v.db.DeploymentID(ctx) }
