package alerts

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// byCases are the alerts that no fault here makes fire, with the reason. Prometheus' own
// cases in monitoring/tests.yaml have each of them fire and be silent.
var byCases = map[string]string{
	"HomewardCompensationsSlow":   "a compensation that takes a quarter of an hour",
	"HomewardCertificateEnds":     "nodes in one process have no certificates",
	"HomewardCertificateEndsSoon": "nodes in one process have no certificates",
	"HomewardVersionSkew":         "one process has one version",
	"HomewardTopologyStale":       "an embedded store's table of regions is always there",
	"HomewardTopologySkew":        "an embedded store's table of regions is always there",
	"HomewardPoolExhausted":       "an embedded store has no connections",
	"HomewardAuditLag":            "an hour without a bucket",
}

// TestEachAlertIsAccountedFor holds the tests above, the list and docs/ALERTS.md to the
// alerts that there are.
func TestEachAlertIsAccountedFor(t *testing.T) {
	alerts, err := os.ReadFile("../../monitoring/alerts.yaml")
	require.NoError(t, err)
	tests, err := os.ReadFile("fire_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/ALERTS.md")
	require.NoError(t, err)
	by := map[string]string{}
	name, mention := regexp.MustCompile(`^func (Test\w+)`), regexp.MustCompile(`"(Homeward\w+)"`)
	test := ""
	for line := range strings.SplitSeq(string(tests), "\n") {
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
		_, listed := byCases[a]
		switch {
		case test != "" && listed:
			t.Errorf("%s is in byCases, and %s makes it fire", a, test)
		case test != "":
			require.Contains(t, section, "- **Made to fire by**: `"+test+"`\n", a)
		case listed:
			require.Contains(t, section, "- **Made to fire by**: its case in `monitoring/`\n", a)
		default:
			t.Errorf("%s is made to fire by no test, and byCases does not say why", a)
		}
	}
}
