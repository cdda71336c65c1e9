package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHowARestoreIsShown: a release is shown as a person's statement, not as a fact.
func TestHowARestoreIsShown(t *testing.T) {
	migrated(t, us)
	require.Contains(t, does(t, "restore", "show"), "no restore is in effect")
	require.Contains(t, does(t, "restore", "show", "--json"), `"phase": ""`)
	backup := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	does(t, "restore", "begin", "--backup-time", backup, "--by", "ann", "--why", "a lost disk", "--ignore-sessions")
	require.Contains(t, does(t, "restore", "show"), "not all lost claims were found")

	release := []string{"restore", "release", "--by", "bob", "--why", "every merchant was asked"}
	refuses(t, []string{"never read", "--yes"}, release...)
	require.Contains(t, does(t, "restore", "show"), "not all lost claims were found")
	const said = "released by bob (every merchant was asked): 0 claims found; any other lost key charges again"
	require.Contains(t, does(t, append(release, "--yes")...), said)
	shown := does(t, "restore", "show")
	require.Contains(t, shown, said)
	require.Contains(t, shown, "(ann: a lost disk)", "the row still names who began it")
	require.NotContains(t, shown, "every lost claim that matters")
	require.Contains(t, does(t, "restore", "show", "--json"), `"released_by": "bob"`)
}

func TestSessionsThatAreAlikeAreCounted(t *testing.T) {
	require.Equal(t, []string{`"homeward" from 10.0.0.1 (3 times)`, `"psql" from local`},
		alike([]string{`"homeward" from 10.0.0.1`, `"psql" from local`, `"homeward" from 10.0.0.1`, `"homeward" from 10.0.0.1`}))
	require.Empty(t, alike(nil))
}
