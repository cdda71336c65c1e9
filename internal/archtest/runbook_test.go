package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testNamed = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	procedure = regexp.MustCompile(`(?m)^### (.+)$`)
)

// TestProceduresNameTheirTests: each procedure of the runbook says which tests run it, or
// that it is not run here, and the tests that pages name are there.
func TestProceduresNameTheirTests(t *testing.T) {
	there := testFuncs(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		name := filepath.Base(page)
		for _, m := range testNamed.FindAllStringSubmatch(read(t, "docs/"+name), -1) {
			if !there[m[1]] {
				t.Errorf("docs/%s names %s, which is no test", name, m[1])
			}
		}
	}
	runbook := read(t, "docs/RUNBOOK.md")
	starts := procedure.FindAllStringSubmatchIndex(runbook, -1)
	if len(starts) < 20 {
		t.Fatalf("the runbook has %d procedures", len(starts))
	}
	for i, at := range starts {
		end := len(runbook)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		body := runbook[at[1]:end]
		if !testNamed.MatchString(body) && !strings.Contains(strings.ToLower(body), "not run here") {
			t.Errorf("docs/RUNBOOK.md, %q: say which test runs it, or that it is not run here", runbook[at[2]:at[3]])
		}
	}
}

// eachTestFile passes the path of each test's file of the repository to use.
func eachTestFile(t *testing.T, use func(path string) error) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return use(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testFuncs are the tests of all packages, by name.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	eachTestFile(t, func(path string) error {
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	return names
}
