package alerts

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachAlertIsAccountedFor holds the tests beside it and docs/ALERTS.md to the
// alerts that there are.
func TestEachAlertIsAccountedFor(t *testing.T) {
	alerts, err := os.ReadFile("../../monitoring/alerts.yaml")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range []string{"fire_test.go", "fire_nodes_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	page, err := os.ReadFile("../../docs/ALERTS.md")
	require.NoError(t, err)
	by := map[string]string{}
	name, mention := regexp.MustCompile(`^func (Test\w+)`), regexp.MustCompile(`"(Homeward\w+)"`)
	test := ""
	for line := range strings.SplitSeq(tests.String(), "\n") {
		if m := name.FindStringSubmatch(line); m != nil {
			test = m[1]
		}
		for _, m := range mention.FindAllStringSubmatch(line, -1) {
			by[m[1]] = test
		}
	}
	all := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1)
	require.NotEmpty(t, all)
	for _, m := range all {
		a, test := m[1], by[m[1]]
		_, section, _ := strings.Cut(string(page), "\n## "+a+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		require.NotEmpty(t, test, "%s is made to fire by no test", a)
		require.Contains(t, section, "- **Made to fire by**: `"+test+"`\n", a)
	}
}
