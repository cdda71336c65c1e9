package localdb

import (
	"context"
	"errors"
	"fmt"
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

// cockroachEnv: what is set for another cluster must not reach this one, and
// nothing that happens here is reported to anybody.
func cockroachEnv() []string {
	return environment("COCKROACH_", "COCKROACH_SKIP_ENABLING_DIAGNOSTIC_REPORTING=true")
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
