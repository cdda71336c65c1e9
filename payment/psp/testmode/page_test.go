package testmode

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageListsEveryMethod: docs/API.md has each payment method and destination with its outcome,
// in order, and no other. TestEveryTestPaymentMethod plays them.
func TestThePageListsEveryMethod(t *testing.T) {
	page, err := os.ReadFile("../../../docs/API.md")
	require.NoError(t, err)
	for head, all := range map[string][]Method{"| `payment_method` | outcome |\n| --- | --- |\n": Methods(), "| `destination` | outcome |\n| --- | --- |\n": Destinations()} {
		_, table, found := strings.Cut(string(page), head)
		require.True(t, found, head)
		table, _, _ = strings.Cut(table, "\n\n")
		var rows []string
		for _, m := range all {
			rows = append(rows, "| `"+m.Token+"` | "+m.Outcome+" |")
		}
		require.Equal(t, rows, strings.Split(table, "\n"))
	}
}
