package e2e

import (
	"flag"
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
	flag.Parse()
	widen()
	goleak.VerifyTestMain(m, probing, goleak.Cleanup(func(code int) {
		removeBinary()
		os.Exit(code)
	}))
}

// probing: memberlist's last probe waits for its answer for up to a second after
// Shutdown and then ends by itself.
var probing = goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe")

// width is how many tests run side by side: they mostly wait, for leases to run
// out and for clusters to part, so that two cores carry more than two of them.
const width = "6"

// widen sets -parallel, unless somebody has.
func widen() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", width)
	}
}
