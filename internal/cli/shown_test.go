package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// What merchants, providers and operators have written reaches a terminal as text: it moves no
// cursor, clears no screen and turns no line around.
func TestStoredTextCannotSteerATerminal(t *testing.T) {
	url := emptyDatabase(t)
	does(t, "migrate", "up", "--regions", "us-east1")
	evil := "A\x1b[2J\x1b]0;owned\a\r\u009b31m\u202egnp\x7fZ\n"
	require.NoError(t, node.WithDatabase(t.Context(), url, func(db *sqlstore.DB) error {
		return db.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: evil, Registrar: "us-east1"})
	}))
	for _, args := range [][]string{{"tenant", "list"}} {
		var out, errs bytes.Buffer
		require.Zero(t, Run(t.Context(), args, &out, &errs), errs.String())
		for _, bad := range []string{"\x1b", "\a", "\r", "\u009b", "\u202e", "\x7f"} {
			require.NotContains(t, out.String(), bad, "%v %q", args, bad)
		}
	}
	var errs bytes.Buffer
	require.NotZero(t, Run(t.Context(), []string{"tenant", "keys", "a\x1b[2Jb"}, &bytes.Buffer{}, &errs))
	require.NotContains(t, errs.String(), "\x1b")
}

// A rune that is cut by two writes is none the less one rune.
func TestWhatIsShownMayComeInPieces(t *testing.T) {
	for text, want := range map[string]string{"São\tPaulo\n": "São\tPaulo\n", "a\u009bb": "a\ufffdb", "\x9b2J": "\ufffd2J", "€": "€"} {
		var out bytes.Buffer
		w := &shown{out: &out}
		for i := range len(text) {
			n, err := w.Write([]byte{text[i]})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		require.Equal(t, want, out.String())
	}
}
