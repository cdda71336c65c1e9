package localdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// memoryStore is the size of a node's store in memory; CockroachDB refuses less
// than 640 MiB.
const memoryStore = "1GiB"

const (
	// leaseTime bounds how long leases of new tables take to reach their regions.
	leaseTime = 3 * time.Minute
	// leasePause is between two rounds of the queue that moves them.
	leasePause = 2 * time.Second
	// syncPatience is how long a sync may take before a node kills itself. CockroachDB's default is
	// 20 s, which three nodes with their stores in memory exceeded beside a load of 50.
	syncPatience = 5 * time.Minute
)

// urlFile is written by a node once it serves SQL.
const urlFile = "url"

// prepareCockroach makes the nodes' directories.
func (s *Server) prepareCockroach(context.Context) error {
	regions := s.regions
	if len(regions) == 0 {
		regions = []string{""}
	}
	for i, region := range regions {
		name := region
		if name == "" {
			name = "node"
		}
		if slices.Contains(regions[:i], region) {
			return fmt.Errorf("localdb: region %q is named twice", region)
		}
		path, err := s.dir.sub(string(CockroachDB), name)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, &node{region: region, dir: path})
	}
	return nil
}

// cockroachArgs are those of nodes[i]'s process.
func cockroachArgs(nodes []*node, i int, durable bool) []string {
	n := nodes[i]
	command := "start-single-node"
	if len(nodes) > 1 {
		command = "start"
	}
	store := "type=mem,size=" + memoryStore
	if durable {
		store = "path=" + filepath.Join(n.dir, "store")
	}
	args := []string{
		command, "--insecure",
		"--store=" + store,
		"--listen-addr=" + loopback(n.port),
		"--http-addr=127.0.0.1:0",
		"--listening-url-file=" + filepath.Join(n.dir, urlFile),
		// Log output goes to files, so that standard error has the reason of a failed
		// start.
		fmt.Sprintf("--log={file-defaults: {dir: %q, filter: WARNING}, sinks: {stderr: {filter: FATAL}}}", filepath.Join(n.dir, "logs")),
	}
	if n.region != "" {
		args = append(args, "--locality=region="+n.region)
	}
	if len(nodes) > 1 {
		var all []string
		for _, other := range nodes {
			all = append(all, loopback(other.port))
		}
		args = append(args, "--join="+strings.Join(all, ","))
	}
	return args
}

