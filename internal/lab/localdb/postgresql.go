package localdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// postgresUser is the superuser's name.
const postgresUser = "homeward"

// preparePostgres makes the data directory unless an earlier Start did.
func (s *Server) preparePostgres(ctx context.Context) error {
	root, err := s.dir.sub(string(PostgreSQL))
	if err != nil {
		return err
	}
	s.nodes = []*node{{dir: root}}
	secret := filepath.Join(root, "password")
	password, err := os.ReadFile(secret)
	if err == nil {
		s.password = strings.TrimSpace(string(password))
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("localdb: %w", err)
	}
	// The password file is renamed last: data without it is incomplete, or another program's.
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("localdb: %s is an incomplete data directory: remove it or choose another one", data)
	} else if err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	if err := s.user.give(data); err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	s.password = rand.Text()
	fresh := secret + ".new"
	if err := os.WriteFile(fresh, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	if err := s.user.give(fresh); err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	// The server hashes the password: SCRAM's 4,096 rounds at the client are half of a test's time under the race detector.
	args := []string{
		"--pgdata=" + data, "--username=" + postgresUser, "--pwfile=" + fresh,
		"--auth=password", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions",
	}
	if !s.durable {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.bin.path), "initdb"), args...)
	cmd.Dir = root
	cmd.Env = environment("PG")
	if _, err := run(cmd, s.user); err != nil {
		return err
	}
	if err := os.Rename(fresh, secret); err != nil {
		return fmt.Errorf("localdb: %w", err)
	}
	return nil
}

// postgresArgs are the server's. Settings are given here and not in its file, so
// that data of an earlier Start follows the present Config.
func postgresArgs(data string, port, maxConnections int, durable bool) []string {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(port),
		"unix_socket_directories=", // only TCP with the password
		"max_connections=" + strconv.Itoa(maxConnections),
		// Holds a benchmark's working set; unused pages cost nothing.
		"shared_buffers=256MB",
		// There is no replica.
		"wal_level=minimal",
		"max_wal_senders=0",
		// In the data directory, where it goes with the rest.
		"dynamic_shared_memory_type=mmap",
		"timezone=UTC",
		"log_timezone=UTC",
	}
	if !durable {
		// synchronous_commit stays on. Off, it would lose acknowledged commits in
		// Kill; on, without fsync, it costs one write to memory.
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

func (s *Server) launchPostgres(n *node) (process, error) {
	args := postgresArgs(filepath.Join(n.dir, "data"), n.port, s.maxConn, s.durable)
	cmd := exec.Command(s.bin.path, args...) //nolint:noctx // it outlives the context that started it
	cmd.Dir = n.dir
	cmd.Env = environment("PG")
	// PostgreSQL's children end when their parent does.
	return startProcess(cmd, filepath.Join(n.dir, "log"), s.user, syscall.SIGQUIT)
}

func (s *Server) readyPostgres(ctx context.Context) error {
	version, err := s.await(ctx, s.nodes[0])
	s.version = shortVersion(version)
	return err
}
