package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/operator"
)

// NoMeans are those of a cluster of which the drill has only addresses.
type NoMeans struct{}

func (NoMeans) Offers(s drill.Scenario, _ string) (string, error) {
	if s == drill.PSPOutage {
		return pspOutageHow, nil
	}
	return "", fmt.Errorf("%s acts on the cluster, which addresses alone do not allow; name the cluster with --cluster or --compose", s)
}

const pspOutageHow = "the provider simulator fails every answer, and moves money for three calls of ten all the same"

// errNotOffered is never seen: a drill asks for nothing that is not offered.
var errNotOffered = errors.New("this cluster does not support that action")

func (NoMeans) Nodes() []drill.Node                                 { return nil }
func (NoMeans) Kill(context.Context, string) error                  { return errNotOffered }
func (NoMeans) Stop(context.Context, string) error                  { return errNotOffered }
func (NoMeans) Start(context.Context, string) error                 { return errNotOffered }
func (NoMeans) Cut(context.Context, string) error                   { return errNotOffered }
func (NoMeans) Join(context.Context, string) error                  { return errNotOffered }
func (NoMeans) Drop(context.Context, string, string) error          { return errNotOffered }
func (NoMeans) Pass(context.Context, string) error                  { return errNotOffered }
func (NoMeans) HasDatabase(string) bool                             { return false }
func (NoMeans) KillDatabase(context.Context, string) error          { return errNotOffered }
func (NoMeans) StartDatabase(context.Context, string) error         { return errNotOffered }
func (NoMeans) CutDatabase(context.Context, string) error           { return errNotOffered }
func (NoMeans) JoinDatabase(context.Context, string) error          { return errNotOffered }
func (NoMeans) Drain(context.Context, string, func(string)) error   { return errNotOffered }
func (NoMeans) Undrain(context.Context, string, func(string)) error { return errNotOffered }

// drainPatience is how long a drain may take under load: more than the leases of
// everything that was in flight when it began (30 s), and an outbox row's (1 m).
const drainPatience = 3 * time.Minute

// ClusterMeans are those of a homeward cluster, which acts on its own processes on
// request.
type ClusterMeans struct {
	NoMeans
	state *State
	http  *http.Client
}

// Means returns the means of the cluster with this state.
func (s *State) Means() *ClusterMeans {
	return &ClusterMeans{state: s, http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.Control)
	}}}}
}

// Regions returns the entry regions of a cluster.
func (s *State) Regions() (all []drill.Region) {
	for _, n := range s.Nodes {
		i := slices.IndexFunc(all, func(r drill.Region) bool { return r.Name == n.Region })
		if i < 0 {
			i = len(all)
			all = append(all, drill.Region{Name: n.Region})
		}
		all[i].URLs = append(all[i].URLs, n.API)
	}
	return all
}

func (m *ClusterMeans) Offers(s drill.Scenario, region string) (string, error) {
	var nodes []string
	for _, n := range m.Nodes() {
		if n.Region == region {
			nodes = append(nodes, n.Name)
		}
	}
	names := strings.Join(nodes, " and ")
	switch s {
	case drill.PSPOutage:
		return pspOutageHow, nil
	case drill.RegionLoss:
		if m.HasDatabase(region) {
			names += " and the CockroachDB node there"
		}
		return "SIGKILL to " + names + ", then a start of each", nil
	case drill.Partition:
		return "SIGSTOP to " + names + ", then SIGCONT", nil
	case drill.Blackhole:
		return "the gates before RPC ports of " + names + " let nothing pass, then everything", nil
	case drill.Drain:
		return "homeward region drain, SIGTERM to " + names + " when that is safe; then a start of each, and undrain", nil
	case drill.RollingRestart:
		return "SIGTERM to each node in turn, and a start", nil
	case drill.DBFailover:
		if err := m.state.Database.offers(); err != nil {
			return "", fmt.Errorf("%s: %w", s, err)
		}
		if m.state.Database.Kind == localdb.CockroachDB {
			return "SIGKILL to the CockroachDB node of " + region + ", then a start", nil
		}
		return "a crash of PostgreSQL, which every region uses, then a start", nil
	case drill.DatabasePath:
		if !m.state.Database.Private {
			return "", fmt.Errorf("%s: %w", s, errNotOurs)
		}
		return "the gate between the nodes of " + region + " and the database lets nothing pass, then everything", nil
	}
	return m.NoMeans.Offers(s, region)
}

