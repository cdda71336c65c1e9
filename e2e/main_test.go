package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// TestMain doubles as the cluster that crash tests kill: the test binary starts
// itself again with childEnv set.
func TestMain(m *testing.M) {
	if config := os.Getenv(childEnv); config != "" {
		os.Exit(childMain(config))
	}
	if s := testStore(); s != "embedded" && s != "sql" {
		fmt.Fprintf(os.Stderr, "%s is %q; write embedded or sql\n", storeEnv, s)
		os.Exit(2)
	}
	flag.Parse()
	widen()
	goleak.VerifyTestMain(suite{m}, probing, leaving, expiring, goleak.Cleanup(func(code int) {
		removeBinary()
		os.Exit(code)
	}))
}

// suite stops the shared database after the tests.
type suite struct{ *testing.M }

func (s suite) Run() int { return dbtest.Main(s.M) }

// probing: memberlist's last probe waits for its answer for up to a second after
// Shutdown and then ends by itself.
var probing = goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe")

// leaving: memberlist's Leave waits for an answer for up to a second, too, if all others have left.
var leaving = goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).Leave")

// expiring: golang-lru v2 cannot close a cache with expiring entries.
var expiring = goleak.IgnoreTopFunction("github.com/hashicorp/golang-lru/v2/expirable.NewLRU[...].func1")

// widen sets -parallel, unless a flag has: tests mostly wait, for leases to run out and for
// clusters to part, so that two cores carry more than two of them. Those on CockroachDB keep
// its three nodes busy as well.
func widen() {
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if isSet {
		return
	}
	width := "8"
	if onSQL() && onCockroach() {
		width = "3"
	}
	_ = flag.Set("test.parallel", width)
}
