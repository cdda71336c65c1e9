package archtest

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every page of the docs, and every design document, is in the index.
func TestIndexesAreWhole(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, dir := range []string{"", "design/"} {
		pages, err := filepath.Glob(filepath.Join("../../docs", dir, "*.md"))
		if err != nil || len(pages) < 2 {
			t.Fatal(dir, err)
		}
		for _, page := range pages {
			name := dir + filepath.Base(page)
			if name != "README.md" && !strings.Contains(index, "]("+name+")") {
				t.Errorf("docs/README.md does not list %s", name)
			}
		}
	}
}

// A drawing is made from its source: what is written there can be read in it.
func TestDrawingsAreOfTheirSources(t *testing.T) {
	sources, _ := filepath.Glob("../../docs/images/*.d2")
	if len(sources) == 0 {
		t.Fatal("there is no source of a drawing")
	}
	label := regexp.MustCompile(`(?m)^[^#\n]*?: *"?([^"{\n]+?)"? *(?:\{.*)?$`)
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".d2")
		drawing := html.UnescapeString(read(t, "docs/images/"+name+".svg"))
		for _, m := range label.FindAllStringSubmatch(read(t, "docs/images/"+name+".d2"), -1) {
			if m[1] != "sequence_diagram" && !strings.Contains(drawing, m[1]) {
				t.Errorf("docs/images/%s.svg does not say %q: run make generate PICTURES=1", name, m[1])
			}
		}
	}
}
