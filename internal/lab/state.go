package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/internal/parts"
)

// State describes a running cluster to other processes, in a file of its directory.
type State struct {
	Database  Database `json:"database"`
	Simulator string   `json:"simulator"` // http://host:port
	Control   string   `json:"control"`   // Unix socket for drills; "": there is none
	// APIKeys are the minted keys of its merchants, by tenant.
	APIKeys map[string]string `json:"api_keys"`
	// Runs is the bucket for reports of its drills.
	Runs string `json:"runs,omitempty"`
	// Operator is the certificate for operators' tools.
	Operator *operator.Certificate `json:"operator,omitempty"`
	Nodes    []*Node               `json:"nodes"`
}

// Database describes the cluster's database.
type Database struct {
	Kind    localdb.Kind `json:"kind"`
	Version string       `json:"version"` // as in "PostgreSQL 15.18"
	// Private: it ends with the cluster.
	Private bool `json:"private"`
	// Durable: its data is on disk, and there after a crash.
	Durable bool `json:"durable"`
}

var errNotOurs = errors.New("the database is not the cluster's own, so it is left alone; start the cluster without HOMEWARD_DATABASE_URL")

// offers returns why the database cannot be ended and started again; nil if it can.
func (d *Database) offers() error {
	switch {
	case !d.Private:
		return errNotOurs
	case d.Kind == localdb.CockroachDB && !d.Durable:
		return errors.New("the private CockroachDB keeps its data in memory and cannot be restarted; start the cluster with --data DIR")
	}
	return nil
}

// stateFile is the state's name in the cluster's directory.
const stateFile = "cluster.json"

// StateFile returns the state file of the cluster in dir.
func StateFile(dir string) string { return filepath.Join(dir, stateFile) }

// ReadState reads the state of the cluster in dir.
func ReadState(dir string) (*State, error) {
	text, err := os.ReadFile(StateFile(dir))
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", StateFile(dir), err)
	}
	return s, nil
}

// Access returns how to query its nodes.
func (s *State) Access() operator.Access {
	var a operator.Access
	for _, n := range s.Nodes {
		a.Nodes = append(a.Nodes, n.RPC)
	}
	if s.Operator != nil {
		a.Certificate = *s.Operator
	}
	return a
}

// Write replaces the state file atomically.
func (s *State) Write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := StateFile(dir)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// writeState writes the state for as long as the cluster runs: afterwards its processes
// may be anybody's.
func (k *Cluster) writeState(context.Context) (parts.Stop, error) {
	if err := k.Write(k.Data); err != nil {
		return nil, err
	}
	return func(context.Context) error { return os.Remove(StateFile(k.Data)) }, nil
}
