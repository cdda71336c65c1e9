package archtest

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWorkflowsRunWhatWasRead: an action is named by its commit, because a tag can be moved to
// other code. A bot proposes what is newer, for each file that names a version, and each change
// and each week is held against the published vulnerabilities.
func TestWorkflowsRunWhatWasRead(t *testing.T) {
	uses, pinned := regexp.MustCompile(`(?m)^\s*-? *uses: (\S+)(.*)$`), regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	workflows, _ := filepath.Glob("../../.github/workflows/*.y*ml")
	all, found := "", 0
	for _, w := range workflows {
		text := read(t, ".github/workflows/"+filepath.Base(w))
		all += text
		for _, m := range uses.FindAllStringSubmatch(text, -1) {
			if found++; !pinned.MatchString(m[1]) || !regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`).MatchString(m[2]) {
				t.Errorf("%s: uses %s%s: write OWNER/NAME@ and all 40 digits of the commit, and its version behind it, as in # v5.0.1", w, m[1], m[2])
			}
		}
	}
	if found < 2 {
		t.Errorf("%d actions were found: mend the search", found)
	}
	for _, want := range []string{"govulncheck@v", "schedule:", "cron:"} {
		if !strings.Contains(all, want) {
			t.Errorf("no workflow has %s", want)
		}
	}
	bot := read(t, ".github/dependabot.yml")
	watched := func(ecosystem, dir string) bool {
		return regexp.MustCompile(`(?s)package-ecosystem: ` + ecosystem + `\n[^-]*director(?:y|ies): \[?[^\n]*"` + regexp.QuoteMeta(dir) + `"`).MatchString(bot)
	}
	if !watched("github-actions", "/") {
		t.Error(".github/dependabot.yml does not watch the actions")
	}
	ecosystems := map[string]string{"go.mod": "gomod", "package.json": "npm", "Dockerfile": "docker"}
	err := filepath.WalkDir("../..", func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"node_modules", "bin", "dist", "testdata"}, d.Name()) || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case ecosystems[d.Name()] != "":
			name, err := filepath.Rel("../..", at)
			if dir := path.Clean("/" + path.Dir(filepath.ToSlash(name))); !watched(ecosystems[d.Name()], dir) {
				t.Errorf(".github/dependabot.yml does not watch %s %q", ecosystems[d.Name()], dir)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
