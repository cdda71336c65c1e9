package node

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "homeward.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	s, err := LoadSettings("", nil)
	require.NoError(t, err)
	require.Equal(t, DefaultSettings(), s)
}

func TestFileAndEnvironmentOverride(t *testing.T) {
	path := write(t, `
regions:
  - {name: eu-north1, code: 7}
claim:
  lease: 3s
  renew_every: 1s
  lease_margin: 200ms
replica_lag: 1s
`)
	s, err := LoadSettings(path, []string{"HOMEWARD_CLAIM__LEASE=4s", "HOMEWARD_TENANT_RATE=5", "PATH=/bin"})
	require.NoError(t, err)
	require.Equal(t, []RegionSetting{{"eu-north1", 7}}, s.Regions)
	require.Equal(t, 4*time.Second, s.Claim.Lease, "the environment wins")
	require.Equal(t, time.Second, s.Claim.RenewEvery)
	require.Equal(t, 24*time.Hour, s.Claim.ReplayFor, "what is not said keeps its default")
	require.Equal(t, 5.0, s.TenantRate)
}

func TestMistakesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		environ []string
		say     []string
	}{
		"a bare number is no duration": {text: "claim: {lease: 30}", say: []string{"claim.lease", "write a unit"}},
		"an unknown setting":           {text: "claim: {leas: 30s}", say: []string{"leas"}},
		"an unknown variable":          {environ: []string{"HOMEWARD_LEASE=3s"}, say: []string{"lease"}},
		"no YAML":                      {text: "claim: [", say: []string{"homeward.yaml"}},
		"every mistake at once":        {text: "{sweep_every: 0s, claim: {lease: 1s, wait_poll: 0s}, regions: [{name: A, code: 1}]}", say: []string{"renew_every", "lease_margin", "wait_poll", `"A" is not a region name`, "sweep_every"}},
		"a code twice":                 {text: "regions: [{name: a, code: 1}, {name: b, code: 1}]", say: []string{"code 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadSettings(write(t, c.text), c.environ)
			require.Error(t, err)
			for _, say := range c.say {
				require.ErrorContains(t, err, say)
			}
		})
	}
	_, err := LoadSettings("nowhere.yaml", nil)
	require.EqualError(t, err, "settings: there is no file nowhere.yaml")
}

func TestBlobsAreNamedByContent(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "objects")
	b, err := OpenBlobs(ctx, "file://"+dir)
	require.NoError(t, err)
	body := bytes.Repeat([]byte("body "), 100_000)
	ref, err := b.Put(ctx, body)
	require.NoError(t, err)
	again, err := b.Put(ctx, body)
	require.NoError(t, err)
	require.Equal(t, ref, again)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "written twice, stored once, and no temporary file left")
	require.NoError(t, b.Close())

	b, err = OpenBlobs(ctx, "file://"+dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	got, err := b.Get(ctx, ref)
	require.NoError(t, err)
	require.Equal(t, body, got)

	require.NoError(t, os.WriteFile(filepath.Join(dir, ref), body[1:], 0o600))
	_, err = b.Get(ctx, ref)
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, os.Remove(filepath.Join(dir, ref)))
	_, err = b.Get(ctx, ref)
	require.ErrorContains(t, err, "missing")
}

func TestABucketThatCannotBe(t *testing.T) {
	path := write(t, "")
	_, err := OpenBlobs(t.Context(), "file://"+path)
	require.ErrorContains(t, err, "name a directory")
	_, err = OpenBlobs(t.Context(), "nosuch://x")
	require.ErrorContains(t, err, "object store nosuch://x")
}
