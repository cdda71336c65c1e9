package archtest

import (
	"regexp"
	"strings"
	"testing"
)

var (
	// marker stands before a block that a reader may paste. Tests that it names either run the
	// block as it stands, or the same commands with values of their own.
	marker = regexp.MustCompile(`^<!-- (run by (Test\w+(?:, Test\w+)*)|not run: \S.*) -->$`)
	// commandLine is a line that a shell or a database is given.
	commandLine = regexp.MustCompile(`^(\$ )?([A-Z_]+=\S+ )*(sudo )?((\./)?bin/\w+|homeward|make|curl|sh|go|git|npm|npx|docker|kubectl|helm|terraform|createdb|psql|cockroach|openssl|ssh-keygen|export|until|CREATE|ALTER|GRANT|REVOKE|SELECT) `)
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?: |$)`)
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

// TestBlocksAreRunOrMarked: whatever commands a page has a reader paste are run by tests that
// a comment before them names, or the comment says why not. In the runbook the line of the
// procedure does, see TestProceduresNameTheirTests.
func TestBlocksAreRunOrMarked(t *testing.T) {
	there, blocks := testFuncs(t), 0
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
			for name := range strings.SplitSeq(m[2], ", ") {
				if name != "" && !there[name] {
					t.Errorf("%s:%d: there is no test %s", path, b.line, name)
				}
			}
		}
	}
	if blocks < 30 {
		t.Errorf("%d blocks were found: mend the search", blocks)
	}
}

// TestBlocksAreFound is the check of the check.
func TestBlocksAreFound(t *testing.T) {
	page := "# A\n\n```sh\necho\n```\n\n<!-- run by TestX -->\n\n    homeward regions   # all\n\n    homeward top\n\n```yaml\na: b\n```\n\n    a drawing\n\ntext\n\n    HOMEWARD_A=b make demo\n"
	found := shellBlocks(page)
	if len(found) != 3 || found[0].before != "# A" || found[1].before != "<!-- run by TestX -->" || len(found[1].lines) != 3 || found[2].before != "text" || found[2].line != 21 {
		t.Errorf("%+v", found)
	}
	for text, good := range map[string]bool{
		"<!-- run by TestA -->": true, "<!-- run by TestA, TestB -->": true, "<!-- not run: it needs a cloud -->": true,
		"<!-- run by hand -->": false, "<!-- not run: -->": false, "text": false,
	} {
		if marker.MatchString(text) != good {
			t.Errorf("%q: is a marker %v", text, !good)
		}
	}
}

// TestTargetsInTheDocsExist: what pages have a reader make is in the Makefile.
func TestTargetsInTheDocsExist(t *testing.T) {
	targets, named := map[string]bool{}, 0
	for _, m := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, path := range pages(t) {
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
