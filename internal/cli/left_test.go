package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// A charge of more than a year ago has left the rows: its claim, its audit, its booking. It is
// found and proved from segments, its sums count, and what cannot be done any more is refused by
// name.
func TestOldBooksHaveLeft(t *testing.T) {
	dir := stoppedDemo(t)
	at := func(ago time.Duration, do func(db *embedded.DB, s *store)) {
		t.Helper()
		c := embedded.Config{Dir: filepath.Join(dir, node.StoreDir), Policy: claim.DefaultPolicy(), Clock: func() time.Time { return time.Now().Add(-ago) }}
		for _, r := range node.DefaultSettings().Regions {
			c.Regions = append(c.Regions, claim.Region{Name: r.Name, Code: r.Code})
		}
		db, err := embedded.Open(c)
		require.NoError(t, err)
		s, err := newStore(t.Context(), deployment.Embedded(db), nil)
		require.NoError(t, err)
		do(db, s)
		require.NoError(t, db.Close())
	}
	const home = "europe-west1"
	id, err := claim.NewObjectID("ch", 2, nil)
	require.NoError(t, err)
	at(audit.MinKeepBooks+72*time.Hour, func(_ *embedded.DB, s *store) {
		aCharge(t, s, home, "order-1", id)
		post(t, s, ledger.Transaction{ID: "ch_disputed", Region: home, Kind: ledger.Charge, Amount: 100, ProviderRef: "p1"})
		of, _, err := s.rows.Transaction(t.Context(), home, "ch_disputed")
		require.NoError(t, err)
		_, err = s.rows.Post(t.Context(), ledger.UnaskedOf(of, ledger.DisputeOpened, "dp_1", 100))
		require.NoError(t, err)
	})
	verified := does(t, "ledger", "verify", "--data", dir)
	require.Contains(t, verified, "3 transactions in")
	require.NotContains(t, verified, "older")
	balances := does(t, "ledger", "balances", "--data", dir)

	settings, keys, err := node.DemoAudit(dir, node.AuditSettings{})
	require.NoError(t, err)
	export := func(s *store, do func(x *audit.Exporter)) {
		bucket, err := node.OpenAudit(t.Context(), settings.Bucket)
		require.NoError(t, err)
		deployment, err := s.DeploymentID(t.Context())
		require.NoError(t, err)
		x, err := audit.NewExporter(audit.Config{
			Store: s.rows, Objects: bucket, Keys: keys, Deployment: deployment, Home: home, Node: "node-1",
			Policy: audit.Policy{Window: 24 * time.Hour, KeepRows: audit.MinKeepRows, KeepBooks: audit.MinKeepBooks},
		})
		require.NoError(t, err)
		do(x)
		require.NoError(t, bucket.Close())
	}
	at(audit.MinKeepBooks+71*time.Hour, func(_ *embedded.DB, s *store) { // while the claim is there
		export(s, func(x *audit.Exporter) {
			status, err := x.Finish(t.Context())
			require.NoError(t, err)
			require.Equal(t, 3, status.Entries)
		})
	})
	at(0, func(db *embedded.DB, s *store) {
		_, err := db.Sweep(t.Context(), 1000)
		require.NoError(t, err)
		export(s, func(x *audit.Exporter) {
			status, err := x.Round(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int{3, 1}, []int{status.Swept, status.Left})
		})
	})

	out := does(t, "ledger", "verify", "--data", dir)
	require.Contains(t, out, "1 older transactions have left for the audit's segments, which add up to what is carried forward\n2 transactions in")
	require.Contains(t, out, "0 failures")
	var report verify.Report
	require.NoError(t, json.Unmarshal([]byte(does(t, "ledger", "verify", "--data", dir, "--json")), &report))
	require.Equal(t, []int64{2, 1, 1}, []int64{report.Transactions, report.Left, report.Proved})
	require.Equal(t, balances, does(t, "ledger", "balances", "--data", dir))
	does(t, "audit", "verify", "--data", dir)

	for _, of := range []string{"order-1", id} {
		var h inspect.History
		require.NoError(t, json.Unmarshal([]byte(does(t, "audit", "show", "--data", dir, of, "--json")), &h))
		require.Equal(t, "charged once, its key is free again; home europe-west1", h.Verdict)
		require.Len(t, h.Bookings, 1)
		require.Equal(t, id, h.Bookings[0].ID)
		require.Empty(t, h.Missing)
		refuses(t, []string{of + " was not found", "bookings whose rows were deleted are in the audit segments: homeward audit show " + of}, "inspect", "--data", dir, of)
	}
	code, out, errs := homeward(t, "ledger", "entries", "--data", dir, id)
	require.Zero(t, code)
	require.NotContains(t, out, "simulator")
	require.Contains(t, errs, "have left for the audit's segments; homeward audit show finds those")
	statement := filepath.Join(t.TempDir(), "statement.csv")
	require.NoError(t, os.WriteFile(statement, nil, 0o600))
	code, _, errs = homeward(t, "reconcile", "--data", dir, "--statement", statement)
	require.Equal(t, exitUnread, code)
	require.Contains(t, errs, "have left for the audit's segments, so a statement can be compared from")

	// Without a bucket, what has left is not proved.
	at(0, func(_ *embedded.DB, s *store) {
		found := booksFound{}
		found.Report, err = verify.AllBooks(t.Context(), s.rows, s.regions, nil)
		require.NoError(t, err)
		var r runs.Run
		reportOfBooks(&found, &r)
		require.Equal(t, runs.Unknown, r.Verdict)
		require.Contains(t, r.Sentence, "1 older transactions that have left for the audit's segments were not proved")
		ctx := context.WithValue(t.Context(), nodeKey{}, node.Belongings{Deployment: s.Deployment})
		var out, errs strings.Builder
		require.Equal(t, exitUnread, run(ctx, []string{"ledger", "verify"}, streams{&out, &errs}))
		require.Contains(t, out.String(), "balances proved from what is carried forward")
		require.Contains(t, errs.String(), "were not proved; name the bucket with --bucket")
	})

	// What was changed there is a failure of the books.
	empty := "file://" + t.TempDir()
	code, out, _ = homeward(t, "ledger", "verify", "--data", dir, "--bucket", empty)
	require.Equal(t, exitDiffers, code)
	require.Contains(t, out, "left: what has left in europe-west1: the store carries")
	var books string
	require.NoError(t, filepath.WalkDir(strings.TrimPrefix(settings.Bucket, "file://"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".audit") && (books == "" || filepath.Base(path) > filepath.Base(books)) {
			books = path // the last segment of the chain
		}
		return err
	}))
	data, err := os.ReadFile(books)
	require.NoError(t, err)
	data[len(data)-1] ^= 1
	require.NoError(t, os.WriteFile(books, data, 0o600))
	code, out, _ = homeward(t, "ledger", "verify", "--data", dir)
	require.Equal(t, exitDiffers, code)
	require.Contains(t, out, "left: what has left in europe-west1: changed: ")
	code, out, errs = homeward(t, "audit", "show", "--data", dir, "order-1")
	require.Zero(t, code)
	require.Contains(t, out, "charged once, its key is free again", "its audit still has it")
	require.Contains(t, errs, "not read: segment europe-west1/")
}

