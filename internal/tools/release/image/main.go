// Command image makes Homeward's images without an engine: an index of linux/amd64 and
// linux/arm64 for each variant, as an OCI layout. The same commit gives the same digest.
//
//	go run ./image [-variant homeward] [-o DIR] [-push ghcr.io/homeward-io]
//	go run ./image -binary FILE -load NAME
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

func main() {
	var o options
	flag.StringVar(&o.variant, "variant", strings.Join(recipe.Variants, ","), "which images")
	flag.StringVar(&o.out, "o", "", "directory for an OCI layout of each variant, such as dist/images; \"\" writes none")
	flag.StringVar(&o.push, "push", "", "push to REGISTRY/NAMESPACE, such as ghcr.io/homeward-io, with the version as tag; Docker's credentials are used")
	flag.StringVar(&o.binary, "binary", "", "a program for this machine that is built already; with -load")
	flag.StringVar(&o.load, "load", "", "hand one image for this machine to docker, under this name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct{ variant, out, push, binary, load string }

func run(ctx context.Context, o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q means nothing here; see -help", flag.Arg(0))
	}
	s, err := recipe.Find(ctx)
	if err != nil {
		return err
	}
	if o.load != "" {
		return load(ctx, s, o)
	}
	if o.binary != "" {
		return errors.New("-binary goes with -load: an index needs a program for each platform")
	}
	var digests strings.Builder
	for variant := range strings.SplitSeq(o.variant, ",") {
		index, err := build(ctx, s, variant)
		if err != nil {
			return err
		}
		digest, err := hand(ctx, s, variant, index, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(&digests, "%s@%s\n", variant, digest)
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(under(s, o.out), "digests.txt"), []byte(digests.String()), 0o644)
}

// build makes the programs of a variant, and its index of them.
func build(ctx context.Context, s recipe.Source, variant string) (v1.ImageIndex, error) {
	dir, err := os.MkdirTemp("", "homeward-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs := map[string]string{}
	for _, p := range platforms {
		file := filepath.Join(dir, p.Architecture)
		if err := s.Build(ctx, variant, p.Architecture, file); err != nil {
			return nil, err
		}
		programs[p.Architecture] = file
	}
	return makeIndex(s, variant, programs)
}

// hand writes and pushes an index, and says what it is.
func hand(ctx context.Context, s recipe.Source, variant string, index v1.ImageIndex, o options) (digest v1.Hash, err error) {
	if digest, err = index.Digest(); err != nil {
		return digest, err
	}
	fmt.Printf("%s %s\n", variant, digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		return digest, err
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return digest, err
		}
		packed, plain, err := sizes(image)
		if err != nil {
			return digest, err
		}
		fmt.Printf("  %s %s %.1f MB, %.1f to pull\n", m.Platform, m.Digest, plain, packed)
	}
	if o.out != "" {
		path := filepath.Join(under(s, o.out), variant)
		if err := os.RemoveAll(path); err != nil {
			return digest, err
		}
		to, err := layout.Write(path, empty.Index)
		if err != nil {
			return digest, err
		}
		if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag(s)})); err != nil {
			return digest, err
		}
		fmt.Printf("  in %s\n", path)
	}
	if o.push == "" {
		return digest, nil
	}
	ref, err := name.NewTag(o.push + "/" + variant + ":" + tag(s))
	if err != nil {
		return digest, err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return digest, err
	}
	fmt.Printf("  pushed to %s@%s\n", ref, digest)
	return digest, nil
}

// under is a directory that may be said relative to the repository.
func under(s recipe.Source, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.Root, dir)
}

// tag is the version as images have it: 1.2.3 of v1.2.3.
func tag(s recipe.Source) string { return strings.TrimPrefix(s.Version, "v") }

// sizes are those of the layers, in megabytes.
func sizes(image v1.Image) (packed, plain float64, err error) {
	layers, err := image.Layers()
	for _, l := range layers {
		var n int64
		if n, err = l.Size(); err != nil {
			return 0, 0, err
		}
		packed += float64(n) / 1e6
		r, err := l.Uncompressed()
		if err != nil {
			return 0, 0, err
		}
		if n, err = io.Copy(io.Discard, r); err != nil {
			return 0, 0, err
		}
		plain += float64(n) / 1e6
	}
	return packed, plain, err
}

// load hands the image of one program to the engine, which knows layouts of its own only.
func load(ctx context.Context, s recipe.Source, o options) error {
	if o.binary == "" {
		return errors.New("-load needs the program: -binary FILE")
	}
	image, err := makeImage(s, recipe.Variants[0], o.binary, v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return err
	}
	ref, err := name.NewTag(o.load)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "docker", "load", "--quiet")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	err = tarball.Write(ref, image, in)
	return errors.Join(err, in.Close(), cmd.Wait())
}
