package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/region"
)

// Runs has the reports of drills, drains and verifications. *runs.Book implements it.
type Runs interface {
	List(ctx context.Context, kind runs.Kind, limit int) ([]runs.Run, error)
	Get(ctx context.Context, kind runs.Kind, id string) (runs.Run, error)
}

const (
	// runsShown is how many of each kind are listed: the latest.
	runsShown = 20
	// runsFor is how long one listing is cached for all viewers.
	runsFor = 2 * time.Second
	// underWay is how long a run without a verdict is shown as in progress: longer than
	// drills and drains take. After that it is listed as it is.
	underWay = time.Hour
)

// runView is one run in a list.
type runView struct{ runs.Run }

// URL is the run's own page.
func (v runView) URL() string {
	return "/run?" + url.Values{"kind": {string(v.Kind)}, "id": {v.ID}}.Encode()
}

// What is its kind for people.
func (v runView) What() string { return kindName[v.Kind] }

// Last is the last stored report of it.
func (v runView) Last() string {
	if n := len(v.Steps); v.Verdict == runs.Open && n > 0 {
		return v.Steps[n-1].Text
	}
	return v.Sentence
}

// Mark is the CSS class of the verdict, and Word its text for people.
func (v runView) Mark() string { return verdictMark[v.Verdict] }

// Word is the verdict's text for people.
func (v runView) Word() string {
	if v.Verdict == runs.Good {
		return goodWord[v.Kind]
	}
	return verdictWord[v.Verdict]
}

var (
	verdictMark = map[runs.Verdict]string{runs.Good: "yes", runs.Bad: "bad", runs.Unknown: "no", runs.Open: "same"}
	verdictWord = map[runs.Verdict]string{runs.Bad: "wrong", runs.Unknown: "no verdict", runs.Open: "not ended"}
	goodWord    = map[runs.Kind]string{runs.Drill: "promises kept", runs.Drain: "safe to take down", runs.Reconcile: "agrees", runs.Verify: "proved", runs.Shadow: "nothing done twice"}
)

// listRuns reads the latest runs of some kinds, newest first.
func (s *console) listRuns(kinds ...runs.Kind) func(context.Context) ([]runView, error) {
	return func(ctx context.Context) (all []runView, err error) {
		if s.Runs == nil {
			return nil, nil
		}
		for _, kind := range kinds {
			list, err := s.Runs.List(ctx, kind, runsShown)
			if err != nil {
				return nil, err
			}
			for _, r := range list {
				all = append(all, runView{r})
			}
		}
		slices.SortStableFunc(all, func(a, b runView) int { return b.Began.Compare(a.Began) })
		return all, nil
	}
}

// runsView is a list of runs, with those in progress.
type runsView struct {
	// Stored: a bucket of reports is configured.
	Stored   bool
	UnderWay []runView
	Runs     []runView
	// Latest is the last run of each kind that ended, in the order of kinds.
	Latest   []runView
	Draining []drainView
}

// drainView is a region that takes no new traffic, with its open steps.
type drainView struct {
	Region string
	Queues []queueView
	// Waiting is how many rows of it are neither done nor parked.
	Waiting int
}

func newRunsView(stored bool, all []runView, now time.Time, kinds ...runs.Kind) *runsView {
	v := &runsView{Stored: stored, Runs: all}
	for _, r := range all {
		if isUnderWay(r, now) {
			v.UnderWay = append(v.UnderWay, r)
		}
	}
	for _, kind := range kinds {
		if i := slices.IndexFunc(all, func(r runView) bool { return r.Kind == kind && r.Verdict != runs.Open }); i >= 0 {
			v.Latest = append(v.Latest, all[i])
		}
	}
	return v
}

func isUnderWay(r runView, now time.Time) bool {
	return r.Verdict == runs.Open && now.Sub(r.Began) < underWay
}

// readRuns is a list of runs with the error of reading it.
func (s *console) readRuns(r *http.Request, p *page, from *shared[[]runView], kinds ...runs.Kind) (*runsView, error) {
	all, err := from.look(r.Context())
	if r.Context().Err() != nil {
		return nil, err
	}
	if err != nil {
		p.Trouble = append(p.Trouble, "The reports cannot be read now: "+oneLine(err))
	}
	return newRunsView(s.Runs != nil, all, s.Now(), kinds...), nil
}

// drillsPage shows drains, drills and shadows of gateways with their last verdicts.
func (s *console) drillsPage(r *http.Request, p *page) error {
	v, err := s.readRuns(r, p, s.drills, runs.Drill, runs.Drain, runs.Shadow)
	if err != nil {
		return err
	}
	all, err := s.watch.look(r.Context())
	if err != nil {
		return err
	}
	var draining []string
	for _, one := range all.Regions {
		if one.Status == region.Draining {
			draining = append(draining, one.Name)
		}
	}
	read, errs := inEach(draining, func(region string) (drainView, error) { return s.readDrain(r.Context(), region) })
	p.trouble(draining, errs)
	for i, one := range read {
		if errs[i] == nil {
			v.Draining = append(v.Draining, one)
		}
	}
	p.Body = v
	return nil
}

func (s *console) readDrain(ctx context.Context, region string) (v drainView, err error) {
	v.Region = region
	if s.Queues == nil {
		return v, nil
	}
	depths, errs := inEach(outbox.AllQueues(), func(name outbox.Queue) (outbox.Depth, error) {
		return s.Queues.Queue(name).Depth(ctx, region)
	})
	for i, name := range outbox.AllQueues() {
		v.Waiting += depths[i].Pending
		v.Queues = append(v.Queues, queueView{Queue: name, Region: region, Depth: depths[i]})
	}
	return v, cmp.Or(errs...)
}

// reconciliationPage shows comparisons with statements and verifications of the books.
func (s *console) reconciliationPage(r *http.Request, p *page) error {
	v, err := s.readRuns(r, p, s.proofs, runs.Verify, runs.Reconcile)
	if err != nil {
		return err
	}
	p.Body = v
	return nil
}

// runPage shows one run.
func (s *console) runPage(r *http.Request, p *page) error {
	if s.Runs == nil {
		return &pageError{http.StatusNotFound, "There are no reports: the setting runs names no bucket."}
	}
	kind, id := runs.Kind(r.URL.Query().Get("kind")), r.URL.Query().Get("id")
	one, err := s.Runs.Get(r.Context(), kind, id)
	if errors.Is(err, runs.ErrNone) {
		return &pageError{http.StatusNotFound, "There is no such report, or no more: the bucket deletes old ones."}
	}
	if err != nil {
		return err
	}
	p.At, p.Title = "/drills", strings.ToUpper(kindName[kind][:1])+kindName[kind][1:]+": "+one.Of
	if kind == runs.Reconcile || kind == runs.Verify {
		p.At = "/reconciliation"
	}
	p.Body = &runView{one}
	return nil
}

var kindName = map[runs.Kind]string{runs.Drill: "drill", runs.Drain: "drain", runs.Reconcile: "reconciliation", runs.Verify: "proof", runs.Shadow: "shadow of a gateway"}
