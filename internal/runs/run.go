package runs

import (
	"cmp"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Kind is the type of a run.
type Kind string

// The kinds.
const (
	Drain     Kind = "drain"     // of a region, until it was safe to take down
	Drill     Kind = "drill"     // something was taken away under load
	Reconcile Kind = "reconcile" // a statement was compared with books and claims
	Verify    Kind = "verify"    // the books were proved
	Shadow    Kind = "shadow"    // a gateway let requests pass, and counted
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{Drain, Drill, Reconcile, Verify, Shadow} }

// Verdict is the result of a run.
type Verdict string

// The verdicts. Unknown is neither of the first two: nothing was proved.
const (
	Good    Verdict = "good"
	Bad     Verdict = "bad"
	Unknown Verdict = "unknown"
	// Open: the run has begun. It is in progress, or ended without a report.
	Open Verdict = "open"
)

// Run is the report of one run.
type Run struct {
	// Version is the version of the object's format.
	Version int    `json:"version"`
	ID      string `json:"id"`
	Kind    Kind   `json:"kind"`
	// Of is the subject of the run, as in "region-loss us-east1", or the provider's
	// name.
	Of string `json:"of"`
	// Region is the region that was taken away or drained; "": none was.
	Region string `json:"region,omitempty"`
	// By is who ran it; [Book.Begin] sets it to user@host if it is "".
	By    string    `json:"by"`
	Began time.Time `json:"began"`
	// Ended is zero while it is Open.
	Ended   time.Time `json:"ended,omitzero"`
	Verdict Verdict   `json:"verdict"`
	// Sentence sums the result up in one line; for an Unknown run it is the reason.
	Sentence string   `json:"sentence"`
	Figures  []Figure `json:"figures,omitempty"`
	// Steps are what happened when, oldest first.
	Steps []Step `json:"steps,omitempty"`
	// Findings are the first findings, and More is the number of others.
	Findings []string `json:"findings,omitempty"`
	More     int      `json:"more,omitempty"`
}

// Figure is a named number or short text of a report.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Bad: it should be none.
	Bad bool `json:"bad,omitempty"`
}

// Suspense begins the name of a figure of a [Verify] run with how far the suspense accounts are
// from zero; a currency follows.
const Suspense = "suspense not at zero, "

// Step is an event during a run.
type Step struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

const (
	// version is that of the objects' format; a reader refuses later ones.
	version = 1
	// MaxFindings, maxFigures and maxSteps bound a report's lists, and maxText its
	// texts, in characters: one page for a person.
	MaxFindings = 20
	maxFigures  = 60
	maxSteps    = 60
	maxText     = 400
)

// Took is how long the run lasted; 0 while it is open.
func (r *Run) Took() time.Duration {
	if r.Ended.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Began)
}

// bound cuts long texts and lists, and cleans texts with mask.
func (r *Run) bound(mask func(string) string) {
	clean := func(text string) string { return cleaned(mask(text)) }
	if over := len(r.Findings) - MaxFindings; over > 0 {
		r.More += over
		r.Findings = r.Findings[:MaxFindings]
	}
	r.Findings = slices.Clone(r.Findings)
	r.Figures = slices.Clone(r.Figures[:min(len(r.Figures), maxFigures)])
	r.Of, r.By, r.Region, r.Sentence = clean(r.Of), clean(r.By), clean(r.Region), clean(r.Sentence)
	for i := range r.Findings {
		r.Findings[i] = clean(r.Findings[i])
	}
	for i, f := range r.Figures {
		r.Figures[i].Name, r.Figures[i].Value = clean(f.Name), clean(f.Value)
	}
	r.Steps = slices.Clone(r.Steps)
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	for i := range r.Steps {
		r.Steps[i].Text, r.Steps[i].At = clean(r.Steps[i].Text), r.Steps[i].At.UTC()
	}
}

// cleaned returns text in one line, without terminal control characters, and cut.
func cleaned(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "�"), func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	if all := []rune(text); len(all) > maxText {
		return string(all[:maxText-1]) + "…"
	}
	return text
}

// who returns the user and the host of this process.
func who() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // unknown user or host
	return cmp.Or(name, "unknown") + "@" + cmp.Or(host, "unknown")
}
