package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testBase = 7 * maxPayments

// made is a payment that was answered with success, and its movement.
func made(i int) (payment, effect) {
	object := fmt.Sprint("ch_", i)
	return payment{key: fmt.Sprint("k", i), answered: true, answer: [16]byte{byte(i)}, status: 201, object: object},
		effect{Reference: object, Amount: testBase + int64(i)}
}

// Each promise that is broken, alone, in a history that keeps all others.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p []payment, e []effect) []effect
		want   Findings // without the totals
	}{
		"kept": {func(_ []payment, e []effect) []effect { return e }, Findings{}},
		"charged twice": {func(_ []payment, e []effect) []effect { return append(e, e[1]) },
			Findings{Duplicates: 1}},
		"charged thrice, under other references": {func(_ []payment, e []effect) []effect {
			return append(e, effect{"ch_x", e[1].Amount}, effect{"ch_y", e[1].Amount})
		}, Findings{Duplicates: 2}},
		"a reference charged for two payments": {func(_ []payment, e []effect) []effect {
			e[1].Reference = e[0].Reference
			return e
		}, Findings{Duplicates: 1, Unpaid: 1}},
		"charged without a request": {func(p []payment, e []effect) []effect {
			return append(e, effect{"ch_x", testBase + int64(len(p))})
		}, Findings{Duplicates: 1}},
		"another answer": {func(p []payment, e []effect) []effect {
			p[0].differing = 2
			return e
		}, Findings{Differing: 2}},
		"no answer": {func(p []payment, e []effect) []effect {
			p[2] = payment{key: "k2"}
			return e[:2]
		}, Findings{Unanswered: 1}},
		"no answer, and charged": {func(p []payment, e []effect) []effect {
			p[2] = payment{key: "k2"}
			return e
		}, Findings{Unanswered: 1, UnansweredPaid: 1}},
		"answered, and not charged": {func(_ []payment, e []effect) []effect { return e[:2] },
			Findings{Unpaid: 1}},
		"charged under an id that no answer has": {func(_ []payment, e []effect) []effect {
			e[1].Reference = "ch_x"
			return e
		}, Findings{Unpaid: 1}},
		"declined as it should be": {func(p []payment, e []effect) []effect {
			p[2].stolen, p[2].status, p[2].code = true, 402, "card_declined"
			return e[:2]
		}, Findings{Declined: 1}},
		"declined, and charged": {func(p []payment, e []effect) []effect {
			p[2].stolen, p[2].status, p[2].code = true, 402, "card_declined"
			return e
		}, Findings{PaidThoughRefused: 1}},
		"a stolen card that pays": {func(p []payment, e []effect) []effect {
			p[2].stolen = true
			return e
		}, Findings{Refused: 1}},
		"refused without a reason": {func(p []payment, e []effect) []effect {
			p[2].status, p[2].code = 422, "idempotency_key_fingerprint_mismatch"
			return e[:2]
		}, Findings{Refused: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var payments []payment
			var effects []effect
			for i := range 3 {
				p, e := made(i)
				payments, effects = append(payments, p), append(effects, e)
			}
			effects = c.change(payments, effects)
			var got Findings
			judge(&got, payments, effects, testBase)
			want := c.want
			want.Payments, want.Charges = 3, len(effects)
			want.Answered = 3 - want.Unanswered
			want.Lost = want.Unanswered + want.Unpaid + want.PaidThoughRefused + want.Refused
			examples := got.Examples
			got.Examples = nil
			require.Equal(t, want, got)
			ok := want.Duplicates+want.Differing+want.Lost == 0
			require.Equal(t, ok, got.OK())
			require.Equal(t, ok, len(examples) == 0, "%v", examples)
		})
	}
}

func TestWhatCouldNotBeCheckedIsNotKept(t *testing.T) {
	require.False(t, (&Findings{Unasked: "3 of 9 keys"}).OK())
	require.True(t, (&Findings{BeyondStandard: 2, OpenClaims: 1}).OK(), "these are reported, and break no promise")
}

func TestExamplesAreBounded(t *testing.T) {
	var v Findings
	judge(&v, make([]payment, 10*maxExamples), nil, testBase)
	require.Equal(t, 10*maxExamples, v.Unanswered)
	require.Len(t, v.Examples, maxExamples)
}

// Answers to one payment are compared in any order, from any client.
func TestHistoryComparesAnswers(t *testing.T) {
	h := newHistory(time.Now(), "")
	i := h.add(payment{key: "k"})
	one := &exchange{answer: [16]byte{1}, status: 201, object: "ch_1"}
	h.answer(i, one)
	h.answer(i, one)
	h.answer(i, &exchange{answer: [16]byte{3}, status: 503, failure: "503 home_unavailable"})
	require.Zero(t, h.get(i).differing)
	h.answer(i, &exchange{answer: [16]byte{2}, status: 201})
	require.Equal(t, 1, h.get(i).differing)
	require.Equal(t, "ch_1", h.get(i).object)
}