func (s *Server) launchCockroach(n *node) (process, error) {
	// A file of an earlier run would report that this one is ready.
	if err := os.Remove(filepath.Join(n.dir, urlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return process{}, fmt.Errorf("localdb: %w", err)
	}
	i := 0
	for s.nodes[i] != n {
		i++
	}
	cmd := exec.Command(s.bin.path, cockroachArgs(s.nodes, i, s.durable)...) //nolint:noctx // it outlives the context that started it
	cmd.Dir = n.dir
	cmd.Env = cockroachEnv()
	return startProcess(cmd, filepath.Join(n.dir, "log"), nil, syscall.SIGKILL)
}

// cockroachEnv: what is set for another cluster, and this process's own limit of memory, of which
// CockroachDB knows no "off", must not reach this one, and nothing that happens here is reported to
// anybody. A node kills itself when a sync of its log or of its store takes 20 s, so that others
// take over what a broken disk has stopped; here a busy machine is what takes long.
func cockroachEnv() []string {
	env := environment("COCKROACH_", "COCKROACH_SKIP_ENABLING_DIAGNOSTIC_REPORTING=true",
		"COCKROACH_LOG_MAX_SYNC_DURATION="+syncPatience.String(), "COCKROACH_ENGINE_MAX_SYNC_DURATION_DEFAULT="+syncPatience.String())
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") })
}

// listening is nil once the node itself reports that it serves. A connection alone does not prove
// it: without passwords, any CockroachDB on that port accepts.
func (n *node) listening() error {
	_, err := os.Stat(filepath.Join(n.dir, urlFile))
	return err
}

// readyCockroach makes a cluster of the nodes and waits for all of them.
func (s *Server) readyCockroach(ctx context.Context) error {
	if len(s.nodes) > 1 {
		if err := s.initCluster(ctx); err != nil {
			return err
		}
	}
	for _, n := range s.nodes {
		version, err := s.await(ctx, n)
		if err != nil {
			return err
		}
		s.version = shortVersion(version)
	}
	if len(s.nodes) >= 3 {
		return s.replicated(ctx)
	}
	return nil
}

// initCluster initialises the cluster at the first node. The command waits for the node itself; it
// is cut short when a node ends instead.
func (s *Server) initCluster(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, n := range s.nodes {
		go func(p process) {
			select {
			case <-p.Done():
				cancel()
			case <-ctx.Done():
			}
		}(n.proc)
	}
	cmd := exec.CommandContext(ctx, s.bin.path, "init", "--insecure", "--host="+loopback(s.nodes[0].port))
	cmd.Dir = s.nodes[0].dir
	cmd.Env = cockroachEnv()
	out, err := run(cmd, nil)
	for _, n := range s.nodes {
		if !n.proc.Alive() {
			return n.proc.failed(s.bin.path)
		}
	}
	if err != nil && strings.Contains(out, "already been initialized") {
		return nil // by an earlier Start on this directory
	}
	return err
}

// replicated waits until every range has three replicas: until then the first
// node holds some alone, and its loss would be the loss of the cluster.
func (s *Server) replicated(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("", ""))
	if err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		var alone int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM crdb_internal.ranges_no_leases WHERE array_length(replicas, 1) < 3").Scan(&alone)
		if err != nil {
			return fmt.Errorf("localdb: count of replicas: %w%s", err, s.nodes[0].proc.tail())
		}
		if alone == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("localdb: %d ranges have fewer than three replicas: %w", alone, context.Cause(ctx))
		case <-time.After(4 * retryEvery): // a costlier question than whether it is there
		}
	}
}

// PlaceLeases has CockroachDB move the leases of new tables to the regions that their zones
// prefer, and returns when no lease moves any more and each region has some. The cluster
// does so by itself, each range about once in ten minutes; until then a statement of one
// region is evaluated in another, and the loss of one is felt by the rows of others. It does
// nothing on PostgreSQL.
func (s *Server) PlaceLeases(ctx context.Context, databases ...string) error {
	if s.kind != CockroachDB {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	var before map[int64]int64
	for {
		after := map[int64]int64{}
		for _, region := range s.regions {
			for _, name := range databases {
				if err := s.queueLeases(ctx, region, name, after); err != nil {
					return fmt.Errorf("localdb: leases of %s: %w", name, err)
				}
			}
		}
		held := map[int64]bool{}
		for _, node := range after {
			held[node] = true
		}
		if len(held) == len(s.regions) && maps.Equal(before, after) {
			return nil
		}
		before = after
		select {
		case <-ctx.Done():
			return fmt.Errorf("localdb: the leases of new tables have not reached their regions in %v; nodes with leases: %v", leaseTime, slices.Sorted(maps.Keys(held)))
		case <-time.After(leasePause):
		}
	}
}

// queueLeases has a region's node consider each of its leases in a database, and adds who held
// which range's, before.
func (s *Server) queueLeases(ctx context.Context, region, database string, held map[int64]int64) error {
	conn, err := pgx.Connect(ctx, s.URL(region, database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, _ = conn.Exec(ctx, "SET allow_unsafe_internals = true") // older versions do not have it
	rows, err := conn.Query(ctx, "SELECT range_id, lease_holder, lease_holder = crdb_internal.node_id() FROM [SHOW RANGES WITH DETAILS]")
	if err != nil {
		return err
	}
	var (
		id, holder int64
		here       bool
		owned      []int64
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &holder, &here}, func() error {
		held[id] = holder
		if here {
			owned = append(owned, id)
		}
		return nil
	})
	for _, id := range owned {
		// It fails where the lease has moved meanwhile; then the next round reports it.
		_, _ = conn.Exec(ctx, "SELECT crdb_internal.kv_enqueue_replica($1, 'lease', true)", id)
	}
	return err
}
