package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/sizing/model"
)

// The page is of one run, whole: a suite that fails leaves the page of before.
func TestThePageIsWholeOrUntouched(t *testing.T) {
	all := slices.Clone(suites)
	t.Cleanup(func() { suites = all })
	broken := errors.New("no database")
	var fails error
	for i := range suites {
		suites[i].run = func(_ context.Context, o options, out io.Writer) error {
			_, err := fmt.Fprintf(out, "case %d: store %v, webhooks %v, sql %v, scale %v, file %q\n", i, o.store, o.webhooks, o.sql, o.scale, o.out)
			r := newReport(o, io.Discard)
			r.alone(fmt.Sprintf("case %d", i), spread{10, 9, 11}, inMiB, false, 20)
			if err := r.finish(); err != nil {
				return err
			}
			r.cost(func(c *model.Costs) { c.NodeCharge += 100 })
			if i == len(suites)-1 && fails != nil {
				return fails
			}
			return err
		}
	}
	page := filepath.Join(t.TempDir(), "docs", "BENCHMARKS.md")
	o, err := parseOptions([]string{"-report", page})
	require.NoError(t, err)
	require.NoError(t, orchestratePage(t.Context(), o, io.Discard))
	first, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, part := range []string{"| date | 20", "| commit | ", "case 0: store false, webhooks false", "case 1: store true", "webhooks true, sql false", "sql true, scale false", "scale true, file \"\"", "`make bench SUITE=store`", "of 2s; of 4s at a fixed rate"} {
		require.Contains(t, string(first), part)
	}
	for i := range suites {
		require.Contains(t, string(first), fmt.Sprintf("| case %d | 10 MiB | – | – | ≤ 20 MiB | met |\n", i), "one table has the targets of all")
	}
	costs, err := model.ReadCosts(string(first))
	require.NoError(t, err)
	require.InDelta(t, 100*len(suites), costs.NodeCharge, 0, "each suite tells its costs to one block")
	require.NotEmpty(t, costs.Date)
	require.NotContains(t, string(first), "smoke test")
	fails = broken
	require.ErrorIs(t, orchestratePage(t.Context(), o, io.Discard), broken)
	second, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	left, err := os.ReadDir(filepath.Dir(page))
	require.NoError(t, err)
	require.Len(t, left, 1)

	fails = nil
	quick, err := parseOptions([]string{"-report", page, "-quick"})
	require.NoError(t, err)
	require.NoError(t, orchestratePage(t.Context(), quick, io.Discard))
	second, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(second), "smoke test")

	_, err = parseOptions([]string{"-report", page, "-store"})
	require.ErrorContains(t, err, "-report runs every case")
}
