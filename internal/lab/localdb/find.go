package localdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// oldestPostgres is the first version that has the SQL of the store.
const oldestPostgres = 15

// debianPostgres is where Debian and its kin keep PostgreSQL's server programs,
// which are not on PATH there.
const debianPostgres = "/usr/lib/postgresql/*/bin"

// binary is database software that was found.
type binary struct {
	kind Kind
	path string // cockroach, or postgres with initdb beside it
}

// find looks for what runs a kind, "" for what dir holds or the first there is. It refuses a kind beside
// the data of another one alone, which the next start would find instead.
func find(ctx context.Context, kind Kind, dir string) (binary, error) {
	var there []Kind
	for _, k := range []Kind{CockroachDB, PostgreSQL} {
		if _, err := os.Stat(filepath.Join(dir, string(k))); dir != "" && err == nil {
			there = append(there, k)
		}
	}
	switch {
	case len(there) == 0:
	case kind == "":
		kind = there[0]
	case !slices.Contains(there, kind):
		return binary{}, fmt.Errorf("localdb: %s has the data of %s, not of %s: choose another directory, or start that kind", dir, there[0], kind)
	}
	switch kind {
	case CockroachDB:
		path, err := findCockroach()
		if err == nil && path == "" {
			err = fmt.Errorf("%w: looked for cockroach in $COCKROACH_BINARY (unset) and on PATH; install CockroachDB and set COCKROACH_BINARY", ErrNotFound)
		}
		return binary{CockroachDB, path}, err
	case PostgreSQL:
		path, err := findPostgres(ctx, postgresDirs())
		if err == nil && path == "" {
			err = fmt.Errorf("%w: looked for postgres and initdb, version %d or newer, on PATH and in %s; apt-get install postgresql", ErrNotFound, oldestPostgres, debianPostgres)
		}
		return binary{PostgreSQL, path}, err
	case "":
		path, err := findCockroach()
		if err != nil || path != "" {
			return binary{CockroachDB, path}, err
		}
		path, err = findPostgres(ctx, postgresDirs())
		if err == nil && path == "" {
			err = fmt.Errorf("%w: looked for cockroach in $COCKROACH_BINARY (unset) and on PATH, and for postgres and initdb, version %d or newer, on PATH and in %s; apt-get install postgresql", ErrNotFound, oldestPostgres, debianPostgres)
		}
		return binary{PostgreSQL, path}, err
	default:
		return binary{}, fmt.Errorf("localdb: unknown kind %q: use %q or %q", kind, CockroachDB, PostgreSQL)
	}
}

// findCockroach returns "" when there is none. A COCKROACH_BINARY that does not work is an error:
// it was set on purpose.
func findCockroach() (string, error) {
	if named := os.Getenv("COCKROACH_BINARY"); named != "" {
		path, err := exec.LookPath(named)
		if err == nil {
			path, err = filepath.Abs(path) // it is not started from here
		}
		if err != nil {
			return "", fmt.Errorf("localdb: COCKROACH_BINARY=%s cannot be started: %w; name CockroachDB's program, or unset it to use the cockroach on PATH, or PostgreSQL where there is none", named, cause(err))
		}
		return path, nil
	}
	path, err := exec.LookPath("cockroach")
	if err != nil {
		return "", nil // not on PATH is an answer, not a failure
	}
	return filepath.Abs(path)
}

// cause drops the name from a look-up's error: the message around it has the name.
func cause(err error) error {
	if lookup := (*exec.Error)(nil); errors.As(err, &lookup) {
		err = lookup.Err
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return err
}

// postgresDirs are where PostgreSQL's server programs may be.
func postgresDirs() []string {
	debian, _ := filepath.Glob(debianPostgres) // the pattern is well-formed
	return append(filepath.SplitList(os.Getenv("PATH")), debian...)
}

// findPostgres returns the highest version's postgres, "" when there is none.
func findPostgres(ctx context.Context, dirs []string) (string, error) {
	best, bestVersion := "", 0
	for _, d := range dirs {
		path := filepath.Join(d, "postgres")
		// A directory of PATH may be relative or missing.
		if !filepath.IsAbs(path) || !executable(path) || !executable(filepath.Join(d, "initdb")) {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			continue // it does not run here
		}
		if v := postgresMajor(string(out)); v >= oldestPostgres && v > bestVersion {
			best, bestVersion = path, v
		}
	}
	return best, ctx.Err()
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// postgresMajor reads "postgres (PostgreSQL) 15.18 (Debian …)"; 0 if it cannot.
func postgresMajor(out string) int {
	m := postgresVersion.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	v, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return v
}
