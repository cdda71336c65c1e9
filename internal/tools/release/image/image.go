package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
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

// describe reads what the Dockerfile says of a variant.
func describe(s recipe.Source, variant string) (stage, error) {
	f, err := os.Open(filepath.Join(s.Root, "Dockerfile"))
	if err != nil {
		return stage{}, err
	}
	defer func() { _ = f.Close() }()
	return readStage(f, map[string]string{"VARIANT": variant, "VERSION": s.Version, "COMMIT": s.Commit, "DATE": s.Date.Format(time.RFC3339)})
}

// makeImage is the image of one program. The same program gives the same bytes: every time
// in it is that of the commit.
func makeImage(s recipe.Source, st stage, program string, p v1.Platform) (v1.Image, error) {
	layer, err := rootfs(program, s.Date)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: s.Date}, CreatedBy: "COPY " + copied},
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
	c.Config = v1.Config{User: st.user, Entrypoint: st.entrypoint, Labels: st.labels}
	if image, err = mutate.ConfigFile(image, c); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, st.labels).(v1.Image), nil
}

// makeIndex is the image of a variant for every platform; programs are by architecture.
func makeIndex(s recipe.Source, variant string, programs map[string]string) (v1.ImageIndex, error) {
	st, err := describe(s, variant)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := makeImage(s, st, programs[p.Architecture], p)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return mutate.Annotations(index, maps.Clone(st.labels)).(v1.ImageIndex), nil
}

// rootfs is what the Dockerfile's first stage puts into /rootfs: the program, whom to trust
// where the provider or the database speaks TLS, and a directory for temporary files.
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
