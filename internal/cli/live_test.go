package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/region/admin"
)

// A demo that runs is worked on through its node: endpoints, queues, books and timelines.
func TestCommandsAtARunningNode(t *testing.T) {
	onlyWith(t)
	demo := starts(t, "demo", "--listen", "127.0.0.1:0", "--psp-latency", "0s")
	worksAt(t, demo.after(" regions --node "))
	api := strings.TrimPrefix(demo.after("us-east1 "), "http://")
	refuses(t, []string{"this is a node's API", "name its RPC listener"}, "outbox", "list", "--node", api)
	demo.stop()
}

func worksAt(t *testing.T, node string) {
	require.Contains(t, does(t, "endpoint", "set", "acme", "https://acme.example/hooks", "--node", node), "signing secret: whsec_")
	shown := does(t, "endpoint", "show", "acme", "--node="+node)
	require.Contains(t, shown, "https://acme.example/hooks")
	require.Regexp(t, `status +off\nwebhooks +off: nothing is delivered`, shown, "the demo delivers none by default")
	refuses(t, []string{`no tenant "nobody"`, "tenant list"}, "inspect", "order-1", "--tenant", "nobody", "--node", node)
	refuses(t, []string{"order-1 was not found"}, "inspect", "order-1", "--tenant", "acme", "--node", node)
	code, _, errs := homeward(t, "reconcile", "--statement", "x.csv", "--node", node)
	require.Equal(t, exitUnread, code)
	require.Regexp(t, "homeward reconcile has no --node: it reads the statement.* --data", errs)
	_, _, errs = homeward(t, "reconcile", "--statement", "x.csv", "--format", "x")
	require.Contains(t, errs, `--format must be one of "csv",`)
	refuses(t, []string{"homeward tenant create has no --cluster", "HOMEWARD_DATABASE_URL"}, "tenant", "create", "x", "--cluster", "x")
	refuses(t, []string{"unknown flag --nodee"}, "tenant", "list", "--nodee", node)
	require.Regexp(t, `(?s)acme +Acme Rockets.*globex`, does(t, "tenant", "list", "--node", node), "where the error of an unknown tenant leads to")
	require.Regexp(t, `[0-9a-f]{12} +valid +- +-`, does(t, "tenant", "keys", "acme", "--node", node))
	require.Contains(t, does(t, "outbox", "list", "--node", node), "provider_calls")
	require.Contains(t, does(t, "ledger", "verify", "--node", node), "0 failures")
	require.Contains(t, does(t, "ledger", "balances", "--node", node, "--json"), "balances")
	require.Contains(t, does(t, "compensations", "show", "--node", node), "nothing is stopped")
	require.Contains(t, does(t, "compensations", "--node", node), "nothing is stopped")
	require.Contains(t, does(t, "compensations", "release", "--yes", "--node", node), "nothing to do")
	refuses(t, []string{"row", "nothing-here", "was not found"}, "outbox", "retry", "nothing-here", "--node", node)
	refuses(t, []string{"no tenant", "nobody"}, "endpoint", "show", "nobody", "--node", node)
	refuses(t, []string{"--metrics-file names what is on"}, "ledger", "verify", "--metrics-file", filepath.Join(t.TempDir(), "x.prom"), "--node", node)
	refuses(t, []string{"leave one or the other out"}, "outbox", "list", "--data", t.TempDir(), "--node", node)

	// A request without this program is refused commands that are not a node's.
	c, err := admin.NewClient(node, nil)
	require.NoError(t, err)
	defer c.Close()
	for _, args := range [][]string{{"demo"}, {"migrate", "up"}, {"secrets", "show"}, {"version"}, {"audit", "status"}, {"outbox", "list", "--data", "/"}} {
		var out, errs strings.Builder
		exit, err := c.Run(t.Context(), args, &out, &errs)
		require.NoError(t, err)
		require.Equal(t, 1, exit, args)
		require.Regexp(t, "a node does not run homeward|names what is on the", errs.String())
	}
}
