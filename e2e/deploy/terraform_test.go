package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const terraform = "../../terraform"

// standIns are the providers, at the versions that their schemas were derived from.
var standIns = []string{"hashicorp/aws/6.66.0", "hashicorp/helm/3.1.2", "cockroachdb/cockroach/1.22.0"}

// tofu runs OpenTofu where the only providers are stand-ins, which have the schemas of the real
// ones and nothing else: see internal/tools/terraform/standin.
type tofu struct {
	t    *testing.T
	home string
}

func newTofu(t *testing.T) *tofu {
	needs(t, "tofu", "standin", "tflint", "terraform-docs")
	binary, err := exec.LookPath("standin")
	if err != nil {
		t.Fatal(err)
	}
	binary, err = filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, p := range standIns {
		part := strings.Split(p, "/")
		dir := filepath.Join(home, "mirror", "registry.opentofu.org", p, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(binary, filepath.Join(dir, "terraform-provider-"+part[1]+"_v"+part[2])); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(home, "tofurc")
	if err := os.WriteFile(config, []byte("provider_installation {\n  filesystem_mirror {\n    path = \""+filepath.Join(home, "mirror")+"\"\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TF_CLI_CONFIG_FILE", config)
	t.Setenv("CHECKPOINT_DISABLE", "1")
	// A copy, so that init leaves nothing behind: no lock file has the stand-ins' hashes.
	if err := os.CopyFS(filepath.Join(home, "repo", "terraform"), os.DirFS(terraform)); err != nil {
		t.Fatal(err)
	}
	return &tofu{t, filepath.Join(home, "repo", "terraform")}
}

func (o *tofu) try(dir string, args ...string) (string, error) {
	out, err := command(o.t, "", "tofu", append([]string{"-chdir=" + filepath.Join(o.home, dir)}, args...)...)
	return out, err
}

func (o *tofu) run(dir string, args ...string) string {
	o.t.Helper()
	out, err := o.try(dir, args...)
	if err != nil {
		o.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// roots are the directories that hold Terraform files: modules, and layers of examples.
func (o *tofu) roots() []string {
	o.t.Helper()
	var roots []string
	err := filepath.WalkDir(o.home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "main.tf" || d.Name() == "versions.tf" {
			dir, relErr := filepath.Rel(o.home, filepath.Dir(path))
			if relErr != nil {
				return relErr
			}
			if len(roots) == 0 || roots[len(roots)-1] != dir {
				roots = append(roots, dir)
			}
		}
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return roots
}

// TestTerraformIsSound checks the form, lints and validates every module and every layer of
// the examples against the providers' schemas, runs the modules' tests with mocked
// providers, and holds their pages against what they declare.
func TestTerraformIsSound(t *testing.T) {
	o := newTofu(t)
	if out, err := o.try(".", "fmt", "-check", "-recursive", "-diff"); err != nil {
		t.Errorf("run tofu fmt -recursive terraform:\n%s", out)
	}
	roots := o.roots()
	if len(roots) < 13 {
		t.Fatalf("only %d modules and layers were found: %v", len(roots), roots)
	}
	for _, dir := range roots {
		t.Run(dir, func(t *testing.T) {
			o := &tofu{t, o.home}
			o.run(dir, "init", "-backend=false", "-no-color")
			o.run(dir, "validate", "-no-color")
			if out, err := command(t, "", "tflint", "--no-color", "--chdir="+filepath.Join(o.home, dir)); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if strings.HasPrefix(dir, "modules/") {
				if out, err := command(t, "", "terraform-docs", "markdown", "table", "--lockfile=false", "--anchor=false", "--output-file", "README.md", "--output-check", filepath.Join(o.home, dir)); err != nil {
					t.Errorf("run terraform-docs markdown table --lockfile=false --anchor=false --output-file README.md terraform/%s: %v\n%s", dir, err, out)
				}
			}
			if tests, _ := filepath.Glob(filepath.Join(o.home, dir, "tests", "*.tftest.hcl")); len(tests) > 0 {
				o.run(dir, "test", "-no-color")
			} else if strings.HasPrefix(dir, "modules/") {
				t.Error("a module without tests")
			}
		})
	}
}

// TestTerraformHasTheProviders shows that what is wrong for the real provider is wrong here: an
// argument that there is not, a type, and something required that is missing.
func TestTerraformHasTheProviders(t *testing.T) {
	o := newTofu(t)
	const dir = "modules/region"
	o.run(dir, "init", "-backend=false", "-no-color")
	for _, c := range []struct{ name, file, was, is, says string }{
		{"an argument that is not there", "data.tf", "enable_key_rotation ", "enable_key_rotations ", `"enable_key_rotations" is not expected here`},
		{"a type", "network.tf", "map_public_ip_on_launch = false", "map_public_ip_on_launch = [1]", "bool required"},
		{"a missing argument", "eks.tf", "  role_arn                      = aws_iam_role.cluster.arn\n", "", `"role_arn" is required`},
		{"a block that is not there", "eks.tf", "  access_config {", "  access_configuration {", `Blocks of type "access_configuration" are not expected here`},
		{"a result that is not there", "outputs.tf", "aws_lb.public.zone_id", "aws_lb.public.zone", "no argument, nested block, or exported attribute named \"zone\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(o.home, dir, c.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Replace(string(text), c.was, c.is, 1)
			if wrong == string(text) {
				t.Fatalf("%s has no %q any more", c.file, c.was)
			}
			if err := os.WriteFile(path, []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := (&tofu{t, o.home}).try(dir, "validate", "-no-color")
			if err == nil || !strings.Contains(strings.Join(strings.Fields(err.Error()), " "), c.says) {
				t.Errorf("validate returns %v, and not %q\n%s", err, c.says, out)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTerraformsValuesFitTheChart gives the chart what modules/homeward gives it: its
// schema and its templates accept it, and ports are those that load balancers send to.
func TestTerraformsValuesFitTheChart(t *testing.T) {
	needs(t, "helm")
	o := newTofu(t)
	const dir = "modules/homeward"
	// The values need no provider, so a module of its own computes them for real.
	root := filepath.Join(o.home, "values")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"variables.tf", "main.tf"} {
		text, err := os.ReadFile(filepath.Join(o.home, dir, file))
		if err != nil {
			t.Fatal(err)
		}
		s, _, _ := strings.Cut(string(text), "\nresource ")
		if err := os.WriteFile(filepath.Join(root, file), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	valuesJSON, err := json.Marshal(map[string]any{
		"release": map[string]any{
			"region": "us-east-1", "aws_region": "us-east-1", "namespace": "homeward", "seal_url": "awskms://alias/homeward-seal",
			"node_ports": map[string]int{"api": 30081, "gossip": 30946},
			"secrets":    map[string]string{"database": "d", "database-owner": "o", "gossip": "g", "provider": "p", "provider-webhook": "w", "ca": "c"},
			"shared":     map[string]string{"buckets_region": "us-east-1", "bodies_bucket": "b", "audit_bucket": "a", "bucket_key_arn": "k", "seal_key_arn": "s"},
		},
		"peers":       map[string]any{"eu-west-1": map[string]any{"gossip": []string{"gossip.eu.example:7946"}, "cidrs": []string{"10.20.0.0/16"}}},
		"image":       map[string]string{"repository": "ghcr.io/homeward-io/homeward", "digest": "sha256:" + strings.Repeat("0", 64)},
		"database_ca": "-----BEGIN CERTIFICATE-----\n",
		"migration":   map[string]any{"enabled": true, "regions": []string{"us-east-1=1", "eu-west-1=2"}},
		"config":      map[string]any{"provider": map[string]any{"kind": "stripe", "name": "stripe", "base_url": "", "timeout": "80s"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"out.tf": "output \"values\" {\n  value = yamlencode(local.base)\n}\n", "terraform.tfvars.json": string(valuesJSON)} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.run("values", "init", "-no-color")
	o.run("values", "apply", "-auto-approve", "-no-color")
	values := o.run("values", "output", "-raw", "values")
	rendered := must(t, values, "helm", "template", "homeward", chart, "-n", "homeward", "-f", "-")
	for _, want := range []string{"nodePort: 30081", "nodePort: 30946", "externalTrafficPolicy: Local", "gossip.eu.example:7946", "secretName: homeward-database-ca", "@sha256:", "--regions=us-east-1=1,eu-west-1=2"} {
		if !strings.Contains(rendered, want) {
			t.Errorf("the chart renders no %q", want)
		}
	}
	secrets := must(t, "{awsRegion: us-east-1, ca: c, seal: 'awskms://alias/x', databaseCA: PEM, secrets: {homeward-database: d}}", "helm", "template", "s", filepath.Join(terraform, dir, "secrets"), "-f", "-")
	for _, want := range []string{"kind: SecretStore", "name: homeward-database\n", "type: kubernetes.io/tls", "kind: Issuer", "name: homeward-seal", "name: homeward-database-ca"} {
		if !strings.Contains(secrets, want) {
			t.Errorf("the secrets' chart renders no %q:\n%s", want, secrets)
		}
	}
}
