package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	// marker precedes a block that a reader may paste. The test that it names runs the block as it
	// stands, see package marked.
	marker = regexp.MustCompile(`^<!-- (run by (Test\w+)|not run: \S.*) -->$`)
	// commandLine is a line that a shell or a database is given.
	commandLine = regexp.MustCompile(`^(\$ )?([A-Z_]+=\S+ )*(sudo )?((\./)?bin/\w+|homeward|make|curl|sh|go|git|npm|npx|docker|kubectl|helm|terraform|createdb|psql|cockroach|openssl|ssh-keygen|export|until|CREATE|ALTER|GRANT|REVOKE|SELECT) `)
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?: |$)`)
	takesBlocks = regexp.MustCompile(`\bmarked\.Blocks\(t, "([^"]+)"\)`)
	makeLine    = regexp.MustCompile("(?m)(?:^    |`)make ([a-z][a-z0-9-]*)")
)

// block is lines of a page that stand apart.
type block struct {
	line    int    // in the page, from 1
	before  string // the last line with text before it
	section string // its heading
	lines   []string
	shell   bool
}

// shellBlocks are those of a page that hold commands: fenced as sh, or indented.
func shellBlocks(page string) (found []block) {
	lines := strings.Split(page, "\n")
	before, section := "", ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		indented := func(j int) bool { return j < len(lines) && strings.HasPrefix(lines[j], "    ") }
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			b := block{line: i + 1, before: before, section: section, shell: strings.HasPrefix(strings.TrimSpace(line), "```sh") || strings.HasPrefix(strings.TrimSpace(line), "```bash")}
			for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); i++ {
				b.lines = append(b.lines, lines[i])
			}
			found, before = append(found, b), "a block"
		case indented(i) && (i == 0 || lines[i-1] == ""):
			b := block{line: i + 1, before: before, section: section}
			for ; indented(i) || i+1 < len(lines) && lines[i] == "" && indented(i+1); i++ {
				text := strings.TrimSpace(lines[i])
				b.lines, b.shell = append(b.lines, text), b.shell || commandLine.MatchString(text)
			}
			found, before = append(found, b), "a block"
			i--
		case line != "":
			if strings.HasPrefix(line, "#") {
				section = line
			}
			before = line
		}
	}
	var shell []block
	for _, b := range found {
		if b.shell {
			shell = append(shell, b)
		}
	}
	return shell
}

// TestBlocksAreRunOrMarked: a comment before each block of commands names the test that runs it, or
// says why none does. A procedure of the runbook names in its last line what never ran.
func TestBlocksAreRunOrMarked(t *testing.T) {
	runs, blocks := blockRunners(t), 0
	for _, path := range pages(t) {
		page := read(t, path)
		for _, b := range shellBlocks(page) {
			blocks++
			if path == "docs/RUNBOOK.md" && strings.HasPrefix(b.section, "### ") {
				continue
			}
			m := marker.FindStringSubmatch(strings.TrimSpace(b.before))
			if m == nil {
				t.Errorf("%s:%d: %q: write <!-- run by TestName --> or <!-- not run: why --> before this block", path, b.line, b.lines[0])
				continue
			}
			if name := m[2]; name != "" && !runs[name+" "+path] {
				t.Errorf("%s:%d: %s does not run the blocks of marked.Blocks(t, %q): let it, or write <!-- not run: why -->", path, b.line, name, path)
			}
		}
	}
	if blocks < 30 {
		t.Errorf("%d blocks were found: mend the search", blocks)
	}
}

// blockRunners are the tests that take blocks of a page by its marks, as "TestName docs/PAGE.md".
func blockRunners(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	eachTestFile(t, func(path string) error {
		text, err := os.ReadFile(path)
		for _, f := range strings.Split(string(text), "\nfunc ")[1:] {
			name, _, _ := strings.Cut(f, "(")
			for _, m := range takesBlocks.FindAllStringSubmatch(f, -1) {
				found[name+" "+m[1]] = true
			}
		}
		return err
	})
	return found
}

// TestLongTestsAskThemselves: make test-all finds a long test by the name of the function that
// asks whether it is to be short.
func TestLongTestsAskThemselves(t *testing.T) {
	function, asks, found := regexp.MustCompile(`^func (\(.*?\) )?(\w+)`), regexp.MustCompile(`\btesting[.]Short\(\)`), 0
	eachTestFile(t, func(path string) error {
		text, err := os.ReadFile(path)
		name := ""
		for line := range strings.Lines(string(text)) {
			if m := function.FindStringSubmatch(line); m != nil {
				name = m[2]
			}
			if asks.MatchString(line) {
				if found++; !strings.HasPrefix(name, "Test") {
					t.Errorf("%s: %s asks for a test: let the test ask", path, name)
				}
			}
		}
		return err
	})
	if found < 20 {
		t.Errorf("%d long tests were found: mend the search", found)
	}
}

// TestTargetsInTheDocsExist: what pages have a reader make is in the Makefile.
func TestTargetsInTheDocsExist(t *testing.T) {
	targets, named := map[string]bool{}, 0
	for _, m := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, path := range pages(t) {
		if path == "CHANGELOG.md" {
			continue // it names the block
		}
		for _, m := range makeLine.FindAllStringSubmatch(read(t, path), -1) {
			if named++; !targets[m[1]] {
				t.Errorf("%s: there is no target %q in the Makefile", path, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("%d targets were found: mend the search", named)
	}
}
