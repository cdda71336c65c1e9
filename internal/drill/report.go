package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is a drill, for people and programs.
type Report struct {
	Scenario Scenario `json:"scenario"`
	Region   string   `json:"region,omitempty"`
	// How describes what was done to the cluster, and by which means.
	How   string    `json:"how"`
	Began time.Time `json:"began"`
	// Rate is the requested load, in requests per second, and For its duration in
	// seconds.
	Rate    float64  `json:"rate"`
	For     float64  `json:"for_s"`
	Verdict Findings `json:"verdict"`
	Seconds []Second `json:"timeline"`
}

// Second is one second of the timeline.
type Second struct {
	// Sent is how many requests were due in it, Answered how many calls ended in it,
	// and Failed how many of its requests had to be retried.
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	// P99 is the 99th percentile of the calls that were due in it, in milliseconds.
	P99 float64 `json:"p99_ms"`
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the verdict for people.
func (r *Report) Text(out io.Writer) error {
	v := &r.Verdict
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// A tabwriter keeps the first error for Flush.
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(w, "\n%s: %s\n", r.title(), r.How)
	for _, f := range v.Figures() {
		row(f.Name, "%s", f.Value)
	}
	_, _ = fmt.Fprintln(w)
	_, _ = fmt.Fprintln(w, "  phase\tseconds\tnew payments\tp50\tp99\tlongest\trepeats\tp50\tp99\tlongest\t")
	for _, p := range v.Phases {
		_, _ = fmt.Fprintf(w, "  %s\t%.0f–%.0f\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t\n", p.Name, p.From, p.To,
			p.New.Calls, ms(p.New.P50), ms(p.New.P99), ms(p.New.Max),
			p.Repeats.Calls, ms(p.Repeats.P50), ms(p.Repeats.P99), ms(p.Repeats.Max))
	}
	for _, p := range v.Phases {
		if len(p.Errors) > 0 {
			row("sent again, "+p.Name, "%s", errorText(p.Errors))
		}
	}
	for _, e := range v.Examples {
		row("BROKEN", "%s", e)
	}
	_, _ = fmt.Fprintf(w, "\n%s\n", v.Sentence())
	return w.Flush()
}

func (r *Report) title() string {
	return strings.TrimSpace(string(r.Scenario) + " " + r.Region)
}

// Term is a word of a report that a reader may not know.
type Term struct{ Name, Means string }

// Terms explain all that [Report.Text] prints, in its order.
func Terms() []Term {
	return []Term{
		{"requests", "Requests that were sent under load."},
		{"of them retries", "Those that were not the first of their call."},
		{"payments", "Different payments. Each was requested at least twice: under load, and once more at the end."},
		{"answered for good", "Payments with a final answer, and how many of those were declined as they had to be: the drill pays with some stolen cards."},
		{"charges at the provider", "How often money moved, as the provider counts it."},
		{"answers read again", "Final answers that were compared with what a retry reads after the load."},
		{"duplicates", "Movements of money beyond the first of a payment. Above 0 is a broken promise."},
		{"differing replays", "Answers that were not the bytes of the first one. Above 0 is a broken promise."},
		{"lost replies", "Payments without an answer, or with an answer that does not fit what moved. Above 0 is a broken promise; the next line says which."},
		{"of them", "The lost replies by sort: without an answer, answered and not charged, refused and charged, answered wrongly."},
		{"not checked", "What could not be checked, and why. Then nothing is promised."},
		{"claims still open", "Keys in flight at the end. They are not lost: a worker settles them."},
		{"beyond a client's patience", "Calls that took more requests than the Go client makes by default: a merchant would have seen an error."},
		{"new ones sent elsewhere", "Calls of the outage for new payments that a client sent first to a region that was not hit, and their times. The others wait until their client finds out that its region is gone."},
		{"database server away", "The database's own part of an outage of it: for so long nothing could be recorded through that server."},
		{"answered once it was back", "New payments that were sent before the server was back and answered after, and how long after: the pauses of clients, which grow to 10 s, the leases of what was in flight, and the work that had piled up."},
		{"last in flight answered", "Time from the outage until the last call that was in progress at it had its final answer."},
		{"first one served without it", "Time from the outage until another region answered a new payment at home in the region that was taken away."},
		{"last one sent away", "Time from the outage until the last such payment was refused."},
		{"back at work", "Time from the order to bring the region back until it answered such a payment itself."},
		{"phase", "before, during and after the outage."},
		{"seconds", "From when to when, since the load began."},
		{"new payments", "Calls for new payments. One payment in twenty is sent to two regions at once, and counts twice. The next three are their times."},
		{"repeats", "Calls that repeat an old payment. The next three are their times."},
		{"p50", "The time that half of the callers waited at most, retries and pauses included."},
		{"p99", "The time that 99 of 100 callers waited at most."},
		{"longest", "The time that the last one waited."},
		{"sent again", "Answers and failures of a phase after which the client had to retry, and how many of each."},
		{"BROKEN", "A payment that broke a promise. Ten are named at most: homeward inspect KEY shows its history."},
	}
}

// Figure is a line of the verdict. Bad: it should be none.
type Figure struct {
	Name, Value string
	Bad         bool
}

// Figures are the verdict line by line.
func (v *Findings) Figures() []Figure {
	count := func(name string, n int) Figure { return Figure{name, fmt.Sprint(n), n > 0} }
	plain := func(name string, value any) Figure { return Figure{name, fmt.Sprint(value), false} }
	rows := []Figure{
		plain("requests", v.Requests), plain("of them retries", v.Retries),
		plain("payments", v.Payments), plain("answered for good", fmt.Sprintf("%d, %d of them declined as they had to be", v.Answered, v.Declined)),
		plain("charges at the provider", v.Charges), plain("answers read again", v.Compared),
		count("duplicates", v.Duplicates), count("differing replays", v.Differing), count("lost replies", v.Lost),
	}
	if v.Lost > 0 {
		rows = append(rows, Figure{"of them", fmt.Sprintf("%d without an answer (%d charged), %d answered and not charged, %d refused and charged, %d answered wrongly",
			v.Unanswered, v.UnansweredPaid, v.Unpaid, v.PaidThoughRefused, v.Refused), true})
	}
	if v.Unasked != "" {
		rows = append(rows, Figure{"not checked", v.Unasked, true})
	}
	rows = append(rows, count("claims still open", v.OpenClaims), plain("beyond a client's patience", v.BeyondStandard))
	if v.Beside != nil {
		rows = append(rows, plain("new ones sent elsewhere", fmt.Sprintf("%d during the outage; p50 %s, p99 %s, longest %s", v.Beside.Calls, ms(v.Beside.P50), ms(v.Beside.P99), ms(v.Beside.Max))))
	}
	if v.DatabaseAway != nil {
		w := v.AfterDatabase
		rows = append(rows, plain("database server away", fmt.Sprintf("for %.1f s, its start included", *v.DatabaseAway)),
			plain("answered once it was back", fmt.Sprintf("%d new ones; from then on p50 %s, p99 %s, longest %s", w.Calls, ms(w.P50), ms(w.P99), ms(w.Max))))
	}
	for _, t := range []struct {
		name string
		s    *float64
	}{
		{"last in flight answered", v.InFlight}, {"first one served without it", v.ServedAgain}, {"last one sent away", v.LastRefused}, {"back at work", v.Back},
	} {
		if t.s != nil {
			rows = append(rows, plain(t.name, fmt.Sprintf("after %.1f s", *t.s)))
		}
	}
	return rows
}

// Sentence is the verdict in one line.
func (v *Findings) Sentence() string {
	if v.OK() {
		return "Every promise was kept."
	}
	return "PROMISES WERE BROKEN, or could not be checked."
}

func errorText(errs []ErrorCount) string {
	var all []string
	for _, e := range errs {
		all = append(all, fmt.Sprintf("%d × %s", e.Count, e.Kind))
	}
	return strings.Join(all, ", ")
}

// ms formats milliseconds with some three digits.
func ms(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	default:
		return fmt.Sprintf("%.1f s", v/1000)
	}
}
