package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/fault"
	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/telemetry"
	"github.com/homeward-io/homeward/region"
)

// Server is one running regional node on a SQL database, with everything that is
// its own: one process of a deployment.
type Server struct {
	node  *Node
	means *means
	log   *slog.Logger

	stop context.CancelFunc // ends what runs in keeping
	kept sync.WaitGroup
}

// Serve starts a regional node. An error is one line for each mistake and says
// what to do. ctx bounds the start only; Stop ends the node.
func Serve(ctx context.Context, settings ServeSettings, secrets Secrets, log *slog.Logger) (_ *Server, err error) {
	if err := errors.Join(settings.Validate(), secrets.Missing(settings)); err != nil {
		return nil, err
	}
	name, err := settings.name(uuid.NewString()[:8]) // leases of an earlier start are nobody's
	if err != nil {
		return nil, err
	}
	s := &Server{log: log.With("region", settings.Node.Region, "node", name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if s.means, err = openMeans(ctx, settings, secrets, s.log); err != nil {
		return nil, err
	}
	certs, err := settings.TLS.open(settings.Node.Region, s.log)
	if err != nil {
		return nil, err
	}
	ready := &readiness{ask: s.means.db.Ready, trouble: trouble{log: s.log, began: "the database does not answer; this node is not ready", over: "the database answers again"}}
	c := s.means.config(settings, name, log)
	c.APIListen, c.RPCListen, c.GossipListen = settings.API.Listen, settings.RPC.Listen, settings.Gossip.Listen
	c.RPCAdvertise, c.GossipAdvertise = settings.RPC.Advertise, settings.Gossip.Advertise
	c.Seeds, c.LocalGossip, c.TLS, c.GossipKeys = settings.Gossip.Seeds, settings.Gossip.Local, certs, secrets.GossipKeys
	c.Table, c.TopologyEvery = sqlTable{s.means.db, s.means.view}, settings.TopologyEvery
	c.DeputyAfter, c.Ready = settings.DeputyAfter, ready.check
	s.node, err = Start(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, doubt := range slices.Concat(s.means.db.Doubts(), secrets.Doubts(settings)) {
		s.log.Warn(doubt)
	}
	s.trySeal(ctx, settings)
	s.keep(settings)
	return s, nil
}

// trySeal says at the start what is stored unsealed, and when the sealing key does not
// answer. Charges need none, so that neither keeps the node from starting.
func (s *Server) trySeal(ctx context.Context, settings ServeSettings) {
	switch ring := s.means.seal; {
	case !ring.HasKeys():
		s.log.Warn("no sealing key is set; secrets of endpoints and bodies of notices are stored as they are", "set", SealKeys)
	case !settings.Seal:
		s.log.Warn("sealed values are read, and none is written; set seal to true once all nodes have the sealing keys")
	default:
		_ = ring.Ready(ctx) // it is logged there
	}
}

// keep starts what a node does beside its requests.
func (s *Server) keep(settings ServeSettings) {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	sweep := sweeper{
		sweep:   s.means.view.Sweep,
		trouble: trouble{log: s.log, began: "rows past their windows cannot be deleted; they count as absent all the same", over: "rows past their windows can be deleted again"},
	}
	mine := s.node.rounds()
	s.kept.Go(func() {
		every(ctx, s.log, settings.SweepEvery, func(ctx context.Context) {
			if mine() {
				sweep.round(ctx)
			}
		})
	})
}

// Node is the node that runs.
func (s *Server) Node() *Node { return s.node }

// Database names the database, as in "PostgreSQL 15.18".
func (s *Server) Database() string { return s.means.db.Version() }

// Stop drains the node, within ctx, and closes the database last. Call it once.
func (s *Server) Stop(ctx context.Context) error {
	var errs []error
	if s.node != nil {
		errs = append(errs, s.node.Stop(ctx))
	}
	if s.stop != nil {
		s.stop()
		s.kept.Wait()
	}
	if s.means != nil {
		errs = append(errs, s.means.close())
	}
	return errors.Join(errs...)
}

// place is the database as one region sees it.
type place struct {
	db       *cockroach.DB
	view     *cockroach.View
	topology *region.Topology
}

// openDatabase opens the database for a node of one region. The caller closes
// place.db.
func openDatabase(ctx context.Context, settings ServeSettings, secrets Secrets, log *slog.Logger) (_ *place, err error) {
	db, err := cockroach.Open(ctx, cockroach.Config{
		URL: secrets.DatabaseURL, Policy: settings.policy(), Pool: settings.Database, Trace: telemetry.Enabled(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	view, err := db.Region(settings.Node.Region)
	if err != nil {
		return nil, err
	}
	rows, err := db.Regions(ctx)
	if err != nil {
		return nil, err
	}
	topology, err := region.NewTopology(regionsOf(rows))
	if err != nil {
		return nil, err
	}
	return &place{db, view, topology}, nil
}

func regionsOf(rows []cockroach.TopologyRow) []region.Region {
	var all []region.Region
	for _, r := range rows {
		all = append(all, region.Region{Name: r.Name, Code: r.Code, Status: region.Status(r.Status)})
	}
	return all
}

// DatabaseFacts is what a look at a node's database found.
type DatabaseFacts struct {
	// Version is as in "CockroachDB v26.2.1".
	Version string
	// Schema is the version of the tables that this build needs and found.
	Schema int
	// Regions are those of the topology, by name.
	Regions []region.Region
	// MaxOffset is how far apart the database's clocks may be. OffsetUnread says
	// in one line why it could not be found out, or is nil.
	MaxOffset    time.Duration
	OffsetUnread error
	// Doubts are what a node would warn of at its start, a line each.
	Doubts []string
}

// CheckDatabase looks at the database as a node with these settings would at its
// start, and at what only a person should ask. Its errors are as those of [Serve],
// all of them; settings with mistakes may be given, and only those without are
// looked at.
func CheckDatabase(ctx context.Context, settings ServeSettings, secrets Secrets, log *slog.Logger) (_ DatabaseFacts, err error) {
	c := cockroach.Config{URL: secrets.DatabaseURL, Policy: claim.DefaultPolicy(), Tool: true, Pool: settings.Database, Logger: log}
	if c.Pool.Validate() != nil {
		c.Pool = cockroach.DefaultPool()
		c.Pool.AllowUnverified = settings.Database.AllowUnverified
	}
	db, err := cockroach.Open(ctx, c)
	if err != nil {
		return DatabaseFacts{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Regions(ctx)
	if err != nil {
		return DatabaseFacts{}, err
	}
	facts := DatabaseFacts{Version: db.Version(), Schema: cockroach.SchemaVersion(), Regions: regionsOf(rows), Doubts: db.Doubts()}
	var errs []error
	if region.ValidName(settings.Node.Region) {
		_, err := db.Region(settings.Node.Region)
		errs = append(errs, err)
	}
	if settings.policy().Validate() == nil {
		errs = append(errs, db.Breaks(ctx, settings.policy()))
	}
	facts.MaxOffset, facts.OffsetUnread = db.MaxOffset(ctx)
	facts.OffsetUnread = plain(facts.OffsetUnread)
	if have := settings.Claim.ClockOffset; facts.OffsetUnread == nil && have < facts.MaxOffset {
		errs = append(errs, fmt.Errorf("settings: claim.clock_offset is %v, but the clocks of this database may be %v apart; set it to at least that, and claim.lease_margin above it", have, facts.MaxOffset))
	}
	return facts, errors.Join(errs...)
}

// CheckFiles reads the files that the settings name as a node would at its start: they
// must be there, and its certificates of this node's region and good by their own CA
// now.
func CheckFiles(settings ServeSettings, log *slog.Logger) error {
	var errs []error
	if settings.Events.validate() == nil { // else a mistake of the settings
		errs = append(errs, settings.Events.checkFiles())
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

var errNoBucket = errors.New("this node has no object store; set objects to the bucket that the body was put into")

func (inRows) Put(context.Context, []byte) (string, error) { return "", errNoBucket }

func (inRows) Get(context.Context, string) ([]byte, error) { return nil, errNoBucket }

// every runs f about each d until ctx ends, with jitter that keeps nodes which
// were started together from asking the database together. A panic costs one round.
func every(ctx context.Context, log *slog.Logger, d time.Duration, f func(context.Context)) {
	pause := time.NewTimer(rand.N(d))
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
			if caught := fault.Caught(func() { f(ctx) }); caught != nil {
				log.Error("what a node does now and then panicked; it is tried again", "fault", caught)
			}
			pause.Reset(d/2 + rand.N(d))
		}
	}
}

// trouble logs the beginning and the end of a time in which something fails, and
// nothing in between.
type trouble struct {
	log         *slog.Logger
	began, over string
	in          bool
}

func (t *trouble) note(err error) {
	switch failing := err != nil; {
	case failing && !t.in:
		t.log.Warn(t.began, "error", err)
	case !failing && t.in:
		t.log.Info(t.over)
	}
	t.in = err != nil
}

// sweeper deletes rows past their windows, a batch at a time.
type sweeper struct {
	sweep   func(ctx context.Context, limit int) (removed int, err error)
	trouble trouble
}

// round goes on while batches are full, so that what a busy hour leaves is gone
// after it.
func (s *sweeper) round(ctx context.Context) {
	for {
		n, err := s.sweep(ctx, sweepBatch)
		if ctx.Err() != nil {
			return
		}
		s.trouble.note(err)
		if err != nil || n < sweepBatch {
			return
		}
	}
}

// readyFor is how long an answer to a readiness probe is believed: probes come
// every second or less often, from a few places.
const readyFor = time.Second

// errNotAnswering is fit for anyone who asks; the log says why.
var errNotAnswering = errors.New("the database does not answer")

// readiness asks the database on behalf of probes: one question at a time,
// however many wait for the answer, so that they cannot pile up on a database
// that does not give any. It is safe for concurrent use.
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

func (r *readiness) check(ctx context.Context) error {
	if a := r.last.Load(); a != nil && time.Since(a.at) < readyFor {
		return a.err
	}
	asked := r.group.DoChan("", func() (any, error) {
		a := &answer{}
		// Not the probe's ctx: others wait for the answer, too.
		// Nor its panic: singleflight would end the process with it.
		err := func() (err error) {
			defer fault.Recover(&err)
			return r.ask(context.WithoutCancel(ctx))
		}()
		r.trouble.note(err)
		if err != nil {
			a.err = errNotAnswering
		}
		a.at = time.Now()
		r.last.Store(a)
		return nil, a.err
	})
	select {
	case result := <-asked:
		return result.Err
	case <-ctx.Done():
		return errNotAnswering
	}
}
