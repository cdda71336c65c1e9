package node

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/secrets"
)

// TestDriversOfThisBuild: this build opens what the table of drivers lists, whatever the tags. The
// error for another one names the missing tag.
func TestDriversOfThisBuild(t *testing.T) {
	for tag, d := range drivers {
		for _, scheme := range d.buckets {
			if blob.DefaultURLMux().ValidBucketScheme(scheme) {
				require.Empty(t, cannotOpen(scheme+"://name"))
				continue
			}
			require.NotEmpty(t, tag)
			_, bodies := OpenBlobs(t.Context(), scheme+"://name?region=eu-west-1")
			_, segments := OpenAudit(t.Context(), scheme+"://name")
			for _, err := range []error{bucketMistake("objects", scheme+"://name", `""`), bodies, segments} {
				require.ErrorContains(t, err, scheme+"://name")
				require.ErrorContains(t, err, "take homeward-cloud, image or archive, which has it, or build with -tags "+tag)
			}
		}
		for _, scheme := range d.keys {
			if !secrets.DefaultURLMux().ValidKeeperScheme(scheme) {
				require.ErrorContains(t, checkSealKeys(scheme+"://key"), "-tags "+tag)
			}
		}
	}
	for _, scheme := range bucketSchemes() {
		_, ok := driverOf(scheme)
		require.True(t, ok, "the table has no %s", scheme)
	}
	for _, scheme := range secrets.DefaultURLMux().KeeperSchemes() {
		_, ok := driverOf(scheme)
		require.True(t, ok, "the table has no %s", scheme)
	}
	require.True(t, slices.Contains(bucketSchemes(), "file"))
	require.ErrorContains(t, bucketMistake("objects", "tape://library", `"" for none`), "file://…")
}
