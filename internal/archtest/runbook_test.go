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
)

// TestTestsInTheDocsExist: the tests that pages name are there.
func TestTestsInTheDocsExist(t *testing.T) {
	there := testFuncs(t)
	for _, page := range pages(t) {
		for _, m := range testNamed.FindAllStringSubmatch(read(t, page), -1) {
			if !there[m[1]] {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
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
