package drill

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homeward-io/homeward/client"
)

// Findings are the results of a drill.
type Findings struct {
	// Requests is how many were sent under load, and Retries how many of them were
	// not the first of their call.
	Requests int64 `json:"requests"`
	Retries  int64 `json:"retries"`
	// Payments is how many different ones there were; Answered those with a final
	// answer, of which Declined were refused as expected.
	Payments int `json:"payments"`
	Answered int `json:"answered"`
	Declined int `json:"declined"`
	// Charges is how often money moved for them, transfers included.
	Charges int `json:"charges"`

	// Duplicates is how many Charges are beyond the first for one payment, or for
	// one of the provider's references.
	Duplicates int `json:"duplicates"`
	// Differing is how many answers differ from the bytes of the first one.
	Differing int `json:"differing"`
	// Lost is the sum of the next four.
	Lost int `json:"lost"`
	// Unanswered payments have no final answer; for UnansweredPaid of them money moved.
	// Unpaid ones were answered with success, and no money moved under the id in the
	// answer. PaidThoughRefused ones were refused, and money moved. Refused ones were
	// refused although nothing was wrong with them, or made although the card was
	// stolen.
	Unanswered        int `json:"unanswered"`
	UnansweredPaid    int `json:"unanswered_paid"`
	Unpaid            int `json:"unpaid"`
	PaidThoughRefused int `json:"paid_though_refused"`
	Refused           int `json:"refused"`
	// Compared is how many answers were read again after the load.
	Compared int `json:"compared"`
	// Unasked is why not all were read, or why they prove nothing; "" if neither is so.
	Unasked string `json:"unasked,omitempty"`
	// OpenClaims is how many keys were in flight at the end.
	OpenClaims int `json:"open_claims"`
	// BeyondStandard is how many calls took more requests than package client makes by
	// default: what a merchant would have seen as an error.
	BeyondStandard int `json:"beyond_standard"`

	// InFlight is how long after the loss the last call was answered that was in progress at it.
	// ServedAgain is how long after the loss a new payment at home in the region was
	// first answered elsewhere, and LastRefused when the last one was refused; Back is
	// how long after the order to bring the region back it answered one itself.
	// Seconds; nil if that did not happen, or does not apply.
	InFlight    *float64 `json:"in_flight_s,omitempty"`
	ServedAgain *float64 `json:"served_again_s,omitempty"`
	LastRefused *float64 `json:"last_refused_s,omitempty"`
	Back        *float64 `json:"back_s,omitempty"`

	// Beside are the new payments of the outage that were sent first to a region that was not hit;
	// nil if none is hit. The others wait for a client to find out that its entry is gone.
	Beside *Latency `json:"beside,omitempty"`

	// DatabaseAway is how long the database server was away, in seconds, its start included, and
	// AfterDatabase are the new payments that were answered only when it was back, counted from then: what
	// clients and nodes add to it. Nil if it was not taken away alone.
	DatabaseAway  *float64 `json:"database_away_s,omitempty"`
	AfterDatabase *Latency `json:"after_database,omitempty"`

	Phases []Phase `json:"phases"`
	// Examples name the first payments that broke a promise.
	Examples []string `json:"examples,omitempty"`
}

// Phase holds the results of requests that were due in one part of the drill.
type Phase struct {
	Name string `json:"name"` // before, during, after
	// From and To are seconds since the load began.
	From float64 `json:"from_s"`
	To   float64 `json:"to_s"`
	// New are the calls for new payments, two for a payment that was sent to two regions
	// at once; Repeats are the calls for old ones.
	New     Latency      `json:"new"`
	Repeats Latency      `json:"repeats"`
	Errors  []ErrorCount `json:"errors"`
}

