package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// The naive model of one key: it belongs to the first request that reached it,
// and once that request has been answered for good everybody reads that answer.

// keyState is a key as the model sees it.
type keyState struct {
	body  string // the request it belongs to, "" while it is free
	reply string // the final answer, "" until somebody has read it
}

// sent is one request, got its answer.
type sent struct{ key, body string }

type got struct {
	kind  answerKind
	reply string // for answerFinal
}

type answerKind string

const (
	answerFinal    answerKind = "final"    // 201, or a decline for good
	answerMismatch answerKind = "mismatch" // 422
	answerSoft     answerKind = "soft"     // declined for now: nobody may have been answered for good yet
	answerInUse    answerKind = "in use"   // 409: the key belongs to this request
	answerNone     answerKind = "none"     // 503 or no answer at all: it may have reached the key or not, now or later
)

func answerOf(r *reply) got {
	switch {
	case r.err != nil:
		return got{kind: answerNone}
	case r.status == http.StatusUnprocessableEntity:
		return got{kind: answerMismatch}
	case r.status == http.StatusConflict:
		return got{kind: answerInUse}
	case r.status == http.StatusPaymentRequired && !r.final():
		return got{kind: answerSoft}
	case r.final():
		return got{answerFinal, r.remembered()}
	default:
		return got{kind: answerNone}
	}
}

// keyModel says which answers one key may give to which requests in which order.
var keyModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(sent).key
			byKey[key] = append(byKey[key], o)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(keyState), input.(sent), output.(got)
		mine := s.body == "" || s.body == in.body
		bound := keyState{in.body, s.reply}
		switch out.kind {
		case answerFinal:
			if mine && (s.reply == "" || s.reply == out.reply) {
				return []any{keyState{in.body, out.reply}}
			}
		case answerMismatch:
			if !mine {
				return []any{s}
			}
		case answerSoft, answerInUse:
			if mine && s.reply == "" {
				return []any{bound}
			}
		case answerNone:
			if mine {
				return []any{s, bound}
			}
			return []any{s}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v → %v", input, output)
	},
}).ToModel()

// history collects operations from concurrent clients.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *history) add(client int, q request, start time.Time, r *reply) {
	o := porcupine.Operation{
		ClientId: client, Input: sent{q.key, q.body}, Call: sinceBegan(start),
		Output: answerOf(r), Return: sinceBegan(time.Now()),
	}
	if answerOf(r).kind == answerNone {
		// It may be on its way still and take effect at any later time.
		o.Return = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// check asserts that every key's history is one that the model could give.
func (h *history) check(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	result := porcupine.CheckOperationsTimeout(keyModel, h.ops, patience)
	require.Equal(t, porcupine.Ok, result, "the histories of the keys fit no order of events")
}

// TestModel shows that the check can fail: histories that break a promise are
// told from those that keep it.
func TestModel(t *testing.T) {
	op := func(from, to int64, body string, kind answerKind, reply string) porcupine.Operation {
		return porcupine.Operation{Input: sent{"k", body}, Output: got{kind, reply}, Call: from, Return: to}
	}
	for _, tc := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"a replay", []porcupine.Operation{op(1, 2, "a", answerFinal, "x"), op(3, 4, "a", answerFinal, "x")}, true},
		{"two answers", []porcupine.Operation{op(1, 2, "a", answerFinal, "x"), op(3, 4, "a", answerFinal, "y")}, false},
		{"two requests answered", []porcupine.Operation{op(1, 9, "a", answerFinal, "x"), op(2, 8, "b", answerFinal, "y")}, false},
		{"the later is refused", []porcupine.Operation{op(1, 9, "a", answerFinal, "x"), op(2, 8, "b", answerMismatch, "")}, true},
		{"refused for nobody", []porcupine.Operation{op(1, 2, "b", answerMismatch, ""), op(3, 4, "a", answerFinal, "x")}, false},
		{"refused for one without an answer", []porcupine.Operation{op(1, math.MaxInt64, "a", answerNone, ""), op(3, 4, "b", answerMismatch, "")}, true},
		{"declined softly after an answer", []porcupine.Operation{op(1, 2, "a", answerFinal, "x"), op(3, 4, "a", answerSoft, "")}, false},
		{"in use by another", []porcupine.Operation{op(1, 2, "a", answerFinal, "x"), op(3, 4, "b", answerInUse, "")}, false},
		{"declined softly, then paid", []porcupine.Operation{op(1, 2, "a", answerSoft, ""), op(3, 4, "a", answerFinal, "x")}, true},
	} {
		require.Equal(t, tc.want, porcupine.CheckOperations(keyModel, tc.ops), tc.name)
	}
}

// TestHistories sends rivals at few keys from many clients, at a provider that
// fails, and checks what each of them was told.
func TestHistories(t *testing.T) {
	t.Parallel()
	const keys, rivals = 40, 6
	w := startWorld(t, nil, nil)
	require.NoError(t, w.judge.SetFaults(simulator.Faults{
		Jitter: 5 * time.Millisecond, ErrorBefore: 0.05, ErrorAfter: 0.05, DropReply: 0.05, Seed: 1,
	}))
	var h history
	var all sync.WaitGroup
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range keys {
		key := fmt.Sprint("history-", i)
		if i%2 == 0 {
			key = stamped(t, regions[rng.IntN(3)])
		}
		for rival := range rivals {
			q := charge(key, 1000+i)
			if i%5 == 0 {
				q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_insufficient_funds_once", 1)
			}
			if rival%3 == 2 { // the rest of the rivals want something else
				q = charge(key, 100_000+i)
			}
			region := regions[rng.IntN(3)]
			all.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, patience)
				defer cancel()
				last := w.settle(ctx, region, q, func(start time.Time, r *reply) { h.add(i*rivals+rival, q, start, r) })
				if !last.final() {
					t.Errorf("%s never came to an end: %v", q.key, last)
				}
			})
		}
	}
	all.Wait()
	h.check(t)
	w.judge.once(t, keys)
}