// Revive starts nodes that were killed: a drill needs a whole cluster.
func (m *ClusterMeans) Revive(ctx context.Context, say func(string)) error {
	for _, n := range m.state.Nodes {
		switch there, err := listens(ctx, n.API); {
		case err != nil:
			return fmt.Errorf("node %s: %w", n.Name, err)
		case there:
			continue
		}
		say("starting " + n.Name + ", which was not running")
		if err := m.Start(ctx, n.Name); err != nil {
			return err
		}
	}
	return nil
}

// listens reports whether anybody listens at http://host:port. No answer in time counts as yes: a
// suspended process still has its port.
func listens(ctx context.Context, base string) (bool, error) {
	u, err := url.Parse(base)
	if err != nil {
		return false, err
	}
	dialling, cancel := context.WithTimeout(ctx, node.ConnectTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialling, "tcp", u.Host)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return false, nil
		}
		return true, ctx.Err()
	}
	return true, conn.Close()
}

func (m *ClusterMeans) Nodes() (all []drill.Node) {
	for _, n := range m.state.Nodes {
		all = append(all, drill.Node{Name: n.Name, Region: n.Region})
	}
	return all
}

func (m *ClusterMeans) Kill(ctx context.Context, n string) error  { return m.node(ctx, n, "kill") }
func (m *ClusterMeans) Stop(ctx context.Context, n string) error  { return m.node(ctx, n, "stop") }
func (m *ClusterMeans) Start(ctx context.Context, n string) error { return m.node(ctx, n, "start") }
func (m *ClusterMeans) Cut(ctx context.Context, n string) error   { return m.node(ctx, n, "freeze") }
func (m *ClusterMeans) Join(ctx context.Context, n string) error  { return m.node(ctx, n, "thaw") }

func (m *ClusterMeans) Pass(ctx context.Context, n string) error { return m.node(ctx, n, "pass") }

func (m *ClusterMeans) Drop(ctx context.Context, n, from string) error {
	if from == "" {
		return m.node(ctx, n, "drop")
	}
	return m.node(ctx, n, "drop?from="+url.QueryEscape(from))
}

func (m *ClusterMeans) node(ctx context.Context, name, what string) error {
	return m.post(ctx, "nodes", name, what)
}

// HasDatabase: CockroachDB has a node in each region, PostgreSQL is one server for all.
func (m *ClusterMeans) HasDatabase(string) bool {
	return m.state.Database.Kind == localdb.CockroachDB && m.state.Database.offers() == nil
}

func (m *ClusterMeans) KillDatabase(ctx context.Context, region string) error {
	return m.post(ctx, "database", region, "kill")
}

func (m *ClusterMeans) StartDatabase(ctx context.Context, region string) error {
	return m.post(ctx, "database", region, "start")
}

func (m *ClusterMeans) CutDatabase(ctx context.Context, region string) error {
	return m.post(ctx, "database", region, "cut")
}

func (m *ClusterMeans) JoinDatabase(ctx context.Context, region string) error {
	return m.post(ctx, "database", region, "join")
}

func (m *ClusterMeans) Drain(ctx context.Context, region string, say func(string)) error {
	return m.ask(say, func(o *operator.Operator) error { return o.Drain(ctx, region, drainPatience, false) })
}

func (m *ClusterMeans) Undrain(ctx context.Context, region string, say func(string)) error {
	return m.ask(say, func(o *operator.Operator) error { return o.Activate(ctx, region) })
}

func (m *ClusterMeans) ask(say func(string), do func(*operator.Operator) error) error {
	o, err := operator.Open(m.state.Access(), say)
	if err != nil {
		return err
	}
	defer o.Close()
	return do(o)
}

// post asks for one thing and returns once it is done.
func (m *ClusterMeans) post(ctx context.Context, kind, where, what string) error {
	if m.state.Control == "" {
		return errors.New("this cluster has no control socket; choose a shorter --data for it")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cluster/"+kind+"/"+url.PathEscape(where)+"/"+what, nil)
	if err != nil {
		return err
	}
	res, err := m.http.Do(req)
	if err != nil {
		return fmt.Errorf("the cluster does not answer on %s: %w; is it running?", m.state.Control, err)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxControlError))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("the cluster did not finish its answer: %w", err)
	}
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the cluster refuses to %s %s: %s", what, where, strings.TrimSpace(string(text)))
	}
	return nil
}
