package node

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/region/admin"
)

const (
	// trafficSeconds are kept individually: those of [admin.Lately], and the current
	// one.
	trafficSeconds = int64(admin.Lately/time.Second) + 1
	// mismatchTenants bounds the tenants that are counted by name: nobody looks at
	// more. The rest is "other".
	mismatchTenants = 100
	otherTenants    = "other"
)

// course is a home and a way to it.
type course struct{ home, way string }

// counts are those of one second, or of all.
type counts struct {
	at    int64 // Unix
	tally admin.Tally
	flows map[course]uint64
}

// traffic counts the answers of a node's API for operators. It is lost with the process:
// nothing depends on it. It is safe for concurrent use.
type traffic struct {
	self      string // the node's region
	deputises func(region string) bool
	now       func() time.Time

	mu         sync.Mutex
	since      time.Time
	total      counts
	seconds    [trafficSeconds]counts
	mismatches map[string]uint64
	latest     [admin.MaxArrivals]admin.Arrival
	arrived    int // in all; the latest is at arrived-1, modulo
}

func newTraffic(self string, deputises func(region string) bool) *traffic {
	return &traffic{self: self, deputises: deputises, now: time.Now, since: time.Now(), total: counts{flows: map[course]uint64{}}, mismatches: map[string]uint64{}}
}

// way returns how a request got to its home. A request that is refused before it is routed has a
// home if its key names one; a request that the region itself refused then looks like one that its
// home refused.
func (t *traffic) way(a *httpapi.Answer) string {
	switch {
	case a.Home == t.self && a.Hops == 0:
		return admin.WayLocal
	case a.Home == "":
		return admin.WayUnrouted
	case a.ServedBy == t.self && t.deputises(a.Home):
		return admin.WayDeputy
	case a.Hops > 0:
		return admin.WayForward
	case a.Replayed:
		return admin.WayReplica
	default: // refused before it was routed
		return admin.WayUnrouted
	}
}

// answered counts an answer.
func (t *traffic) answered(a httpapi.Answer) {
	c := course{a.Home, t.way(&a)}
	object := a.Location[strings.LastIndexByte(a.Location, '/')+1:]
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.seconds[now.Unix()%trafficSeconds]
	if s.at != now.Unix() {
		*s = counts{at: now.Unix(), flows: map[course]uint64{}}
	}
	one := admin.Tally{Requests: 1}
	switch {
	case a.Status >= http.StatusInternalServerError:
		one.Failed = 1
	case a.Replayed:
		one.Replayed = 1
	case a.Status >= http.StatusBadRequest:
		one.Refused = 1
	}
	for _, to := range []*counts{&t.total, s} {
		to.tally.Add(one)
		to.flows[c]++
	}
	if a.Code == problem.FingerprintMismatch {
		tenant := a.Tenant
		if _, ok := t.mismatches[tenant]; !ok && len(t.mismatches) >= mismatchTenants {
			tenant = otherTenants
		}
		t.mismatches[tenant]++
	}
	t.latest[t.arrived%len(t.latest)] = admin.Arrival{
		At: a.Began, Took: a.Took, Operation: a.Operation, Tenant: a.Tenant, Key: a.Key, Object: object, Home: a.Home, Way: c.way,
		Hops: a.Hops, Status: a.Status, Code: string(a.Code), Replayed: a.Replayed,
	}
	t.arrived++
}

// report returns the counts, with up to so many arrivals.
func (t *traffic) report(arrivals int, regions []string) *admin.Traffic {
	out := &admin.Traffic{}
	for _, r := range regions {
		if r != t.self && t.deputises(r) {
			out.DeputyFor = append(out.DeputyFor, r)
		}
	}
	from := t.now().Unix() - trafficSeconds
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Since, out.Total = t.since, t.total.tally
	lately := map[course]uint64{}
	for i := range t.seconds {
		if s := &t.seconds[i]; s.at > from {
			out.Lately.Add(s.tally)
			for c, n := range s.flows {
				lately[c] += n
			}
		}
	}
	for c, n := range t.total.flows {
		out.Flows = append(out.Flows, admin.Flow{Home: c.home, Way: c.way, Total: n, Lately: lately[c]})
	}
	for tenant, n := range t.mismatches {
		out.Mismatches = append(out.Mismatches, admin.TenantCount{Tenant: tenant, Count: n})
	}
	for i := range min(arrivals, t.arrived, len(t.latest)) {
		out.Arrivals = append(out.Arrivals, t.latest[(t.arrived-1-i)%len(t.latest)])
	}
	out.Sort()
	return out
}
