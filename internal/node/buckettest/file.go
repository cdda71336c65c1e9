//go:build !aws

package buckettest

import (
	"path/filepath"
	"testing"
)

// New returns the URL of an empty bucket, which is deleted after the test.
func New(t testing.TB) string {
	t.Helper()
	return "file://" + filepath.Join(t.TempDir(), "new", "bucket")
}
