package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestTwoBuildsAreOneImage: the sources in another directory give the same digest. It is
// pushed, pulled and validated, and what is in it runs.
func TestTwoBuildsAreOneImage(t *testing.T) {
	ctx := t.Context()
	s := must[recipe.Source](t)(recipe.Find(ctx))
	first := must[v1.ImageIndex](t)(build(ctx, s, "homeward"))
	elsewhere := s
	elsewhere.Root = filepath.Join(t.TempDir(), "elsewhere")
	copySources(t, s.Root, elsewhere.Root)
	second := must[v1.ImageIndex](t)(build(ctx, elsewhere, "homeward"))
	digest := must[v1.Hash](t)(first.Digest())
	if again := must[v1.Hash](t)(second.Digest()); again != digest {
		t.Fatalf("two builds of one commit are %s and %s", digest, again)
	}

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	into := strings.TrimPrefix(server.URL, "http://") + "/homeward-io"
	out := t.TempDir()
	must[v1.Hash](t)(hand(ctx, s, "homeward", first, options{out: out, push: into}))
	ref := must[name.Digest](t)(name.NewDigest(into + "/homeward@" + digest.String()))
	pulled := must[v1.ImageIndex](t)(remote.Index(ref, remote.WithContext(ctx)))
	if err := validate.Index(pulled); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Head(must[name.Tag](t)(name.NewTag(into + "/homeward:" + tag(s)))); err != nil {
		t.Fatal(err)
	}
	manifest := must[*v1.IndexManifest](t)(pulled.IndexManifest())
	if len(manifest.Manifests) != 2 || manifest.Annotations["org.opencontainers.image.revision"] != s.Commit {
		t.Fatalf("%+v", manifest)
	}
	for _, m := range manifest.Manifests {
		image := must[v1.Image](t)(pulled.Image(m.Digest))
		c := must[*v1.ConfigFile](t)(image.ConfigFile())
		if c.Config.User != "65532:65532" || c.Config.Entrypoint[0] != "/homeward" || c.Config.Labels["org.opencontainers.image.version"] != s.Version ||
			c.Config.Labels["org.opencontainers.image.title"] != "homeward" || !c.Created.Equal(s.Date) || c.Architecture != m.Platform.Architecture {
			t.Errorf("%+v", c)
		}
		if m.Platform.Architecture == runtime.GOARCH && m.Platform.OS == runtime.GOOS {
			runs(t, s, extract(t, image))
		}
	}
}

// extract unpacks an image, and returns its directory.
func extract(t *testing.T, image v1.Image) string {
	dir := t.TempDir()
	r := mutate.Extract(image)
	defer func() { _ = r.Close() }()
	modes := map[string]int64{}
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
		to := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(to, data, 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if modes["tmp/"] != 0o1777 && modes["tmp"] != 0o1777 {
		t.Errorf("the program cannot write temporary files: %v", modes)
	}
	return dir
}

// runs asks the program of an image what it is.
func runs(t *testing.T, s recipe.Source, dir string) {
	said := must[[]byte](t)(exec.Command(filepath.Join(dir, "homeward"), "version", "--json").Output())
	var v struct{ Version, Commit, Date string }
	if err := json.Unmarshal(said, &v); err != nil || v.Version != s.Version || v.Commit != s.Commit || v.Date == "" {
		t.Errorf("%s: %v", said, err)
	}
	if said = must[[]byte](t)(exec.Command(filepath.Join(dir, "homeward"), "licenses").Output()); !strings.Contains(string(said), "MPL-2.0") {
		t.Errorf("%s", said)
	}
	trusted := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt")))
	if n := strings.Count(string(trusted), "BEGIN CERTIFICATE"); n < 80 {
		t.Errorf("%d authorities are trusted", n)
	}
}

// copySources copies what git knows of.
func copySources(t *testing.T, from, to string) {
	list := must[string](t)(recipe.Command(context.Background(), from, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"))
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // removed, and not committed yet; or a link of the chart's
		}
		var data []byte
		if err == nil {
			data, err = os.ReadFile(filepath.Join(from, name))
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
