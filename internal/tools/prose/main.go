// Command prose draws what people read of the code at random: doc comments of exported
// names, errors, log lines and help. With -pages it draws from what they read outside of
// it: Markdown, docs/node.yaml, make help and the alerts. Read the sample aloud; what makes
// you stop is mended with its siblings.
//
//	go -C internal/tools run ./prose -n 50 -seed 1
//	go -C internal/tools run ./prose -n 50 -seed 1 -pages
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// piece is one text for readers.
type piece struct{ kind, at, text string }

func main() {
	n := flag.Int("n", 50, "how many")
	seed := flag.Uint64("seed", 1, "the same seed draws the same sample of the same code")
	root := flag.String("root", "../..", "the repository")
	only := flag.String("only", "", "only of this kind: doc, error, log, help; of pages: page, setting, target, alert")
	outside := flag.Bool("pages", false, "draw from pages, settings, make help and alerts")
	flag.Parse()
	source := read
	if *outside {
		source = pages
	}
	all, err := source(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
	if *only != "" {
		all = slices.DeleteFunc(all, func(p piece) bool { return p.kind != *only })
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	sample := all[:min(*n, len(all))]
	slices.SortFunc(sample, func(a, b piece) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.at, b.at)) })
	for _, p := range sample {
		fmt.Printf("%s %s\n    %s\n", p.kind, p.at, strings.Join(strings.Fields(p.text), " "))
	}
	fmt.Printf("%d of %d, seed %d\n", len(sample), len(all), *seed)
}

func read(root string) (all []piece, err error) {
	files := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"gen", "node_modules", "testdata", ".git", "bin", "tools"}, d.Name())):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, piecesOf(files, root, file)...)
		return nil
	})
	return all, err
}

func piecesOf(files *token.FileSet, root string, file *ast.File) (all []piece) {
	add := func(kind string, at token.Pos, text string) {
		p := files.Position(at)
		name, err := filepath.Rel(root, p.Filename)
		if err != nil {
			name = p.Filename
		}
		if len(strings.Fields(text)) > 3 { // a word or two is a name
			all = append(all, piece{kind, fmt.Sprintf("%s:%d", name, p.Line), text})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Doc != nil && n.Name.IsExported() {
				add("doc", n.Pos(), n.Doc.Text())
			}
		case *ast.GenDecl:
			for _, s := range n.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.IsExported() && n.Doc != nil {
					add("doc", n.Pos(), n.Doc.Text())
				}
			}
		case *ast.Field:
			if n.Doc != nil && len(n.Names) > 0 && n.Names[0].IsExported() {
				add("doc", n.Pos(), n.Doc.Text())
			}
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				add("help", n.Pos(), reflect.StructTag(tag).Get("help"))
			}
		case *ast.CallExpr:
			if kind := kindOf(n); kind != "" {
				for _, arg := range n.Args {
					if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						text, _ := strconv.Unquote(lit.Value)
						add(kind, n.Pos(), text)
						break
					}
				}
			}
		}
		return true
	})
	return all
}

// kindOf says what a call does with its first text.
func kindOf(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	from, _ := sel.X.(*ast.Ident)
	switch name := sel.Sel.Name; {
	case from != nil && (from.Name == "fmt" && name == "Errorf" || from.Name == "errors" && name == "New"):
		return "error"
	case slices.Contains([]string{"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, name):
		return "log"
	}
	return ""
}
