package console

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// arrivalsShown is how many of the latest requests the map lists.
const arrivalsShown = 15

// standing is the state of a region, as seen by the answering nodes.
type standing string

const (
	serving  standing = "serving"
	impaired standing = "impaired" // some of its nodes do not answer, or are not ready
	draining standing = "draining"
	down     standing = "down" // an operator marked it
	lost     standing = "lost" // no node sees a live one, or others act as its deputies
)

// regionView is one region on the map and in its table.
type regionView struct {
	Name     string
	Standing standing
	// Why is one line about a standing that is not serving.
	Why   string
	Nodes int
	// PerSecond is the rate of requests at its nodes, over [admin.Lately].
	PerSecond float64
	Total     admin.Tally
	// DeputyFor are the regions for which its nodes are deputies; Deputies the regions that are its
	// deputies.
	DeputyFor, Deputies []string
	RTT                 time.Duration
	LastSeen            time.Time
	Members             []admin.Member

	X, Y float64
}

// flowView is the traffic from one region to the keys of another.
type flowView struct {
	From, To, Way string
	PerSecond     float64
	Total         uint64

	Path   string
	Width  float64
	Moving bool
}

// mapView is the body of the map.
type mapView struct {
	Sentence string
	Calm     bool // nothing in Sentence needs an operator
	Regions  []regionView
	Flows    []flowView
	Arrivals []admin.Entered
	ViewBox  string
	Node     string
	Epoch    uint64
	UnderWay []runView // drills and drains in progress
}

func (s *console) mapPage(r *http.Request, p *page) error {
	all, err := s.watch.look(r.Context())
	if err != nil {
		return err
	}
	m := newMapView(all)
	if s.Hint != nil {
		if hint := s.Hint(); m.arrived() < toArrive(hint) {
			p.Hint = hint
		}
	}
	for _, one := range s.drills.glance() { // the map does not wait for the bucket
		if isUnderWay(one, s.Now()) {
			m.UnderWay = append(m.UnderWay, one)
		}
	}
	latest := ofSide(p, all.Latest(), func(a *admin.Entered) string { return a.Tenant })
	m.Arrivals = latest[:min(len(latest), arrivalsShown)]
	p.Body = m
	return nil
}

// arrived counts the requests of all nodes.
func (m *mapView) arrived() (n uint64) {
	for _, v := range m.Regions {
		n += v.Total.Requests
	}
	return n
}

// toArrive is how many lines of a hint send something to a node.
func toArrive(hint []string) (n uint64) {
	for _, line := range hint {
		if strings.HasPrefix(line, "curl ") && strings.Contains(line, "/v1/") {
			n++
		}
	}
	return n
}

func newMapView(all *admin.Overview) *mapView {
	m := &mapView{Node: all.Node, Epoch: all.Epoch}
	deputies := map[string][]string{}
	for _, r := range all.Regions {
		traffic, _ := all.Traffic(r.Name)
		for _, of := range traffic.DeputyFor {
			deputies[of] = append(deputies[of], r.Name)
		}
		members := all.Of(r.Name)
		m.Regions = append(m.Regions, regionView{
			Name: r.Name, RTT: r.RTT, LastSeen: r.LastSeen, Members: members, Nodes: len(members), DeputyFor: traffic.DeputyFor,
			PerSecond: perSecond(traffic.Lately.Requests), Total: traffic.Total,
		})
		for _, f := range traffic.Flows {
			if f.Home != "" && f.Home != r.Name {
				m.Flows = append(m.Flows, flowView{From: r.Name, To: f.Home, Way: f.Way, PerSecond: perSecond(f.Lately), Total: f.Total, Moving: f.Lately > 0})
			}
		}
	}
	for i, r := range all.Regions {
		m.Regions[i].Deputies = deputies[r.Name]
		m.Regions[i].judge(r)
	}
	latest := all.Latest()
	m.Arrivals = latest[:min(len(latest), arrivalsShown)]
	m.Sentence, m.Calm = sentence(m.Regions)
	m.draw()
	return m
}

func perSecond(lately uint64) float64 { return float64(lately) / admin.Lately.Seconds() }

// judge sets the region's state. Its deputies count more than its live nodes.
func (v *regionView) judge(r admin.RegionState) {
	var silent, unready []string
	for _, m := range v.Members {
		switch {
		case m.Part == nil:
			silent = append(silent, m.Name)
		case m.Part.NotReady != "":
			unready = append(unready, m.Name)
		}
	}
	switch {
	case r.Status == region.Down:
		v.Standing, v.Why = down, "an operator has marked it down"
	case len(v.Deputies) > 0 && len(unready) == v.Nodes && v.Nodes > 0:
		v.Standing, v.Why = lost, strings.Join(unready, " and ")+" cannot record charges"
	case len(v.Deputies) > 0:
		v.Standing, v.Why = lost, "out of reach"
	case v.Nodes == 0:
		v.Standing, v.Why = lost, "no live node is seen"
	case r.Status == region.Draining:
		v.Standing, v.Why = draining, "takes no new traffic and no new keys; retries are served"
	case len(silent) > 0:
		v.Standing, v.Why = impaired, strings.Join(silent, ", ")+" does not answer"
	case len(unready) > 0:
		v.Standing, v.Why = impaired, strings.Join(unready, ", ")+" is not ready"
	default:
		v.Standing = serving
	}
	if len(v.Deputies) > 0 {
		v.Why += "; " + strings.Join(v.Deputies, " and ") + actsFor(len(v.Deputies)) + " for it"
	}
}

func actsFor(n int) string {
	if n == 1 {
		return " acts"
	}
	return " act"
}

// sentence describes the deployment in one line, worst first.
func sentence(regions []regionView) (text string, calm bool) {
	var says []string
	for _, bad := range []standing{lost, impaired, down, draining} {
		for _, v := range regions {
			if v.Standing == bad {
				says = append(says, fmt.Sprintf("%s is %s: %s.", v.Name, bad, v.Why))
			}
		}
	}
	nodes, rate := 0, 0.0
	for _, v := range regions {
		nodes += v.Nodes
		rate += v.PerSecond
	}
	if len(says) > 0 {
		return strings.Join(says, " "), false
	}
	return fmt.Sprintf("All %d regions serve, with %d nodes; %s requests a second.", len(regions), nodes, rateText(rate)), true
}
