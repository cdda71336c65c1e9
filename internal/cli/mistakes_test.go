package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was not understood is named in one line.
func TestMistakesAreNamed(t *testing.T) {
	onlyWith(t)
	refuses(t, []string{"--data needs a value; see homeward ledger verify --help"}, "ledger", "verify", "--data")
	refuses(t, []string{"--data needs a value, and --json is the next flag"}, "ledger", "verify", "--data", "--json")
	refuses(t, []string{"--psp-latency needs a value;"}, "demo", "--psp-latency")
	refuses(t, []string{`there is no drill "nosuch"`, "region-loss"}, "drill", "nosuch")
	require.Equal(t, does(t, "--help"), does(t, "help"))
	require.Equal(t, does(t, "ledger", "verify", "--help"), does(t, "help", "ledger", "verify"))
}

// A command without --node is not told to use it.
func TestNoDatabaseIsSet(t *testing.T) {
	onlyWith(t)
	t.Setenv("HOMEWARD_DATABASE_URL", "")
	_, _, errs := homeward(t, "restore", "show")
	require.Contains(t, errs, "no database is set")
	require.NotContains(t, errs, "--node")
	refuses(t, []string{"no database is set", "--node HOST:PORT"}, "ledger", "balances")
}

func TestADemoThatOthersReachWarns(t *testing.T) {
	for _, c := range []struct{ listen, psp, want string }{
		{"127.0.0.1:8081", "", ""}, {"localhost:8081", "[::1]:1", ""}, {"0.0.0.0:8081", "", "--listen 0.0.0.0:8081"},
		{":8081", "", "--listen :8081"}, {"127.0.0.1:8081", "192.0.2.1:1", "--psp-listen 192.0.2.1:1"},
	} {
		require.Equal(t, c.want, (&demoCommand{Listen: c.listen, PSPListen: c.psp}).exposed())
	}
}
