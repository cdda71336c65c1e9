package claim_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment"
)

var exploreDepth = flag.Int("explore.depth", 0, "how many events TestExplore follows in each world; 0: the bound that the world names")

// found is what a search of one world came to.
type found struct {
	states, depth int
	whole         bool     // no state beyond depth is left
	promise, why  string   // what was broken; "": nothing
	story         []string // the shortest path there, an event a line
}

func (f *found) String() string {
	if f.promise == "" {
		return "nothing was broken"
	}
	return fmt.Sprintf("broken: %s: %s\n  %s", f.promise, f.why, strings.Join(f.story, "\n  "))
}

// explore follows every order of events from sc, breadth first, to depth. It stops at the
// first broken promise, to which no shorter path leads.
func explore(sc *scene, depth int) *found {
	type seen struct {
		from int
		line string
	}
	var (
		all   = []seen{{from: -1}} // every state, by how it was first reached
		known = map[[16]byte]bool{}
		out   = &found{}
		buf   bytes.Buffer
	)
	type place struct {
		*world
		number int
	}
	edge := []place{{newWorld(sc), 0}}
	for ; out.depth < depth && len(edge) > 0; out.depth++ {
		var beyond []place
		for _, at := range edge {
			for _, n := range at.next() {
				buf.Reset()
				n.encode(&buf)
				sum := sha256.Sum256(buf.Bytes())
				id := [16]byte(sum[:16])
				isKnown := known[id]
				for _, p := range promises {
					if isKnown && p.name != "a final claim never changes" {
						continue // only this one looks at the step, and not at where it leads
					}
					if why := p.check(at.world, n); why != "" {
						out.promise, out.why, out.story = p.name, why, []string{n.line}
						for i := at.number; all[i].from >= 0; i = all[i].from {
							out.story = append([]string{all[i].line}, out.story...)
						}
						out.states = len(all)
						return out
					}
				}
				if !isKnown {
					known[id] = true
					beyond = append(beyond, place{n, len(all)})
					all = append(all, seen{at.number, n.line})
				}
			}
		}
		edge = beyond
	}
	out.states, out.whole = len(all), len(edge) == 0
	return out
}

// Requests that the worlds have.
var (
	first   = ask{key: "order-1", body: "100", entry: europe, stamped: true}
	twin    = ask{key: "order-1", body: "100", entry: asia, node: 1, stamped: true}
	third   = ask{key: "order-1", body: "100", entry: europe, node: 1, stamped: true}
	changed = ask{key: "order-1", body: "200", entry: europe, node: 1, stamped: true}
)

func opaque(a ask) ask { a.stamped = false; return a }
func other(a ask) ask  { a.key = "order-2"; return a }

// base is one request and the worker, with a provider as most are.
func base(change func(sc *scene)) *scene {
	sc := &scene{
		asks: []ask{first}, workers: []int{europe}, dedupes: true, lookup: true, decides: []string{"paid"},
	}
	change(sc)
	return sc
}

// banked is base with banks in it.
func banked(change func(sc *scene)) *scene {
	return base(func(sc *scene) {
		sc.asks, sc.banks = []ask{pays(first)}, []string{"north"}
		change(sc)
	})
}

func pays(a ask) ask { a.body = chargeBody; return a }
func hold(a ask) ask { a.body = manualBody; return a }

func ordered(op payment.Operation, key string, amount int64) ask {
	return ask{key: key, entry: europe, stamped: true, op: op, amount: amount}
}

