package e2e

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain doubles as the cluster that crash tests kill: the test binary starts
// itself again with childEnv set.
func TestMain(m *testing.M) {
	if config := os.Getenv(childEnv); config != "" {
		os.Exit(childMain(config))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeBinary()
		os.Exit(code)
	}))
}
