package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/homeward-io/homeward/internal/archtest/marked"
)

const (
	examples = chart + "/examples"
	// catalogue is where the page has the schemas of definitions from.
	catalogue = "https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
	// withoutClouds takes the place of the example's bucket: the tests' build of homeward
	// opens none of a cloud's (TestDriversOfThisBuild).
	withoutClouds = "HOMEWARD_AUDIT__BUCKET=file:///tmp"
)

// page is the way to three regions in docs/DEPLOYING.md: what a reader copies.
type page struct {
	t                              *testing.T
	text                           string
	once, cluster, render, install []string // lines of shell
	dir                            string   // where they are run
	path                           string
}

// openPage reads the page and lays out what its reader has: the repository, and what is
// written by hand.
func openPage(t *testing.T) *page {
	t.Helper()
	needs(t, "helm", "kubeconform", "openssl")
	text, err := os.ReadFile("../../docs/DEPLOYING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, order, _ := strings.Cut(string(text), "\n## The order\n")
	order, _, _ = strings.Cut(order, "\n## ")
	p := &page{t: t, text: order, dir: t.TempDir()}
	var blocks [][]string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(order, -1) {
		blocks = append(blocks, strings.Split(m[1], "\n"))
	}
	if len(blocks) != 4 {
		t.Fatalf("the page has %d blocks of shell, and not those of secrets, of each cluster, of rendering and of installing", len(blocks))
	}
	p.once, p.cluster, p.render, p.install = blocks[0], blocks[1], blocks[2], blocks[3]
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "helm"), filepath.Join(p.dir, "helm")); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\| ").FindAllStringSubmatch(order, -1) {
		write(t, filepath.Join(p.dir, m[1]), "written by hand\n")
	}
	p.path = filepath.Dir(buildAt(t, root, "this").binary) + string(os.PathListSeparator) + os.Getenv("PATH")
	return p
}

// run runs lines of the page for a region, and stops at the first that fails. Schemas are
// those that are here.
func (p *page) run(lines []string, region, schemas string, environ ...string) string {
	p.t.Helper()
	script := strings.ReplaceAll(strings.Join(lines, "\n"), catalogue, schemas)
	script = strings.ReplaceAll(script, "-schema-location default ", "")
	cmd := exec.CommandContext(p.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), append([]string{"PATH=" + p.path, "REGION=" + region}, environ...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("the page's lines fail for %s: %v\n%s\n%s", region, err, script, out)
	}
	return string(out)
}

// TestTheExampleIsWhole renders the page's three regions with the page's own lines, checks
// them against strict schemas, and has homeward itself check their settings.
func TestTheExampleIsWhole(t *testing.T) {
	p := openPage(t)
	schemas := filepath.Join(strictSchemas(t), "{{.ResourceKind}}{{.KindSuffix}}.json")
	p.run(p.once, regions[0], schemas)
	for _, region := range regions {
		out := p.run(p.render, region, schemas, withoutClouds)
		if !strings.Contains(out, "Invalid: 0, Errors: 0, Skipped: 0") || strings.Contains(out, "Summary: 0 ") {
			t.Errorf("%s: kubeconform did not look at everything:\n%s", region, out)
		}
		for _, want := range []string{"region: " + region + "\n", "kind: stripe\n", "name: stripe\n", "drain: 1m30s\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the settings in effect have no %q:\n%s", region, want, out)
			}
		}
		rendered, err := os.ReadFile(filepath.Join(p.dir, region+".rendered.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^ +bucket: gs://`).Match(rendered) {
			t.Errorf("%s has no bucket for the audit", region)
		}
	}
	for _, file := range []string{"all-regions", regions[0], regions[1]} {
		text, err := os.ReadFile(filepath.Join(examples, file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.text, "```yaml\n"+string(text)+"```\n") {
			t.Errorf("docs/DEPLOYING.md does not show %s/%s.yaml as it is", examples, file)
		}
	}
	p.fits()
}

// fits checks what no single rendering shows: that regions say the same of each other, and
// that every Secret that is named is made by the page's lines.
func (p *page) fits() {
	p.t.Helper()
	declared := map[string]string{}
	made := strings.Join(p.cluster, "\n")
	secret := regexp.MustCompile(`\{name: ([a-z-]+), key: ([a-z-]+)\}`)
	for _, file := range append([]string{"all-regions"}, regions...) {
		text, err := os.ReadFile(filepath.Join(examples, file+".yaml"))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, m := range secret.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`secret generic ` + m[1] + ` .*--from-file=` + m[2] + `=`).MatchString(made) {
				p.t.Errorf("%s names key %s of the Secret %s, which no line of the page makes", file, m[2], m[1])
			}
		}
		var v struct {
			Region string
			Peers  map[string]any
		}
		if err := yaml.Unmarshal(text, &v); err != nil {
			p.t.Fatal(err)
		}
		if file == "all-regions" {
			continue
		}
		if v.Region != file || len(v.Peers) != len(regions)-1 {
			p.t.Errorf("%s.yaml is of region %q with %d peers", file, v.Region, len(v.Peers))
		}
		for name, peer := range v.Peers {
			if !slices.Contains(regions, name) {
				p.t.Errorf("%s has a peer %s, which is no region", file, name)
			}
			if is := fmt.Sprint(peer); declared[name] == "" {
				declared[name] = is
			} else if declared[name] != is {
				p.t.Errorf("%s has for %s %s, and another region %s", file, name, is, declared[name])
			}
		}
	}
}

