package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// Rows are the console's view of the queues. Unpark of outbox.Store is the only method
// that changes anything.
type Rows interface {
	Queue(q outbox.Queue) outbox.Store
	// Unknown lists up to limit claims at home in a region whose outcome is unknown, of live
	// tenants or of test tenants, oldest first.
	Unknown(ctx context.Context, home string, live bool, limit int) ([]claim.Record, error)
	// Note appends to the audit of a key, as claim.Store does.
	Note(ctx context.Context, key claim.Key, home string, e claim.AuditEntry)
	// AppendAudit is that of audit.Store.
	AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error
}

const (
	// queueRows is how many rows of each queue and region are listed, parked ones and
	// others: an operator works through them one by one, and the command lists all.
	queueRows = 20
	// unknownRows is how many claims of a region are listed.
	unknownRows = 50
)

// queueView is one queue of one region.
type queueView struct {
	Queue  outbox.Queue
	Region string
	outbox.Depth
	Trouble string // why it could not be counted
}

// rowView is one row, without its payload.
type rowView struct {
	Queue     outbox.Queue
	Region    string
	ID        string
	Kind      outbox.Kind
	Tenant    string
	Key       string
	CreatedAt time.Time
	Due       time.Time
	Attempts  uint32
	LastError string
}

func newRowView(q outbox.Queue, m outbox.Message) rowView {
	return rowView{q, m.Region, m.ID, m.Kind, m.Tenant, m.Key, m.CreatedAt, m.Due, m.Attempts, m.LastError}
}

// tenant is the row's. The row of a notice has none, and the provider of test tenants names itself.
func (r *rowView) tenant() string {
	if r.Tenant == "" && notice.OfTests(r.ID) {
		return claim.TestTenant("")
	}
	return r.Tenant
}

// RequeueURL is the page that confirms the row's retry.
func (r rowView) RequeueURL() string {
	return "/queues/requeue?" + url.Values{"queue": {string(r.Queue)}, "region": {r.Region}, "id": {r.ID}}.Encode()
}

type queuesView struct {
	Queues  []queueView
	Parked  []rowView
	More    bool // there are more parked rows, of either side, than were read
	Failing []rowView
	Notice  string
}

// regions are those of the deployment, by name.
func (s *console) regions(ctx context.Context) (names []string, err error) {
	all, err := s.watch.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range all.Regions {
		names = append(names, r.Name)
	}
	return names, nil
}

// inEach runs read for every region, or queue, concurrently. If the rows of one cannot
// be read that is one error, and the others are shown.
func inEach[K, T any](of []K, read func(K) (T, error)) (all []T, errs []error) {
	all, errs = make([]T, len(of)), make([]error, len(of))
	var done sync.WaitGroup
	for i, r := range of {
		done.Go(func() {
			defer fault.Recover(&errs[i])
			all[i], errs[i] = read(r)
		})
	}
	done.Wait()
	return all, errs
}

func (p *page) trouble(regions []string, errs []error) {
	for i, err := range errs {
		if err != nil {
			p.Trouble = append(p.Trouble, fmt.Sprintf("The rows of %s cannot be read now: %s", regions[i], oneLine(err)))
		}
	}
}

