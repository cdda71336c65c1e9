package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	// marker stands before a block that a reader may paste. The test that it names runs the block
	// as it stands, see package marked.
	marker = regexp.MustCompile(`^<!-- (run by (Test\w+)|not run: \S.*) -->$`)
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 2 {
					return true
				}
				of, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || of.Sel.Name != "Blocks" {
					return true
				}
				in, ok := of.X.(*ast.Ident)
				page, lit := call.Args[1].(*ast.BasicLit)
				if ok && lit && in.Name == "marked" {
					found[f.Name.Name+" "+strings.Trim(page.Value, `"`)] = true
				}
				return true
			})
		}
		return nil
	})
	if len(found) < 5 {
		t.Fatalf("%d tests take blocks of pages: mend the search", len(found))
	}
	return found
}

// TestBlocksAreFound is the check of the check.
func TestBlocksAreFound(t *testing.T) {
	page := "# A\n\n```sh\necho\n```\n\n<!-- run by TestX -->\n\n    homeward regions   # all\n\n    homeward top\n\n```yaml\na: b\n```\n\n    a drawing\n\ntext\n\n    HOMEWARD_A=b make demo\n"
	found := shellBlocks(page)
	if len(found) != 3 || found[0].before != "# A" || found[1].before != "<!-- run by TestX -->" || len(found[1].lines) != 3 || found[2].before != "text" || found[2].line != 21 {
		t.Errorf("%+v", found)
	}
	for text, good := range map[string]bool{
		"<!-- run by TestA -->": true, "<!-- run by TestA, TestB -->": false, "<!-- not run: it needs a cloud -->": true,
		"<!-- run by hand -->": false, "<!-- not run: -->": false, "text": false,
	} {
		if marker.MatchString(text) != good {
			t.Errorf("%q: is a marker %v", text, !good)
		}
	}
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
			continue // it says what there was
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
