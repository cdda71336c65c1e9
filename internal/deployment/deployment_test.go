package deployment_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/outbox"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

const us, eu = "us-east1", "europe-west1"

var regions = []claim.Region{{Name: us, Code: 1}, {Name: eu, Code: 2}}

func embeddedIn(dir string) embedded.Config {
	return embedded.Config{Dir: dir, Regions: regions, Policy: claim.DefaultPolicy()}
}

// database is one with the tables of both regions.
func database(t *testing.T) (url string) {
	t.Helper()
	url = dbtest.Database(t)
	m, err := sqlstore.OpenMigrator(t.Context(), url, false)
	require.NoError(t, err)
	require.NoError(t, m.Up(t.Context(), sqlstore.Migration{Regions: regions}, nil))
	require.NoError(t, m.Close(t.Context()))
	return url
}

// Whichever store it is, a deployment has the same regions, and what one of them writes
// the others find.
func TestEveryDeploymentIsOne(t *testing.T) {
	ids := []uuid.UUID{uuid.Nil}
	sql := sqlstore.Config{Policy: claim.DefaultPolicy(), Pool: sqlstore.DefaultPool()}
	for name, open := range map[string]func(*testing.T) (deployment.Deployment, error){
		"embedded": func(t *testing.T) (deployment.Deployment, error) {
			db, err := embedded.Open(embeddedIn(t.TempDir()))
			return deployment.Embedded(db), err
		},
		"sql": func(t *testing.T) (deployment.Deployment, error) {
			c := sql
			c.URL = database(t)
			db, err := sqlstore.Open(t.Context(), c)
			return deployment.SQL(db), err
		},
		"sql, each region on its own": func(t *testing.T) (deployment.Deployment, error) {
			url := database(t)
			return deployment.OpenEach(t.Context(), sql, map[string]string{us: url, eu: url}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := open(t)
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			ctx := t.Context()

			got, epoch, err := d.Regions(ctx)
			require.NoError(t, err)
			require.ElementsMatch(t, regions, got)
			next, err := d.SetRegionStatus(ctx, eu, claim.RegionDraining)
			require.NoError(t, err)
			require.Equal(t, epoch+1, next)

			id, err := d.DeploymentID(ctx)
			require.NoError(t, err)
			require.NotContains(t, ids, id, "another deployment has it")
			ids = append(ids, id)

			_, err = d.Tenant(ctx, "acme")
			require.ErrorIs(t, err, claim.ErrUnknownTenant)
			require.NoError(t, d.PutTenant(ctx, claim.Tenant{ID: "acme", Name: "Acme", Registrar: us}, "key"))
			tenant, err := d.Tenant(ctx, "acme")
			require.NoError(t, err)
			require.Equal(t, us, tenant.Registrar)
			require.NoError(t, d.PutTenant(ctx, claim.Tenant{ID: "globex", Name: "Globex", Registrar: us}, "other"))
			for after, want := range map[string]int{"": 2, "acme": 1, "globex": 0} {
				page, err := d.Tenants(ctx, after, 10)
				require.NoError(t, err)
				require.Len(t, page, want)
			}
			page, err := d.Tenants(ctx, "", 1)
			require.NoError(t, err)
			require.Len(t, page, 1)

			here, err := d.Region(us)
			require.NoError(t, err)
			there, err := d.Region(eu)
			require.NoError(t, err)
			_, err = d.Region("mars")
			require.ErrorContains(t, err, `"mars"`)
			got, _, err = there.Regions(ctx)
			require.NoError(t, err)
			require.Contains(t, got, claim.Region{Name: eu, Code: 2, Status: claim.RegionDraining})

			a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k"}, us, "1", "n", "ch_1")
			begun, err := here.Begin(ctx, a)
			require.NoError(t, err)
			require.Equal(t, claim.Won, begun.Decision)
			_, _, found, err := there.Get(ctx, a.Key, us)
			require.NoError(t, err)
			require.True(t, found)
			for home, want := range map[string]int{us: 1, eu: 0} {
				n, err := there.InFlight(ctx, home)
				require.NoError(t, err)
				require.Equal(t, want, n, home)
			}
			_, found, err = there.Queue(outbox.ProviderCalls).Message(ctx, us, "ch_1")
			require.NoError(t, err)
			require.True(t, found)
			removed, err := d.Sweep(ctx, 10)
			require.NoError(t, err)
			require.Zero(t, removed)
		})
	}
}

// A store is opened once its former process has ended. Where there is none, nothing is made.
func TestAStoppedStoreIsOpened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	_, err := deployment.OpenStopped(embeddedIn(dir))
	require.ErrorIs(t, err, deployment.ErrNoStore)
	require.NoDirExists(t, dir)

	db, err := embedded.Open(embeddedIn(dir))
	require.NoError(t, err)
	require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: us}))
	_, err = deployment.OpenStopped(embeddedIn(dir))
	require.ErrorContains(t, err, "in use")
	require.NoError(t, db.Close())

	d, err := deployment.OpenStopped(embeddedIn(dir))
	require.NoError(t, err)
	_, err = d.Tenant(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// One region whose database does not answer leaves none of the others open.
func TestEachRegionNeedsItsDatabase(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := sqlstore.Config{Policy: claim.DefaultPolicy(), Pool: sqlstore.DefaultPool()}
	_, err := deployment.OpenEach(ctx, c, map[string]string{eu: "postgresql://127.0.0.1:1/none?sslmode=disable"}, nil)
	require.ErrorContains(t, err, "region "+eu)
}
