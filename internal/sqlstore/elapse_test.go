package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestTimePassesForEveryKey: a test tenant may have more claims and pins than one statement can write in
// its time. Each becomes older once.
func TestTimePassesForEveryKey(t *testing.T) {
	const keys, by = 2500, 24 * time.Hour
	d := newDatabase(t)
	var listener sqlstore.Listener
	db := open(t, sqlstore.Config{URL: d.url}.Listen(&listener))
	for _, tenant := range []string{"acme", "acme~test"} {
		require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: tenant, Registrar: regions[0]}))
		d.exec(t, `INSERT INTO claims (home_region, tenant_id, idem_key, object_id, operation, fingerprint_version, fingerprint, state, fence, holder,
				lease_until, held_since, first_use, created, receipt, generation, provider_key, attempts, unknowns, not_founds, reason, provider_ref, step, answer_status)
			SELECT $1::crdb_internal_region, $2::text, 'key_' || i::text, md5($2::text || i::text), 'charge', 1, '', 2, 1, '',
				'2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '2026-01-01Z', '', 1, '', 1, 0, 0, '', '', gen_random_uuid(), 201
			FROM generate_series(1, $3::int8) AS g (i) WHERE i % 3 > 0`, regions[0], tenant, keys)
		d.exec(t, `INSERT INTO pins (registrar, tenant_id, idem_key, home_region, created_at)
			SELECT $1::crdb_internal_region, $2::text, 'key_' || i::text, $1::crdb_internal_region, '2026-01-01Z'
			FROM generate_series(1, $3::int8) AS g (i) WHERE i % 3 < 2`, regions[0], tenant, keys)
	}
	require.NoError(t, view(t, db, regions[0]).Elapse(t.Context(), regions[0], "acme~test", by))
	for tenant, since := range map[string]string{"acme~test": "2025-12-31Z", "acme": "2026-01-01Z"} {
		require.Equal(t, keys-keys/3, d.count(t, "SELECT count(*) FROM claims WHERE tenant_id = $1 AND first_use = $2::timestamptz", tenant, since))
		require.Equal(t, keys-(keys+1)/3, d.count(t, "SELECT count(*) FROM pins WHERE tenant_id = $1 AND created_at = $2::timestamptz", tenant, since))
	}
	require.Equal(t, 3, listener.Times("elapse"))
	if d.server.Kind() == localdb.CockroachDB {
		d.decodes(t, listener.All()["elapse"], 10, 100)
	}
}
