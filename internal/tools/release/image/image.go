package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

// platforms are those of an index, in its order.
var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// user runs the program. It is the id of no user of the host.
const user = "65532:65532"

// labels are those of an image and its index.
func labels(s recipe.Source, variant string) map[string]string {
	const home = "https://github.com/homeward-io/homeward"
	return map[string]string{
		"org.opencontainers.image.title":         variant,
		"org.opencontainers.image.description":   "The idempotency layer of a payments API, active-active across regions",
		"org.opencontainers.image.url":           home,
		"org.opencontainers.image.source":        home,
		"org.opencontainers.image.documentation": home + "/blob/main/docs/DEPLOYING.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.version":       s.Version,
		"org.opencontainers.image.revision":      s.Commit,
		"org.opencontainers.image.created":       s.Date.Format(time.RFC3339),
	}
}

// makeImage is the image of one program. The same program gives the same bytes: every time
// in it is that of the commit.
func makeImage(s recipe.Source, variant, program string, p v1.Platform) (v1.Image, error) {
	layer, err := rootfs(program, s.Date)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: s.Date}, CreatedBy: "internal/tools/release/image"},
	})
	if err != nil {
		return nil, err
	}
	c, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = p.OS, p.Architecture, v1.Time{Time: s.Date}
	c.Config = v1.Config{User: user, Entrypoint: []string{"/homeward"}, Labels: labels(s, variant)}
	if image, err = mutate.ConfigFile(image, c); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels(s, variant)).(v1.Image), nil
}

// makeIndex is the image of a variant for every platform; programs are by architecture.
func makeIndex(s recipe.Source, variant string, programs map[string]string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := makeImage(s, variant, programs[p.Architecture], p)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return mutate.Annotations(index, labels(s, variant)).(v1.ImageIndex), nil
}

// rootfs is the one layer: the program, whom to trust where the provider or the database
// speaks TLS, and a directory where a reconciliation and a proof of the books spread out what
// they compare.
func rootfs(program string, at time.Time) (v1.Layer, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	t := tar.NewWriter(&text)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"homeward", 0o755, binary},
		{"tmp/", 0o1777, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// authorities are Mozilla's, of the version in go.mod and not of the machine that builds.
// Those that it believes with conditions only are left out: a list cannot say them.
func authorities() []byte {
	var list bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			fmt.Fprintf(&list, "%s\n", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return list.Bytes()
}
