//go:build ignore

// Command generate writes internal/gen from the definitions in internal/proto.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	definitions "github.com/homeward-io/homeward/internal/proto"
)

const (
	definitionsDir = "." // go generate runs in the package's directory
	outputDir      = "../gen"
	// module makes the plugins name files relative to internal/gen, by go_package.
	module = "module=github.com/homeward-io/homeward/internal/gen"
)

var plugins = []string{
	"google.golang.org/protobuf/cmd/protoc-gen-go",
	"connectrpc.com/connect/cmd/protoc-gen-connect-go",
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	files, err := definitions.Compile(ctx, definitionsDir)
	if err != nil {
		return err
	}
	req := &pluginpb.CodeGeneratorRequest{Parameter: proto.String(module)}
	seen := make(map[string]bool)
	for _, f := range files {
		req.FileToGenerate = append(req.FileToGenerate, f.Path())
		req.ProtoFile = appendWithImports(req.ProtoFile, f, seen)
	}
	// Everything is generated before anything is written.
	written := make(map[string]string)
	for _, plugin := range plugins {
		resp, err := runPlugin(ctx, plugin, req)
		if err != nil {
			return err
		}
		for _, f := range resp.File {
			written[f.GetName()] = f.GetContent()
		}
	}
	for name, content := range written {
		if err := replace(filepath.Join(outputDir, filepath.FromSlash(name)), content); err != nil {
			return err
		}
	}
	return removeStale(written)
}

// replace writes a file atomically, and leaves an equal one alone, so that a concurrent
// build never sees a part of it.
func replace(path, content string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == content {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// removeStale removes generated files without a definition. It leaves any other file alone.
func removeStale(written map[string]string) error {
	return filepath.WalkDir(outputDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasSuffix(path, ".pb.go") && !strings.HasSuffix(path, ".connect.go") {
			return nil
		}
		name, err := filepath.Rel(outputDir, path)
		if err != nil {
			return err
		}
		if _, current := written[filepath.ToSlash(name)]; current {
			return nil
		}
		return os.Remove(path)
	})
}

// appendWithImports appends f after everything that it imports, which is the
// order that plugins expect.
func appendWithImports(to []*descriptorpb.FileDescriptorProto, f protoreflect.FileDescriptor, seen map[string]bool) []*descriptorpb.FileDescriptorProto {
	if seen[f.Path()] {
		return to
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		to = appendWithImports(to, f.Imports().Get(i).FileDescriptor, seen)
	}
	return append(to, protodesc.ToFileDescriptorProto(f))
}

func runPlugin(ctx context.Context, plugin string, req *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "run", plugin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", plugin, err)
	}
	resp := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out.Bytes(), resp); err != nil {
		return nil, fmt.Errorf("%s: %w", plugin, err)
	}
	if resp.Error != nil {
		return nil, fmt.Errorf("%s: %s", plugin, resp.GetError())
	}
	return resp, nil
}
