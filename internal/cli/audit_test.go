package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/node/buckettest"
)

// aCharge is a charge that was made, and is in the audit.
func aCharge(t *testing.T, s *store, home, key, id string) {
	t.Helper()
	rows, err := s.Region(home)
	require.NoError(t, err)
	begun, err := rows.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "1", "node-1", id))
	require.NoError(t, err)
	_, err = rows.Settle(t.Context(), begun.Record, claim.Verdict{ID: uuid.New(), Node: "node-1", Region: home, Outcome: &claim.Done{
		Response: claim.Response{Status: 201, Body: []byte("a secret body")}, Posting: claimtest.Posting(begun.Record, id),
	}})
	require.NoError(t, err)
}

// exported writes the audit of a region to a bucket, as a node does, with windows of a
// second, once they are over.
func exported(t *testing.T, s *store, home, url string, keys *audit.Keys) {
	t.Helper()
	bucket, err := node.OpenAudit(t.Context(), url)
	require.NoError(t, err)
	deployment, err := s.DeploymentID(t.Context())
	require.NoError(t, err)
	x, err := audit.NewExporter(audit.Config{
		Store: s.rows, Objects: bucket, Keys: keys, Deployment: deployment, Home: home, Node: "node-1",
		Policy: audit.Policy{Window: time.Second, KeepRows: audit.MinKeepRows},
	})
	require.NoError(t, err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for entries := 0; entries < 3; <-tick.C { // until its second is over
		status, err := x.Round(t.Context())
		if errors.Is(err, claim.ErrUnavailable) { // a replica lacks, for some seconds, a database that was just made
			continue
		}
		require.NoError(t, err)
		entries += status.Entries
	}
	require.NoError(t, bucket.Close())
}

// changeOne changes the last byte of a segment of the bucket.
func changeOne(t *testing.T, url string) {
	t.Helper()
	bucket, err := node.OpenAudit(t.Context(), url)
	require.NoError(t, err)
	var names []string
	require.NoError(t, bucket.List(t.Context(), "europe-west1/", func(name string) error {
		names = append(names, name)
		return nil
	}))
	require.NotEmpty(t, names)
	data, err := bucket.Get(t.Context(), names[0], 0)
	require.NoError(t, err)
	data[len(data)-1] ^= 1
	require.NoError(t, bucket.Put(t.Context(), names[0], data))
	require.NoError(t, bucket.Close())
}

func TestAudit(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		with := func(args ...string) []string { return append(args, flags...) }
		private := does(t, "audit", "key")
		keys, err := audit.ParseKeys(private)
		require.NoError(t, err)
		dir := t.TempDir()
		url := buckettest.New(t)
		public := filepath.Join(dir, "audit.pub")
		t.Setenv(node.AuditKeys, private)
		require.NoError(t, os.WriteFile(public, []byte(does(t, "audit", "key", "--public")), 0o600))
		id, err := claim.NewObjectID("ch", 2, nil)
		require.NoError(t, err)
		open(func(s *store) {
			aCharge(t, s, "europe-west1", "order-1", id)
			exported(t, s, "europe-west1", url, keys)
		})
		t.Setenv(node.AuditKeys, "") // who verifies has no private key

		out := does(t, "audit", "verify", "--bucket", url, "--public-key", public)
		require.Regexp(t, `europe-west1 +\d+ +3 +0 +0 +2\d{3}-`, out)
		require.Contains(t, out, "key "+keys.ID()+" signed")
		var report audit.Report
		require.NoError(t, json.Unmarshal([]byte(does(t, "audit", "verify", "--bucket", url, "--public-key", public, "--json")), &report))
		require.True(t, report.OK())
		require.Equal(t, int64(3), report.Regions[0].Entries)

		require.Regexp(t, `europe-west1 +2\d{3}-.* `+report.Regions[0].Digest, does(t, with("audit", "status")...))
		for _, of := range []string{"order-1", id} {
			for _, args := range [][]string{{"inspect", of}, {"audit", "show", "--bucket", url, "--public-key", public, of}} {
				out := does(t, with(args...)...)
				require.Contains(t, out, "charged once; home europe-west1\n")
				require.NotContains(t, out, "secret")
				var h inspect.History
				require.NoError(t, json.Unmarshal([]byte(does(t, with(append(args, "--json")...)...)), &h))
				require.Equal(t, "charged once; home europe-west1", h.Verdict)
				require.Len(t, h.Timeline, 3)
				require.Equal(t, "psp_"+id, h.Attempts[0].ProviderRef)
			}
		}
		code, _, errs := homeward(t, with("inspect", "order-2")...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "order-2 was not found")

		// Who changes a segment is found out.
		changeOne(t, url)
		code, out, errs = homeward(t, "audit", "verify", "--bucket", url, "--public-key", public)
		require.Equal(t, exitDiffers, code)
		require.Contains(t, out, "changed: europe-west1/")
		require.Contains(t, errs, "differs from what was signed")
	})
}

func TestAuditFlags(t *testing.T) {
	t.Setenv(node.AuditKeys, "")
	for want, args := range map[string][]string{
		"no bucket is set":            {"audit", "verify"},
		"HOMEWARD_AUDIT_KEYS is not":  {"audit", "verify", "--bucket", "file://" + t.TempDir()},
		"--public-key: open":          {"audit", "verify", "--bucket", "file://" + t.TempDir(), "--public-key", "/nowhere"},
		"holds no audit":              {"audit", "verify", "--data", t.TempDir()},
		"is not a date":               {"audit", "show", "k", "--since", "yesterday"},
		"HOMEWARD_AUDIT_KEYS is not ": {"audit", "key", "--public"},
	} {
		code, _, errs := homeward(t, args...)
		require.NotZero(t, code)
		require.Contains(t, errs, want)
	}
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"audit", "key", "--public"}, {"audit", "verify", "--bucket", "file://" + t.TempDir()}} {
		code, _, errs := homeward(t, append(args, "--data", none)...)
		require.NotZero(t, code)
		require.Contains(t, errs, "the demo's audit key")
	}
	require.NoDirExists(t, none, "who reads a key makes one, which has signed nothing")
}
