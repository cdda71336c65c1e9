package sqlstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// TestEveryStatementIsUnderstood prepares all that the store can send, and encodes arguments
// of their types: a column that a migration does not have, a form that one of the databases
// does not know, or an argument that is missing, superfluous or of another type is found here
// and not by the first tenant who moves.
func TestEveryStatementIsUnderstood(t *testing.T) {
	d := newDatabase(t)
	db := open(t, sqlstore.Config{URL: d.url})
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	statements, err := db.Statements(t.Context(), regions[0])
	require.NoError(t, err)
	if d.server.Kind() == localdb.CockroachDB { // a replica lacks, for some seconds, a database that was just made
		require.Eventually(t, func() bool {
			_, err := conn.Prepare(t.Context(), "replica", statements["replica"].SQL)
			return err == nil
		}, patience, 100*time.Millisecond)
	}
	for name, s := range statements {
		first, _, _ := strings.Cut(s.SQL, "\n")
		require.Equal(t, "-- name: "+name, first, "traces, and the database's own lists, show the first line")
		require.NotContains(t, s.SQL, "SELECT *", "%s: a column more would change its result", name)
		prepared, err := conn.Prepare(t.Context(), name, s.SQL)
		require.NoError(t, err, s.SQL)
		require.Len(t, s.Args, len(prepared.ParamOIDs), name)
		for i, oid := range prepared.ParamOIDs {
			_, err := conn.TypeMap().Encode(oid, pgtype.BinaryFormatCode, s.Args[i], nil)
			require.NoError(t, err, "%s: $%d", name, i+1)
		}
	}
	files, err := filepath.Glob("query/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		require.Contains(t, statements, strings.TrimSuffix(filepath.Base(file), ".sql"), "it is sent nowhere")
	}
}

// writes matches what changes rows: also by a function of the baseline.
var writes = regexp.MustCompile(`\bINSERT INTO\b|\bUPDATE [a-z_]+( AS [a-z]+)? SET\b|\bDELETE FROM\b|\b(forget|expire)_[a-z]+\(`)

// TestTheTableOfLostRepliesIsWhole compares the package's table with the statements that write.
func TestTheTableOfLostRepliesIsWhole(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	head := regexp.MustCompile(`(?m)^//\twrite +compares +after a lost reply\n`).FindIndex(doc)
	require.NotNil(t, head)
	var listed []string
	for line := range strings.Lines(string(doc[head[1]:])) {
		row, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			break
		}
		if strings.HasPrefix(row, " ") {
			continue // the row before goes on
		}
		for name := range strings.SplitSeq(regexp.MustCompile(`^[a-z_]+(, ?[a-z_]+)*`).FindString(row), ",") {
			listed = append(listed, strings.TrimSpace(name))
		}
	}
	var written []string
	files, err := filepath.Glob("query/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		if name == "ping" || !writes.Match(regexp.MustCompile(`--.*`).ReplaceAll(text, nil)) {
			continue // ping finds no row
		}
		for _, queue := range []string{"calls_", "events_", "expiries_"} {
			if rest, ok := strings.CutPrefix(name, queue); ok {
				name = "outbox_" + rest
			}
		}
		written = append(written, name)
	}
	slices.Sort(listed)
	slices.Sort(written)
	require.Equal(t, slices.Compact(written), listed)
}

// elsewhereWritten are the files with statements of their own: for connections
// that do not know yet what they are connected to, or are not ours, and for people.
var elsewhereWritten = []string{"foreign.go", "migrate.go", "roles.go", "offset.go", "connect.go", "open.go", "session.go", "sessions.go", "copy.go"}

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
