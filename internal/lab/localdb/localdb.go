package localdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Kind is a database product.
type Kind string

const (
	CockroachDB Kind = "cockroachdb"
	PostgreSQL  Kind = "postgresql"
)

// ErrNotFound: no such database software is installed here. The error that wraps it names what was
// looked for, where, and what to install.
var ErrNotFound = errors.New("no database found")

// ErrUnsupported: this kind of server cannot do that.
var ErrUnsupported = errors.New("not supported")

const (
	// startPatience bounds Start and Restart. A start takes seconds; three nodes of CockroachDB
	// took more than 90 beside a load of 40. A process that ends is not waited for.
	startPatience = 4 * time.Minute
	// stopPatience is how long a server may take to shut down, or to crash in its
	// orderly way, before it is killed. PostgreSQL gives its own children 5 s.
	stopPatience = 10 * time.Second
	// portAttempts: a port can be taken between its choice and its use.
	portAttempts = 5
	// defaultMaxConnections is room for several nodes with pools of their own.
	defaultMaxConnections = 200
)

// Config selects the software to run.
type Config struct {
	// Kind "" is that of the data in Dir, else CockroachDB if it is found, else
	// PostgreSQL.
	Kind Kind
	// Dir holds everything, including the data: a later Start on it finds the data of
	// an earlier one. "" is a temporary directory that Stop removes. PostgreSQL refuses
	// to run as root; started by root it runs as user postgres or nobody, who must be
	// able to enter Dir's parents.
	Dir string
	// Regions: CockroachDB runs one node in each; none means one node without a
	// region. A cluster of three or more is ready when it survives the loss of
	// any one. PostgreSQL ignores them: every region has the same server.
	Regions []string
	// Durable data survives a loss of power. Otherwise PostgreSQL's survives Kill,
	// and CockroachDB's is in memory and does not.
	Durable bool
	// MaxConnections is PostgreSQL's limit, 0 means 200. CockroachDB has none.
	MaxConnections int
	// Logger receives starts and unexpected exits of servers; nil discards them.
	Logger *slog.Logger
}

// Server is running database software. Its methods may be called concurrently.
type Server struct {
	kind    Kind
	version string
	regions []string
	durable bool
	maxConn int
	log     *slog.Logger
	bin     binary
	dir     *dir
	user    *account // whom PostgreSQL runs as; nil is ourselves

	password string // PostgreSQL's superuser's

	mu    sync.Mutex // serialises everything that starts, signals or ends processes
	nodes []*node    // CockroachDB: one for each region; PostgreSQL: one
}

// node is one process of a server, or where it was before Kill.
type node struct {
	region string
	port   int
	dir    string // its own files
	proc   process
}

// Start returns once the database answers. The context bounds the start only. Errors
// wrap ErrNotFound if no software was found, and contain the last lines of the
// database's log if it did not start.
func Start(ctx context.Context, c Config) (*Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not ready within %v", startPatience))
	defer cancel()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = defaultMaxConnections
	}
	bin, err := find(ctx, c.Kind, c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		kind: bin.kind, bin: bin, regions: c.Regions, durable: c.Durable,
		maxConn: c.MaxConnections, log: c.Logger,
	}
	if s.kind == PostgreSQL {
		if s.user, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	if s.dir, err = openDir(c.Dir, s.user); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		// The caller's context may have ended the start.
		if stopErr := s.Stop(context.WithoutCancel(ctx)); stopErr != nil {
			s.log.Warn("a database did not start, and what it left could not be removed", "error", stopErr)
		}
		return nil, err
	}
	for _, n := range s.nodes {
		s.log.Info("database started", "version", s.version, "region", n.region, "address", loopback(n.port), "dir", n.dir)
	}
	return s, nil
}

// start makes the data, starts every node, on other ports if need be, and waits
// until all answer.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var prepare, ready func(context.Context) error
	switch s.kind {
	case PostgreSQL:
		prepare, ready = s.preparePostgres, s.readyPostgres
	default:
		prepare, ready = s.prepareCockroach, s.readyCockroach
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := s.boot(ctx, ready)
		if err == nil || attempt == portAttempts || !errors.Is(err, errPortTaken) {
			return err
		}
		s.log.Info("another process took the port: trying others", "error", err)
		for _, n := range s.nodes {
			n.proc.kill()
		}
	}
}

