//go:build unix

package localdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program writes a shell script.
func program(t *testing.T, path, script string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func TestFindsTheHighestPostgres(t *testing.T) {
	dir := t.TempDir()
	var dirs []string
	for _, v := range []struct{ dir, version string }{
		{"old", "14.9"}, {"nine", "9.6.2"}, {"newer", "17.2"}, {"new", "15.18 (Debian 15.18-0)"}, {"odd", "devel"},
	} {
		d := filepath.Join(dir, v.dir)
		dirs = append(dirs, d)
		program(t, filepath.Join(d, "postgres"), `echo "postgres (PostgreSQL) `+v.version+`"`)
		program(t, filepath.Join(d, "initdb"), "")
	}
	// Client packages have no initdb; some programs do not run.
	program(t, filepath.Join(dir, "client", "postgres"), `echo "postgres (PostgreSQL) 99.1"`)
	program(t, filepath.Join(dir, "broken", "postgres"), `echo "postgres (PostgreSQL) 99.1"; exit 1`)
	program(t, filepath.Join(dir, "broken", "initdb"), "")
	dirs = append(dirs, filepath.Join(dir, "client"), filepath.Join(dir, "broken"), filepath.Join(dir, "absent"))

	path, err := findPostgres(t.Context(), dirs)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "newer", "postgres"), path)

	path, err = findPostgres(t.Context(), dirs[:2])
	require.NoError(t, err)
	require.Empty(t, path, "14 is too old")
}

func TestFindsCockroach(t *testing.T) {
	dir := t.TempDir()
	program(t, filepath.Join(dir, "named", "crdb"), "")
	program(t, filepath.Join(dir, "path", "cockroach"), "")
	t.Setenv("PATH", filepath.Join(dir, "path"))
	t.Setenv("COCKROACH_BINARY", filepath.Join(dir, "named", "crdb"))

	got, err := find(t.Context(), "", "")
	require.NoError(t, err)
	require.Equal(t, binary{CockroachDB, filepath.Join(dir, "named", "crdb")}, got)

	t.Setenv("COCKROACH_BINARY", "")
	got, err = find(t.Context(), CockroachDB, "")
	require.NoError(t, err)
	require.Equal(t, binary{CockroachDB, filepath.Join(dir, "path", "cockroach")}, got)

	// Data of an earlier start decides, although CockroachDB is there.
	kept := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(kept, "postgresql"), 0o755))
	if got, err = find(t.Context(), "", kept); err == nil {
		require.Equal(t, PostgreSQL, got.kind)
	} else {
		require.ErrorIs(t, err, ErrNotFound)
	}
}

// TestADirectoryKeepsItsKind: of two kinds in one directory the next start would find the wrong one.
func TestADirectoryKeepsItsKind(t *testing.T) {
	dir := t.TempDir()
	program(t, filepath.Join(dir, "bin", "cockroach"), "")
	t.Setenv("COCKROACH_BINARY", filepath.Join(dir, "bin", "cockroach"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, string(PostgreSQL)), 0o700))
	_, err := find(t.Context(), CockroachDB, dir)
	require.ErrorContains(t, err, dir+" has the data of postgresql, not of cockroachdb")
	require.NoError(t, os.Mkdir(filepath.Join(dir, string(CockroachDB)), 0o700))
	_, err = find(t.Context(), CockroachDB, dir)
	require.NoError(t, err)
}

func TestTheErrorNamesWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("COCKROACH_BINARY", "")
	_, err := find(t.Context(), CockroachDB, "")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "COCKROACH_BINARY")
	require.NotContains(t, err.Error(), "\n")

	_, err = find(t.Context(), "mysql", "")
	require.ErrorContains(t, err, `unknown kind "mysql"`)

	// The variable names a binary: another one must not take its place in silence.
	t.Setenv("COCKROACH_BINARY", filepath.Join(t.TempDir(), "absent"))
	for _, kind := range []Kind{"", CockroachDB} {
		_, err = find(t.Context(), kind, "")
		require.ErrorContains(t, err, "COCKROACH_BINARY")
		require.ErrorContains(t, err, "unset it")
		require.Equal(t, 1, strings.Count(err.Error(), "absent"), "%v", err)
		require.NotErrorIs(t, err, ErrNotFound)
	}
}

func TestShortVersion(t *testing.T) {
	require.Equal(t, "PostgreSQL 15.18", shortVersion("PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu"))
	require.Equal(t, "CockroachDB v26.1.0", shortVersion("CockroachDB CCL v26.1.0 (x86_64-pc-linux-gnu, built 2026/02/01)"))
	require.Equal(t, "CockroachDB v26.1.0", shortVersion("CockroachDB OSS v26.1.0 (x86_64-pc-linux-gnu, built 2026/02/01)"))
}

func TestCockroachArgs(t *testing.T) {
	one := []*node{{port: 20001, dir: "/d/node"}}
	require.Equal(t, []string{
		"start-single-node", "--insecure", "--store=type=mem,size=1GiB",
		"--listen-addr=127.0.0.1:20001", "--http-addr=127.0.0.1:0", "--listening-url-file=/d/node/url",
		`--log={file-defaults: {dir: "/d/node/logs", filter: WARNING}, sinks: {stderr: {filter: FATAL}}}`,
	}, cockroachArgs(one, 0, false))

	three := []*node{{region: "a", port: 1, dir: "/d/a"}, {region: "b", port: 2, dir: "/d/b"}, {region: "c", port: 3, dir: "/d/c"}}
	args := cockroachArgs(three, 1, true)
	require.Equal(t, "start", args[0])
	require.Contains(t, args, "--store=path=/d/b/store")
	require.Contains(t, args, "--locality=region=b")
	require.Contains(t, args, "--listen-addr=127.0.0.1:2")
	require.Contains(t, args, "--join=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
}

func TestPostgresArgs(t *testing.T) {
	require.NotContains(t, postgresArgs("/d", 1, 7, true), "fsync=off")
	quick := postgresArgs("/d", 1, 7, false)
	require.Contains(t, quick, "fsync=off")
	require.Contains(t, quick, "max_connections=7")
	require.NotContains(t, quick, "synchronous_commit=off", "Kill would lose acknowledged commits")
}