// A stall is charged to the phase and the second in which the request should have
// left, failures to those in which they came back.
func TestHistoryTimes(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	h := newHistory(began, "a")
	h.from, h.struck = at(10), at(11)
	lost := func(begun, ended float64, failure, entry string) *exchange {
		return &exchange{begun: at(begun), ended: at(ended), failure: failure, entry: entry}
	}
	h.timed(at(9.5), at(12.5), 2, true, "a") // due before the outage, answered in it
	h.timed(at(10.5), at(10.6), 11, true, "b")
	h.exchanged(1, lost(10.2, 10.4, "timeout", "b"), "a", true) // while it was being taken away
	h.exchanged(1, lost(12, 12.2, "timeout", "a"), "a", true)   // there, and not on the way to there
	h.exchanged(1, lost(12, 12.5, "503 home_unavailable", "b"), "a", true)
	h.exchanged(1, lost(12, 12.6, "503 home_unavailable", "b"), "b", true) // another home
	h.exchanged(2, lost(14, 15, "", "b"), "a", true)
	h.exchanged(3, lost(16, 17, "", "b"), "a", true)
	h.ordered = at(20)
	h.exchanged(1, lost(19, 21, "", "b"), "a", true) // before the order
	elsewhere := lost(21, 22, "", "b")
	elsewhere.home, elsewhere.servedBy = "a", "b"
	h.exchanged(1, elsewhere, "a", true)
	itself := lost(22, 23, "", "b")
	itself.home, itself.servedBy = "a", "a"
	h.exchanged(1, itself, "a", true)
	h.mended = at(25)
	h.timed(at(26), at(26.01), 1, false, "b")

	d := &drill{c: Config{Scenario: RegionLoss, Region: "a", Rate: 1, For: 30 * time.Second}, history: h}
	r := d.report("somehow")
	v := r.Verdict
	require.Equal(t, []float64{1.5, 4, 1.5, 3}, []float64{*v.InFlight, *v.ServedAgain, *v.LastRefused, *v.Back})
	require.Equal(t, int64(1), v.Beside.Calls)
	require.InDelta(t, 100, v.Beside.Max, 1)
	require.Equal(t, int64(9), v.Requests)
	require.Equal(t, int64(2), v.Retries)
	require.Equal(t, 1, v.BeyondStandard)
	require.Equal(t, []float64{10, 25}, []float64{v.Phases[0].To, v.Phases[1].To})
	require.Equal(t, []int64{1, 1, 0}, []int64{v.Phases[0].New.Calls, v.Phases[1].New.Calls, v.Phases[2].New.Calls})
	require.InDelta(t, 3000, v.Phases[0].New.P99, 5)
	require.Equal(t, int64(1), v.Phases[2].Repeats.Calls)
	require.Equal(t, []ErrorCount{{"503 home_unavailable", 2}, {"timeout", 2}}, v.Phases[1].Errors)
	require.Equal(t, 3, r.Seconds[12].Failed)
	require.Equal(t, 1, r.Seconds[12].Answered)
	require.InDelta(t, 3000, r.Seconds[9].P99, 200)

	// What an outage of the database cost, its own part apart.
	require.Nil(t, v.DatabaseAway)
	h.timed(at(12), at(27), 3, true, "b")
	h.timed(at(12), at(28), 3, false, "b")
	h.timed(at(25.5), at(29), 1, true, "b")
	d.c.Scenario = DBFailover
	v = d.report("somehow").Verdict
	require.InDelta(t, 14, *v.DatabaseAway, 0.001)
	require.Equal(t, int64(1), v.AfterDatabase.Calls)
	require.InDelta(t, 2000, v.AfterDatabase.Max, 2)
}

func TestReports(t *testing.T) {
	seven := 7.25
	r := &Report{
		Scenario: RegionLoss, Region: "us-east1", How: "SIGKILL to <one>", Rate: 40, For: 12,
		Seconds: []Second{{40, 38, 0, 12}, {40, 20, 31, 2500}, {40, 60, 0, 90}},
		Verdict: Findings{
			Payments: 3, Answered: 2, Lost: 1, Unanswered: 1, ServedAgain: &seven, Examples: []string{"key k2: no final answer"},
			Phases: []Phase{
				{Name: "before", To: 1, New: Latency{Calls: 40, P50: 4.5, P99: 120, Max: 20_000}},
				{Name: "during", From: 1, To: 2, Errors: []ErrorCount{{"timeout", 31}}},
				{Name: "after", From: 2, To: 3},
			},
		},
	}
	var text, page, object bytes.Buffer
	require.NoError(t, r.Text(&text))
	for _, want := range []string{"region-loss us-east1: SIGKILL to <one>", "lost replies", "1 without an answer", "after 7.2 s", "20.0 s", "31 × timeout", "BROKEN", "key k2", "PROMISES WERE BROKEN"} {
		require.Contains(t, text.String(), want)
	}
	require.NoError(t, r.HTML(&page))
	for _, want := range []string{"SIGKILL to &lt;one&gt;", `class="verdict broken"`, `<rect class="during"`, "31 × timeout", "<polyline", "5000 ms", "key k2"} {
		require.Contains(t, page.String(), want)
	}
	require.NotContains(t, page.String(), "ZgotmplZ")
	require.NotContains(t, page.String(), "NaN")
	require.NotContains(t, page.String(), "http", "the page needs nothing else")
	require.NoError(t, r.JSON(&object))
	var back Report
	require.NoError(t, json.Unmarshal(object.Bytes(), &back))
	require.Equal(t, *r, back)

	r.Verdict = Findings{Phases: r.Verdict.Phases}
	text.Reset()
	page.Reset()
	require.NoError(t, r.Text(&text))
	require.True(t, strings.HasSuffix(text.String(), "Every promise was kept.\n"))
	require.NoError(t, r.HTML(&page))
	require.Contains(t, page.String(), `class="verdict ok"`)
}

func TestPictureOfNothing(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, (&Report{}).HTML(&page))
	require.NotContains(t, page.String(), "NaN")
	for v, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 3: 5, 10: 10, 11: 20, 501: 1000, 0.2: 1} {
		require.Equal(t, want, roundUp(v), v)
	}
}
