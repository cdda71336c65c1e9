package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var regions = []string{"us-east1", "europe-west1", "asia-northeast1"}

// values writes the values of one region's release, with everything on that is off by
// default.
func values(t *testing.T, region string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `
region: %s
config: {provider: {kind: stripe, name: stripe, timeout: 80s}}
drain: 90s
secrets:
  database: {name: homeward-database}
  gossip: {name: homeward-gossip}
  seal: {name: homeward-seal}
  extra: {HOMEWARD_PROVIDER_KEY: {name: homeward-provider, key: key}}
database: {caSecret: homeward-database-ca}
service: {type: LoadBalancer}
ingress: {enabled: true, host: api.example.com, tlsSecret: public}
gateway: {enabled: true, parentRefs: [{name: edge}], hostnames: [api.example.com]}
networkPolicy: {egress: [{ports: [{port: 26257}, {port: 443}]}]}
autoscaling: {enabled: false}
monitoring: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}
image: {tag: v1}
peers:
`, region)
	for i, other := range regions {
		if other != region {
			fmt.Fprintf(&b, "  %s: {gossip: [\"homeward-homeward-peers.%s.svc:7946\"], cidrs: [\"10.%d.0.0/16\"]}\n", other, other, i+1)
		}
	}
	path := filepath.Join(t.TempDir(), region+".yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
