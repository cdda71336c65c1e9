package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/region"
)

// Part is a node's report on itself.
type Part struct {
	Node    string `json:"node"`
	Region  string `json:"region"`
	Version string `json:"version"`
	// Epoch is the version of the topology that the node acts on.
	Epoch uint64 `json:"epoch"`
	// NotReady is why the node should get no new traffic, in one line; "": it should.
	NotReady string `json:"not_ready,omitempty"`
	// Requests counts the requests in progress from merchants, Forwards those
	// from other nodes.
	Requests int `json:"requests"`
	Forwards int `json:"forwards"`
	// Traffic is nil if the node's version does not report it.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Silent names the nodes of other regions that its gossip sees alive and that do not
	// answer its calls: the way from here to them is cut, whatever of the way back.
	Silent []string `json:"silent,omitempty"`
	// Backlog is by region, of those whose rows the node was asked to count, and could.
	Backlog map[string]Backlog `json:"backlog,omitempty"`
}

// Backlog counts a region's unfinished rows.
type Backlog struct {
	// InFlight counts claims without an outcome, except parked ones.
	InFlight int `json:"in_flight"`
	// Pending provider calls are neither done nor parked, Due ones could be taken now.
	Pending   int       `json:"pending"`
	Due       int       `json:"due"`
	Parked    int       `json:"parked"`
	OldestDue time.Time `json:"oldest_due,omitzero"`
	// ParkedRows are the first of the parked rows.
	ParkedRows []ParkedRow `json:"parked_rows,omitempty"`
}

// ParkedRow is a provider call that waits for an operator.
type ParkedRow struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Reason string `json:"reason"`
}

// Member is a live node as another one sees it.
type Member struct {
	Name     string `json:"name"`
	Region   string `json:"region"`
	RPCAddr  string `json:"rpc"`
	Version  string `json:"version"`
	Draining bool   `json:"draining"`
	// Unready: it said in gossip that it cannot record a charge.
	Unready bool `json:"unready,omitempty"`
	// Part is nil if the node got no request or did not answer: Unknown is then the reason.
	Part    *Part  `json:"part,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// RegionState is the state of a region in one node's view.
type RegionState struct {
	Name   string        `json:"name"`
	Code   uint16        `json:"code"`
	Status region.Status `json:"status"`
	// RTT is the round-trip time to the nearest of its nodes; negative while none has
	// been measured.
	RTT time.Duration `json:"rtt_ns"`
	// LastSeen is when it last had a live node, zero: never.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Backlog is nil when its rows could not be counted: Unknown is then the reason.
	Backlog *Backlog `json:"backlog,omitempty"`
	Unknown string   `json:"unknown,omitempty"`
}

// Overview is the state of a deployment in one node's view.
type Overview struct {
	// Node is the node that answered, Epoch the version of the topology in
	// Regions.
	Node    string        `json:"node"`
	Epoch   uint64        `json:"epoch"`
	Members []Member      `json:"members"` // by region and name
	Regions []RegionState `json:"regions"` // by name
}

// Region finds a region's state; nil when there is none of that name.
func (o *Overview) Region(name string) *RegionState {
	i := slices.IndexFunc(o.Regions, func(r RegionState) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Regions[i]
}

// Of returns the live nodes of a region.
func (o *Overview) Of(name string) (members []Member) {
	for _, m := range o.Members {
		if m.Region == name {
			members = append(members, m)
		}
	}
	return members
}

// Unready counts the nodes of a region that report, or said in gossip, why they should get no
// traffic.
func (o *Overview) Unready(name string) (n int) {
	for _, m := range o.Of(name) {
		if m.Unready || m.Part != nil && m.Part.NotReady != "" {
			n++
		}
	}
	return n
}

// DrainStep is one condition that must hold before a drained region can be
// taken down.
type DrainStep struct {
	// Done is the condition: "no claim is in flight".
	Done string
	// Open is why the condition does not hold yet, "" if it does. An unknown condition
	// does not hold.
	Open string
}

// DrainSteps returns the conditions of a region that drains since epoch. The
// overview must have been gathered. If no step is open, it is safe to take the
// region down: no key can get its home there, and no caller waits for it.
func (o *Overview) DrainSteps(name string, epoch uint64) []DrainStep {
	var behind, ready, working []string
	for _, m := range o.Members {
		if m.Part == nil {
			behind = append(behind, m.Name+" does not answer ("+cmp.Or(m.Unknown, "it got no request")+")")
			continue
		}
		if m.Part.Epoch < epoch {
			behind = append(behind, fmt.Sprintf("%s has epoch %d", m.Name, m.Part.Epoch))
		}
		if m.Region != name {
			continue
		}
		if m.Part.NotReady == "" {
			ready = append(ready, m.Name)
		}
		if n := m.Part.Requests + m.Part.Forwards; n > 0 {
			working = append(working, fmt.Sprintf("%s has %d", m.Name, n))
		}
	}
	failing := "readiness fails at the nodes of " + name + ", so that geo-DNS sends nobody there"
	idle := "no request is in hand at the nodes of " + name
	if len(o.Of(name)) == 0 { // one may live behind a partition
		failing = "no live node of " + name + " is seen, so none that is ready"
		idle = "nor any that has a request in hand"
	}
	return append([]DrainStep{
		{fmt.Sprintf("every live node has epoch %d", epoch), strings.Join(behind, ", ")},
		{failing, prefixed("ready: ", ready)},
		{idle, prefixed("requests in hand: ", working)},
	}, o.rowSteps(name)...)
}

func (o *Overview) rowSteps(name string) []DrainStep {
	claims, rows := DrainStep{Done: "no claim is in flight"}, DrainStep{Done: "the outbox is empty"}
	switch r := o.Region(name); {
	case r == nil:
		claims.Open = "there is no such region"
		rows.Open = claims.Open
	case r.Backlog == nil:
		claims.Open = "the rows of " + name + " cannot be counted (" + cmp.Or(r.Unknown, "nobody has tried") + ")"
		rows.Open = claims.Open
	default:
		b := r.Backlog
		if b.InFlight > 0 {
			claims.Open = fmt.Sprintf("claims in flight: %d", b.InFlight)
		}
		if b.Pending > 0 {
			rows.Open = fmt.Sprintf("outbox rows: %d, of which %d are due", b.Pending, b.Due)
		}
		if b.Parked > 0 {
			rows.Done += fmt.Sprintf(" but for %d parked rows, which wait for a person and not for the region", b.Parked)
		}
	}
	return []DrainStep{claims, rows}
}

func prefixed(prefix string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return prefix + strings.Join(all, ", ")
}
