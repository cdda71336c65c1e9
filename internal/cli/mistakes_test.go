package cli

import (
	"bytes"
	"context"
	"strings"
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

// The error of a command without --node does not suggest the flag.
func TestNoDatabaseIsSet(t *testing.T) {
	onlyWith(t)
	t.Setenv("HOMEWARD_DATABASE_URL", "")
	_, _, errs := homeward(t, "restore", "show")
	require.Contains(t, errs, "no database is set")
	require.NotContains(t, errs, "--node")
	refuses(t, []string{"no database is set", "--node HOST:PORT"}, "ledger", "balances")
}

// TestADemoThatOthersReachWarns: each address is named with what it opens, and none that is on this
// machine.
func TestADemoThatOthersReachWarns(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string // one for each line
	}{
		{[]string{"--listen", "127.0.0.1:0"}, nil},
		{[]string{"--listen", "localhost:0"}, nil},
		{[]string{"--listen", "0.0.0.0:0"}, []string{"keys are published", "keys are published", "keys are published", "webhooks to other hosts", "metrics"}},
		{[]string{"--listen", "0.0.0.0:0", "--psp-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"}, []string{"keys are published", "keys are published", "keys are published"}},
		{[]string{"--listen", "127.0.0.1:0", "--psp-listen", "0.0.0.0:0"}, []string{"webhooks to other hosts"}},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var errs bytes.Buffer
		ready := &firstLine{then: stop} // the warnings come before it
		require.Zero(t, run(ctx, append([]string{"demo", "--console", "off"}, c.args...), streams{ready, &errs}), errs.String())
		stop()
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		if errs.Len() == 0 {
			lines = nil
		}
		require.Len(t, lines, len(c.want), "%v: %s", c.args, &errs)
		for i, line := range lines {
			require.Contains(t, line, "accepts callers from other machines")
			require.Contains(t, line, c.want[i])
		}
	}
}

// firstLine is an output that calls then at the first write.
type firstLine struct {
	then func()
	bytes.Buffer
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.then()
	return f.Buffer.Write(p)
}
