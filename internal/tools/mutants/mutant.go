package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// room is a directory with its mutants, and the suites to run on them, the fastest first.
type room struct {
	dir     string
	suites  []suite
	mutants []mutant
}

// suite is the tests of a package.
type suite struct {
	dir string
	run string // as of go test
	sql bool   // on a PostgreSQL
}

func (s suite) String() string { return strings.TrimSpace(s.dir + " " + s.run) }

// mutant replaces one node of the syntax tree.
type mutant struct {
	name string
	// at names a declaration of the room, as "Settle" or "Record.LeaseLapsed", or one of
	// its clauses, as "Settle case *Unsent". Or it is the path of a file of SQL.
	at string
	// from is the expression or statement there, whatever its white space. There is exactly
	// one. In SQL it is a piece of the text.
	from string
	to   string // "" removes a statement
}

// apply returns the path of the file that m changes, and what the file becomes.
func (m mutant) apply(root, dir string) (path string, mutated []byte, err error) {
	if filepath.Ext(m.at) == ".sql" {
		path = filepath.Join(root, dir, m.at)
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		if n := bytes.Count(text, []byte(m.from)); n != 1 {
			return "", nil, fmt.Errorf("%s has %q %d times", m.at, m.from, n)
		}
		return path, bytes.Replace(text, []byte(m.from), []byte(m.to), 1), nil
	}
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return "", nil, err
	}
	name, clause, _ := strings.Cut(m.at, " case ")
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && nameOf(f) == name {
				s := source{text, files}
				mutated, err := s.replace(s.clause(f.Body, clause), m.from, m.to)
				if err != nil {
					return "", nil, fmt.Errorf("%s: %w", m.at, err)
				}
				_, err = parser.ParseFile(token.NewFileSet(), path, mutated, 0)
				return path, mutated, err
			}
		}
	}
	return "", nil, fmt.Errorf("%s has no function %s", dir, name)
}

// nameOf is the name of a function, with that of its receiver's type.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch is := t.(type) {
		case *ast.StarExpr:
			t = is.X
		case *ast.IndexExpr:
			t = is.X
		case *ast.IndexListExpr:
			t = is.X
		case *ast.Ident:
			return is.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

type source struct {
	text  []byte
	files *token.FileSet
}

func (s source) span(n ast.Node) (from, to int) {
	return s.files.Position(n.Pos()).Offset, s.files.Position(n.End()).Offset
}

// clause returns the clause of body with this list of expressions; body itself for "", and
// nil if there is none.
func (s source) clause(body ast.Node, list string) (found ast.Node) {
	if list == "" {
		return body
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok && len(c.List) > 0 {
			from, _ := s.span(c.List[0])
			_, to := s.span(c.List[len(c.List)-1])
			if squeezed(string(s.text[from:to])) == squeezed(list) {
				found = c
			}
		}
		return found == nil
	})
	return found
}

// replace puts another text in the place of the one node of within that reads so.
func (s source) replace(within ast.Node, what, by string) ([]byte, error) {
	type place struct{ from, to int }
	var places []place
	if within != nil {
		ast.Inspect(within, func(n ast.Node) bool {
			_, statement := n.(ast.Stmt)
			_, expression := n.(ast.Expr)
			if !statement && !expression {
				return true
			}
			p := place{}
			p.from, p.to = s.span(n)
			if squeezed(string(s.text[p.from:p.to])) != squeezed(what) {
				return true
			}
			if expression {
				by = "(" + by + ")"
			}
			places = append(places, p)
			return false
		})
	}
	if len(places) != 1 {
		return nil, fmt.Errorf("%q is there %d times", what, len(places))
	}
	return bytes.Join([][]byte{s.text[:places[0].from], s.text[places[0].to:]}, []byte(by)), nil
}

func squeezed(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}
