package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The runbook has each log line that pages, word for word, and no other.
func TestEachPageIsInTheRunbook(t *testing.T) {
	runbook := read(t, "docs/RUNBOOK.md")
	line := regexp.MustCompile(`"(page: [^"\n]+)"`)
	found := 0
	var logged []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "bin", "e2e"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			logged = append(logged, m[1])
			if found++; !strings.Contains(runbook, "`"+m[1]+"`") {
				t.Errorf("%s logs %q, and docs/RUNBOOK.md does not say what to do", path, m[1])
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("only %d lines were found: are they written otherwise now? %v", found, err)
	}
	for _, m := range regexp.MustCompile("`(page: [^`]+)`").FindAllStringSubmatch(runbook, -1) {
		begins := strings.TrimSuffix(m[1], " …")
		if !slices.ContainsFunc(logged, func(l string) bool { return l == m[1] || begins != m[1] && strings.HasPrefix(l, begins) }) {
			t.Errorf("docs/RUNBOOK.md explains %q, which nothing logs", m[1])
		}
	}
}
