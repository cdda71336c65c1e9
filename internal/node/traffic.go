package node

import (
	"cmp"
	"net/http"
	"slices"
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

// second counts the requests of one second.
type second struct {
	at    int64 // Unix
	tally admin.Tally
	flows []flowCount // as many as ways were seen; kept for the next second
}

type flowCount struct {
	course
	n uint64
}

func count(flows []flowCount, c course) []flowCount {
	for i := range flows {
		if flows[i].course == c {
			flows[i].n++
			return flows
		}
	}
	return append(flows, flowCount{c, 1})
}

// traffic counts the answers of a node's API for operators. It costs a request a lock
// and no allocation, and is lost with the process: nothing depends on it. It is safe
// for concurrent use.
type traffic struct {
	self string // the node's region
	lost func(region string) bool
	now  func() time.Time

	mu         sync.Mutex
	since      time.Time
	total      admin.Tally
	flows      []flowCount
	seconds    [trafficSeconds]second
	mismatches map[string]uint64
	latest     [admin.MaxArrivals]admin.Arrival
	arrived    int // in all; the latest is at arrived-1, modulo
}

func newTraffic(self string, lost func(region string) bool) *traffic {
	return &traffic{self: self, lost: lost, now: time.Now, since: time.Now(), mismatches: map[string]uint64{}}
}

// way returns how a request got to its home. A request that is refused before it is routed
// has a home if its key names one; the region's own is then not told from a request that
// its home refused.
func (t *traffic) way(a *httpapi.Answer) string {
	switch {
	case a.Home == t.self:
		return admin.WayLocal
	case a.Home == "":
		return admin.WayUnrouted
	case a.ServedBy == t.self && t.lost(a.Home):
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
		s.at, s.tally = now.Unix(), admin.Tally{}
		for i := range s.flows {
			s.flows[i].n = 0
		}
	}
	for _, tally := range []*admin.Tally{&t.total, &s.tally} {
		tally.Requests++
		switch {
		case a.Status >= http.StatusInternalServerError:
			tally.Failed++
		case a.Replayed:
			tally.Replayed++
		case a.Status >= http.StatusBadRequest:
			tally.Refused++
		}
	}
	t.flows, s.flows = count(t.flows, c), count(s.flows, c)
	if a.Code == problem.FingerprintMismatch {
		tenant := a.Tenant
		if _, known := t.mismatches[tenant]; !known && len(t.mismatches) >= mismatchTenants {
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

// tell returns the counts, with up to so many arrivals.
func (t *traffic) tell(arrivals int, regions []string) *admin.Traffic {
	out := &admin.Traffic{}
	for _, r := range regions {
		if r != t.self && t.lost(r) {
			out.DeputyFor = append(out.DeputyFor, r)
		}
	}
	from := t.now().Unix() - trafficSeconds
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Since, out.Total = t.since, t.total
	for _, f := range t.flows {
		flow := admin.Flow{Home: f.home, Way: f.way, Total: f.n}
		for i := range t.seconds {
			s := &t.seconds[i]
			if at := slices.IndexFunc(s.flows, func(c flowCount) bool { return c.course == f.course }); s.at > from && at >= 0 {
				flow.Lately += s.flows[at].n
			}
		}
		out.Flows = append(out.Flows, flow)
	}
	for i := range t.seconds {
		if s := &t.seconds[i]; s.at > from {
			out.Lately.Requests += s.tally.Requests
			out.Lately.Replayed += s.tally.Replayed
			out.Lately.Refused += s.tally.Refused
			out.Lately.Failed += s.tally.Failed
		}
	}
	for tenant, n := range t.mismatches {
		out.Mismatches = append(out.Mismatches, admin.TenantCount{Tenant: tenant, Count: n})
	}
	for i := range min(arrivals, t.arrived, len(t.latest)) {
		out.Arrivals = append(out.Arrivals, t.latest[(t.arrived-1-i)%len(t.latest)])
	}
	slices.SortFunc(out.Flows, func(a, b admin.Flow) int { return cmp.Or(cmp.Compare(a.Home, b.Home), cmp.Compare(a.Way, b.Way)) })
	slices.SortFunc(out.Mismatches, func(a, b admin.TenantCount) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}
