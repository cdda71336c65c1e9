package history_test

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/history"
)

// TestModel shows that the check can fail: it accepts histories that keep the promises and refuses
// those that break one.
func TestModel(t *testing.T) {
	op := func(from, to int64, body string, kind history.Kind, reply string) porcupine.Operation {
		return porcupine.Operation{Input: history.Sent{Key: "k", Body: body}, Output: history.Got{Kind: kind, Reply: reply}, Call: from, Return: to}
	}
	for _, tc := range []struct {
		name string
		ops  []porcupine.Operation
		want bool
	}{
		{"a replay", []porcupine.Operation{op(1, 2, "a", history.Final, "x"), op(3, 4, "a", history.Final, "x")}, true},
		{"two answers", []porcupine.Operation{op(1, 2, "a", history.Final, "x"), op(3, 4, "a", history.Final, "y")}, false},
		{"two requests answered", []porcupine.Operation{op(1, 9, "a", history.Final, "x"), op(2, 8, "b", history.Final, "y")}, false},
		{"the later is refused", []porcupine.Operation{op(1, 9, "a", history.Final, "x"), op(2, 8, "b", history.Mismatch, "")}, true},
		{"refused without another request", []porcupine.Operation{op(1, 2, "b", history.Mismatch, ""), op(3, 4, "a", history.Final, "x")}, false},
		{"refused for one without an answer", []porcupine.Operation{op(1, math.MaxInt64, "a", history.None, ""), op(3, 4, "b", history.Mismatch, "")}, true},
		{"declined softly after an answer", []porcupine.Operation{op(1, 2, "a", history.Final, "x"), op(3, 4, "a", history.Soft, "")}, false},
		{"in use by another", []porcupine.Operation{op(1, 2, "a", history.Final, "x"), op(3, 4, "b", history.InUse, "")}, false},
		{"declined softly, then paid", []porcupine.Operation{op(1, 2, "a", history.Soft, ""), op(3, 4, "a", history.Final, "x")}, true},
	} {
		require.Equal(t, tc.want, porcupine.CheckOperations(history.Model, tc.ops), tc.name)
	}
}

// TestHistory: what is added is what is checked, and an answer that never came
// stays open.
func TestHistory(t *testing.T) {
	var h history.History
	start := time.Now()
	a, b := history.Sent{Key: "k", Body: "a"}, history.Sent{Key: "k", Body: "b"}
	h.Add(1, a, start, history.Got{Kind: history.None})
	h.Add(2, b, start, history.Got{Kind: history.Final, Reply: "x"})
	h.Add(1, a, time.Now(), history.Got{Kind: history.Mismatch})
	require.Equal(t, porcupine.Ok, h.Check(time.Minute))
	require.EqualValues(t, math.MaxInt64, h.Operations()[0].Return)
	h.Add(2, b, time.Now(), history.Got{Kind: history.Final, Reply: "y"})
	require.Equal(t, porcupine.Illegal, h.Check(time.Minute))
}

// TestAnOutage: requests without an answer beside a final answer and one that was in use, in
// an order that the checker does not try first.
func TestAnOutage(t *testing.T) {
	var h history.History
	a := history.Sent{Key: "k", Body: "a"}
	early := time.Now()
	for range 100 {
		h.Add(1, a, time.Now(), history.Got{Kind: history.None})
	}
	began := time.Now()
	h.Add(2, a, began, history.Got{Kind: history.InUse})
	h.Add(1, a, early, history.Got{Kind: history.Final, Reply: "x"})
	require.Equal(t, porcupine.Ok, h.Check(time.Minute))
	h.Add(2, a, time.Now(), history.Got{Kind: history.InUse})
	require.Equal(t, porcupine.Illegal, h.Check(time.Minute))
}

// TestAKeyIsTakenBeforeItIsAnswered: while the first request waits for its answer, others read that it
// has the key.
func TestAKeyIsTakenBeforeItIsAnswered(t *testing.T) {
	var h history.History
	a, b := history.Sent{Key: "k", Body: "a"}, history.Sent{Key: "k", Body: "b"}
	first := time.Now()
	h.Add(2, b, time.Now(), history.Got{Kind: history.Mismatch})
	h.Add(3, a, time.Now(), history.Got{Kind: history.InUse})
	h.Add(1, a, first, history.Got{Kind: history.Final, Reply: "x"})
	require.Equal(t, porcupine.Ok, h.Check(time.Minute))
	h.Add(2, b, time.Now(), history.Got{Kind: history.InUse})
	require.Equal(t, porcupine.Illegal, h.Check(time.Minute))
}
