// Package proto holds the definitions of the messages between nodes and of stored
// values, and the generator that turns them into internal/gen:
//
//	go generate ./internal/proto
//
// Everything is Go and comes with the module's own dependencies: the compiler is
// protocompile, the plugins are those of the module's protobuf and Connect versions,
// run by "go run". buf is not used, because as a Go module it adds half of Docker to
// go.sum, and protoc because it would have to be installed.
//
// The package is for the generator and its test; nothing in the service
// imports it.
package proto

//go:generate go run generate.go

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
)

// Compile compiles every .proto below root, in the order of their names, which are their paths
// relative to root. It keeps comments.
func Compile(ctx context.Context, root string) (linker.Files, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find definitions: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no .proto file below %s; run this in internal/proto", root)
	}
	slices.Sort(names)
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{root},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	return compiler.Compile(ctx, names...)
}
