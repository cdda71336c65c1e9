package monitoring

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var writeDashboards = flag.Bool("write", false, "write dashboards/*.json")

// TestTheDashboardsAreCurrent compares dashboards/*.json with the code, and their
// expressions with the catalogue.
func TestTheDashboardsAreCurrent(t *testing.T) {
	there := catalogue(t)
	files := map[string]bool{}
	for _, d := range Dashboards() {
		want, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("dashboards", d.Name+".json")
		files[path] = true
		if *writeDashboards {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s does not match the code (%v); run go generate ./monitoring", path, err)
		}
		for _, e := range d.Exprs() {
			for _, name := range names.FindAllString(strings.ReplaceAll(e, "$homeward_", "$"), -1) {
				if !there[name] {
					t.Errorf("%s names %s, which is no metric, label or record", path, name)
				}
			}
		}
	}
	found, err := filepath.Glob("dashboards/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if !files[path] {
			t.Errorf("%s belongs to no dashboard", path)
		}
	}
}
