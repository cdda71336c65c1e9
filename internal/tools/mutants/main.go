// Command mutants makes deliberate faults in code that the promises need, one at a time,
// and runs the nearest tests on each. A fault that every test passes is a missing check, or
// code that no promise needs.
//
//	go -C internal/tools run ./mutants               # all, an hour or two on two cores
//	go -C internal/tools run ./mutants -run claim/   # some
//	go -C internal/tools run ./mutants -list
//	go -C internal/tools run ./mutants -matrix       # the table of docs/TESTING.md
//
// Nothing in the tree is written: the changed file is an overlay of go test. A mutant names
// the place of its fault in the syntax, see mutant. The command fails if a place is not
// found, if a mutant does not compile or survives, or if a suite fails without any mutant.
// Tests of SQL start a PostgreSQL of their own, see CONTRIBUTING.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	only := flag.String("run", "", "only mutants whose name matches this regular expression")
	list := flag.Bool("list", false, "print the mutants and what each changes, and run nothing")
	table := flag.Bool("matrix", false, "print which tool would see each promise broken, as docs/TESTING.md has it, and run nothing")
	flag.Parse()
	if *table {
		text, err := matrix(*root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		fmt.Print(text)
		return
	}
	if err := run(*root, *only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(root, only string, list bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	r := runner{root: root, scratch: scratch, green: map[suite]time.Duration{}}
	ran, killers := 0, map[string]int{}
	var survivors, broken []string
	for _, room := range rooms {
		for _, m := range room.mutants {
			switch {
			case !chosen.MatchString(m.name):
				continue
			case list:
				fmt.Printf("%-40s %s %s: %s\n%40s => %s\n", m.name, room.dir, m.at, m.from, "", m.to)
				continue
			}
			by, took, err := r.hunt(room, m)
			ran++
			switch {
			case errors.Is(err, errUnbuilt):
				by, broken = err.Error(), append(broken, m.name)
			case err != nil:
				return fmt.Errorf("%s: %w", m.name, err)
			case by == "":
				by, survivors = "SURVIVED", append(survivors, m.name)
			default:
				suite, _, _ := strings.Cut(by, " ")
				killers[suite]++
			}
			fmt.Printf("%-40s %6.1f s  %s\n", m.name, took.Seconds(), by)
		}
	}
	if list {
		return nil
	}
	fmt.Printf("%d mutants, killed by suite: %v\n", ran, killers)
	if len(survivors)+len(broken) > 0 {
		return fmt.Errorf("%d survived %v, and %d do not compile %v", len(survivors), survivors, len(broken), broken)
	}
	return nil
}

var errUnbuilt = errors.New("it does not compile")

type runner struct {
	root, scratch string
	green         map[suite]time.Duration // how long a suite takes without a mutant
}

// hunt runs the room's suites on m, and returns which killed it, "" for none.
func (r *runner) hunt(room room, m mutant) (by string, took time.Duration, err error) {
	path, mutated, err := m.apply(r.root, room.dir)
	if err != nil {
		return "", 0, err
	}
	file := filepath.Join(r.scratch, "mutated"+filepath.Ext(path))
	overlay := filepath.Join(r.scratch, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: file}})
	if err := errors.Join(err, os.WriteFile(file, mutated, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", 0, err
	}
	began := time.Now()
	for _, s := range room.suites {
		base, known := r.green[s]
		if !known {
			from := time.Now()
			if failed, err := r.test(s, "", unmutated); err != nil || failed != "" {
				return "", 0, fmt.Errorf("without any mutant %s fails: %s: %w", s, failed, err)
			}
			base = time.Since(from)
			r.green[s] = base
			began = began.Add(base)
		}
		// A mutant may wait for ever. The machine may be busier than it was.
		if by, err := r.test(s, overlay, time.Minute+3*base); err != nil || by != "" {
			return by, time.Since(began), err
		}
	}
	return "", time.Since(began), nil
}

// unmutated is the time-out of a suite without a mutant.
const unmutated = 20 * time.Minute

var (
	failure  = regexp.MustCompile(`--- FAIL: (\S+)`)
	deepest  = regexp.MustCompile(`--- FAIL: (\S+).*\n(?:\s+\S+\.go:.*\n)*\s+--- FAIL: (\S+)`)
	timedOut = regexp.MustCompile(`test timed out after \S+\s+running tests:\s+(\S+)`)
	unbuilt  = regexp.MustCompile(`\[(build|setup) failed\]`)
)

// test runs s, and returns the package and the test that failed, "" if none did.
func (r *runner) test(s suite, overlay string, limit time.Duration) (failed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+unmutated) // a build takes its time, too
	defer cancel()
	args := []string{"test", "-short", "-failfast", "-vet=off", "-ldflags=-s -w", "-count=1", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+s.dir)...)
	cmd.Dir, cmd.Env = r.root, append([]string{"CGO_ENABLED=0"}, os.Environ()...)
	if s.sql {
		cmd.Env = append(cmd.Env, "HOMEWARD_TEST_STORE=sql", "HOMEWARD_TEST_KIND=postgresql", "HOMEWARD_TEST_DATABASE=required")
	}
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit), ctx.Err() != nil:
		return "", err
	case unbuilt.Match(out):
		return "", fmt.Errorf("%w:\n%s", errUnbuilt, out)
	}
	what := "the test binary ended" // as on a panic outside of a test
	if m := deepest.FindSubmatch(out); m != nil && bytes.HasPrefix(m[2], m[1]) {
		what = string(m[2])
	} else if m := failure.FindSubmatch(out); m != nil {
		what = string(m[1])
	}
	if m := timedOut.FindSubmatch(out); m != nil {
		what = string(m[1]) + " (never ended)"
	}
	return s.dir + " " + what, nil
}
