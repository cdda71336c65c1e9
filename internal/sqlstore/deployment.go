package sqlstore

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var deploymentID = declare[none]("deployment")

// DeploymentID returns the random id that a migration gave to the rows. Copies and
// restored backups have the same one; no two deployments do.
func (db *DB) DeploymentID(ctx context.Context) (uuid.UUID, error) {
	id, found, _, err := one(ctx, db, deploymentID, repeatable, none{}, pgx.RowTo[uuid.UUID])
	if err == nil && !found {
		err = pgx.ErrNoRows
	}
	return id, claimError(deploymentID.name, err)
}

// DeploymentID is [DB.DeploymentID].
func (v *View) DeploymentID(ctx context.Context) (uuid.UUID, error) { return v.db.DeploymentID(ctx) }
