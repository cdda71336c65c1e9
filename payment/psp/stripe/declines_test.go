package stripe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/stripe/stripe-go/v85"
)

// A new code in a new version of the SDK fails this test until it is classed.
func TestEveryDeclineCodeIsSorted(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/stripe/stripe-go/v85").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "error.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "DeclineCode" {
			return true
		}
		for _, v := range spec.Values {
			code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes++
			if _, sorted := declineClasses[sdk.DeclineCode(code)]; !sorted {
				t.Errorf("the decline code %q is neither hard nor soft", code)
			}
		}
		return true
	})
	if codes == 0 || codes != len(declineClasses) {
		t.Errorf("the SDK has %d codes, the table %d", codes, len(declineClasses))
	}
}
