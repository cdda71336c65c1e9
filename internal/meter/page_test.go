package meter

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write docs/METRICS.md")

// TestThePageIsCurrent compares docs/METRICS.md with the catalogue.
func TestThePageIsCurrent(t *testing.T) {
	const path = "../../docs/METRICS.md"
	want := page()
	if *write {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run make generate")
}

const pageHead = `# Metrics

<!-- Made from internal/meter/catalogue.go by make generate. -->

A node serves metrics in Prometheus' format at ` + "`GET /metrics`" + `, on a listener of its own (` + "`metrics.listen`" + ` of [node.yaml](node.yaml)). It also pushes them by OTLP if OpenTelemetry's variables ask for it (` + "`OTEL_METRICS_EXPORTER`" + `, ` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + `).

Each metric has the labels ` + "`homeward_region`" + ` and ` + "`homeward_node`" + ` of the node that reports it, beside its own. The headings are OpenTelemetry's names. The name below each is Prometheus'; a histogram has ` + "`_bucket`" + `, ` + "`_sum`" + ` and ` + "`_count`" + `. Labels have underscores in place of dots, too. A gauge without a unit is 0 or 1. If the request's trace is sampled, a histogram's observation carries the trace id as an exemplar, in the OpenMetrics format.

` + "`homeward ledger verify`" + ` and ` + "`homeward reconcile`" + ` write their verdicts to a file (` + "`--metrics-file`" + `), which node_exporter's textfile collector reads, or push them by the same variables. These metrics have neither of the two labels.

The Go runtime's metrics (` + "`go_*`" + `, ` + "`process_*`" + `) have their usual names.
`

func page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, s := range Catalogue() {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		for _, m := range s.Metrics {
			fmt.Fprintf(&b, "\n### %s\n\n`%s` · %s", m.Name(), m.Prometheus(), m.Kind())
			if m.Unit() != "" {
				fmt.Fprintf(&b, " · %s", m.Unit())
			}
			if m.Kind() == KindHistogram {
				fmt.Fprintf(&b, " · buckets %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Buckets()), " ", ", "), "[]"))
			}
			var labels []string
			for _, l := range m.Labels() {
				labels = append(labels, "`"+strings.ReplaceAll(string(l), ".", "_")+"`")
			}
			if len(labels) > 0 {
				fmt.Fprintf(&b, "  \nLabels: %s", strings.Join(labels, ", "))
			}
			fmt.Fprintf(&b, "\n\n%s\n\n**When it moves:** %s\n", m.Means(), m.Act())
		}
	}
	return b.String()
}

// TestTheCatalogueIsWhole: each metric has its meaning and what to do, a name of its own, and
// labels that no other of it, or of its node, has.
func TestTheCatalogueIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		require.Regexp(t, `^(homeward|http\.server|db\.client)(\.[a-z_]+)+$`, m.Name())
		require.False(t, names[m.Prometheus()], m.Name())
		names[m.Prometheus()] = true
		require.Regexp(t, `^(|s|By|\{[a-z_]+\})$`, m.Unit(), m.Name())
		require.NotEmpty(t, m.Means(), m.Name())
		require.NotEmpty(t, m.Act(), m.Name())
		require.Equal(t, m.Kind() == KindHistogram, len(m.Buckets()) > 0, m.Name())
		require.LessOrEqual(t, len(m.Labels()), maxLabels, m.Name())
		seen := map[string]bool{string(Region): true, string(Node): true}
		for _, l := range m.Labels() {
			require.False(t, seen[string(l)], "%s has %s twice", m.Name(), l)
			seen[string(l)] = true
		}
		for i, bound := range m.Buckets() {
			require.True(t, i == 0 || bound > m.Buckets()[i-1], m.Name())
		}
	}
}
