package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/inspect"
)

var update = flag.Bool("update", false, "write docs/OUTPUT.md anew")

// TestEachHeadingIsExplained: each heading of [tables] has its explanation, and the help of its
// command and docs/OUTPUT.md have all of them.
func TestEachHeadingIsExplained(t *testing.T) {
	for _, c := range tables {
		for _, command := range append([]string{c.command}, c.like...) {
			help := strings.Join(strings.Fields(does(t, append(strings.Fields(command)[1:], "--help")...)), " ")
			require.Contains(t, help, "Output, a line for "+c.rows+":", command)
			for _, one := range c.all {
				require.NotEmpty(t, one.means, one.heading)
				require.Contains(t, help, one.heading+" "+one.means, command)
			}
		}
	}
	page := filepath.Join("..", "..", "docs", "OUTPUT.md")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(outputPage()), 0o600))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, outputPage(), string(text), "run go test ./internal/cli -run TestEachHeadingIsExplained -update")
}

// TestEachFactIsExplained: what homeward inspect prints above its table has an explanation, too.
func TestEachFactIsExplained(t *testing.T) {
	named := []string{"next"}
	for _, line := range facts(&inspect.History{
		Tenant: "acme", Key: "k", Object: "ch_1", Home: "us-east1", TraceID: "4b",
		Claim:    &inspect.Claim{State: "IN_FLIGHT", Holder: "n", ProviderRef: "psp_1", Reverses: "ch_1"},
		Bookings: []inspect.Booking{{}}, Waiting: []inspect.Waiting{{}},
	}) {
		named = append(named, line[0])
	}
	var explained []string
	for _, one := range factTerms.all {
		explained = append(explained, one.heading)
	}
	require.Equal(t, explained, named)
}

// outputPage is docs/OUTPUT.md.
func outputPage() string {
	var page strings.Builder
	page.WriteString("# What commands print\n\nThe columns of each command's tables, and the figures of a drill's verdict. `--help` of a command says the same. A test writes this page from internal/cli/columns.go.\n")
	last := ""
	for _, c := range tables {
		if c.command != last {
			fmt.Fprintf(&page, "\n## `%s`\n", c.command)
			last = c.command
		}
		also := ""
		for _, command := range c.like {
			also += ", also of `" + command + "`"
		}
		fmt.Fprintf(&page, "\nA line for %s%s:\n\n| heading | what it means |\n| --- | --- |\n", c.rows, also)
		for _, one := range c.all {
			fmt.Fprintf(&page, "| %s | %s |\n", one.heading, one.means)
		}
	}
	return page.String()
}
