package drill

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachWordOfAVerdictIsExplained: Terms has every word that a report prints, and no other.
func TestEachWordOfAVerdictIsExplained(t *testing.T) {
	after := 1.5
	r := Report{Scenario: "region-loss", Region: "us-east1", Verdict: Findings{
		Lost: 1, Unasked: "it was stopped", Beside: &Latency{}, DatabaseAway: &after, AfterDatabase: &Latency{}, InFlight: &after, ServedAgain: &after, LastRefused: &after, Back: &after, Examples: []string{"key k"},
		Phases: []Phase{{Name: "before", Errors: []ErrorCount{{"503", 1}}}},
	}}
	var text strings.Builder
	require.NoError(t, r.Text(&text))
	var printed []string
	for line := range strings.SplitSeq(text.String(), "\n") {
		if name, values, found := strings.Cut(strings.TrimPrefix(line, "  "), "  "); found && strings.HasPrefix(line, "  ") {
			name, _, _ = strings.Cut(name, ",") // sent again, before
			printed = append(printed, name)
			if name == "phase" {
				printed = append(printed, slices.DeleteFunc(strings.Split(values, "  "), func(s string) bool { return strings.TrimSpace(s) == "" })...)
			}
		}
	}
	var explained []string
	for _, term := range Terms() {
		require.NotEmpty(t, term.Means, term.Name)
		explained = append(explained, term.Name)
	}
	seen := map[string]bool{}
	for _, p := range printed {
		if p = strings.TrimSpace(p); p == "before" { // a value
			continue
		}
		require.Contains(t, explained, p, text.String())
		seen[p] = true
	}
	require.Len(t, seen, len(explained), "every term is printed: %v", seen)
}
