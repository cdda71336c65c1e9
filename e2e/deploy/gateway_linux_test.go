package deploy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/internal/node"
)

// TestThePagesGatewayIsDeployed renders the gateway of docs/GATEWAY.md, checks it against strict schemas,
// and reads its settings as a node does.
func TestThePagesGatewayIsDeployed(t *testing.T) {
	needs(t, "helm", "kubeconform")
	text := marked.Blocks(t, "docs/GATEWAY.md")[0]
	values := filepath.Join(t.TempDir(), "values.yaml")
	write(t, values, text)
	must(t, "", "helm", "lint", "--strict", chart, "-f", values)
	rendered := must(t, "", "helm", "template", "homeward", chart, "-f", values)
	out := must(t, rendered, "kubeconform", "-strict", "-summary", "-schema-location", filepath.Join(strictSchemas(t), "{{.ResourceKind}}{{.KindSuffix}}.json"))
	if !strings.Contains(out, "Invalid: 0, Errors: 0, Skipped: 0") || strings.Contains(out, "Summary: 0 ") {
		t.Errorf("kubeconform did not look at everything:\n%s", out)
	}
	if !strings.Contains(rendered, "port: 9000\n") {
		t.Error("the network policy does not let nodes reach the upstream")
	}

	objects := build{version: "v1", chart: chart}.render(t, regions[0], text)
	c := one(t, objects, "Deployment", "homeward").Spec.Template.Spec.Containers[0]
	probes := []string{c.StartupProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path}
	if want := []string{"/_homeward/livez", "/_homeward/livez", "/_homeward/readyz?exclude=region"}; !slices.Equal(probes, want) {
		t.Errorf("the probes ask %q, and not %q", probes, want)
	}
	settings := filepath.Join(t.TempDir(), "node.yaml")
	write(t, settings, one(t, objects, "Deployment", "homeward").Spec.Template.Metadata.Annotations["homeward.io/settings"])
	var environ []string
	for _, v := range c.Env {
		if !strings.HasSuffix(v.Name, "_FILE") { // whose files only a pod has
			environ = append(environ, v.Name+"="+strings.NewReplacer("$(POD_IP)", "10.1.2.3", "$(POD_NAME)", "homeward-1").Replace(v.Value))
		}
	}
	s, _, err := node.LoadServeSettings(settings, environ)
	if err != nil {
		t.Fatalf("a node refuses the settings: %v", err)
	}
	if !s.Gateway.On() || !s.Gateway.NeedsService() {
		t.Error("the settings have no gateway that recovers with credentials of its own")
	}
}
