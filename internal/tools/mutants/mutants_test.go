package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Each place is in the tree as it is, and what the mutant makes of it parses.
func TestPlacesAreFound(t *testing.T) {
	const root = "../../.."
	names := map[string]bool{}
	for _, room := range rooms {
		for _, s := range room.suites {
			if is, err := os.Stat(filepath.Join(root, s.dir)); err != nil || !is.IsDir() {
				t.Errorf("the suite %s of %s has no package", s, room.dir)
			}
		}
		for _, m := range room.mutants {
			if names[m.name] {
				t.Errorf("%s is there twice", m.name)
			}
			names[m.name] = true
			if path, mutated, err := m.apply(root, room.dir); err != nil {
				t.Errorf("%s: %v", m.name, err)
			} else if was, err := os.ReadFile(path); err != nil || string(was) == string(mutated) {
				t.Errorf("%s changes nothing: %v", m.name, err)
			}
		}
	}
	if len(names) < 60 {
		t.Errorf("there are %d mutants", len(names))
	}
}

// A place that is not there, or is there twice, is an error.
func TestAPlaceIsOne(t *testing.T) {
	for name, m := range map[string]mutant{
		"no function":   {at: "Nothing", from: "false"},
		"no clause":     {at: "Settle case *Nothing", from: "event = EventDeferred"},
		"no expression": {at: "Settle", from: "nothing"},
		"two of them":   {at: "Settle", from: "event = EventDeferred"},
		"no text":       {at: "../internal/sqlstore/query/settle.sql", from: "c.fence = v.nothing"},
	} {
		if _, _, err := m.apply("../../..", "claim"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