// unread is a bucket that does not give its objects.
type unread struct{ audit.Objects }

func (unread) Get(context.Context, string, int64) ([]byte, error) {
	return nil, errors.New("the bucket does not answer")
}

// What a bucket does not give is no fault of the books, and what is wrong with it is said, however little
// there is.
func TestSegmentsThatAreUnread(t *testing.T) {
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: "us-east1", Code: 1}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	v, err := db.Region("us-east1")
	require.NoError(t, err)
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	id, err := db.DeploymentID(t.Context())
	require.NoError(t, err)
	bucket := audittest.NewBucket()
	carried := func(objects audit.Objects, trust audit.Trust) ([]string, error) {
		_, faults, err := (&leftBooks{archive: audit.Archive{Objects: objects, Trust: trust, Deployment: id}}).Carried(t.Context(), "us-east1")
		return faults, err
	}
	none, err := carried(bucket, keys.Trust())
	require.NoError(t, err)
	require.Empty(t, none, "a region that has exported nothing")
	x, err := audit.NewExporter(audit.Config{Store: v, Objects: bucket, Keys: keys, Deployment: id, Policy: audit.DefaultPolicy(), Home: "us-east1", Node: "n"})
	require.NoError(t, err)
	for segments := 1; segments <= 2; segments++ {
		_, err = x.Finish(t.Context())
		require.NoError(t, err)
		require.Len(t, bucket.Names(), segments)
		_, err = carried(unread{bucket}, keys.Trust())
		require.ErrorContains(t, err, "unread: us-east1/")
		faults, err := carried(bucket, audit.Trust{})
		require.NoError(t, err)
		require.Len(t, faults, segments)
		require.Contains(t, faults[0], "foreign: us-east1/")
	}
}
