package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/region"
)

// Server is one running regional node on a SQL database, with its resources: one
// process of a deployment.
type Server struct {
	settings ServeSettings
	secrets  Secrets
	commands Commands
	name     string // of the node
	given    *slog.Logger
	log      *slog.Logger // identifies its owner

	means      *means
	metrics    *telemetry.Metrics
	meters     *meter.Set
	background background
	node       *Node
	running    parts.Running
}

// Serve starts a regional node. An error has one line for each mistake that says what
// to do. While the database cannot be reached it waits, until ctx ends; then its error wraps
// [claim.ErrUnavailable]. ctx is of the start only; Stop ends the node. commands are those that
// operators may run at it, nil for none.
func Serve(ctx context.Context, settings ServeSettings, secrets Secrets, commands Commands, log *slog.Logger) (*Server, error) {
	if err := errors.Join(settings.Validate(), secrets.Missing(settings)); err != nil {
		return nil, err
	}
	name, err := settings.name(uuid.NewString()[:8]) // no node owns the leases of an earlier start
	if err != nil {
		return nil, err
	}
	s := &Server{settings: settings, secrets: secrets, commands: commands, name: name, given: log, log: log.With("region", settings.Node.Region, "node", name)}
	err = s.running.Start(ctx, s.openMetrics, s.openMeans)
	if err == nil {
		starting, cancel := context.WithTimeout(ctx, StartTime)
		defer cancel()
		err = s.running.Start(starting, s.background.start, s.startNode, s.logDoubts, s.sweep)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Meters are the instruments of the server's metrics; nil: it exports none.
func (s *Server) Meters() *meter.Set { return s.meters }

func (s *Server) openMetrics(ctx context.Context) (_ parts.Stop, err error) {
	name, err := s.settings.lastingName()
	if err != nil {
		return nil, err
	}
	if s.metrics, err = openMetrics(ctx, telemetry.Process{Version: build.Version(), AllowPlaintext: s.settings.Metrics.AllowPlaintext, Log: s.log}, s.settings.Metrics.Listen); err != nil {
		return nil, err
	}
	s.meters, err = s.metrics.Node(ctx, s.settings.Node.Region, name)
	return s.metrics.Stop, err
}

func (s *Server) startNode(ctx context.Context) (parts.Stop, error) {
	settings := s.settings
	certs, err := settings.TLS.open(settings.Node.Region, s.log)
	if err != nil {
		return nil, err
	}
	c := s.means.config(settings, s.name, s.given)
	c.APIListen, c.RPCListen, c.GossipListen = settings.API.Listen, settings.RPC.Listen, settings.Gossip.Listen
	c.RPCAdvertise, c.GossipAdvertise = dialable(settings.RPC.Advertise), dialable(settings.Gossip.Advertise)
	c.Seeds, c.LocalGossip, c.TLS, c.GossipKeys = settings.Gossip.Seeds, settings.Gossip.Local, certs, s.secrets.GossipKeys
	c.Ready, c.Answers = newReadiness(s.means.view.Ready, s.log).check, s.means.view.Answers
	c.Meters, c.Run = s.meters, s.commands.of(Belongings{deployment.SQL(s.means.db), s.means.seal, settings.Runs, settings.Events.Webhooks.On})
	if c.Console, err = settings.Console.open(certs, s.secrets.OIDC, s.log); err != nil {
		return nil, err
	}
	if settings.Gateway.On() {
		if c.Gateway, c.GatewayTLS, err = OpenGateway(settings.Gateway, s.secrets.Gateway, s.log); err != nil {
			return nil, err
		}
	}
	if s.node, err = Start(ctx, c); err != nil {
		return nil, err
	}
	return s.node.Stop, nil
}

// logDoubts logs warnings with which the node starts all the same, including values in
// clear text, and a sealing key that does not answer: charges need none.
func (s *Server) logDoubts(ctx context.Context) (parts.Stop, error) {
	for _, doubt := range slices.Concat(s.means.db.Doubts(), s.secrets.Doubts(s.settings)) {
		s.log.Warn(doubt)
	}
	if s.settings.Audit.Bucket == "" {
		s.log.Warn("audit.bucket is not set: the audit is not exported, and its rows are deleted after 400 days", "set", "audit.bucket")
	}
	_ = s.means.seal.Ready(ctx) // it is logged there
	return nil, nil
}

// sweep deletes rows past their windows periodically, those of the region and of lost
// ones, at one of the nodes that can.
func (s *Server) sweep(context.Context) (parts.Stop, error) {
	inTurn, view := s.node.roundsOf(), s.means.view
	near, far := newSweeper(view.Sweep, s.log), map[string]*sweeper{}
	s.background.every(s.log, s.settings.SweepEvery, func(ctx context.Context) {
		for _, home := range s.node.keptHomes() {
			switch {
			case !inTurn(home):
			case home == view.Name():
				near.round(ctx)
			default:
				if far[home] == nil {
					far[home] = newSweeper(func(ctx context.Context, limit int) (int, error) { return view.SweepHome(ctx, home, limit) }, s.log.With("home", home))
				}
				far[home].round(ctx)
			}
		}
	})
	return nil, nil
}

// Node is the node that runs.
func (s *Server) Node() *Node { return s.node }

// Database names the database, as in "PostgreSQL 15.18".
func (s *Server) Database() string { return s.means.db.Version() }

// MetricsAddr is the address at which metrics are scraped, "" if none.
func (s *Server) MetricsAddr() string { return s.metrics.Addr() }

// Stop drains the node, within ctx, and closes the database last.
func (s *Server) Stop(ctx context.Context) error { return s.running.Stop(ctx) }

// DatabaseFacts is the result of [CheckDatabase].
type DatabaseFacts struct {
	// Version is as in "CockroachDB v26.2.1".
	Version string
	// Schema is the version of the tables that this build needs and found.
	Schema int
	// Regions are those of the topology, by name.
	Regions []region.Region
	// MaxOffset is the database's bound on the differences of its clocks. OffsetUnread
	// is why it could not be read, in one line, or nil.
	MaxOffset    time.Duration
	OffsetUnread error
	// Doubts are the warnings of a node's start, a line each.
	Doubts []string
}

// CheckDatabase checks the database as a node with these settings would at its start,
// and some facts that only operators need. It returns the errors of [Serve], all of
// them. Settings with mistakes are allowed; it only checks those without.
func CheckDatabase(ctx context.Context, settings ServeSettings, secrets Secrets, log *slog.Logger) (_ DatabaseFacts, err error) {
	c := sqlstore.Config{URL: secrets.DatabaseURL, Policy: claim.DefaultPolicy(), Tool: true, Pool: settings.Database, Logger: log}
	if c.Pool.Validate() != nil {
		c.Pool = sqlstore.DefaultPool()
		c.Pool.AllowUnverified = settings.Database.AllowUnverified
	}
	db, err := sqlstore.Open(ctx, c)
	if err != nil {
		return DatabaseFacts{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	regions, _, err := db.Regions(ctx)
	if err != nil {
		return DatabaseFacts{}, err
	}
	facts := DatabaseFacts{Version: db.Version(), Schema: sqlstore.SchemaVersion(), Regions: regions, Doubts: db.Doubts()}
	var errs []error
	if region.ValidName(settings.Node.Region) {
		view, err := db.Region(settings.Node.Region)
		if err == nil {
			err = view.Ready(ctx)
		}
		errs = append(errs, err)
	}
	if p := settings.policy(); p.Validate() == nil {
		errs = append(errs, db.Breaks(ctx, &p))
	}
	errs = append(errs, openWork(ctx, db, &settings, regions))
	if settings.Gateway.On() {
		var names []string
		for _, r := range regions {
			names = append(names, r.Name)
		}
		errs = append(errs, settings.Gateway.UnknownRegions(names))
		if doubt := lacksUpstream(&settings.Gateway, names); doubt != "" {
			facts.Doubts = append(facts.Doubts, doubt)
		}
	}
	facts.MaxOffset, facts.OffsetUnread = db.MaxOffset(ctx)
	facts.OffsetUnread = plain(facts.OffsetUnread)
	if have := settings.Policy.ClockOffset; facts.OffsetUnread == nil && have < facts.MaxOffset {
		errs = append(errs, fmt.Errorf("settings: claim.clock_offset is %v, but the clocks of this database may be %v apart; set it to at least that, and claim.lease_margin above it", have, facts.MaxOffset))
	}
	return facts, errors.Join(errs...)
}

// CheckFiles reads the files that the settings name as a node would at its start: they
// must be there, and its certificates of this node's region and good by their own CA
// now.
func CheckFiles(settings ServeSettings, log *slog.Logger) error {
	var errs []error
	if settings.Events.validate(settings.Policy) == nil { // otherwise a mistake of the settings
		errs = append(errs, settings.Events.checkFiles())
	}
	if settings.Console.validate(settings.TLS) == nil {
		errs = append(errs, settings.Console.checkFiles())
	}
	if settings.TLS.on() && settings.TLS.validate(settings.RPC) == nil && region.ValidName(settings.Node.Region) {
		_, err := settings.TLS.open(settings.Node.Region, log)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// inRows is the object store of a deployment without one: every body is in its
// row.
type inRows struct{}

var errNoBucket = errors.New("this node has no object store; set objects to the bucket that has the body")

func (inRows) Put(context.Context, []byte) (string, error) { return "", errNoBucket }

func (inRows) Get(context.Context, string) ([]byte, error) { return nil, errNoBucket }

// readyFor is how long an answer to a readiness probe is cached: probes come every
// second or less often, from a few places.
const readyFor = time.Second

// errNotRecording may be shown to anyone; the log has the reason: the database does not
// answer, takes no writes, or has a table locked.
var errNotRecording = errors.New("the database records nothing at the moment")

// readiness queries the database for probes: one query at a time, however many probes
// wait, so that they do not pile up on a database that does not answer. It is safe for
// concurrent use.
type readiness struct {
	ask     func(context.Context) error // must return by itself
	group   singleflight.Group
	last    atomic.Pointer[answer]
	trouble trouble // of whoever asks
}

type answer struct {
	at  time.Time
	err error
}

func newReadiness(ask func(context.Context) error, log *slog.Logger) *readiness {
	return &readiness{ask: ask, trouble: trouble{log: log, began: "the database records nothing; this node is not ready", over: "the database records again"}}
}

func (r *readiness) check(ctx context.Context) error {
	if a := r.last.Load(); a != nil && time.Since(a.at) < readyFor {
		return a.err
	}
	checked := r.group.DoChan("", func() (any, error) {
		a := &answer{}
		// Not the probe's ctx: others wait for the answer, too.
		// Nor its panic: singleflight would end the process with it.
		err := func() (err error) {
			defer fault.Recover(&err)
			return r.ask(context.WithoutCancel(ctx))
		}()
		r.trouble.note(err)
		if err != nil {
			a.err = errNotRecording
		}
		a.at = time.Now()
		r.last.Store(a)
		return nil, a.err
	})
	select {
	case result := <-checked:
		return result.Err
	case <-ctx.Done():
		return errNotRecording
	}
}
