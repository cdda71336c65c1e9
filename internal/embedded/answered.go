package embedded

import (
	"context"
	"sync/atomic"

	"github.com/homeward-io/homeward/claim"
)

const (
	// answeredSets times answeredWays is how many final claims are remembered: some 4 MB
	// of them. With four ways, of the last 1,000 claims some 30 are lost to others whose
	// hashes are near; with one way it would be 200.
	answeredSets, answeredWays = 512, 4
	// answeredBody is the longest response of one, in bytes: most have some 600.
	answeredBody = 4 << 10
)

// answered remembers claims that this process settled lately: most retries come within
// seconds. It is a replica near by, of which the rule of replicas holds: a final answer
// may be read from it, and nothing else. Final rows do not change until their key is
// free again, and the age of one is judged by the clock at each reading. A claim that is
// not here is read from its row. A set keeps the last claims of all whose hash selects
// it; nothing is lost with the others.
//
// A claim gets in under the lock of its row, once the row is durable, and is replaced
// there by each later step.
//
// The budget of replays, half the rate of one bare read, needs it: without it a replay
// takes a fourth more CPU.
type answered [answeredSets]answerSet

type answerSet struct {
	ways [answeredWays]atomic.Pointer[answer]
	// next counts the claims that came in; each takes the place of the one that came
	// answeredWays before it.
	next atomic.Uint32
}

// answer is a claim in a final state, as its row is on disk. It never changes.
type answer struct {
	code claim.RegionCode
	rec  claim.Record
}

func (a *answered) set(stripe int) *answerSet { return &a[stripe%answeredSets] }

func (a *answered) of(stripe int, code claim.RegionCode, key claim.Key) *answer {
	found, _ := a.set(stripe).find(code, key)
	return found
}

// find returns the claim of key, and its place; nil if it is not there.
func (s *answerSet) find(code claim.RegionCode, key claim.Key) (*answer, *atomic.Pointer[answer]) {
	for i := range s.ways {
		if got := s.ways[i].Load(); got != nil && got.rec.Key == key && got.code == code {
			return got, &s.ways[i]
		}
	}
	return nil, nil
}

// stepped follows a durable step. The caller holds the lock of the stripe. Claims of
// other stripes come into the same set meanwhile.
func (a *answered) stepped(stripe int, code claim.RegionCode, next *claim.Record) {
	s := a.set(stripe)
	old, place := s.find(code, next.Key)
	if !next.State.Final() || next.Response == nil || len(next.Response.Body) > answeredBody {
		if old != nil {
			place.CompareAndSwap(old, nil)
		}
		return
	}
	now := &answer{code: code, rec: *next}
	if old == nil || !place.CompareAndSwap(old, now) {
		s.ways[(s.next.Add(1)-1)%answeredWays].Store(now)
	}
}

// recall is Begin for a claim that is remembered and answers for its key. It reads no
// row: no pin either, as a claim that lives here proves that its home is here.
func (v *View) recall(ctx context.Context, a *claim.Arrival) (begun claim.Begun, known bool, err error) {
	code, here := v.db.regions[a.Home]
	if !here || a.Home != v.name {
		return claim.Begun{}, false, nil
	}
	was := v.db.answered.of(v.db.rows.index(code, a.Key), code, a.Key)
	if was == nil {
		return claim.Begun{}, false, nil
	}
	if err := v.db.enter(ctx); err != nil {
		return claim.Begun{}, false, err
	}
	defer v.db.leave()
	begun.Now = v.db.clock.now()
	_, _, begun.Decision, err = claim.Begin(&was.rec, a, 0, &v.db.policy, begun.Now)
	switch begun.Decision {
	case claim.Replay, claim.Mismatch, claim.TombStone:
		begun.Record = was.rec
		return begun, true, err
	default:
		return claim.Begun{}, false, err
	}
}
