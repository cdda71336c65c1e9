package archtest

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxDoor is how many lines the README may have: it is a door, and the pages behind it
// are the manual.
const maxDoor = 150

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheReadmeIsADoor(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > maxDoor {
		t.Errorf("README.md has %d lines, of %d: move what is not for a newcomer to docs/", n, maxDoor)
	}
}

// Every page of the docs, and every decision, is in its index.
func TestIndexesAreWhole(t *testing.T) {
	for dir, index := range map[string]string{"docs": "docs/README.md", "docs/adr": "docs/adr/README.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", dir, "*.md"))
		if err != nil || len(pages) < 2 {
			t.Fatal(dir, err)
		}
		text := read(t, index)
		for _, page := range pages {
			name := filepath.Base(page)
			if name != "README.md" && !strings.Contains(text, "]("+name+")") {
				t.Errorf("%s does not list %s", index, name)
			}
		}
	}
	decision := regexp.MustCompile(`^# (\d+)\. (.+)\n\nStatus: ((?:accepted|superseded)(?:,.*)?)\n`)
	later := regexp.MustCompile(`\[ADR (\d+)\]\((\d+)-[^)]+\)`)
	index := read(t, "docs/adr/README.md")
	decisions, _ := filepath.Glob("../../docs/adr/0*.md")
	for _, d := range decisions {
		name := filepath.Base(d)
		m := decision.FindStringSubmatch(read(t, "docs/adr/"+name))
		if m == nil || !strings.HasPrefix(name, strings.Repeat("0", 4-len(m[1]))+m[1]+"-") {
			t.Errorf("docs/adr/%s does not begin with its number, its title and a line `Status: accepted`, behind which `, amended by [ADR N](…) (…)` may stand", name)
			continue
		}
		// The index says what the status says: which later decisions amend this one.
		status, verb, _ := strings.Cut(m[3], ",")
		var by []string
		for _, l := range later.FindAllStringSubmatch(verb, -1) {
			if l[2] != strings.Repeat("0", 4-len(l[1]))+l[1] || l[2] <= name[:4] {
				t.Errorf("docs/adr/%s: ADR %s at %s is no later decision", name, l[1], l[2])
			}
			by = append(by, "["+l[1]+"]"+strings.TrimPrefix(l[0], "[ADR "+l[1]+"]"))
		}
		if (verb != "") != (len(by) > 0) || verb != "" && !strings.HasPrefix(verb, " amended by ") && !strings.HasPrefix(verb, " superseded by ") {
			t.Errorf("docs/adr/%s: the status names no later decision, or not as `, amended by [ADR N](…) (…)`", name)
		}
		if len(by) > 0 {
			status = strings.Join(strings.Fields(verb)[:2], " ") + " " + strings.Join(by, ", ")
		}
		if row := "| [" + m[1] + "](" + name + ") | " + m[2] + " | " + status + " |\n"; !strings.Contains(index, row) {
			t.Errorf("docs/adr/README.md has no row %q", row)
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
				t.Errorf("docs/images/%s.svg does not say %q: run make pictures", name, m[1])
			}
		}
	}
}
