//go:build !aws

package buckettest

import (
	"path/filepath"
	"testing"
)

// New is the URL of an empty bucket, which ends with the test.
func New(t testing.TB) string {
	t.Helper()
	return "file://" + filepath.Join(t.TempDir(), "new", "bucket")
}
