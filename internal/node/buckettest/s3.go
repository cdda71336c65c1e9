//go:build aws

package buckettest

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
)

// New returns the URL of an empty bucket, which is deleted after the test.
func New(t testing.TB) string {
	t.Helper()
	store := s3mem.New()
	require.NoError(t, store.CreateBucket("homeward"))
	server := httptest.NewServer(gofakes3.New(store, gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(server.Close)
	// The SDK reads keys from the environment, as anywhere.
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return "s3://homeward?" + url.Values{"region": {"us-east-1"}, "endpoint": {server.URL}, "use_path_style": {"true"}}.Encode()
}