// boot is one attempt at a start.
func (s *Server) boot(ctx context.Context, ready func(context.Context) error) error {
	for _, n := range s.nodes {
		var err error
		if n.port, err = freePort(); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		if err := s.launch(n); err != nil {
			return err
		}
	}
	return ready(ctx)
}

// launch starts a node's process.
func (s *Server) launch(n *node) (err error) {
	switch s.kind {
	case PostgreSQL:
		n.proc, err = s.launchPostgres(n)
	default:
		n.proc, err = s.launchCockroach(n)
	}
	if err == nil {
		go func(p process) {
			<-p.Done()
			if !p.Expected() {
				s.log.Warn("a database exited unexpectedly", "region", n.region, "error", p.Err())
			}
		}(n.proc)
	}
	return err
}

// Kind is the product that runs.
func (s *Server) Kind() Kind { return s.kind }

// Version names product and version: "PostgreSQL 15.18", "CockroachDB v26.1.0".
func (s *Server) Version() string { return s.version }

// Regions are those of the configuration.
func (s *Server) Regions() []string { return s.regions }

// URL is for pgx, and of a user with all privileges. On CockroachDB it names the
// region's node. Region "" is the first; database "" is the default one. It panics for
// a region that Config does not name. The URL contains the password.
func (s *Server) URL(region, database string) string {
	n, err := s.node(region)
	if err != nil {
		panic(err)
	}
	u := url.URL{Scheme: "postgres", Host: loopback(n.port), Path: database, RawQuery: "sslmode=disable"}
	switch s.kind {
	case PostgreSQL:
		u.User = url.UserPassword(postgresUser, s.password)
		if database == "" {
			u.Path = "postgres"
		}
	default:
		u.User = url.User("root")
		if database == "" {
			u.Path = "defaultdb"
		}
	}
	return u.String()
}

// PIDs are the processes of the regions' databases, in the order of Regions. Each may have
// children.
func (s *Server) PIDs() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		all = append(all, n.proc.PID())
	}
	return all
}

// node finds a region's node.
func (s *Server) node(region string) (*node, error) {
	ok := region == ""
	for i, r := range s.regions {
		if r == region {
			if s.kind == CockroachDB {
				return s.nodes[i], nil
			}
			ok = true
		}
	}
	if !ok && len(s.regions) > 0 {
		return nil, fmt.Errorf("localdb: no region %q, only %q", region, s.regions)
	}
	if !ok && s.kind == CockroachDB {
		return nil, fmt.Errorf("localdb: no region %q: this server was started without regions", region)
	}
	return s.nodes[0], nil
}

// running is node for callers that need its process.
func (s *Server) running(region string) (*node, error) {
	n, err := s.node(region)
	if err != nil {
		return nil, err
	}
	if !n.proc.Alive() {
		return nil, fmt.Errorf("localdb: the database of region %q is not running", region)
	}
	return n, nil
}

// Pause suspends every process of a region's database: its port accepts connections,
// and nothing answers. Region "" is the first. Linux only.
func (s *Server) Pause(region string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.running(region)
	if err != nil {
		return err
	}
	return n.proc.pause()
}

// Resume resumes what Pause suspended. It does nothing for a database that is not
// paused.
func (s *Server) Resume(region string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.running(region)
	if err != nil {
		return err
	}
	return n.proc.resume()
}

// Kill kills a region's database, paused or not, and returns when it has ended. PostgreSQL gets its
// "immediate shutdown", so that no page is torn: everything acknowledged is there after Restart
// even if not Durable.
func (s *Server) Kill(region string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.running(region)
	if err != nil {
		return err
	}
	s.crash(n)
	return nil
}

// crash ends a node at once and waits for its end.
func (s *Server) crash(n *node) {
	if s.kind == PostgreSQL {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		n.proc.end(ctx, signalCrash)
		return
	}
	n.proc.kill()
}

