package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// The page has the matrix as it is, what the matrix names exists, and each mutant and each promise
// of the explorer is of a promise.
func TestMatrix(t *testing.T) {
	const root = "../../.."
	table, err := matrix(root)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(filepath.Join(root, "docs", "TESTING.md")); err != nil || !strings.Contains(string(page), "\n\n"+table+"\n") {
		t.Errorf("docs/TESTING.md has another matrix than this, which go -C internal/tools run ./mutants -matrix prints (%v):\n%s", err, table)
	}
	explorer, err := os.ReadFile(filepath.Join(root, "claim", "explore_promises_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	var code bytes.Buffer
	for _, p := range promises {
		for _, name := range p.explorer {
			if !bytes.Contains(explorer, []byte(`{"`+name+`", `)) {
				t.Errorf("the explorer has no promise %q", name)
			}
		}
		for _, names := range [][]string{p.crashes, p.storms, p.drills} {
			for _, name := range names {
				tests[name] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\{"(.+)", \w+\},$`).FindAllSubmatch(explorer, -1) {
		if !slices.ContainsFunc(promises, func(p promise) bool { return strings.Contains(strings.Join(p.explorer, "|"), string(m[1])) }) {
			t.Errorf("the explorer's promise %q is in no row of the matrix", m[1])
		}
	}
	for _, room := range rooms {
		for _, m := range room.mutants {
			if !slices.ContainsFunc(promises, func(p promise) bool { return regexp.MustCompile(p.mutants).MatchString(m.name) }) {
				t.Errorf("%s is of no promise in the matrix", m.name)
			}
		}
	}
	for _, dir := range []string{"e2e", "internal/embedded", "internal/sqlstore"} {
		files, err := fs.Glob(os.DirFS(filepath.Join(root, dir)), "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(root, dir, name))
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for name := range tests {
		if !bytes.Contains(code.Bytes(), []byte("\nfunc "+name+"(")) {
			t.Errorf("there is no %s", name)
		}
	}
}
