package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// crossing is a moment just before, or just after, a node takes a step of the store.
type crossing struct {
	step  string // how its name begins
	after bool
}

func (c crossing) String() string {
	return map[bool]string{false: "before ", true: "after "}[c.after] + c.step
}

// crossings are all at which a node dies or freezes: each step that changes rows, but Park,
// as a run ends long before a row has failed as often as it may. Steps that few runs take are there twice.
var crossings = func() (all []crossing) {
	steps := []string{"Begin", "Pin", "TakeOver", "Cancel", "Renew", "Keep", "Book", "Close", "Finish", "Retry"}
	for _, o := range []string{claim.OutcomeDone, claim.OutcomeRefused, claim.OutcomeReleased, claim.OutcomePending, claim.OutcomeUnknown} {
		steps = append(steps, "Settle "+o)
	}
	for _, q := range []outbox.Queue{outbox.ProviderCalls, outbox.Expiries, outbox.Events, outbox.Notices} {
		steps = append(steps, fmt.Sprint("Take ", q))
	}
	steps = append(steps, "Cancel", "Settle "+claim.OutcomePending, fmt.Sprint("Take ", outbox.Expiries))
	for _, s := range steps {
		all = append(all, crossing{s, false}, crossing{s, true})
	}
	return all
}()

// moves are the crossings at which a charge goes to another provider. Half of the runs with two providers aim at one of them.
var moves = []crossing{{"Settle " + claim.OutcomeMoved, false}, {"Settle " + claim.OutcomeMoved, true}}

// unchanged are outcomes of steps that changed no row. After such a step there is nothing to lose, so no
// ambush is sprung.
var unchanged = []string{
	"none", "nothing", "absent", "again", claim.Busy.String(), claim.Mismatch.String(), claim.TombStone.String(), claim.NeedPin.String(),
	claim.Shared.String(), claim.Waiting.String(), claim.Replay.String(), claim.Used.String(),
}

// at is the crossing of this name.
func at(name string) crossing {
	when, step, _ := strings.Cut(name, " ")
	return crossing{step, when == "after"}
}

// aimed is how many crossings lie in wait in a step of a run that aims.
const aimed = 3

// aim is a fault that waits at the next crossings of all. Every second seed aims, in each of its steps,
// and the seeds go round: so those that few nodes reach have their turn as often as the others.
func aim(rng *rand.Rand, seed uint64, i, steps int) []fault {
	if seed%2 == 0 {
		return nil
	}
	f := fault{kind: []kind{killAt, freezeAt}[rng.IntN(2)], begin: between(rng, 5*time.Second)}
	f.end = f.begin + []time.Duration{30 * time.Second, time.Minute, 4 * time.Minute}[rng.IntN(3)]
	for j := range uint64(aimed) {
		n := (seed/2*uint64(steps)+uint64(i))*aimed + j
		f.from = append(f.from, crossings[n%uint64(len(crossings))].String())
	}
	if ofTwo(seed) {
		f.from = append(f.from, moves[i%2].String())
	}
	return []fault{f}
}

// ambush waits for the first node that reaches a crossing, and does something to it there.
type ambush struct {
	crossing
	kind kind
	do   func(*machine)
}

// lieInWait begins the ambushes of a fault. Its end undoes those that a node has met.
func (w *world) lieInWait(f fault, do, undo func(*machine)) (end func()) {
	var met []*machine
	waiting := map[*ambush]bool{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range f.from {
		a := &ambush{crossing: at(name), kind: f.kind}
		a.do = func(m *machine) {
			w.mu.Lock()
			met = append(met, m)
			w.mu.Unlock()
			do(m)
		}
		waiting[a], w.ambushes[a] = true, true
	}
	return func() {
		w.mu.Lock()
		for a := range waiting {
			delete(w.ambushes, a)
		}
		w.mu.Unlock()
		for _, m := range met {
			undo(m)
		}
	}
}

// crosses springs the ambush that waits for a node before or after a step: one at a time, as a dead node
// takes no other step.
func (w *world) crosses(s *store, step string, after bool) {
	if !s.p.acts() {
		return
	}
	w.mu.Lock()
	var sprung *ambush
	for a := range w.ambushes {
		if a.after == after && strings.HasPrefix(step, a.step) {
			sprung = a
			break
		}
	}
	delete(w.ambushes, sprung)
	w.mu.Unlock()
	if sprung == nil {
		return
	}
	w.logger("nemesis").Warn("met", "fault", string(sprung.kind), "at", sprung.String(), "node", s.m.name, "step", step)
	w.coverage.cross(sprung)
	sprung.do(s.m)
}

// acts reports whether the process is alive and not frozen.
func (h *process) acts() bool {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return !h.frozen && h.crashed == h.dead
}

// cross counts a node that died or froze at a crossing.
func (c *coverage) cross(a *ambush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken[a.String()+": "+string(a.kind)]++
}

// TestAim: in as many seeds as it takes to go round, each crossing is waited for, and each kind waits.
func TestAim(t *testing.T) {
	t.Parallel()
	const runSteps = 6
	seeds := 4 * (len(crossings)/(runSteps*aimed) + 1) // twice round: no moment lies in wait while the store is put back
	waits, does := map[string]bool{}, map[kind]bool{}
	for seed := range uint64(seeds) {
		for _, step := range plan(seed, runSteps) {
			for _, f := range step {
				if f.kind == killAt || f.kind == freezeAt {
					does[f.kind] = true
					for _, name := range f.from {
						waits[name] = true
						require.Equal(t, name, at(name).String())
					}
				}
			}
		}
	}
	for _, c := range crossings {
		require.True(t, waits[c.String()], c)
	}
	require.Len(t, does, 2)
}