// worlds are explored, and keep every promise. depth bounds the short form.
var worlds = []struct {
	name  string
	depth int
	*scene
}{
	{"one request, and a worker that recovers it", 10, base(func(sc *scene) {
		sc.faults, sc.moments, sc.renews = 2, []int{1, 4, 5, 8}, true
		sc.decides = []string{"paid", "hard"}
	})},
	{"twins and a changed body", 9, base(func(sc *scene) {
		sc.asks = []ask{first, twin, changed}
		sc.faults, sc.moments = 2, []int{1, 4}
	})},
	{"a decline for now, and who may try again", 8, base(func(sc *scene) {
		sc.asks = []ask{first, third}
		sc.decides, sc.closes = []string{"soft", "paid"}, true
		sc.faults, sc.moments = 2, []int{1, 4, 5}
	})},
	{"deputies beside a living home, clocks apart", 10, base(func(sc *scene) {
		sc.asks, sc.workers, sc.deputies, sc.fast = []ask{first, twin}, []int{europe, asia}, true, 1
		sc.faults, sc.moments = 2, []int{1, 2, 3, 4}
	})},
	{"an opaque key that arrives in two regions", 8, base(func(sc *scene) {
		sc.asks, sc.workers, sc.deputies, sc.fast = []ask{opaque(first), opaque(twin)}, []int{europe}, true, 1
		sc.faults, sc.moments = 1, []int{4, 8}
	})},
	{"an opaque key across the windows' ends", 8, base(func(sc *scene) {
		sc.asks, sc.fast, sc.sweeps = []ask{opaque(first), opaque(twin)}, 1, true
		sc.faults, sc.moments = 1, []int{5, 50, 91, 96, 186}
	})},
	{"a registrar that moves, and sweeps", 8, base(func(sc *scene) {
		sc.asks, sc.workers, sc.deputies, sc.fast = []ask{opaque(first), opaque(twin)}, nil, true, 1
		sc.moving, sc.sweeps, sc.moments = 2, true, []int{50, 91, 96, 186}
	})},
	{"a registrar that moves twice, and three requests", 6, base(func(sc *scene) {
		sc.asks, sc.workers = []ask{opaque(first), opaque(twin), opaque(third)}, nil
		sc.moving, sc.sweeps, sc.moments = 3, true, []int{91, 186}
	})},
	{"a stamped key used again after its tombstone", 9, base(func(sc *scene) {
		sc.asks, sc.sweeps = []ask{first, changed}, true
		sc.faults, sc.moments = 2, []int{45, 92, 137}
	})},
	{"a payment that waits for the payer", 8, base(func(sc *scene) {
		sc.asks, sc.decides = []ask{first, third}, []string{"pending", "hard"}
		sc.faults, sc.moments = 2, []int{1, 4, 5}
	})},
	{"two keys", 8, base(func(sc *scene) {
		sc.asks = []ask{first, other(third), twin}
		sc.faults, sc.moments = 1, []int{4}
	})},
	{"a provider that dedupes and cannot be asked", 9, base(func(sc *scene) {
		sc.asks, sc.lookup = []ask{first, third}, false
		sc.faults, sc.moments = 3, []int{1, 4, 5}
	})},
	{"a real executor", 8, banked(func(sc *scene) {
		sc.asks, sc.decides = []ask{pays(first), pays(third)}, []string{"paid", "soft"}
		sc.faults, sc.moments = 2, []int{1, 4, 5, 8}
	})},
	{"two providers, and one that fails over", 8, banked(func(sc *scene) {
		sc.asks, sc.banks, sc.decides = []ask{pays(first), pays(third)}, []string{"north", "south"}, []string{"elsewhere", "paid"}
		sc.faults, sc.moments = 2, []int{1, 4, 5, 8}
	})},
	{"money that is held, two captures and a cancellation", 8, banked(func(sc *scene) {
		sc.asks = []ask{hold(first), ordered(payment.Capture, "capture-1", 60), ordered(payment.Capture, "capture-2", 0), ordered(payment.Cancel, "cancel-1", 0)}
		sc.faults, sc.moments = 1, []int{1, 4, 5}
	})},
	{"money that is held, at a provider that reports later", 8, banked(func(sc *scene) {
		sc.asks = []ask{hold(first), ordered(payment.Capture, "capture-1", 60), ordered(payment.Capture, "capture-2", 40), ordered(payment.Cancel, "cancel-1", 0)}
		sc.later, sc.faults, sc.moments = true, 1, []int{1, 4, 5}
	})},
	{"a ghost, and who gives it back", 14, banked(func(sc *scene) {
		sc.notices, sc.faults, sc.moments = true, 2, []int{1, 4, 8}
	})},
	{"a declined charge that is paid later", 9, banked(func(sc *scene) {
		sc.asks, sc.notices, sc.decides = []ask{pays(first), pays(third)}, true, []string{"late", "paid"}
		sc.faults, sc.moments = 1, []int{1, 4, 5, 8}
	})},
	{"a key that is given up", 8, banked(func(sc *scene) {
		sc.asks, sc.decides = []ask{pays(first), givesUp(first), pays(third)}, []string{"paid", "soft"}
		sc.faults, sc.moments = 1, []int{1, 4, 5, 8}
	})},
	{"an opaque key that is given up where it did not arrive", 8, banked(func(sc *scene) {
		sc.asks, sc.deputies = []ask{opaque(pays(first)), opaque(givesUp(first))}, true
		sc.faults, sc.moments = 1, []int{4, 8}
	})},
	{"money that is held, and its key given up", 8, banked(func(sc *scene) {
		sc.asks = []ask{hold(first), givesUp(first), ordered(payment.Capture, "capture-1", 60)}
		sc.faults, sc.moments = 1, []int{1, 4, 5}
	})},
	{"a ghost whose key is given up, and its notice", 9, banked(func(sc *scene) {
		sc.asks, sc.notices = []ask{pays(first), givesUp(first)}, true
		sc.faults, sc.moments = 1, []int{1, 4, 8}
	})},
	{"a store that is put back from a backup", 11, banked(func(sc *scene) {
		sc.asks, sc.restores = []ask{pays(first), pays(third)}, true
		sc.faults, sc.moments = 1, []int{4}
	})},
	{"a lost generation", 10, banked(func(sc *scene) {
		sc.asks, sc.restores, sc.workers, sc.decides = []ask{pays(first), pays(third)}, true, nil, []string{"soft", "paid"}
		sc.faults, sc.moments = 1, []int{4}
	})},
	{"a lost claim under an opaque key, and its pin", 11, banked(func(sc *scene) {
		sc.asks, sc.restores, sc.workers = []ask{opaque(pays(first)), opaque(pays(twin))}, true, nil
		sc.faults = 1
	})},
	{"a provider that does not dedupe, whose calls take a second", 11, base(func(sc *scene) {
		sc.dedupes, sc.transit = false, 1
		sc.faults, sc.moments = 3, []int{1, 4, 6, 8, 12, 14}
	})},
	{"a provider that does not dedupe, whose calls outlast a lease", 28, base(func(sc *scene) {
		sc.dedupes, sc.transit = false, 5
		sc.faults, sc.moments = 1, []int{4, 10, 16, 20, 26}
	})},
}

