package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	record "github.com/homeward-io/homeward/e2e/history"
)

// TestDrillsThroughAGateway takes away from six nodes that are gateways what drills take away from those of the
// API of payments, under load, one after the other: a region, what reaches a region, a region's nodes that
// freeze, new homes, and each node in turn. The nemesis' judge states a drill's verdict, by what the API behind
// them has done: no duplicates, no answers that differ, none lost.
func TestDrillsThroughAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of processes, and five drills")
	}
	t.Parallel()
	if onSQL() {
		t.Skip("its nodes are on PostgreSQL whatever other tests run on")
	}
	onPostgres(t)
	if onCockroach() {
		t.Skip("its times are PostgreSQL's; make nemesis STORE=cockroachdb runs gateways, too")
	}
	const begin, end = 200 * time.Millisecond, 5 * time.Second
	at := func(k nemesisKind, nodes ...string) (all []nemesisFault) {
		for _, node := range nodes {
			all = append(all, nemesisFault{kind: k, at: node, begin: begin, end: end})
		}
		return all
	}
	plan := [][]nemesisFault{
		at(lose, eu),
		at(drop, asia+"-1", asia+"-2"),
		at(freeze, us+"-1", us+"-2"),
		at(drain, us),
		at(stop, nemesisNodes...),
	}
	restarts := plan[len(plan)-1]
	for i := range restarts {
		restarts[i].begin = begin + time.Duration(i)*time.Second
		restarts[i].end = restarts[i].begin + begin
	}
	n := startNemesis(t, "gateway-drills", 2, true) // an API for each region, which recognises nothing of the others
	n.run(4, plan)
	for _, h := range n.hit {
		if h.kind == lose || h.kind == drop {
			require.True(t, n.servedMeanwhile(h), "no deputy served keys of %s while it was away", h.at)
		}
	}
}

// servedMeanwhile reports whether a stamped key of the region that a fault hit got its answer meanwhile.
func (n *nemesis) servedMeanwhile(h nemesisHit) bool {
	region := h.at
	if h.kind == drop {
		region = regionOf(h.at)
	}
	return slices.ContainsFunc(n.history.Operations(), func(o porcupine.Operation) bool {
		_, key, _ := strings.Cut(o.Input.(record.Sent).Key, "/")
		home, stamped := claim.ReadStamp(key)
		return stamped && home == codes[region] && o.Output.(record.Got).Kind == record.Final && o.Call > h.from.UnixNano() && o.Return < h.to.UnixNano()
	})
}
