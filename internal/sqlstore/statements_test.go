package sqlstore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestEveryStatementIsUnderstood prepares all that the store can send: a column
// that a migration does not have, or a form that one of the databases does not
// know, is found here and not by the first tenant who moves.
func TestEveryStatementIsUnderstood(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.url})
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	statements := db.Statements(regions[0])
	for name, texts := range statements {
		for i, sql := range texts {
			first, _, _ := strings.Cut(sql, "\n")
			require.Equal(t, "-- name: "+name, first, "traces, and the database's own lists, show the first line")
			_, err := conn.Prepare(t.Context(), fmt.Sprint(name, i), sql)
			require.NoError(t, err, sql)
			require.NotContains(t, sql, "SELECT *", "%s: a column more would change its result", name)
		}
	}
	require.Len(t, statements["settle"], 1<<4, "postings, events, expiries, unpaid objects")
}

// elsewhereWritten are the files with statements of their own: for connections
// that do not know yet what they are connected to, and for people.
var elsewhereWritten = []string{"migrate.go", "roles.go", "offset.go", "connect.go", "open.go", "session.go", "sessions.go", "copy.go"}

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
