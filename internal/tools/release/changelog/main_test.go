package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/internal/tools/release/internal/recipe"
)

const log = `# Changelog

## [Unreleased]

### Added

- A door.

## [1.1.0] - 2026-01-02

### Fixed

- A hinge.

## [1.0.0] - 2026-01-01

`

func TestNotesOfAVersion(t *testing.T) {
	for version, want := range map[string]string{
		"unreleased": "### Added\n\n- A door.\n",
		"v1.1.0":     "### Fixed\n\n- A hinge.\n",
		"1.1.0":      "### Fixed\n\n- A hinge.\n",
	} {
		if got, err := notes(log, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	for version, say := range map[string]string{"v2.0.0": "no section ## [2.0.0]", "1.0.0": "says nothing"} {
		if _, err := notes(log, version); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestCutMovesWhatIsUnreleased, and nothing else.
func TestCutMovesWhatIsUnreleased(t *testing.T) {
	after, err := cut(log, "v1.2.0", "2026-02-03")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(log, "## [Unreleased]\n", "## [Unreleased]\n\n## [1.2.0] - 2026-02-03\n", 1); after != want {
		t.Errorf("%s", after)
	}
	if got, err := notes(after, "v1.2.0"); err != nil || got != "### Added\n\n- A door.\n" {
		t.Errorf("%q, %v", got, err)
	}
	for say, args := range map[string][2]string{
		"no version":           {"1.2", "2026-02-03"},
		"no day":               {"1.2.0", "tomorrow"},
		"section 1.1.0 alread": {"v1.1.0", "2026-02-03"},
	} {
		if _, err := cut(log, args[0], args[1]); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", say, err)
		}
	}
	if _, err := cut(after, "v1.3.0", "2026-02-04"); err == nil || !strings.Contains(err.Error(), "says nothing") {
		t.Errorf("an empty release: %v", err)
	}
}

// TestOurChangelogCanBeRead: there is something to cut a section from.
func TestOurChangelogCanBeRead(t *testing.T) {
	root, err := recipe.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := section(string(text), unreleased); err != nil {
		t.Error(err)
	}
}
