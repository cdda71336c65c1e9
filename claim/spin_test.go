package claim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpin has Spin follow every order of events of the models in spin: of one key's pins, and of
// one claim. A revert run leaves one guard out, and breaks the promise that the guard keeps.
func TestSpin(t *testing.T) {
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s: apt-get install spin gcc libc6-dev", tool)
		}
	}
	for _, world := range []struct {
		model, defines string
		// broken is the promise that breaks; "" for a model that keeps all.
		broken string
	}{
		{"pins", "", ""},
		{"pins", "-DNO_YOUNG_PIN", "!((claims[0].there&&claims[1].there))"},
		{"pins", "-DNO_ASKING", "!((claims[0].there&&claims[1].there))"},
		{"pins", "-DSHORT_PIN", "!((claims[0].there&&claims[1].there))"},
		{"pins", "-DNO_FORMER", "!((claims[0].there&&claims[1].there))"},
		{"claim", "-DDEDUPES", ""},
		{"claim", "-DBOUND", ""},
		{"claim", "", "(moved<=1)"},
		{"claim", "-DDEDUPES -DNO_FENCE", "(answer==read)"},
		{"claim", "-DDEDUPES -DUNKNOWN_IS_NO", "!(((state==1)&&(moved>0)))"},
	} {
		t.Run(strings.TrimSpace(world.model+" "+world.defines), func(t *testing.T) {
			t.Parallel()
			model, err := filepath.Abs(filepath.Join("spin", world.model+".pml"))
			require.NoError(t, err)
			dir := t.TempDir()
			run := func(name string, args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
				return string(out)
			}
			run("spin", append(append([]string{"-a"}, strings.Fields(world.defines)...), model)...)
			run("gcc", "-O0", "-DSAFETY", "-w", "-o", "pan", "pan.c")
			out := strings.Join(strings.Fields(run(filepath.Join(dir, "pan"), "-m100000")), " ")
			require.NotContains(t, out, "max search depth too small")
			states := regexp.MustCompile(`(\d+) states, stored`).FindStringSubmatch(out)
			require.NotNil(t, states, "%s", out)
			t.Log(states[0])
			if world.broken == "" {
				require.NotContains(t, out, "Search not completed")
				require.Contains(t, out, "errors: 0")
				return
			}
			require.Contains(t, out, "assertion violated "+world.broken)
			_, err = os.Stat(filepath.Join(dir, world.model+".pml.trail"))
			require.NoError(t, err)
		})
	}
}
