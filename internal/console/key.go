package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/region/admin"
)

// History reads the history of one key or object. *inspect.Reader implements it.
type History interface {
	Read(ctx context.Context, q inspect.Query) (inspect.History, error)
}

// eventsShown is how many of a timeline's latest entries a page has.
const eventsShown = 200

// keyView is the body of a key's page.
type keyView struct {
	Of, Tenant string
	Ask        string // what the user has to enter first
	*inspect.History
	Calm     bool
	Entries  []string // the regions at which requests with the key arrived recently
	TraceURL string
	Earlier  int // events that are not shown
	Lanes    []string
	Events   []eventView
}

// eventView is one line of the timeline.
type eventView struct {
	inspect.Entry
	Gap   time.Duration // since the previous one
	Away  bool          // another region than the home did it
	Class string
}

// keyPage shows the history of one key or object.
func (s *console) keyPage(r *http.Request, p *page) error {
	of, tenant := strings.TrimSpace(r.URL.Query().Get("q")), strings.TrimSpace(r.URL.Query().Get("tenant"))
	p.Query, p.At = of, "/key"
	v := &keyView{Of: of, Tenant: tenant}
	p.Body = v
	if of == "" {
		v.Ask = "Name an idempotency key and its tenant, or the id of a charge, transfer or refund."
		return nil
	}
	_, _, object := claim.ReadObjectID(of)
	if !object && tenant == "" {
		if tenant = s.guess(r.Context(), p, of); tenant == "" {
			v.Ask = "Name the tenant of this key: two tenants can use the same one."
			return nil
		}
		v.Tenant = tenant
	}
	if p.Test && tenant != "" && claim.Livemode(tenant) {
		tenant = claim.TestTenant(tenant)
	}
	h, err := s.History.Read(r.Context(), inspect.Query{Of: of, Tenant: tenant})
	bad := (*claim.KeyError)(nil)
	switch {
	case errors.Is(err, inspect.ErrNotFound):
		return &pageError{http.StatusNotFound, fmt.Sprintf("There is no record of %s%s: it was never used, or so long ago that its claim was deleted. Bookings stay in the books.", of, ofTenant(tenant))}
	case errors.As(err, &bad):
		return &pageError{http.StatusBadRequest, of + " cannot be a key: " + bad.Reason}
	case err != nil:
		return err
	case !p.shows(h.Tenant):
		return &pageError{http.StatusNotFound, of + " is of the other side, live or test; switch to it, and look again."}
	}
	p.Title = h.Key
	if h.Key == "" {
		p.Title = h.Object
	}
	if unsettled(&h) {
		p.Refresh = "every 3s"
	}
	v.show(&h, s.TraceURL)
	all, err := s.watch.look(r.Context())
	if err != nil {
		return err
	}
	for _, a := range all.Latest() {
		if a.Tenant == h.Tenant && a.Key == h.Key && !slices.Contains(v.Entries, a.Entry) {
			v.Entries = append(v.Entries, a.Entry)
		}
	}
	return nil
}

func ofTenant(tenant string) string {
	if tenant == "" {
		return ""
	}
	return " of tenant " + tenant
}

// unsettled reports whether the history will change by itself.
func unsettled(h *inspect.History) bool {
	return h.Claim != nil && h.Claim.State == claim.InFlight.String() || len(h.Waiting) > 0
}

// guess returns the tenant that recently sent a request with the key, if there is exactly one.
func (s *console) guess(ctx context.Context, p *page, key string) string {
	all, err := s.watch.look(ctx)
	if err != nil {
		return ""
	}
	tenant := ""
	for _, a := range ofSide(p, all.Latest(), func(a *admin.Entered) string { return a.Tenant }) {
		if a.Key == key && tenant != "" && a.Tenant != tenant {
			return ""
		}
		if a.Key == key {
			tenant = a.Tenant
		}
	}
	return tenant
}

func (v *keyView) show(h *inspect.History, traceURL string) {
	v.History, v.Tenant = h, h.Tenant
	v.Calm = !unsettled(h) && len(h.Missing) == 0
	if h.TraceID != "" && traceURL != "" {
		v.TraceURL = strings.ReplaceAll(traceURL, "{trace}", h.TraceID)
	}
	all := h.Timeline
	v.Earlier = max(0, len(all)-eventsShown)
	for i, e := range all[v.Earlier:] {
		one := eventView{Entry: e, Away: h.Home != "" && e.Region != h.Home, Class: eventClass(e)}
		if i > 0 {
			one.Gap = e.At.Sub(all[v.Earlier+i-1].At)
		}
		v.Events = append(v.Events, one)
		if !slices.Contains(v.Lanes, e.Region) {
			v.Lanes = append(v.Lanes, e.Region)
		}
	}
}

// eventClass is the CSS class of an event.
func eventClass(e inspect.Entry) string {
	switch {
	case e.Event == claim.EventSettled && e.Detail == "":
		return "yes"
	case e.Event == claim.EventReplied && e.Detail == "mismatch", e.Event == claim.EventReleased:
		return "no"
	case e.Event == claim.EventReplied:
		return "same"
	case e.Event == claim.EventDeferred, e.Event == claim.EventGivenUp, e.Event == claim.EventTakenOver, e.Detail == "unknown":
		return "bad"
	default:
		return "plain"
	}
}
