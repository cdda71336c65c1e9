package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
)

// Every command that opens the database refuses one on another machine that need not
// prove who it is, in one line, before anything is sent.
func TestNoCommandTalksToAnUnprovenDatabase(t *testing.T) {
	const url = "postgresql://hw:s3cret@db.invalid/homeward?sslmode=require"
	statement := write(t, "s.csv", statementHead)
	for _, args := range [][]string{
		{"serve"}, {"config", "check", "--database"}, {"cluster", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--psp-listen", "127.0.0.1:0"},
		{"migrate", "status"}, {"migrate", "plan", "--regions", "us-east1"}, {"migrate", "up", "--regions", "us-east1"},
		{"tenant", "list"}, {"endpoint", "show", "acme"}, {"outbox", "list"}, {"ledger", "verify"},
		{"reconcile", "--statement", statement}, {"reconcile", "--statement", statement, "--heal"},
	} {
		onlyWith(t, node.DatabaseURL+"="+url, node.SealSetting+"=false")
		code, _, said := homeward(t, args...)
		require.NotZero(t, code, args)
		require.Contains(t, said, "HOMEWARD_DATABASE_URL does not verify the identity of", args)
		require.Contains(t, said, node.DatabaseUnverified+"=true", args)
		require.NotContains(t, said, "s3cret")
		require.Equal(t, 1, strings.Count(said, "db.invalid"), said)
	}
	onlyWith(t, node.DatabaseURL+"="+url, node.DatabaseUnverified+"=true")
	_, _, said := homeward(t, "tenant", "list")
	require.Contains(t, said, "cannot be reached")
	onlyWith(t, node.DatabaseURL+"="+url, node.DatabaseUnverified+"=perhaps")
	_, _, said = homeward(t, "tenant", "list")
	require.Contains(t, said, "neither true nor false")
	_, err := node.AllowUnverified(os.Environ())
	require.Error(t, err)
}
