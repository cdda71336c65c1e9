package cli

import (
	"os"
	"testing"

	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

func TestMain(m *testing.M) {
	// Several demos run in this process, beside other tests: none has it for itself.
	_ = os.Setenv("GOMEMLIMIT", "off")
	os.Exit(dbtest.Main(m))
}

// TestAMistakeNamesItsCommandsHelp: a mistake leads to the help of the command that it was made in.
func TestAMistakeNamesItsCommandsHelp(t *testing.T) {
	refuses(t, []string{"--colour", "see homeward --help"}, "--colour")
	refuses(t, []string{"<region>", "see homeward region drain --help"}, "region", "drain")
	refuses(t, []string{"--colour", "see homeward drill --help"}, "drill", "--colour")
}
