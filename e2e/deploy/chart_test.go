package deploy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTheChartIsSound lints the chart and runs its unit tests, one for each option.
func TestTheChartIsSound(t *testing.T) {
	needs(t, "helm", "helm-unittest", "helm-docs")
	must(t, "", "helm", "lint", "--strict", chart, "-f", values(t, regions[0]))
	must(t, "", "helm-unittest", chart)
	now := must(t, "", "helm-docs", "--chart-search-root", chart, "--dry-run", "--log-level", "error")
	was := must(t, "", "cat", chart+"/README.md")
	if strings.TrimSpace(now) != strings.TrimSpace(was) {
		t.Error("helm/homeward/README.md does not match values.yaml; run helm-docs --chart-search-root helm/homeward")
	}
}

// TestOnARealControlPlane installs three regions in one cluster, each in a namespace of
// its own under restricted pod security, upgrades, rolls back and drains machines.
func TestOnARealControlPlane(t *testing.T) {
	c := newCluster(t)
	for _, r := range regions {
		c.apply(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: latest}}\n", r))
	}
	for _, r := range regions {
		file := values(t, r)
		rendered := must(t, "", "helm", "template", "homeward", chart, "-n", r, "-f", file, "--api-versions", "monitoring.coreos.com/v1")
		// helm's own dry run accepts what the server would refuse.
		if _, err := c.try(rendered, "apply", "-n", r, "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
			t.Fatalf("the API server refuses region %s: %v", r, err)
		}
		if out, err := c.helm("install", "homeward", chart, "-n", r, "-f", file, "--wait", "--timeout", "120s"); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, c.kubectl("-n", r, "get", "pods,events"))
		}
	}
	r := regions[0]
	if zones := c.zones(r); len(zones) != 3 {
		t.Errorf("three nodes stand in zones %v, not in three", zones)
	}

	// An upgrade to another version, and back.
	file := values(t, r)
	if _, err := c.helm("upgrade", "homeward", chart, "-n", r, "-f", file, "--set", "image.tag=v2", "--wait", "--timeout", "120s"); err != nil {
		t.Fatal(err)
	}
	if got := c.images(r); got != "ghcr.io/homeward-io/homeward:v2" {
		t.Errorf("after the upgrade nodes run %s", got)
	}
	if _, err := c.helm("rollback", "homeward", "1", "-n", r, "--wait", "--timeout", "120s"); err != nil {
		t.Fatal(err)
	}
	if got := c.images(r); got != "ghcr.io/homeward-io/homeward:v1" {
		t.Errorf("after the rollback nodes run %s", got)
	}

	// Machines are drained one by one while one node at most is away.
	for i := range machines / 2 {
		machine := fmt.Sprintf("machine-%d", i)
		c.kubectl("drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
		c.kubectl("-n", r, "rollout", "status", "deployment/homeward", "--timeout=120s")
		c.kubectl("uncordon", machine)
	}

	// With no machine for another, a second node is not taken.
	for i := range machines {
		c.kubectl("cordon", fmt.Sprintf("machine-%d", i))
	}
	pods := strings.Fields(c.kubectl("-n", r, "get", "pods", "-l", "app.kubernetes.io/name=homeward", "-o", "jsonpath={.items[*].metadata.name}"))
	if err := c.evict(r, pods[0]); err != nil {
		t.Fatal(err)
	}
	if err := c.evict(r, pods[1]); err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("a second node was taken while one was away: %v", err)
	}
}

func (c *cluster) evict(namespace, pod string) error {
	c.t.Helper()
	_, err := c.try(fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, namespace),
		"create", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", namespace, pod), "-f", "-")
	return err
}

// TestAnUpgradeNeedsNoMachineMore: a region has as many machines as nodes, of two cores each, as
// modules/region makes them. Of 2,000 millicores the kubelet keeps 70, and the programs of each
// machine and the cluster's DNS request 250 (EKS).
func TestAnUpgradeNeedsNoMachineMore(t *testing.T) {
	c := newCluster(t)
	for i := range machines {
		machine := fmt.Sprintf("machine-%d", i)
		if i%2 == 1 {
			c.kubectl("cordon", machine)
		}
		if _, err := c.try("", "patch", "node", machine, "--subresource=status", "--type=merge", "-p", `{"status":{"allocatable":{"cpu":"1680m"}}}`); err != nil {
			t.Fatal(err)
		}
	}
	r := regions[0]
	c.kubectl("create", "namespace", r)
	for _, tag := range []string{"v1", "v2"} {
		if out, err := c.helm("upgrade", "--install", "homeward", chart, "-n", r, "-f", values(t, r), "--set", "image.tag="+tag, "--wait", "--timeout", "120s"); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, c.kubectl("-n", r, "get", "pods,events"))
		}
	}
	if zones := c.zones(r); len(zones) != 3 {
		t.Errorf("three nodes stand in zones %v, not in three", zones)
	}
}

