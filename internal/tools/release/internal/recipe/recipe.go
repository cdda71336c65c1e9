// Package recipe builds Homeward as it is handed out: the same sources give the same bytes,
// on any machine with the same Go.
package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Variants are the programs that are handed out.
var Variants = []string{"homeward", "homeward-cloud"}

// variables is where the linker puts what a build says of itself.
const variables = "github.com/homeward-io/homeward/internal/build."

// LDFlags are the linker's of a release. goreleaser's are the same.
func LDFlags(version, commit, date string) string {
	return fmt.Sprintf("-s -w -X %[1]sversion=%[2]s -X %[1]scommit=%[3]s -X %[1]sdate=%[4]s", variables, version, commit, date)
}

// Source is what is built.
type Source struct {
	Root    string // of the repository
	Version string // a tag, or one and what has come since, as `git describe` has it
	Commit  string
	Date    time.Time // of the commit, in UTC; all times in images and archives are this
}

// Find reads what git says of the working tree. SOURCE_DATE_EPOCH, VERSION and COMMIT, where
// they are set, go before it, for sources without a repository.
func Find(ctx context.Context) (Source, error) {
	root, err := Root()
	if err != nil {
		return Source{}, err
	}
	s := Source{Root: root, Version: os.Getenv("VERSION"), Commit: os.Getenv("COMMIT")}
	if s.Commit == "" {
		if s.Commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
			return s, err
		}
	}
	if s.Version == "" {
		if s.Version, err = s.git(ctx, "describe", "--tags", "--always", "--dirty", "--match", "v*"); err != nil {
			return s, err
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = s.git(ctx, "show", "--no-patch", "--format=%ct", s.Commit); err != nil {
			return s, err
		}
	}
	var seconds int64
	if _, err := fmt.Sscan(epoch, &seconds); err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds", epoch)
	}
	s.Date = time.Unix(seconds, 0).UTC()
	return s, nil
}

func (s Source) git(ctx context.Context, args ...string) (string, error) {
	out, err := Command(ctx, s.Root, nil, "git", args...)
	if err != nil {
		return "", fmt.Errorf("%w; set VERSION, COMMIT and SOURCE_DATE_EPOCH where there is no repository", err)
	}
	return strings.TrimSpace(out), nil
}

// Flags are the GOFLAGS of a variant.
func Flags(ctx context.Context, root, variant string) (string, error) {
	out, err := Command(ctx, root, nil, "sh", "internal/build/flags.sh", variant)
	return strings.TrimSpace(out), err
}

// Build makes the static program of a variant for linux/arch at file.
func (s Source) Build(ctx context.Context, variant, arch, file string) error {
	flags, err := Flags(ctx, s.Root, variant)
	if err != nil {
		return err
	}
	// GOAMD64 and its like would make other bytes of the same sources.
	env := []string{"GOFLAGS=" + flags, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT="}
	_, err = Command(ctx, s.Root, env, "go", "build", "-ldflags", LDFlags(s.Version, s.Commit, s.Date.Format(time.RFC3339)), "-o", file, "./cmd/homeward")
	return err
}

// Command runs a program in dir and returns what it printed. An error has the last line of
// what it complained of.
func Command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		said := strings.Split(strings.TrimSpace(problems.String()), "\n")
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said[len(said)-1])
	}
	return out.String(), nil
}

// Root is the directory of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "homeward")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("run this within Homeward's repository")
		}
	}
	return "", err
}
