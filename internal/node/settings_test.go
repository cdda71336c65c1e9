package node

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node/buckettest"
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
	require.Equal(t, 4*time.Second, s.Policy.Lease, "the environment wins")
	require.Equal(t, time.Second, s.Policy.RenewEvery)
	require.Equal(t, 24*time.Hour, s.Policy.ReplayFor, "an unset setting keeps its default")
	require.Equal(t, 5.0, s.Limits.TenantRate)
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
		"the variable is named":        {environ: []string{"HOMEWARD_PORT=1"}, say: []string{"there is no setting named port (from the variable HOMEWARD_PORT)"}},
		"a duration":                   {text: "claim: {lease: soon}", say: []string{`claim.lease "soon" is no duration; write a unit, as in 30s`}},
		"a duration of a variable":     {environ: []string{"HOMEWARD_CLAIM__LEASE=30"}, say: []string{`claim.lease "30" is no duration; write a unit, as in 30s (from the variable HOMEWARD_CLAIM__LEASE)`}},
		"a whole number":               {text: "outbox: {batch: 1.5x}", say: []string{`outbox.batch "1.5x" is no whole number; write one`}},
		"a number":                     {text: "tenant_rate: [1, 2]", say: []string{"tenant_rate with more than one value is no number"}},
		"a group":                      {environ: []string{"HOMEWARD_CLAIM=3s"}, say: []string{"claim is a group of settings and no value"}},
		"a code in a list":             {text: "regions: [{name: a, code: x}]", say: []string{`regions[0].code "x" is no whole number`}},
		"a name in a list":             {text: "regions: [{name: a, cod: 1}]", say: []string{"regions[0] has no setting named cod; did you mean code?"}},
		"no YAML":                      {text: "claim: [", say: []string{"homeward.yaml"}},
		"every mistake at once":        {text: "{sweep_every: 0s, claim: {lease: 1s, wait_poll: 0s}, regions: [{name: A, code: 1}]}", say: []string{"renew_every", "lease_margin", "wait_poll", `"A" is not a region name`, "sweep_every"}},
		"payments are remembered":      {text: "claim: {remember_for: 0s}", say: []string{"claim.remember_for must be above 0"}},
		"a code twice":                 {text: "regions: [{name: a, code: 1}, {name: b, code: 1}]", say: []string{"code 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadSettings(write(t, c.text), c.environ)
			require.Error(t, err)
			for _, say := range c.say {
				require.ErrorContains(t, err, say)
			}
			for _, internal := range []string{"time.Duration", "strconv", "node.", "claim.RegionCode", "koanf", "mapstructure"} {
				require.NotContains(t, err.Error(), internal)
			}
		})
	}
	for text, says := range map[string]string{
		"postgresql://hw:s3cret@127.0.0.1/homeward\n": "line 1: this is not a YAML mapping of settings",
		"s3cret\n":                   "line 1: this is not a YAML mapping of settings",
		"- s3cret\n- b\n":            "line 1: this is not a YAML mapping of settings",
		"a: b\n\tc: s3cret\n":        "line 2: this is not a YAML mapping of settings",
		"s3cret: a\ns3cret: b\n":     "line 2: this is not a YAML mapping of settings",
		"claim: &s3cret {a: *s3cre}": "this is not a YAML mapping of settings",
	} {
		_, err := LoadSettings(write(t, text), nil)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "homeward.yaml")
		require.NotContains(t, err.Error(), "s3c")
	}
	_, err := LoadSettings(t.TempDir(), nil)
	require.ErrorContains(t, err, "is a directory")

	_, err = LoadSettings("nowhere.yaml", nil)
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

// TestBlobsInAnyBucket: a body that does not match its name, or is missing, is an error of its own.
func TestBlobsInAnyBucket(t *testing.T) {
	ctx := t.Context()
	b, err := OpenBlobs(ctx, buckettest.New(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	body := bytes.Repeat([]byte("body "), 1_500_000) // more than one part of an upload
	ref, err := b.Put(ctx, body)
	require.NoError(t, err)
	again, err := b.Put(ctx, body)
	require.NoError(t, err)
	require.Equal(t, ref, again)
	got, err := b.Get(ctx, ref)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
	require.NoError(t, b.bucket.WriteAll(ctx, ref, body[1:], nil))
	_, err = b.Get(ctx, ref)
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, b.bucket.Delete(ctx, ref))
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
