// Package marked hands a test the blocks of a page that the page says it runs: those behind a
// comment <!-- run by TestName -->. Package archtest refuses a mark if its test does not take the
// page's blocks here, so that the test runs a marked block as it is.
package marked

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mark is a comment with a test's name, and the block behind it: fenced as sh or python, or indented.
var mark = regexp.MustCompile("(?m)^<!-- run by (Test\\w+) -->\n\n?((?:```(?:sh|python)\n(?s:.*?)\n```)|(?:(?:    [^\n]*\n)+))")

// root is the repository's, found before a test changes its directory.
var root = func() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if text, none := os.ReadFile(filepath.Join(dir, "go.mod")); none == nil && strings.HasPrefix(string(text), "module github.com/homeward-io/homeward\n") {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}()

// Blocks returns the blocks of a page, as docs/DEMO.md, that are marked with the name of the
// running test, without fences and indents. It fails the test if there is none.
func Blocks(t testing.TB, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mark.FindAllStringSubmatch(string(text), -1) {
		if m[1] != t.Name() {
			continue
		}
		if _, fenced, ok := strings.Cut(m[2], "```"); ok {
			_, block, _ := strings.Cut(fenced, "\n")
			blocks = append(blocks, strings.TrimSuffix(block, "\n```"))
			continue
		}
		blocks = append(blocks, regexp.MustCompile(`(?m)^ {4}`).ReplaceAllString(m[2], ""))
	}
	if slices.Contains(blocks, "") || len(blocks) == 0 {
		t.Fatalf("%s has no block that is marked <!-- run by %s -->, or an empty one", page, t.Name())
	}
	return blocks
}