// TestExplore follows every order of events of small worlds on the real transitions, and
// checks every promise after each event. docs/TESTING.md says what that means.
func TestExplore(t *testing.T) {
	total := 0
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			depth := w.depth
			if *exploreDepth > 0 {
				depth = *exploreDepth
			}
			began := time.Now()
			got := explore(w.scene, depth)
			if total += got.states; got.promise != "" {
				t.Fatal(got)
			}
			t.Logf("%d states, %d events deep, whole: %v, %.1f s", got.states, got.depth, got.whole, time.Since(began).Seconds())
		})
	}
	t.Logf("%d states of %d worlds", total, len(worlds))
}

// TestExploreReverts takes one guard at a time out of a small world. The explorer must find a
// broken promise, and none in the same world with the guard.
func TestExploreReverts(t *testing.T) {
	caught := map[string]bool{}
	for _, r := range []struct {
		guard, promise string
		*scene
	}{
		{"fence", "no node takes over a lease that runs", base(func(sc *scene) {
			sc.asks = []ask{first, third}
			sc.faults, sc.moments = 1, []int{4, 6}
		})},
		{"fence", "unknown never becomes failure", base(func(sc *scene) {
			sc.asks, sc.workers, sc.decides = []ask{first, third}, nil, []string{"soft", "paid"}
			sc.faults, sc.moments = 1, []int{3}
		})},
		{"object's id", "unknown never becomes failure", base(func(sc *scene) {
			sc.asks, sc.workers, sc.decides = []ask{first, third}, nil, []string{"hard", "paid"}
			sc.faults, sc.moments, sc.sweeps = 1, []int{130}, true
		})},
		{"verdict's id", "a recorded verdict answers its caller", base(func(sc *scene) { sc.faults = 1 })},
		{"lease", "no node takes over a lease that runs", base(func(sc *scene) { sc.asks = []ask{first, twin} })},
		{"lease's clock offset", "no node takes over a lease that runs", base(func(sc *scene) {
			sc.asks, sc.deputies, sc.fast = []ask{first, twin}, true, 1
			sc.moments = []int{2}
		})},
		{"fingerprint", "a changed body is refused", base(func(sc *scene) { sc.asks = []ask{first, changed} })},
		{"pin age", "a key has at most one home", base(func(sc *scene) {
			sc.asks = []ask{opaque(first), opaque(twin)}
			sc.moments = []int{91}
		})},
		{"claim asked before a pin is taken", "a key has at most one home", base(func(sc *scene) {
			sc.asks = []ask{opaque(first), opaque(twin)}
			sc.moments = []int{91}
		})},
		{"claim asked before a pin is swept", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers = []ask{opaque(first), opaque(twin)}, nil
			sc.moments, sc.sweeps = []int{91}, true
		})},
		{"age of a swept pin", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers = []ask{opaque(first), opaque(twin)}, nil
			sc.sweeps = true
		})},
		{"the pin's time compared when it is swept", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers = []ask{opaque(first), opaque(twin)}, nil
			sc.moments, sc.sweeps = []int{91}, true
		})},
		{"the pin's time compared when it is written", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers = []ask{opaque(first), opaque(twin), opaque(third)}, nil
			sc.moments = []int{91}
		})},
		{"a third registrar waits for the pins of the first", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers, sc.moving = []ask{opaque(first), opaque(twin)}, nil, 2
		})},
		{"the former registrar counts until its last pin", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers, sc.moving = []ask{opaque(first), opaque(twin)}, nil, 1
		})},
		{"former registrar, where one step pins and begins", "a key has at most one home", base(func(sc *scene) {
			sc.asks, sc.workers, sc.moving = []ask{opaque(first), opaque(twin)}, nil, 1
		})},
		{"provider key", "a key is charged at most once", base(func(sc *scene) { sc.faults, sc.moments = 1, []int{4} })},
		{"time under way", "a request that waited for a refusal gets it", base(func(sc *scene) {
			sc.asks, sc.decides = []ask{first, third}, []string{"soft"}
			sc.moments = []int{4}
		})},
		{"claim durable before the call", "no call without a durable claim", base(func(sc *scene) { sc.faults = 1 })},
		{"call recorded with its claim", "a claim in flight has a queued call", base(func(*scene) {})},
		{"replay window and tombstone", "a final claim never changes", base(func(sc *scene) { sc.asks = []ask{first, third} })},
		{"answer read from the row", "every reader of a final answer reads the same bytes", base(func(sc *scene) { sc.asks = []ask{first, third} })},
		{"booking in the verdict's step", "money that moved is booked, asked about, or refunded", base(func(*scene) {})},
		{"bound of a call's time", "a key is charged at most once", base(func(sc *scene) {
			sc.dedupes, sc.transit = false, 1
			sc.faults, sc.moments = 1, []int{4, 6, 8}
		})},
		{"trust in the lease", "a key is charged at most once", base(func(sc *scene) {
			sc.dedupes, sc.transit = false, 1
			sc.moments = []int{4, 6, 8}
		})},
		{"no other provider after an unknown outcome", "unknown never becomes failure", banked(func(sc *scene) {
			sc.banks, sc.faults, sc.moments = []string{"north", "south"}, 2, []int{4}
		})},
		{"captured amount as the provider shows it", "an answer says what the provider did", banked(func(sc *scene) {
			sc.asks = []ask{hold(first), ordered(payment.Capture, "capture-1", 60)}
		})},
		{"an order takes its charge", "an answer says what the provider did", banked(func(sc *scene) {
			sc.asks = []ask{hold(first), ordered(payment.Capture, "capture-1", 60), ordered(payment.Capture, "capture-2", 40)}
			sc.later, sc.workers = true, nil
		})},
		{"one key for a movement's refund", "money is given back once, and only what no merchant is owed", banked(func(sc *scene) {
			sc.decides, sc.notices, sc.faults, sc.moments = []string{"late"}, true, 1, []int{4}
		})},
		{"the fence of a mark", "a canceled key moves no money that is not returned", banked(func(sc *scene) {
			sc.asks = []ask{pays(first), givesUp(first)}
		})},
		{"refund recorded with the step that refuses", "a canceled key moves no money that is not returned", banked(func(sc *scene) {
			sc.asks = []ask{pays(first), givesUp(first)}
		})},
		{"a key that was given up answers every request", "a final claim never changes", banked(func(sc *scene) {
			sc.asks, sc.workers = []ask{pays(first), givesUp(first)}, nil
		})},
		{"the guard of a restore", "a key is charged at most once", banked(func(sc *scene) {
			sc.asks, sc.restores, sc.faults = []ask{pays(first), pays(third)}, true, 1
		})},
		{"keys withheld until the witnesses are complete", "a key is charged at most once", banked(func(sc *scene) {
			sc.asks, sc.restores, sc.faults = []ask{pays(first), pays(third)}, true, 1
		})},
		{"settle window", "a key is charged at most once", base(func(sc *scene) {
			sc.dedupes, sc.transit = false, 4
			sc.faults, sc.moments = 1, []int{4}
		})},
	} {
		t.Run(r.guard+": "+r.promise, func(t *testing.T) {
			r.without = r.guard
			got := explore(r.scene, 30)
			if got.promise != r.promise {
				t.Fatalf("without %q, %q is to be broken, after %d states: %v", r.guard, r.promise, got.states, got)
			}
			caught[got.promise] = true
			t.Logf("%d states: %v", got.states, got)
			r.without = ""
			if got := explore(r.scene, len(got.story)); got.promise != "" {
				t.Fatalf("with every guard: %v", got)
			}
		})
	}
	for _, p := range promises {
		if !caught[p.name] {
			t.Errorf("no revert run breaks %q", p.name)
		}
	}
}