// Restart starts a killed database again, on the same port and with the same data, and
// returns once it answers. It cannot restart CockroachDB that is not Durable, as its
// data was in memory (ErrUnsupported).
func (s *Server) Restart(ctx context.Context, region string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not ready within %v", startPatience))
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.node(region)
	if err != nil {
		return err
	}
	if s.kind == CockroachDB && !s.durable {
		return fmt.Errorf("localdb: restart of an in-memory CockroachDB, which has lost its data: %w; set Durable", ErrUnsupported)
	}
	if n.proc.Alive() {
		return fmt.Errorf("localdb: the database of region %q is running", region)
	}
	if err := s.dir.usable(); err != nil {
		return err
	}
	if err := s.launch(n); err != nil {
		return err
	}
	if _, err := s.await(ctx, n); err != nil {
		n.proc.kill()
		return err
	}
	return nil
}

// Stop stops the server and removes a temporary directory. A single node with Durable data is shut
// down gracefully, and killed if it does not stop before the context or 10 s are over. A second
// call does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error {
			switch {
			case !n.proc.Alive():
			case s.dir.temporary || s.kind == CockroachDB && !s.durable:
				s.crash(n)
			case len(s.nodes) > 1:
				// Nodes that stop together have no node to drain to and would wait in
				// vain; everything that a durable store acknowledged is on disk.
				s.crash(n)
			case s.kind == PostgreSQL:
				n.proc.end(ctx, signalFast)
			default:
				n.proc.end(ctx, signalDrain)
			}
			return nil
		})
	}
	_ = g.Wait() // ends are waited for, and cannot fail
	return s.dir.close()
}

// CreateDatabase creates an empty database, or, on PostgreSQL, a copy of template,
// which must have no connections. CockroachDB has no templates (ErrUnsupported).
func (s *Server) CreateDatabase(ctx context.Context, name, template string) error {
	sql := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize()
	if template != "" {
		if s.kind == CockroachDB {
			return fmt.Errorf("localdb: a database from a template on CockroachDB: %w; create the tables instead", ErrUnsupported)
		}
		// Copied as files it takes a third of the time that it takes through the log.
		sql += " TEMPLATE " + pgx.Identifier{template}.Sanitize() + " STRATEGY file_copy"
	}
	return s.admin(ctx, sql)
}

// DropDatabase drops a database if it exists, and on PostgreSQL ends its connections.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	sql := "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize()
	if s.kind == CockroachDB {
		return s.admin(ctx, sql+" CASCADE")
	}
	return s.admin(ctx, sql+" WITH (FORCE)")
}

// admin runs one statement on a connection of its own.
func (s *Server) admin(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL("", ""))
	if err != nil {
		return fmt.Errorf("localdb: %s: %w", sql, err)
	}
	// An error of closing changes nothing about the statement.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("localdb: %s: %w", sql, err)
	}
	return nil
}

// retryEvery is how often a starting database is polled: the two products share no signal that they
// are ready.
const retryEvery = 25 * time.Millisecond

// await returns the node's version once it answers.
func (s *Server) await(ctx context.Context, n *node) (string, error) {
	for {
		version, err := s.ask(ctx, n)
		if err == nil {
			return version, nil
		}
		select {
		case <-n.proc.Done():
			return "", n.proc.failed(s.bin.path)
		case <-ctx.Done():
			return "", fmt.Errorf("localdb: %s does not answer: %w (%v)%s", s.bin.path, context.Cause(ctx), err, n.proc.tail())
		case <-time.After(retryEvery):
		}
	}
}

// ask asks a node for its version once.
func (s *Server) ask(ctx context.Context, n *node) (string, error) {
	if s.kind == CockroachDB {
		if err := n.listening(); err != nil {
			return "", err
		}
	}
	// Another process on the port of an exited node may accept connections and not
	// answer.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := n.proc.Done() // a later Restart is another process
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := pgx.Connect(ctx, s.URL(n.region, ""))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var version string
	err = conn.QueryRow(ctx, "SELECT version()").Scan(&version)
	return version, err
}

// shortVersion drops what follows product and number: "PostgreSQL 15.18 (Debian
// …) on x86_64…", "CockroachDB CCL v26.1.0 (x86_64…", where CCL or OSS is the kind of build.
func shortVersion(full string) string {
	words := strings.Fields(full)
	if len(words) > 2 && words[0] == "CockroachDB" {
		words = slices.Delete(words, 1, 2)
	}
	return strings.Join(words[:min(2, len(words))], " ")
}
