package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestCommandsInTheDocsExist reads every page: each command line of homeward that a reader
// may copy, in a block or between backticks, names commands and flags that there are.
// Values are the reader's.
func TestCommandsInTheDocsExist(t *testing.T) {
	parser, err := kong.New(new(commands), kong.Name("homeward"))
	require.NoError(t, err)
	root, found := filepath.Join("..", ".."), 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/design/*.md", "helm/*/README.md", "terraform/README.md", "examples/*/README.md", "examples/README.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, line := range commandLines(string(text)) {
				found++
				if mistake := misspelt(parser.Model.Node, words(line)); mistake != "" {
					t.Errorf("%s: %q: %s", strings.TrimPrefix(page, root+"/"), line, mistake)
				}
			}
		}
	}
	require.Greater(t, found, 100, "command lines in the docs")
}

var (
	inBlock   = regexp.MustCompile(`^(?:    |\t|> )?\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\./|bin/|\./bin/)?(homeward [a-z…-][^\n]*)$`)
	inSpan    = regexp.MustCompile("`(?:bin/)?(homeward [a-z…-][^`]*)`")
	fence     = regexp.MustCompile("^\\s*(?:```|~~~)")
	indented4 = regexp.MustCompile(`^(?: {4}|\t)`)
)

// commandLines are those of a page, in blocks and between backticks.
func commandLines(page string) (lines []string) {
	fenced := false
	page = strings.ReplaceAll(page, "\\\n", " ")
	for line := range strings.SplitSeq(page, "\n") {
		if fence.MatchString(line) {
			fenced = !fenced
			continue
		}
		if fenced || indented4.MatchString(line) {
			if m := inBlock.FindStringSubmatch(line); m != nil {
				lines = append(lines, m[1])
			}
			continue
		}
		for _, m := range inSpan.FindAllStringSubmatch(line, -1) {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// words are those of a command line up to a comment, a pipe or a redirection, without what
// is between quotes.
func words(line string) (all []string) {
	line = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(line, "VALUE")
	for _, w := range strings.Fields(line)[1:] {
		if strings.HasPrefix(w, "#") || w == "|" || w == "&&" || w == "&" || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "<") {
			break
		}
		all = append(all, strings.TrimRight(w, ",;:."))
	}
	return all
}

// misspelt returns the word of a command line that does not exist, "" for none.
func misspelt(node *kong.Node, line []string) string {
	for _, w := range line {
		if strings.HasPrefix(w, "-") {
			if node.DefaultCmd != nil {
				node = node.DefaultCmd
			}
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if name != "" && name != "help" && !hasFlag(node, name) {
				return "there is no flag " + w
			}
			continue
		}
		if len(node.Children) == 0 {
			continue // an argument, or the value of a flag
		}
		if strings.ContainsAny(w, "…|[]/") { // any of them
			return ""
		}
		next := (*kong.Node)(nil)
		for _, child := range node.Children {
			if child.Name == w {
				next = child
			}
		}
		if next == nil {
			return "there is no command " + w
		}
		node = next
	}
	if len(node.Children) > 0 && node.DefaultCmd == nil {
		return node.Name + " alone does nothing: it wants a subcommand"
	}
	return ""
}

func hasFlag(node *kong.Node, name string) bool {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || string(f.Short) == name {
				return true
			}
		}
	}
	return false
}
