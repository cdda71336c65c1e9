package admin

import (
	"cmp"
	"slices"
	"time"
)

// Lately is over how long the rates of [Traffic] are taken: long enough for a person to
// see a request that came while they looked elsewhere.
const Lately = 10 * time.Second

// The ways of a request from the region that it entered.
const (
	// WayLocal: its key is at home in the region, which answered.
	WayLocal = "local"
	// WayForward: a node of its home answered, or, where the region's nodes cannot reach their
	// database, one of another region.
	WayForward = "forward"
	// WayReplica: the answer was read from the nearest replica.
	WayReplica = "replica"
	// WayDeputy: the region acted on the rows of a home that it could not reach.
	WayDeputy = "deputy"
	// WayUnrouted: the region answered without the key's home: it refused the request
	// before routing it, or found no home.
	WayUnrouted = "unrouted"
)

// Traffic counts the payment requests that merchants sent to one node, by the way they
// were answered. The node counts in memory, from its start.
type Traffic struct {
	Since time.Time `json:"since"`
	Total Tally     `json:"total"`
	// Lately counts the requests of the last [Lately].
	Lately Tally `json:"lately"`
	// Flows are by home and way.
	Flows []Flow `json:"flows,omitempty"`
	// Mismatches counts the requests that reused the key of another request, by
	// tenant, most first.
	Mismatches []TenantCount `json:"mismatches,omitempty"`
	// DeputyFor names the regions for which the node is a deputy now.
	DeputyFor []string `json:"deputy_for,omitempty"`
	// Arrivals are the latest requests, newest first, up to [Question].Arrivals.
	Arrivals []Arrival `json:"arrivals,omitempty"`
}

// Tally counts requests by how they were answered.
type Tally struct {
	Requests uint64 `json:"requests"`
	// Replayed requests got a stored answer, Refused ones 4xx, and Failed ones
	// 5xx.
	Replayed uint64 `json:"replayed"`
	Refused  uint64 `json:"refused"`
	Failed   uint64 `json:"failed"`
}

// Add adds the requests of o.
func (t *Tally) Add(o Tally) {
	t.Requests += o.Requests
	t.Replayed += o.Replayed
	t.Refused += o.Refused
	t.Failed += o.Failed
}

// Flow counts the requests of one home by one way.
type Flow struct {
	Home   string `json:"home"` // "" where no home was found
	Way    string `json:"way"`
	Total  uint64 `json:"total"`
	Lately uint64 `json:"lately"`
}

// TenantCount is the count of one tenant.
type TenantCount struct {
	Tenant string `json:"tenant"`
	Count  uint64 `json:"count"`
}

// Arrival is one answered request, without any of its body.
type Arrival struct {
	At        time.Time     `json:"at"`
	Took      time.Duration `json:"took_ns"`
	Operation string        `json:"operation"`
	Tenant    string        `json:"tenant"`
	Key       string        `json:"key"`
	// Object is the id of the created object; "" if none was.
	Object string `json:"object,omitempty"`
	Home   string `json:"home"`
	Way    string `json:"way"`
	Hops   int    `json:"hops"`
	Status int    `json:"status"`
	// Code is the error's code; "" if there was none.
	Code     string `json:"code,omitempty"`
	Replayed bool   `json:"replayed"`
}

// Sort puts flows in order of home and way, and mismatches in order of count.
func (t *Traffic) Sort() {
	slices.SortFunc(t.Flows, func(a, b Flow) int { return cmp.Or(cmp.Compare(a.Home, b.Home), cmp.Compare(a.Way, b.Way)) })
	slices.SortFunc(t.Mismatches, func(a, b TenantCount) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Tenant, b.Tenant))
	})
}

// Traffic sums what the nodes of a region have counted, "" for all regions, since the
// youngest of them began. It names the nodes that did not report.
func (o *Overview) Traffic(region string) (sum Traffic, silent []string) {
	flows, mismatches := map[Flow]Flow{}, map[string]uint64{}
	for _, m := range o.Members {
		if region != "" && m.Region != region {
			continue
		}
		if m.Part == nil || m.Part.Traffic == nil {
			silent = append(silent, m.Name)
			continue
		}
		t := m.Part.Traffic
		if t.Since.After(sum.Since) {
			sum.Since = t.Since
		}
		sum.Total.Add(t.Total)
		sum.Lately.Add(t.Lately)
		for _, f := range t.Flows {
			of := Flow{Home: f.Home, Way: f.Way}
			flows[of] = Flow{f.Home, f.Way, flows[of].Total + f.Total, flows[of].Lately + f.Lately}
		}
		for _, c := range t.Mismatches {
			mismatches[c.Tenant] += c.Count
		}
		for _, of := range t.DeputyFor {
			if !slices.Contains(sum.DeputyFor, of) {
				sum.DeputyFor = append(sum.DeputyFor, of)
			}
		}
	}
	for _, f := range flows {
		sum.Flows = append(sum.Flows, f)
	}
	for tenant, n := range mismatches {
		sum.Mismatches = append(sum.Mismatches, TenantCount{tenant, n})
	}
	sum.Sort()
	return sum, silent
}

// Entered is a request with the region that it arrived at.
type Entered struct {
	Arrival
	Entry string
}

// Latest lists the latest requests of all nodes, newest first.
func (o *Overview) Latest() (all []Entered) {
	for _, m := range o.Members {
		if m.Part == nil || m.Part.Traffic == nil {
			continue
		}
		for _, a := range m.Part.Traffic.Arrivals {
			all = append(all, Entered{a, m.Region})
		}
	}
	slices.SortStableFunc(all, func(a, b Entered) int { return b.At.Compare(a.At) })
	return all
}
