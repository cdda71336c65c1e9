package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"go.yaml.in/yaml/v3"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

// run runs a program in dir, with env besides its own.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := try(dir, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func try(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// signer is a key, and the list of who may sign that it is in.
func signer(t *testing.T) (key, signers string) {
	t.Helper()
	dir := t.TempDir()
	key, signers = filepath.Join(dir, "key"), filepath.Join(dir, "allowed_signers")
	run(t, dir, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	write(t, signers, `releases@homeward.io namespaces="file" `+string(public))
	return key, signers
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyFindsWhatWasChanged: a file, the list of sums, the signature, who signed, and
// that there is nothing to verify.
func TestVerifyFindsWhatWasChanged(t *testing.T) {
	key, signers := signer(t)
	other, others := signer(t)
	fresh := func() string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "homeward_1.0.0_linux_amd64.tar.gz"), "an archive")
		write(t, filepath.Join(dir, "homeward_1.0.0_linux_arm64.tar.gz"), "another one")
		sums := run(t, dir, nil, "sh", "-c", "sha256sum *.tar.gz || shasum -a 256 *.tar.gz")
		write(t, filepath.Join(dir, "checksums.txt"), sums)
		run(t, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", "checksums.txt")
		return dir
	}
	if out, err := try(".", nil, "sh", "verify.sh", fresh(), signers); err != nil || !strings.Contains(out, "Good") || !strings.Contains(out, "linux_arm64.tar.gz: OK") {
		t.Fatalf("what is good is refused: %v\n%s", err, out)
	}
	one := fresh()
	if err := os.Remove(filepath.Join(one, "homeward_1.0.0_linux_arm64.tar.gz")); err != nil {
		t.Fatal(err)
	}
	run(t, ".", nil, "sh", "verify.sh", one, signers) // one of many was downloaded
	for name, change := range map[string]func(dir string){
		"an archive": func(dir string) { write(t, filepath.Join(dir, "homeward_1.0.0_linux_amd64.tar.gz"), "a forgery") },
		"the sums": func(dir string) {
			write(t, filepath.Join(dir, "checksums.txt"), "00  homeward_1.0.0_linux_amd64.tar.gz\n")
		},
		"the signature": func(dir string) { write(t, filepath.Join(dir, "checksums.txt.sig"), "none") },
		"the signer": func(dir string) {
			if err := os.Remove(filepath.Join(dir, "checksums.txt.sig")); err != nil {
				t.Fatal(err)
			}
			run(t, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-f", other, "-n", "file", "checksums.txt")
		},
		"all archives": func(dir string) {
			for _, a := range []string{"amd64", "arm64"} {
				if err := os.Remove(filepath.Join(dir, "homeward_1.0.0_linux_"+a+".tar.gz")); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		dir := fresh()
		change(dir)
		if out, err := try(".", nil, "sh", "verify.sh", dir, signers); err == nil {
			t.Errorf("%s was changed, and it is verified:\n%s", name, out)
		}
	}
	if out, err := try(".", nil, "sh", "verify.sh", fresh(), others); err == nil {
		t.Errorf("it verifies with the list of another project:\n%s", out)
	}
}

// TestARelease makes one of this machine's platform with the configuration of all: goreleaser
// checks that, builds, packs, writes the bill, sums and signs, and publishes nothing. A second one
// has the same sums.
func TestARelease(t *testing.T) {
	goreleaser := os.Getenv("GORELEASER")
	if goreleaser == "" {
		t.Skip("GORELEASER names no goreleaser: make release-check")
	}
	root, err := recipe.Root()
	if err != nil {
		t.Fatal(err)
	}
	key, signers := signer(t)
	work := t.TempDir()
	flags := strings.TrimSpace(run(t, root, nil, "sh", "internal/build/flags.sh"))
	// A clone without a remote is one that goreleaser knows no commit of.
	env := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=remote.origin.url", "GIT_CONFIG_VALUE_0=https://github.com/homeward-io/homeward.git", "PATH=" + filepath.Dir(goreleaser) + ":" + os.Getenv("PATH"), "FLAGS=" + flags, "FLAGS_CLOUD=" + flags, "HOMEWARD_RELEASE_KEY=" + key}
	run(t, root, env, goreleaser, "check", "--quiet")
	write(t, filepath.Join(work, "notes.md"), "- notes\n")

	var sums []string
	// Within the repository, where a release's is, too.
	check := filepath.Join(root, "dist", "check")
	defer func() { _ = os.RemoveAll(check) }()
	for _, dist := range []string{filepath.Join(check, "one"), filepath.Join(check, "two")} {
		config := filepath.Join(work, "config.yaml")
		write(t, config, here(t, root, dist))
		run(t, root, env, goreleaser, "release", "--config", config, "--clean", "--snapshot", "--skip=publish", "--release-notes", filepath.Join(work, "notes.md"), "--parallelism", "2")
		run(t, ".", nil, "sh", "verify.sh", dist, signers)
		text, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
		if len(sums) == 1 {
			judge(t, dist)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases of one commit:\n%s\n%s", sums[0], sums[1])
	}
}

// here is the configuration for the program without clouds, on this platform alone.
func here(t *testing.T, root, dist string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	c["dist"] = dist
	for _, of := range []string{"builds", "archives", "sboms"} {
		c[of] = slices.DeleteFunc(c[of].([]any), func(one any) bool { return one.(map[string]any)["id"] != "homeward" })
		if len(c[of].([]any)) != 1 {
			t.Fatalf("%s has no homeward", of)
		}
	}
	build := c["builds"].([]any)[0].(map[string]any)
	build["goos"], build["goarch"] = []string{runtime.GOOS}, []string{runtime.GOARCH}
	for _, of := range []string{"checksum", "release"} {
		delete(c[of].(map[string]any), "extra_files") // digests of images, which .ci/release makes
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// judge looks at what a release has for this platform.
func judge(t *testing.T, dist string) {
	t.Helper()
	s, err := recipe.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit, date := s.Commit, s.Date.Format(time.RFC3339)
	archives, err := filepath.Glob(filepath.Join(dist, "homeward_*_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v: %v", archives, err)
	}
	dir := t.TempDir()
	run(t, dir, nil, "tar", "-xzf", archives[0])
	for _, f := range []string{"LICENSE", "CHANGELOG.md", "node.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	said := run(t, dir, nil, "./homeward", "version")
	version := strings.Fields(said)[1]
	if !strings.HasPrefix(version, "v") || !strings.Contains(said, commit) || !strings.Contains(said, date) || !strings.Contains(filepath.Base(archives[0]), version[1:]) {
		t.Errorf("%s says %s", archives[0], said)
	}
	text, err := os.ReadFile(strings.Replace(archives[0], ".tar.gz", ".cdx.json", 1))
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "github.com/homeward-io/homeward" || c.Version != version {
		t.Errorf("%+v", c)
	}
	// As many as the program itself says, without itself and what is no module. Their licences
	// are in the program.
	lines := strings.Count(strings.TrimSpace(run(t, dir, nil, "./homeward", "licenses")), "\n") + 1
	if n := len(*bom.Components); n != lines-2 {
		t.Errorf("the bill has %d modules, homeward licenses has %d lines", n, lines)
	}
	for _, c := range *bom.Components {
		if c.Name != "std" && c.Hashes == nil || !strings.HasPrefix(c.PackageURL, "pkg:golang/") {
			t.Errorf("%+v", c)
		}
	}
}

// TestNotesAreTheSectionOfAVersion, which must say something.
func TestNotesAreTheSectionOfAVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	write(t, file, "# Changelog\n\n## [Unreleased]\n\n## [1.10.0] - 2026-11-30\n\n### Added\n\n- This.\n\n## [1.1.0] - 2026-10-01\n\n- That.\n")
	for version, want := range map[string]string{"v1.10.0": "### Added\n\n- This.\n\n", "v1.1.0": "- That.\n"} {
		if said := run(t, ".", nil, "sh", "notes.sh", version, file); strings.TrimSpace(said) != strings.TrimSpace(want) {
			t.Errorf("%s: %q", version, said)
		}
	}
	for _, version := range []string{"Unreleased", "v1.2.0", "v1.1", "v1.1x0"} {
		if said, err := try(".", nil, "sh", "notes.sh", version, file); err == nil || !strings.Contains(said, "CHANGELOG.md") {
			t.Errorf("%s: %q, %v", version, said, err)
		}
	}
}
