// Command changelog reads CHANGELOG.md, which keeps to Keep a Changelog 1.1.0.
//
//	changelog notes VERSION    print the section of a version; "unreleased" is one
//	changelog cut VERSION DAY  make what is unreleased the section of a version
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := recipe.Root()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "CHANGELOG.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "notes":
		said, err := notes(string(text), args[1])
		if err == nil {
			fmt.Print(said)
		}
		return err
	case len(args) == 3 && args[0] == "cut":
		after, err := cut(string(text), args[1], args[2])
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(after), 0o644)
	}
	return errors.New("say notes VERSION, or cut VERSION DAY")
}

const unreleased = "Unreleased"

var (
	heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\](?: - (\S+))?$`)
	// semver is https://semver.org's, with or without a v before it.
	semver = regexp.MustCompile(`^v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?)$`)
	day    = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
	entry  = regexp.MustCompile(`(?m)^- `)
)

// section is the text below the heading of a version, and where it begins and ends.
func section(text, version string) (from, to int, err error) {
	all := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range all {
		if !strings.EqualFold(text[at[2]:at[3]], version) {
			continue
		}
		to = len(text)
		if i+1 < len(all) {
			to = all[i+1][0]
		}
		return at[1], to, nil
	}
	return 0, 0, fmt.Errorf("CHANGELOG.md has no section ## [%s]", version)
}

// notes are what a release says of itself.
func notes(text, version string) (string, error) {
	if m := semver.FindStringSubmatch(version); m != nil {
		version = m[1]
	}
	from, to, err := section(text, version)
	if err != nil {
		return "", err
	}
	said := strings.TrimSpace(text[from:to])
	if !entry.MatchString(said) {
		return "", fmt.Errorf("the section %s of CHANGELOG.md says nothing", version)
	}
	return said + "\n", nil
}

// cut makes a section of what is unreleased, and leaves an empty one above it.
func cut(text, version, on string) (string, error) {
	m := semver.FindStringSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("%q is no version; write one like v1.2.3", version)
	}
	if !day.MatchString(on) {
		return "", fmt.Errorf("%q is no day; write one like 2026-11-30", on)
	}
	if _, _, err := section(text, m[1]); err == nil {
		return "", fmt.Errorf("CHANGELOG.md has a section %s already", m[1])
	}
	if _, err := notes(text, unreleased); err != nil {
		return "", err
	}
	from, _, err := section(text, unreleased)
	if err != nil {
		return "", err
	}
	return text[:from] + fmt.Sprintf("\n\n## [%s] - %s", m[1], on) + text[from:], nil
}
