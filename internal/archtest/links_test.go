package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	code    = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$|`[^`\n]*`")
	fences  = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	linked  = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the fragments that GitHub makes of the headings of a page.
func anchors(page string) map[string]bool {
	found, seen := map[string]bool{}, map[string]int{}
	for _, h := range heading.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		text := linked.ReplaceAllString(h[1], "$1")
		slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		seen[slug]++
		if n := seen[slug]; n > 1 {
			slug = fmt.Sprintf("%s-%d", slug, n-1)
		}
		found[slug] = true
	}
	return found
}

// The docs refer to files and headings that exist. The test contacts no other host: it fails only
// for mistakes here.
func TestLinksOfTheDocs(t *testing.T) {
	pages := map[string]string{}
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != ".github":
			return fs.SkipDir
		case d.IsDir() && d.Name() == "node_modules": // pages of others, for a test
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		pages[path] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for path, page := range pages {
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(page, "`"), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			checked++
			file, fragment, _ := strings.Cut(l[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", path, l[1], err)
			} else if text, isPage := pages[to]; isPage && fragment != "" && !anchors(text)[fragment] {
				t.Errorf("%s links to %s, which has no such heading", path, l[1])
			}
		}
	}
	if checked == 0 {
		t.Error("no link was found: mend the search")
	}
	t.Logf("%d links on %d pages", checked, len(pages))
}
