package deploy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What this kubelet reads of rendered objects. Names are Kubernetes'.
type (
	object struct {
		Kind     string `yaml:"kind"`
		Metadata struct {
			Name        string            `yaml:"name"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"metadata"`
		Spec struct {
			Replicas        int  `yaml:"replicas"`
			MinReadySeconds int  `yaml:"minReadySeconds"`
			ClusterIP       any  `yaml:"clusterIP"`
			Publish         bool `yaml:"publishNotReadyAddresses"`
			Strategy        struct {
				RollingUpdate struct {
					MaxSurge       int `yaml:"maxSurge"`
					MaxUnavailable int `yaml:"maxUnavailable"`
				} `yaml:"rollingUpdate"`
			} `yaml:"strategy"`
			Template struct {
				Metadata struct {
					Annotations map[string]string `yaml:"annotations"`
				} `yaml:"metadata"`
				Spec podSpec `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	podSpec struct {
		TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
		EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
		SecurityContext               struct {
			RunAsUser  uint32 `yaml:"runAsUser"`
			RunAsGroup uint32 `yaml:"runAsGroup"`
			FSGroup    uint32 `yaml:"fsGroup"`
		} `yaml:"securityContext"`
		InitContainers []any       `yaml:"initContainers"`
		Containers     []container `yaml:"containers"`
		Volumes        []volume    `yaml:"volumes"`

		annotations map[string]string // of the pod
	}
	container struct {
		Image   string   `yaml:"image"`
		Command []string `yaml:"command"`
		Args    []string `yaml:"args"`
		Env     []struct {
			Name      string `yaml:"name"`
			Value     string `yaml:"value"`
			ValueFrom *struct {
				FieldRef fieldRef `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		} `yaml:"env"`
		EnvFrom        []any           `yaml:"envFrom"`
		Ports          []containerPort `yaml:"ports"`
		StartupProbe   probe           `yaml:"startupProbe"`
		LivenessProbe  probe           `yaml:"livenessProbe"`
		ReadinessProbe probe           `yaml:"readinessProbe"`
		Lifecycle      struct {
			PreStop struct {
				Sleep struct {
					Seconds int `yaml:"seconds"`
				} `yaml:"sleep"`
			} `yaml:"preStop"`
		} `yaml:"lifecycle"`
		VolumeMounts []struct {
			Name      string `yaml:"name"`
			MountPath string `yaml:"mountPath"`
			SubPath   string `yaml:"subPath"`
		} `yaml:"volumeMounts"`
	}
	fieldRef struct {
		FieldPath string `yaml:"fieldPath"`
	}
	containerPort struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	}
	probe struct {
		HTTPGet struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		PeriodSeconds    int `yaml:"periodSeconds"`
		TimeoutSeconds   int `yaml:"timeoutSeconds"`
		FailureThreshold int `yaml:"failureThreshold"`
	}
	item struct {
		Key  string `yaml:"key"`
		Path string `yaml:"path"`
	}
	volume struct {
		Name        string `yaml:"name"`
		DownwardAPI *struct {
			Items []struct {
				Path     string   `yaml:"path"`
				FieldRef fieldRef `yaml:"fieldRef"`
			} `yaml:"items"`
		} `yaml:"downwardAPI"`
		Secret *struct {
			SecretName  string      `yaml:"secretName"`
			DefaultMode fs.FileMode `yaml:"defaultMode"`
			Items       []item      `yaml:"items"`
		} `yaml:"secret"`
		Projected *struct {
			DefaultMode fs.FileMode `yaml:"defaultMode"`
			Sources     []struct {
				Secret struct {
					Name  string `yaml:"name"`
					Items []item `yaml:"items"`
				} `yaml:"secret"`
			} `yaml:"sources"`
		} `yaml:"projected"`
		EmptyDir *struct{} `yaml:"emptyDir"`
	}
)

// build is a version of the product: its chart and its program, static as in the image.
type build struct{ version, chart, binary string }

// buildAt builds the program of the tree in dir.
func buildAt(t *testing.T, dir, version string) build {
	t.Helper()
	b := build{version, filepath.Join(dir, "helm/homeward"), filepath.Join(t.TempDir(), "homeward")}
	flags := "-s -w -X github.com/homeward-io/homeward/internal/build.version=" + version
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", flags, "-o", b.binary, "./cmd/homeward")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the build of %s: %v\n%s", version, err, out)
	}
	return b
}

// former builds what this version upgrades: the last release, from a worktree of its own, and as
// long as there is none this version under another name.
func former(t *testing.T) build {
	t.Helper()
	const root = "../.."
	if _, err := command(t, "", "git", "-C", root, "rev-parse", "HEAD^"); err != nil {
		if os.Getenv("DEPLOY_TOOLS") == "required" {
			t.Fatalf("the last release is looked for in the history, and there is none: %v", err)
		}
		t.Skipf("the last release is looked for in the history, and there is none: %v", err)
	}
	tag, err := command(t, "", "git", "-C", root, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	if err != nil {
		t.Logf("there is no release to upgrade from (%v): both versions are this one", err)
		return buildAt(t, root, "former")
	}
	tag = strings.TrimSpace(tag)
	dir := filepath.Join(t.TempDir(), "former")
	must(t, "", "git", "-C", root, "worktree", "add", "--detach", "--force", dir, tag)
	t.Cleanup(func() {
		if out, err := exec.Command("git", "-C", root, "worktree", "remove", "--force", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Logf("the former version is %s", tag)
	return buildAt(t, dir, "former-"+tag)
}

// render renders a release of a region and reads the objects.
func (b build) render(t *testing.T, region, values string, more ...string) []object {
	t.Helper()
	out := must(t, values, "helm", append([]string{"template", "homeward", b.chart, "-n", region, "-f", "-", "--set", "image.tag=" + b.version}, more...)...)
	var all []object
	for in := yaml.NewDecoder(strings.NewReader(out)); ; {
		var o object
		switch err := in.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			// Quantities and the like of kinds that are not read here may be of any type.
			t.Fatalf("the chart renders what cannot be read: %v", err)
		}
		all = append(all, o)
	}
}

// one is the object of a kind and name.
func one(t *testing.T, all []object, kind, name string) object {
	t.Helper()
	for _, o := range all {
		if o.Kind == kind && o.Metadata.Name == name {
			return o
		}
	}
	t.Fatalf("the chart renders no %s %s", kind, name)
	return object{}
}

// valuesOf returns the values of a region's release of the processes, as an operator with
// PostgreSQL, certificates and a simulator would write them.
func valuesOf(region, provider string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
region: %s
replicas: 2
preStopSeconds: 2
secrets:
  database: {name: homeward-database}
  gossip: {name: homeward-gossip}
  seal: {name: homeward-seal}
tls: {mode: existingSecret, existingSecret: {name: homeward-nodes}}
config:
  provider: {name: simulator, base_url: %q}
  database: {max_conns: 6}
migration: {enabled: %t, regions: ["us-east1=1", "europe-west1=2", "asia-northeast1=3"], secret: {name: homeward-owner}}
networkPolicy: {enabled: false}
peers:
`, region, provider, region == regions[0])
	for _, other := range regions {
		if other != region {
			fmt.Fprintf(&b, "  %s: {gossip: [\"homeward-peers.%s.example:7946\"], cidrs: [\"127.0.0.0/8\"]}\n", other, other)
		}
	}
	return b.String()
}