// Latency is how long callers waited for the final answer, from when the first request
// was due, retries and pauses included. Times are milliseconds.
type Latency struct {
	Calls int64   `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

// ErrorCount counts the answers and failures after which a client had to retry.
type ErrorCount struct {
	Kind  string `json:"kind"` // "503 home_unavailable", "connection refused"
	Count int    `json:"count"`
}

// OK reports whether every promise was kept and could be checked.
func (v *Findings) OK() bool {
	return v.Duplicates == 0 && v.Differing == 0 && v.Lost == 0 && v.Unasked == ""
}

// maxExamples is how many payments a verdict names: enough to look one up.
const maxExamples = 10

func (v *Findings) example(format string, args ...any) {
	if len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// judge compares the answers with the movements of money that have the drill's amounts. The amount
// of the payment at position i is base+i.
func judge(v *Findings, payments []payment, effects []effect, base int64) {
	moved := map[int][]string{} // references, by payment
	references := map[string]int{}
	v.Payments, v.Charges = len(payments), len(effects)
	for _, e := range effects {
		i := int(e.Amount - base)
		if moved[i] = append(moved[i], e.Reference); i < 0 || i >= len(payments) {
			v.Duplicates++
			v.example("money moved for no payment of the drill: %d under %s", e.Amount, e.Reference)
			continue
		}
		references[e.Reference]++
		if len(moved[i]) > 1 || references[e.Reference] > 1 {
			v.Duplicates++
			v.example("key %s: money moved %d times, under %v", payments[i].key, len(moved[i]), moved[i])
		}
	}
	for i := range payments {
		judgeOne(v, &payments[i], moved[i])
	}
	v.Lost = v.Unanswered + v.Unpaid + v.PaidThoughRefused + v.Refused
}

func judgeOne(v *Findings, p *payment, moved []string) {
	if p.differing > 0 {
		v.Differing += p.differing
		v.example("key %s: %d answers differ from the first", p.key, p.differing)
	}
	if !p.answered {
		v.Unanswered++
		if len(moved) > 0 {
			v.UnansweredPaid++
		}
		v.example("key %s: no final answer; money moved %d times", p.key, len(moved))
		return
	}
	v.Answered++
	made := p.status == http.StatusCreated
	switch {
	case made && p.stolen:
		v.Refused++
		v.example("key %s: made with a stolen card", p.key)
	case made && !slices.Contains(moved, p.object):
		v.Unpaid++
		v.example("key %s: answered with %s, for which no money moved; it moved under %v", p.key, p.object, moved)
	case made:
	case len(moved) > 0:
		v.PaidThoughRefused++
		v.example("key %s: refused with %d %s, and money moved under %v", p.key, p.status, p.code, moved)
	case p.stolen && p.code == client.CodeCardDeclined:
		v.Declined++
	default:
		v.Refused++
		v.example("key %s: refused with %d %s, without a reason", p.key, p.status, p.code)
	}
}

// report makes a report of the load, without the judgement.
func (d *drill) report(how string) *Report {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	since := func(t time.Time) float64 { return t.Sub(h.began).Seconds() }
	r := &Report{
		Scenario: d.c.Scenario, Region: d.c.Region, How: how, Began: h.began.UTC(),
		Rate: d.c.Rate, For: d.c.For.Seconds(),
	}
	v := &r.Verdict
	v.Requests, v.Retries, v.BeyondStandard = h.requests, h.retries, h.beyond
	ends := [...]float64{0, since(h.from), since(h.mended), max(since(h.mended), float64(len(h.seconds)))}
	for p := range phases {
		v.Phases = append(v.Phases, Phase{
			Name: p.String(), From: ends[p], To: ends[p+1],
			New: latencyOf(h.fresh[p]), Repeats: latencyOf(h.repeats[p]), Errors: h.errorsOf(p),
		})
	}
	for i := range h.seconds {
		s := &h.seconds[i]
		r.Seconds = append(r.Seconds, Second{Sent: s.sent, Answered: s.answered, Failed: s.failed, P99: millis(s.latency, 99)})
	}
	if d.c.Scenario.holds() {
		if h.home != "" {
			beside := latencyOf(h.beside)
			v.Beside = &beside
		}
		if d.c.Scenario == DBFailover {
			waited := latencyOf(h.waited)
			v.DatabaseAway, v.AfterDatabase = after(h.struck, h.mended), &waited
		}
		v.InFlight = after(h.struck, h.served.inFlight)
		v.ServedAgain = after(h.struck, h.served.first)
		v.LastRefused = after(h.struck, h.served.refused)
		v.Back = after(h.ordered, h.served.back)
	}
	return r
}

func after(from, to time.Time) *float64 {
	if to.IsZero() {
		return nil
	}
	s := to.Sub(from).Seconds()
	return &s
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	return Latency{Calls: h.TotalCount(), P50: millis(h, 50), P99: millis(h, 99), Max: float64(h.Max()) / 1000}
}

// millis is a percentile, recorded in microseconds.
func millis(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtQuantile(percentile)) / 1000
}
