package region

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
)

func nodesNamed(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("node-%d", i), Region: us, RPCAddr: fmt.Sprintf("10.0.0.%d:9000", i)}
	}
	return nodes
}

func keyNumber(i int) claim.Key {
	return claim.Key{Tenant: fmt.Sprintf("tenant-%d", i%7), Value: fmt.Sprintf("order-%d", i)}
}

func TestChooseIsAPermutationWhateverTheOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 16, 17, 40} {
		nodes := nodesNamed(n)
		reversed := slices.Clone(nodes)
		slices.Reverse(reversed)
		for i := range 50 {
			a, b := Choose(nodes, keyNumber(i)), Choose(reversed, keyNumber(i))
			if !slices.Equal(a, b) {
				t.Fatalf("the order of the %d nodes given changed the choice", n)
			}
			names := make(map[string]bool)
			for _, node := range a {
				names[node.Name] = true
			}
			if len(a) != n || len(names) != n {
				t.Fatalf("%d nodes came out as %d, %d distinct", n, len(a), len(names))
			}
		}
		if !slices.Equal(nodes, nodesNamed(n)) {
			t.Fatal("Choose wrote to its argument")
		}
	}
}

func TestChooseIsStable(t *testing.T) {
	// Nodes of different builds must agree. If this fails, the hash has changed:
	// during a roll-out duplicates would meet in different processes.
	var got []string
	for _, n := range Choose(nodesNamed(4), claim.Key{Tenant: "acme", Value: "order-1"}) {
		got = append(got, n.Name)
	}
	want := []string{"node-1", "node-2", "node-0", "node-3"}
	if !slices.Equal(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
}

func TestChooseBalances(t *testing.T) {
	const keys, n = 20000, 5
	nodes := nodesNamed(n)
	first, second := make(map[string]int), make(map[string]int)
	for i := range keys {
		order := Choose(nodes, keyNumber(i))
		first[order[0].Name]++
		second[order[1].Name]++
	}
	// 4000 expected, standard deviation 57: 6 of those.
	for _, node := range nodes {
		for which, count := range map[string]int{"first": first[node.Name], "second": second[node.Name]} {
			if count < keys/n-340 || count > keys/n+340 {
				t.Errorf("%s is %s for %d of %d keys", node.Name, which, count, keys)
			}
		}
	}
}

func TestChooseMovesOnlyWhatItMust(t *testing.T) {
	nodes := nodesNamed(5)
	moved := 0
	for i := range 5000 {
		before := Choose(nodes, keyNumber(i))
		after := Choose(nodes[:4], keyNumber(i))
		gone := slices.IndexFunc(before, func(n Node) bool { return n.Name == nodes[4].Name })
		if !slices.Equal(slices.Delete(slices.Clone(before), gone, gone+1), after) {
			t.Fatalf("key %d: the order of the others changed when a node left", i)
		}
		if before[0] != after[0] {
			moved++
		}
	}
	if moved < 800 || moved > 1200 {
		t.Errorf("%d of 5000 keys moved, about 1000 had to", moved)
	}
}

func TestChooseTakesDrainingNodesLast(t *testing.T) {
	nodes := nodesNamed(4)
	nodes[1].Draining, nodes[2].Draining = true, true
	for i := range 200 {
		order := Choose(nodes, keyNumber(i))
		if order[0].Draining || order[1].Draining || !order[2].Draining || !order[3].Draining {
			t.Fatalf("key %d: %v", i, order)
		}
	}
}

// TestANodeThatCannotRecordIsChosenLast: after those that drain, which can.
func TestANodeThatCannotRecordIsChosenLast(t *testing.T) {
	unready, draining, good := Node{Name: "a", UnreadySince: time.Now()}, Node{Name: "b", Draining: true}, Node{Name: "c"}
	for _, key := range []string{"1", "2", "3", "4"} {
		got := Choose([]Node{unready, draining, good}, claim.Key{Tenant: "acme", Value: key})
		if got[0].Name != "c" || got[1].Name != "b" || got[2].Name != "a" {
			t.Fatalf("chose %+v", got)
		}
	}
}

func TestChooseSeparatesTenantFromKey(t *testing.T) {
	nodes := nodesNamed(16)
	same := 0
	for i := range 200 {
		a := Choose(nodes, claim.Key{Tenant: fmt.Sprint("t", i), Value: "1k"})
		b := Choose(nodes, claim.Key{Tenant: fmt.Sprint("t", i, "1"), Value: "k"})
		if a[0] == b[0] {
			same++
		}
	}
	if same > 60 {
		t.Errorf("%d of 200 pairs chose alike, about 12 expected", same)
	}
}
