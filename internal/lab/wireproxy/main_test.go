package wireproxy

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

func TestMain(m *testing.M) {
	code := dbtest.Main(m)
	// Here, not around m: the shared database has goroutines of its own until now.
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
