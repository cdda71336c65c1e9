package archtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesInTheDocsExist: the settings, errors and metrics that pages name are there.
// Commands and flags have a test of their own, in internal/cli.
func TestNamesInTheDocsExist(t *testing.T) {
	settings, sections := settings(t)
	errors, metrics := read(t, "docs/ERRORS.md"), read(t, "docs/METRICS.md")
	dotted := regexp.MustCompile("`([a-z_]+)((?:\\.[a-z_]+)+)(?:: [^`]*)?`")
	failure := regexp.MustCompile("\\b[45]\\d\\d `([a-z_]+)`")
	others := []string{"tls.crt", "tls.key", "gateway.timeout"} // of Kubernetes' secrets, and the chart's
	found := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range dotted.FindAllStringSubmatch(text, -1) {
			name := m[1] + m[2]
			switch {
			case slices.Contains(others, name) || strings.HasSuffix(name, ".com") || strings.HasSuffix(name, ".yaml"):
			case slices.Contains(sections, m[1]):
				if found++; !slices.Contains(settings, name) {
					t.Errorf("%s names the setting %s, which docs/node.yaml has not", page, name)
				}
			case m[1] == "homeward" && strings.Count(m[2], ".") > 1: // homeward.object is a span's
				if found++; !strings.Contains(metrics, "### "+name+"\n") {
					t.Errorf("%s names the metric %s, which docs/METRICS.md has not", page, name)
				}
			}
		}
		for _, m := range failure.FindAllStringSubmatch(text, -1) {
			// Stripe's types of errors end so.
			if found++; !strings.Contains(errors, "\n## "+m[1]+"\n") && !strings.HasSuffix(m[1], "_error") {
				t.Errorf("%s names the error %s, which docs/ERRORS.md has not", page, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names were found: mend the search", found)
	}
}

// settings are the names in docs/node.yaml, which a test of internal/node holds to the
// code, and those of its sections.
func settings(t *testing.T) (names, sections []string) {
	t.Helper()
	member := regexp.MustCompile(`(?m)^( *)([a-z_]+):( .*)?$`)
	var path []string
	for _, m := range member.FindAllStringSubmatch(read(t, "docs/node.yaml"), -1) {
		path = append(path[:len(m[1])/2], m[2])
		names = append(names, strings.Join(path, "."))
		if m[1] == "" && m[3] == "" {
			sections = append(sections, m[2])
		}
	}
	if len(sections) < 10 {
		t.Fatalf("docs/node.yaml has the sections %v: mend the search", sections)
	}
	return names, sections
}

// pages are those that people read: all of Markdown, but for what benchmarks write.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"node_modules", "bin", "dist"}, d.Name()) || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(path) == ".md" && d.Name() != "BENCHMARKS.md":
			name, err := filepath.Rel("../..", path)
			all = append(all, filepath.ToSlash(name))
			return err
		}
		return nil
	})
	if err != nil || len(all) < 30 {
		t.Fatal(all, err)
	}
	return all
}
