package monitoring

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/homeward-io/homeward/internal/meter"
)

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// rules reads the rules of a file.
func rules(t *testing.T, path string) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return all
}

// Each alert has a section in docs/ALERTS.md with all its parts, and each section has an alert.
func TestEachAlertHasASection(t *testing.T) {
	page, err := os.ReadFile("../docs/ALERTS.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, a := range rules(t, "alerts.yaml") {
		section, ok := sections[a.Alert]
		if !ok {
			t.Errorf("docs/ALERTS.md has no section %s", a.Alert)
		}
		delete(sections, a.Alert)
		for _, part := range []string{"**Symptom**:", "**Money**:", "**First**:", "**Ends**:", "**" + a.Labels["severity"] + "**"} {
			if !strings.Contains(section, part) {
				t.Errorf("docs/ALERTS.md: the section of %s has no %s", a.Alert, part)
			}
		}
		if want := "/docs/ALERTS.md#" + strings.ToLower(a.Alert); !strings.HasSuffix(a.Annotations["runbook_url"], want) {
			t.Errorf("%s: runbook_url is %q; it ends in %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if s := a.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has severity %q; it is page or ticket", a.Alert, s)
		}
		if a.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("docs/ALERTS.md has a section %s without an alert", name)
	}
}

var names = regexp.MustCompile(`\b(homeward|db_client|http_server)_[a-z_]+|homeward:[a-z_]+:[a-z0-9_]+`)

// catalogue returns the name of every metric, label and record, as in PromQL.
func catalogue(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{"homeward_region": true, "homeward_node": true} // labels of every series
	for _, m := range meter.All() {
		there[m.Prometheus()] = true
		if m.Kind() == meter.KindHistogram {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				there[m.Prometheus()+part] = true
			}
		}
		for _, l := range m.Labels() {
			there[strings.ReplaceAll(string(l), ".", "_")] = true
		}
	}
	for _, r := range rules(t, "recording.yaml") {
		there[r.Record] = true
	}
	return there
}

// Each metric in a rule is in the catalogue or recorded.
func TestRulesNameExistingMetrics(t *testing.T) {
	there := catalogue(t)
	for _, r := range append(rules(t, "recording.yaml"), rules(t, "alerts.yaml")...) {
		for _, name := range names.FindAllString(r.Expr, -1) {
			if !there[name] {
				t.Errorf("%s%s names %s, which is no metric, label or record", r.Alert, r.Record, name)
			}
		}
	}
}

// TestEachAlertFiresAndIsSilent checks that the rules' test files have a case of each kind for
// every alert, and runs them if promtool is installed.
func TestEachAlertFiresAndIsSilent(t *testing.T) {
	var cases strings.Builder
	for _, path := range []string{"tests.yaml", "slow_tests.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cases.Write(text)
	}
	for _, a := range rules(t, "alerts.yaml") {
		for _, kind := range []string{" fires\n", " is silent\n"} {
			if !strings.Contains(cases.String(), "name: "+a.Alert+kind) {
				t.Errorf("no case in which %s%s", a.Alert, strings.TrimSuffix(kind, "\n"))
			}
		}
	}
	if testing.Short() {
		return // half a minute of Prometheus
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not on PATH; apt-get install prometheus")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "tests.yaml", "slow_tests.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