// TestMigrationsRunBeforeNodes installs with the migration's hook: its Job ends first.
func TestMigrationsRunBeforeNodes(t *testing.T) {
	c := newCluster(t)
	r := regions[0]
	c.kubectl("create", "namespace", r)
	if out, err := c.helm("install", "homeward", chart, "-n", r, "-f", values(t, r), "--set", "migration.enabled=true,migration.regions={us-east1=1,europe-west1=2,asia-northeast1=3},migration.secret.name=owner",
		"--wait", "--timeout", "120s"); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, c.kubectl("-n", r, "get", "pods,jobs,events"))
	}
	events := c.kubectl("-n", r, "get", "events", "--sort-by=.metadata.creationTimestamp", "-o", `jsonpath={range .items[*]}{.involvedObject.kind}/{.involvedObject.name} {.reason}{"\n"}{end}`)
	done, started := strings.Index(events, "Job/homeward-migrate Completed"), strings.Index(events, "Deployment/homeward ScalingReplicaSet")
	if done < 0 || started < 0 || started < done {
		t.Errorf("the migration did not end before the nodes began:\n%s", events)
	}
}

// zones are where a region's pods stand.
func (c *cluster) zones(namespace string) map[string]bool {
	c.t.Helper()
	zones := map[string]bool{}
	pods := c.kubectl("-n", namespace, "get", "pods", "-l", "app.kubernetes.io/name=homeward", "-o", "jsonpath={.items[*].spec.nodeName}")
	for machine := range strings.FieldsSeq(pods) {
		zones[c.kubectl("get", "node", machine, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)] = true
	}
	return zones
}

// images are what a region's ready pods run, each once.
func (c *cluster) images(namespace string) string {
	c.t.Helper()
	return c.kubectl("-n", namespace, "get", "deployment", "homeward", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

// everything is values with which each object of the chart is rendered.
const everything = `
autoscaling: {enabled: true}
ingress: {enabled: true, host: api.example.com, tlsSecret: public, className: nginx}
gateway: {enabled: true, parentRefs: [{name: edge}]}
migration: {enabled: true, regions: [us-east1=1, europe-west1=2, asia-northeast1=3], secret: {name: owner}}
peersService: {enabled: true, type: LoadBalancer}
monitoring: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}
`

// render is the chart with everything and a further value, as in a=b.
func render(t *testing.T, set string) (string, error) {
	t.Helper()
	return command(t, everything, "helm", "template", "homeward", chart, "-f", values(t, regions[0]), "-f", "-", "--set", set, "--api-versions", "monitoring.coreos.com/v1")
}

// TestAPortAloneIsChanged with the client's merge of helm 3 and kubectl apply: it takes items
// of a list for one that have one key, such as a port for TCP and UDP.
func TestAPortAloneIsChanged(t *testing.T) {
	needs(t, "helm", "threeway")
	dir := t.TempDir()
	was, now := filepath.Join(dir, "was.yaml"), filepath.Join(dir, "now.yaml")
	write := func(path, set string) {
		out, err := render(t, set)
		if err == nil {
			err = os.WriteFile(path, []byte(out), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(was, "replicas=3")
	for _, set := range []string{"ports.gossip=7947", "ports.rpc=7082", "ports.metrics=9465", "ports.api=8082", "service.port=8080"} {
		write(now, set)
		if out, err := command(t, "", "threeway", was, now); err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// TestNoValueRendersNull: a value that is null is refused, or its field is left out. Servers refuse
// an empty field, or take it for something else, after helm has accepted it.
func TestNoValueRendersNull(t *testing.T) {
	needs(t, "helm")
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, path := range slices.Sorted(maps.Keys(paths("", all))) {
		out, err := render(t, path+"=null")
		if err != nil {
			continue
		}
		rendered++
		for in := yaml.NewDecoder(strings.NewReader(out)); ; {
			var object map[string]any
			if err := in.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: null: %v", path, err)
			}
			for at, value := range paths("", object) {
				if value == nil {
					t.Errorf("%s: null renders %v with %s: null", path, object["kind"], at)
				}
			}
		}
	}
	if rendered == 0 {
		t.Error("helm has rendered nothing")
	}
}

// paths are all paths below value, as in a.b.0, with their values.
func paths(at string, value any) map[string]any {
	all := map[string]any{}
	below := func(name string, v any) {
		name = strings.TrimPrefix(at+"."+name, ".")
		all[name] = v
		maps.Copy(all, paths(name, v))
	}
	switch v := value.(type) {
	case map[string]any:
		for name, v := range v {
			below(name, v)
		}
	case []any:
		for i, v := range v {
			below(fmt.Sprint(i), v)
		}
	}
	return all
}