// queuesPage shows the waiting rows, and the parked ones with their reasons.
func (s *console) queuesPage(r *http.Request, p *page) error {
	regions, err := s.regions(r.Context())
	if err != nil {
		return err
	}
	read, errs := inEach(regions, func(region string) (queuesView, error) { return s.readQueues(r.Context(), region) })
	v := &queuesView{}
	for _, one := range read {
		v.Queues = append(v.Queues, one.Queues...)
		v.Parked = append(v.Parked, one.Parked...)
		v.Failing = append(v.Failing, one.Failing...)
		v.More = v.More || one.More
	}
	v.Parked, v.Failing = ofSide(p, v.Parked, (*rowView).tenant), ofSide(p, v.Failing, (*rowView).tenant)
	slices.SortStableFunc(v.Queues, func(a, b queueView) int {
		return cmp.Compare(slices.Index(outbox.AllQueues(), a.Queue), slices.Index(outbox.AllQueues(), b.Queue))
	})
	slices.SortStableFunc(v.Failing, func(a, b rowView) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if id := r.URL.Query().Get("requeued"); id != "" {
		v.Notice = id + " is due now."
	}
	p.trouble(regions, errs)
	p.Body = v
	return nil
}

// readQueues reads those of a region concurrently: it may be far away.
func (s *console) readQueues(ctx context.Context, region string) (v queuesView, err error) {
	read, errs := inEach(outbox.AllQueues(), func(name outbox.Queue) (queuesView, error) { return s.readQueue(ctx, region, name) })
	for _, one := range read {
		v.Queues = append(v.Queues, one.Queues...)
		v.Parked = append(v.Parked, one.Parked...)
		v.Failing = append(v.Failing, one.Failing...)
		v.More = v.More || one.More
	}
	return v, cmp.Or(errs...)
}

func (s *console) readQueue(ctx context.Context, region string, name outbox.Queue) (v queuesView, err error) {
	q := s.Queues.Queue(name)
	depth, err := q.Depth(ctx, region)
	if err != nil {
		return v, err
	}
	v.Queues = append(v.Queues, queueView{Queue: name, Region: region, Depth: depth})
	if depth.Parked > 0 {
		parked, err := q.Parked(ctx, region, "", queueRows+1) // one more shows whether there are more
		if err != nil {
			return v, err
		}
		v.More = len(parked) > queueRows
		for _, m := range parked[:min(len(parked), queueRows)] {
			v.Parked = append(v.Parked, newRowView(name, m))
		}
	}
	if depth.Pending > 0 {
		waiting, err := q.Waiting(ctx, region, queueRows)
		if err != nil {
			return v, err
		}
		for _, m := range waiting {
			if m.LastError != "" {
				v.Failing = append(v.Failing, newRowView(name, m))
			}
		}
	}
	return v, nil
}

// row finds the row that a request's form "which" names.
func (s *console) row(ctx context.Context, form url.Values) (queue outbox.Queue, m outbox.Message, err error) {
	queue = outbox.Queue(form.Get("queue"))
	regions, err := s.regions(ctx)
	if err != nil {
		return "", m, err
	}
	if !slices.Contains(outbox.AllQueues(), queue) || !slices.Contains(regions, form.Get("region")) || form.Get("id") == "" {
		return "", m, &pageError{http.StatusBadRequest, "This names no row; choose one from the list of queues."}
	}
	m, found, err := s.Queues.Queue(queue).Message(ctx, form.Get("region"), form.Get("id"))
	if err == nil && !found {
		err = &pageError{http.StatusNotFound, "There is no such row any more: its work is done."}
	}
	return queue, m, err
}

// confirmPage asks for a confirmation before a row is requeued.
func (s *console) confirmPage(r *http.Request, p *page) error {
	queue, m, err := s.row(r.Context(), r.URL.Query())
	if err != nil {
		return err
	}
	if !m.Parked {
		return &pageError{http.StatusConflict, m.ID + " is not parked; a worker retries it, next at " + stampText(m.Due) + "."}
	}
	p.Body = newRowView(queue, m)
	return nil
}

// maxForm bounds a form: three names.
const maxForm = 4 << 10

// requeue requeues a parked row.
func (s *console) requeue(w http.ResponseWriter, r *http.Request) {
	who := whoOf(r.Context())
	refuse := func(status int, text string) {
		s.Logger.WarnContext(r.Context(), "an action of the console was refused", "action", "requeue", "by", who.Name, "reason", text)
		s.show(w, r, status, &page{Title: "Nothing was done", At: "/queues", content: "nothing", Body: text})
	}
	if !s.Actions {
		refuse(http.StatusForbidden, "This console only reads: its actions are off in the node's settings (console.actions).")
		return
	}
	if !who.Operator {
		refuse(http.StatusForbidden, "Only operators may act; "+who.Name+" may look.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		refuse(http.StatusBadRequest, "This is not the form of this page.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	queue, m, err := s.row(ctx, r.PostForm)
	if wrong := (*pageError)(nil); errors.As(err, &wrong) {
		refuse(wrong.status, wrong.text)
		return
	}
	if err == nil { // without a record nothing is done
		err = s.Queues.AppendAudit(ctx, m.Region, audit.ActorKey(who.Name), claim.AuditEntry{
			Event: claim.EventActed, Region: s.Region, Node: s.Node, Detail: fmt.Sprintf("outbox retry --queue=%s --region=%s %s, in the console", queue, m.Region, m.ID),
		})
	}
	var unparked bool
	if err == nil {
		unparked, err = s.Queues.Queue(queue).Unpark(ctx, m.Region, m.ID)
	}
	switch {
	case err != nil:
		s.Logger.ErrorContext(ctx, "the outcome of an operator's requeue is unknown", "queue", string(queue), "of", m.Region, "id", m.ID, "by", who.Name, "error", err)
		s.show(w, r, http.StatusServiceUnavailable, &page{Title: "It is unknown whether this was done", At: "/queues", content: "nothing",
			Body: "The store did not answer: " + oneLine(err) + ". Look at the row, and do it again if it is still parked; that is safe."})
		return
	case !unparked:
		refuse(http.StatusConflict, m.ID+" is no longer parked; a worker retries it.")
		return
	}
	s.Logger.InfoContext(ctx, "an operator requeued a parked row", "queue", string(queue), "of", m.Region, "id", m.ID, "tenant", m.Tenant,
		"was_parked_for", m.LastError, "by", who.Name)
	if m.Tenant != "" && m.Key != "" {
		s.Queues.Note(ctx, claim.Key{Tenant: m.Tenant, Value: m.Key}, m.Region, claim.AuditEntry{
			Event: claim.EventRequeued, Region: s.Region, Node: s.Node, Fence: m.Fence, Detail: who.Name,
		})
	}
	http.Redirect(w, r, "/queues?"+url.Values{"requeued": {m.ID}}.Encode(), http.StatusSeeOther)
}

// unknownView is a claim with an unknown outcome.
type unknownView struct {
	Home, Tenant, Key, Object, Operation, Reason string
	FirstUse, Next                               time.Time
	Attempts, Unknowns                           uint32
	Held                                         bool // an attempt is asking now
}

type unknownsView struct {
	Open   []unknownView
	Parked []rowView
	// More: there are more, of either side, than were read.
	More bool
}

// unknownPage shows the unknown outcomes, oldest first.
func (s *console) unknownPage(r *http.Request, p *page) error {
	regions, err := s.regions(r.Context())
	if err != nil {
		return err
	}
	read, errs := inEach(regions, func(region string) (v unknownsView, err error) {
		all, err := s.Queues.Unknown(r.Context(), region, !p.Test, unknownRows+1) // one more shows whether there are more
		if err != nil {
			return v, err
		}
		v.More = len(all) > unknownRows
		for _, rec := range all[:min(len(all), unknownRows)] {
			v.Open = append(v.Open, unknownView{
				Home: region, Tenant: rec.Key.Tenant, Key: rec.Key.Value, Object: rec.Minted.ID, Operation: rec.Operation, Reason: rec.Reason,
				FirstUse: rec.FirstUse, Next: rec.LeaseUntil, Attempts: rec.Attempts, Unknowns: rec.Unknowns, Held: rec.Holder != "",
			})
		}
		parked, err := s.Queues.Queue(outbox.ProviderCalls).Parked(r.Context(), region, "", queueRows+1)
		v.More = v.More || len(parked) > queueRows
		for _, m := range parked[:min(len(parked), queueRows)] {
			v.Parked = append(v.Parked, newRowView(outbox.ProviderCalls, m))
		}
		return v, err
	})
	v := &unknownsView{}
	for _, one := range read {
		v.Open, v.Parked = append(v.Open, one.Open...), append(v.Parked, one.Parked...)
		v.More = v.More || one.More
	}
	v.Parked = ofSide(p, v.Parked, (*rowView).tenant)
	slices.SortStableFunc(v.Open, func(a, b unknownView) int { return a.FirstUse.Compare(b.FirstUse) })
	slices.SortStableFunc(v.Parked, func(a, b rowView) int { return a.CreatedAt.Compare(b.CreatedAt) })
	p.trouble(regions, errs)
	p.Body = v
	return nil
}
