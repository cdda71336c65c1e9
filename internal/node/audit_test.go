package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/node/buckettest"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
)

// generous approves everything.
type generous struct{ psp.Provider }

func (generous) Name() string { return "simulator" }

func (generous) Capabilities() psp.Capabilities {
	return psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, Timeout: 30 * time.Second}
}

func (generous) Charge(context.Context, psp.Call) psp.Result {
	return psp.Result{Outcome: psp.Approved, ProviderRef: "psp_ch_04hkaps9le6uv093v"}
}

// noBlobs: every body fits its row.
type noBlobs struct{ claim.Blobs }

// silentBucket accepts every request and never answers.
type silentBucket struct{ driver.Bucket }

func (silentBucket) ListPaged(ctx context.Context, _ *driver.ListOptions) (*driver.ListPage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentBucket) NewRangeReader(ctx context.Context, _ string, _, _ int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentBucket) NewTypedWriter(ctx context.Context, _, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silentBucket) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }
func (silentBucket) ErrorAs(error, any) bool            { return false }
func (silentBucket) Close() error                       { return nil }

// TestABucketThatNeverAnswers: each call ends with an error.
func TestABucketThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := AuditBucket{&Blobs{bucket: blob.NewBucket(silentBucket{})}}
		defer func() { require.NoError(t, b.Close()) }()
		for name, does := range map[string]func() error{
			"Put":  func() error { return b.Put(t.Context(), "one", []byte("what it has")) },
			"Get":  func() error { _, err := b.Get(t.Context(), "one", 0); return err },
			"List": func() error { return b.List(t.Context(), "", func(string) error { return nil }) },
		} {
			began := time.Now()
			require.ErrorIs(t, does(), context.DeadlineExceeded, name)
			require.Equal(t, answersWithin, time.Since(began), name)
		}
	})
}

func TestAuditBucket(t *testing.T) {
	ctx := t.Context()
	b, err := OpenAudit(ctx, buckettest.New(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	_, err = b.Get(ctx, "eu/2026-03-01/one.audit", 0)
	require.ErrorIs(t, err, audit.ErrNoObject)
	for _, name := range []string{"eu/2026-03-01/one.audit", "eu/2026-03-02/two.audit", "us/2026-03-01/three.audit"} {
		require.NoError(t, b.Put(ctx, name, []byte("what "+name+" has")))
	}
	data, err := b.Get(ctx, "eu/2026-03-01/one.audit", 0)
	require.NoError(t, err)
	require.Equal(t, "what eu/2026-03-01/one.audit has", string(data))
	data, err = b.Get(ctx, "eu/2026-03-01/one.audit", 4)
	require.NoError(t, err)
	require.Equal(t, "what", string(data))
	var names []string
	require.NoError(t, b.List(ctx, "eu/", func(name string) error {
		names = append(names, name)
		return nil
	}))
	require.Equal(t, []string{"eu/2026-03-01/one.audit", "eu/2026-03-02/two.audit"}, names)
	require.ErrorIs(t, b.List(ctx, "", func(string) error { return context.Canceled }), context.Canceled)
}

// A cluster exports what its nodes write, each region its own.
func TestAClusterExportsItsAudit(t *testing.T) {
	dir := t.TempDir()
	s, keys, err := DemoAudit(dir, DefaultAudit())
	require.NoError(t, err)
	again, same, err := DemoAudit(dir, DefaultAudit())
	require.NoError(t, err)
	require.Equal(t, []any{s, keys.ID()}, []any{again, same.ID()}, "the key stays")
	info, err := os.Stat(filepath.Join(dir, auditFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	s.Every, s.Window, s.Settle = 20*time.Millisecond, time.Second, 0
	tuning := DefaultTuning()
	tuning.Audit = s
	k, err := StartCluster(t.Context(), ClusterConfig{
		Tuning: tuning, Dir: filepath.Join(dir, StoreDir), AuditKeys: keys,
		Regions:  []ClusterRegion{{Region: region.Region{Name: "us-east1", Code: 1}}, {Region: region.Region{Name: "europe-west1", Code: 2}}},
		Tenants:  []ClusterTenant{{Tenant: claim.Tenant{ID: "acme", Name: "Acme", Registrar: "us-east1"}, APIKeys: []string{"sk"}}},
		Payments: Payments{Providers: psp.Providers{generous{}}},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop(context.WithoutCancel(t.Context()))) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+k.Nodes[1].APIAddr()+"/v1/charges",
		strings.NewReader(`{"amount":4200,"currency":"usd","payment_method":"pm_card_visa"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "order-1")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)

	bucket, err := OpenAudit(t.Context(), s.Bucket)
	require.NoError(t, err)
	defer func() { require.NoError(t, bucket.Close()) }()
	archive := audit.Archive{Objects: bucket, Trust: keys.Trust()}
	require.Eventually(t, func() bool {
		found, _, err := archive.Find(t.Context(), audit.Wanted{Tenant: "acme", Key: "order-1", Regions: []string{"europe-west1"}})
		return err == nil && len(found) == 3
	}, 20*time.Second, 50*time.Millisecond)
	// The other region exports its first segment by itself, sooner or later than this one.
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		r, err := audit.Verify(t.Context(), audit.VerifyConfig{Objects: bucket, Trust: keys.Trust(), Regions: []string{"us-east1", "europe-west1"}})
		require.NoError(c, err)
		require.Empty(c, r.Failures)
	}, 20*time.Second, 50*time.Millisecond)
}

// awayBucket cannot be listed, as under a key that was revoked.
type awayBucket struct{ audit.Objects }

func (awayBucket) List(context.Context, string, func(string) error) error {
	return errors.New("AccessDenied")
}

// An export that cannot even look at its bucket is behind, and says so, from its first round on.
func TestAnExportWithoutItsBucketHasALag(t *testing.T) {
	const home = "us-east1"
	policy := claim.DefaultPolicy()
	ahead := time.Duration(0)
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: policy, Regions: []claim.Region{{Name: home, Code: 1}}, Clock: func() time.Time { return time.Now().Add(ahead) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := deployment.Embedded(db)
	store, err := d.Region(home)
	require.NoError(t, err)
	require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
	_, err = store.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "k1"}, home, "100", "node-1", "ch_k1"))
	require.NoError(t, err)
	ahead = 72 * time.Hour
	_, keys, err := DemoAudit(t.TempDir(), DefaultAudit())
	require.NoError(t, err)
	n := &Node{c: Config{Name: "node-1", Region: home, Store: store, AuditKeys: keys, AuditObjects: awayBucket{}, Tuning: DefaultTuning()}, log: slog.New(slog.DiscardHandler), deployment: uuid.New()}
	none := (*meter.Set)(nil)
	x := &exports{n: n, segments: none.Counter(meter.AuditSegments), lost: none.Counter(meter.AuditLost), of: map[string]*homeExport{}}
	done, err := x.round(t.Context(), home)
	require.NoError(t, err)
	lag, ok := done.lag()
	require.True(t, ok, "nothing is reported, and no alert fires")
	require.Greater(t, lag, 24*time.Hour)
}