// TestThePageIsFollowed goes the page's way on a real control plane: Secrets, the API
// server's own check of what is rendered, and the first region's release.
func TestThePageIsFollowed(t *testing.T) {
	p := openPage(t)
	c := newCluster(t)
	c.kubectl("create", "namespace", "cert-manager")
	schemas := filepath.Join(strictSchemas(t), "{{.ResourceKind}}{{.KindSuffix}}.json")
	for _, block := range marked.Blocks(t, "docs/DEPLOYING.md") {
		out := p.run([]string{block}, regions[0], schemas, "KUBECONFIG="+c.config, withoutClouds)
		t.Log(out)
	}
	if got := c.kubectl("-n", "homeward", "get", "deployment", "homeward", "-o", "jsonpath={.status.readyReplicas}"); got != "3" {
		t.Errorf("%s nodes are ready, not 3", got)
	}
	p.operate(c, marked.Blocks(t, "docs/RUNBOOK.md"))
	for _, region := range regions[1:] {
		p.run(p.render, region, schemas, withoutClouds)
		c.kubectl("apply", "-n", "homeward", "--dry-run=server", "--validate=strict", "-f", filepath.Join(p.dir, region+".rendered.yaml"))
	}
}

// operate runs the runbook's lines "On Kubernetes", and first their blocks, on what the page has
// installed.
func (p *page) operate(c *cluster, lines []string) {
	p.t.Helper()
	needs(p.t, "jq")
	text, err := os.ReadFile("../../docs/RUNBOOK.md")
	if err != nil {
		p.t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## On Kubernetes\n")
	part, _, _ = strings.Cut(part, "\n## ")
	blocks := len(lines)
	for _, m := range regexp.MustCompile("`(kubectl -n homeward (?:rollout|scale|wait) [^`]+)`").FindAllStringSubmatch(part, -1) {
		lines = append(lines, m[1])
	}
	if len(lines) != blocks+4 {
		p.t.Fatalf("the runbook restarts and stops nodes with other lines: %q", lines[blocks:])
	}
	p.run(lines, regions[0], "", "KUBECONFIG="+c.config)
	if got := c.kubectl("-n", "homeward", "get", "pod", "homeward-tool", "-o", "jsonpath={.spec.containers[0].args}"); got != `["restore","show"]` {
		p.t.Errorf("the tool's pod runs %s", got)
	}
	if c.kubectl("-n", "homeward", "get", "pod", "homeward-tool", "-o", `jsonpath={.metadata.annotations.homeward\.io/settings}`) == "" {
		p.t.Error("the tool's pod has no settings")
	}
}

// strictSchemas writes schemas that refuse unknown members, of Kubernetes' own kinds and of the
// chart's other objects.
func strictSchemas(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	keep := func(kind, suffix string, schema any) {
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, strings.ToLower(kind)+suffix+".json"), string(text))
	}
	specs := filepath.Join(module(t, kubernetes), "api/openapi-spec/v3")
	for _, of := range []struct{ file, group, kinds string }{
		{"api__v1", "", "ConfigMap Service ServiceAccount"}, {"apis__apps__v1", "apps", "Deployment"}, {"apis__batch__v1", "batch", "Job"},
		{"apis__networking.k8s.io__v1", "networking", "NetworkPolicy Ingress"}, {"apis__policy__v1", "policy", "PodDisruptionBudget"},
	} {
		var spec struct {
			Components struct {
				Schemas map[string]map[string]any
			}
		}
		readYAML(t, filepath.Join(specs, of.file+"_openapi.json"), &spec)
		strict(spec.Components.Schemas)
		for name := range spec.Components.Schemas {
			kind := name[strings.LastIndex(name, ".")+1:]
			if strings.HasPrefix(name, "io.k8s.api.") && slices.Contains(strings.Fields(of.kinds), kind) {
				suffix := strings.ReplaceAll("-"+of.group+"-v1", "--", "-")
				keep(kind, suffix, map[string]any{"$ref": "#/components/schemas/" + name, "components": map[string]any{"schemas": spec.Components.Schemas}})
			}
		}
	}
	for _, path := range definitions(t) {
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						OpenAPIV3Schema map[string]any `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		readYAML(t, path, &crd)
		group, _, _ := strings.Cut(crd.Spec.Group, ".")
		for _, v := range crd.Spec.Versions {
			strict(v.Schema.OpenAPIV3Schema)
			// What every object has, and a definition does not say.
			delete(v.Schema.OpenAPIV3Schema["properties"].(map[string]any)["metadata"].(map[string]any), "additionalProperties")
			keep(crd.Spec.Names.Kind, "-"+group+"-"+v.Name, v.Schema.OpenAPIV3Schema)
		}
	}
	return dir
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// strict lets no schema below v take a property that it does not name.
func strict(v any) {
	switch v := v.(type) {
	case map[string]map[string]any:
		for _, one := range v {
			strict(one)
		}
	case map[string]any:
		_, named := v["properties"].(map[string]any)
		_, open := v["additionalProperties"]
		if open = open || v["x-kubernetes-preserve-unknown-fields"] == true; named && !open {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			strict(one)
		}
	case []any:
		for _, one := range v {
			strict(one)
		}
	}
}
