package cockroach_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/cockroach"
	"github.com/homeward-io/homeward/internal/localdb"
)

// TestEveryStatementIsUnderstood prepares all that the store can send: a column
// that a migration does not have, or a form that one of the databases does not
// know, is found here and not by the first tenant who moves.
func TestEveryStatementIsUnderstood(t *testing.T) {
	d := newDatabase(t)
	db := open(t, cockroach.Config{URL: d.url})
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for name, sql := range db.Statements() {
		first, _, _ := strings.Cut(sql, "\n")
		require.Equal(t, "-- name: "+name, first, "traces, and the database's own lists, show the first line")
		_, err := conn.Prepare(t.Context(), name, sql)
		require.NoError(t, err, name)
		require.NotContains(t, sql, "SELECT *", "%s: a column more would change its result", name)
	}
}

// TestStatementsNameTheirRegion: on CockroachDB, whose plans are kept, the text names the
// region of the rows, and the arguments that are left keep their places.
func TestStatementsNameTheirRegion(t *testing.T) {
	d := newDatabase(t)
	db := open(t, cockroach.Config{URL: d.url})
	number := regexp.MustCompile(`\$\d+`)
	for name, sql := range db.Statements() {
		text, left := db.TextIn(name, regions[1], "second")
		if d.server.Kind() != localdb.CockroachDB || !strings.Contains(sql, "$1::crdb_internal_region") {
			require.Equal(t, sql, text, name)
			require.Len(t, left, 2)
			continue
		}
		require.Equal(t, []any{"second"}, left, name)
		require.Contains(t, text, "'"+regions[1]+"'::crdb_internal_region", name)
		require.NotContains(t, text, "$0", name)
		require.Len(t, number.FindAllString(text, -1), len(number.FindAllString(sql, -1))-strings.Count(sql, "$1::crdb_internal_region"), name)
		quoted, _ := db.TextIn(name, "it's")
		require.Contains(t, quoted, "'it''s'::crdb_internal_region", name)
	}
}

// elsewhereWritten are the files with statements of their own: for connections
// that do not know yet what they are connected to, and for people.
var elsewhereWritten = []string{"migrate.go", "roles.go", "offset.go", "connect.go", "open.go", "session.go"}

// TestStatementsAreInFiles: what a request sends is in query/.
func TestStatementsAreInFiles(t *testing.T) {
	for name, f := range source(t) {
		if slices.Contains(elsewhereWritten, name) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := literal(n); ok {
				verb, _, _ := strings.Cut(strings.TrimSpace(s), " ")
				require.NotContains(t, []string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "ALTER", "SET", "SHOW"}, verb, "%s: %s", name, s)
			}
			return true
		})
	}
}

// source is the package as it is written, by file, without its tests.
func source(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := map[string]*ast.File{}
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files[name] = f
	}
	require.NotEmpty(t, files)
	return files
}

func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// takesName is where the functions that run a statement take its name.
var takesName = map[string]int{"one": 2, "many": 2, "affected": 2, "fenced": 1, "read": 1, "replica": 1, "statement": 0}

// TestEveryStatementIsUsed: every name that the code runs has a file, and every
// file is run by some code.
func TestEveryStatementIsUsed(t *testing.T) {
	files, err := fs.Glob(os.DirFS("query"), "*.sql")
	require.NoError(t, err)
	var have []string
	for _, f := range files {
		have = append(have, strings.TrimSuffix(f, ".sql"))
	}
	used := map[string]bool{}
	for _, f := range source(t) {
		for _, declared := range f.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				var name ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					at, ok := takesName[called(n.Fun)]
					if !ok || len(n.Args) <= at {
						return true
					}
					name = n.Args[at]
				case *ast.IndexExpr:
					if field, ok := n.X.(*ast.SelectorExpr); !ok || field.Sel.Name != "queries" {
						return true
					}
					name = n.Index
				default:
					return true
				}
				for _, s := range values(function, name) {
					used[s] = true
				}
				return true
			})
		}
	}
	require.Equal(t, have, slices.Sorted(maps.Keys(used)))
}

func called(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.IndexExpr: // with its type
		return called(f.X)
	}
	return ""
}

// values are the literals that an expression may be: itself, what its function
// assigns to the variable, or the first member of each case of a list that the
// function goes through. A function that hands a name on has none: its callers do.
func values(function *ast.FuncDecl, e ast.Expr) (all []string) {
	if s, ok := literal(e); ok {
		return []string{s}
	}
	ast.Inspect(function, func(n ast.Node) bool {
		switch variable := e.(type) {
		case *ast.Ident:
			assigned, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for i, to := range assigned.Lhs {
				if to, ok := to.(*ast.Ident); ok && to.Name == variable.Name && i < len(assigned.Rhs) {
					if s, ok := literal(assigned.Rhs[i]); ok {
						all = append(all, s)
					}
				}
			}
		case *ast.SelectorExpr:
			if list, ok := n.(*ast.CompositeLit); ok && list.Type == nil && len(list.Elts) > 0 {
				if s, ok := literal(list.Elts[0]); ok {
					all = append(all, s)
				}
			}
		}
		return true
	})
	return all
}
