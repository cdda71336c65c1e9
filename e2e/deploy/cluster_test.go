package deploy

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is installed in the cluster besides Kubernetes: definitions of what the chart
// makes objects of, and kwok's own.
const (
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	certManager        = "github.com/cert-manager/cert-manager@v1.21.2"
	gatewayAPI         = "sigs.k8s.io/gateway-api@v1.4.0"
	kwok               = "sigs.k8s.io/kwok@v0.8.0"
	kubernetes         = "k8s.io/kubernetes@v1.36.3"
	// machines stand in three zones, two in each.
	machines = 6
)

// cluster is a control plane on loopback.
type cluster struct {
	t      *testing.T
	config string // kubeconfig
}

// newCluster starts one, which ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	needs(t, "helm", "kubectl", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
	dir := t.TempDir()
	ports := freePorts(t, 6)
	etcd, peer, api, kcm, scheduler := ports[0], ports[1], ports[2], ports[3], ports[4]
	key := filepath.Join(dir, "accounts.key")
	write(t, key, privateKey(t))
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, "operator,operator,1,system:masters\n")
	c := &cluster{t: t, config: filepath.Join(dir, "kubeconfig")}
	write(t, c.config, fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: operator, user: {token: operator}}]
contexts: [{name: here, context: {cluster: here, user: operator}}]
current-context: here
`, api))
	program(t, dir, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", url(etcd), "--advertise-client-urls", url(etcd),
		"--listen-peer-urls", url(peer), "--initial-advertise-peer-urls", url(peer), "--initial-cluster", "default="+url(peer))
	program(t, dir, "kube-apiserver", "--etcd-servers", url(etcd), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", api),
		"--cert-dir", dir, "--token-auth-file", tokens, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file", key, "--service-account-signing-key-file", key)
	eventually(t, "the API server is ready", func() bool {
		_, err := c.try("", "get", "--raw", "/readyz")
		return err == nil
	})
	program(t, dir, "kube-controller-manager", "--kubeconfig", c.config, "--service-account-private-key-file", key, fmt.Sprintf("--secure-port=%d", kcm),
		"--bind-address=127.0.0.1", "--leader-elect=false")
	program(t, dir, "kube-scheduler", "--kubeconfig", c.config, fmt.Sprintf("--secure-port=%d", scheduler), "--bind-address=127.0.0.1", "--leader-elect=false")
	c.define()
	c.machines(dir)
	return c
}

func url(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func (c *cluster) try(stdin string, args ...string) (string, error) {
	return command(c.t, stdin, "kubectl", append([]string{"--kubeconfig", c.config}, args...)...)
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return must(c.t, "", "kubectl", append([]string{"--kubeconfig", c.config}, args...)...)
}

func (c *cluster) apply(objects string) {
	c.t.Helper()
	if _, err := c.try(objects, "apply", "--server-side", "--validate=strict", "-f", "-"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) helm(args ...string) (string, error) {
	return command(c.t, "", "helm", append([]string{"--kubeconfig", c.config}, args...)...)
}

// definitions are those that the chart's objects, and the page's, are of.
func definitions(t *testing.T) []string {
	t.Helper()
	operator := filepath.Join(module(t, prometheusOperator), "example/prometheus-operator-crd")
	manager := filepath.Join(module(t, certManager), "deploy/crds")
	return []string{
		filepath.Join(operator, "monitoring.coreos.com_podmonitors.yaml"),
		filepath.Join(operator, "monitoring.coreos.com_prometheusrules.yaml"),
		filepath.Join(manager, "cert-manager.io_certificates.yaml"),
		filepath.Join(manager, "cert-manager.io_clusterissuers.yaml"),
		filepath.Join(module(t, gatewayAPI), "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
	}
}

// define installs them.
func (c *cluster) define() {
	c.t.Helper()
	for _, path := range definitions(c.t) {
		c.kubectl("apply", "--server-side", "-f", path)
	}
	c.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
}

// machines are six made-up nodes, on which pods are ready at once.
func (c *cluster) machines(dir string) {
	c.t.Helper()
	stages := filepath.Join(module(c.t, kwok), "kustomize/stage")
	var config strings.Builder
	for _, pattern := range []string{"node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml", "pod/fast/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(stages, pattern))
		if err != nil || len(found) == 0 {
			c.t.Fatalf("kwok has no %s: %v", pattern, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				c.t.Fatal(err)
			}
			if strings.Contains(string(text), "kind: Stage") {
				config.WriteString("---\n" + string(text) + "\n")
			}
		}
	}
	path := filepath.Join(dir, "kwok.yaml")
	write(c.t, path, config.String())
	program(c.t, dir, "kwok", "--kubeconfig", c.config, "--config", path, "--manage-all-nodes", "--node-lease-duration-seconds=40")
	for i := range machines {
		c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata:
  name: machine-%d
  labels: {kubernetes.io/hostname: machine-%d, topology.kubernetes.io/zone: zone-%d}
`, i, i, i/2))
		if _, err := c.try("", "patch", "node", fmt.Sprintf("machine-%d", i), "--subresource=status", "--type=merge", "-p",
			`{"status":{"allocatable":{"cpu":"8","memory":"16Gi","pods":"110"},"capacity":{"cpu":"8","memory":"16Gi","pods":"110"}}}`); err != nil {
			c.t.Fatal(err)
		}
	}
	c.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
}
