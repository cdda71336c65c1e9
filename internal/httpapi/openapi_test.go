package httpapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/client"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// walk visits each object of a JSON document with its path.
func walk(at string, node any, visit func(at string, n map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(at, n)
		for k, v := range n {
			walk(at+"/"+k, v, visit)
		}
	case []any:
		for _, v := range n {
			walk(at, v, visit)
		}
	}
}

// The document has what generators need: the width of integers, the type beside each const and
// enum, a tag of each operation, and an example of each request body.
func TestOpenAPIForGenerators(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	walk("", doc, func(at string, n map[string]any) {
		if strings.Contains(at+"/", "/example/") {
			return
		}
		_, constant := n["const"]
		_, enum := n["enum"].([]any)
		_, growing := n["x-extensible-enum"]
		if _, typed := n["type"]; (constant || enum || growing) && !typed {
			t.Errorf("%s has no type: %v", at, n)
		}
		if growing && (enum || constant) {
			t.Errorf("%s is both extensible and closed", at)
		}
		if n["type"] == "integer" && n["format"] != "int64" && n["format"] != "int32" {
			t.Errorf("%s is an integer without a width", at)
		}
	})
	tags := map[any]bool{}
	for _, tag := range doc["tags"].([]any) {
		tags[tag.(map[string]any)["name"]] = true
	}
	for _, part := range []string{"paths", "webhooks"} {
		for path, item := range doc[part].(map[string]any) {
			for method, op := range item.(map[string]any) {
				op := op.(map[string]any)
				if of, _ := op["tags"].([]any); len(of) != 1 || !tags[of[0]] {
					t.Errorf("%s %s has the tags %v", method, path, of)
				}
				if body, ok := op["requestBody"].(map[string]any); ok {
					media, _ := body["content"].(map[string]any)[mediaJSON].(map[string]any)
					if _, ok := media["example"]; media != nil && !ok {
						t.Errorf("%s %s has no example", method, path)
					}
				}
			}
		}
	}
}

// The document has every route, nothing else, every error code, and no dangling
// reference.
func TestOpenAPI(t *testing.T) {
	w := serve(newAPI(t, newFake()), httptest.NewRequest("GET", "/v1/openapi.json", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %v", w.Code, w.Header())
	}
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v", doc["openapi"])
	}
	var documented, served []string
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	for _, rt := range (&server{}).routes() {
		served = append(served, rt.method+" "+rt.path)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %v\nserved     %v", documented, served)
	}

	at := func(ref string) any {
		var node any = doc
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			m, _ := node.(map[string]any)
			node = m[part]
		}
		return node
	}
	refs := 0
	walk("", doc, func(_ string, n map[string]any) {
		if ref, ok := n["$ref"].(string); ok {
			refs++
			if at(ref) == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
	})
	if refs == 0 {
		t.Error("no references were checked")
	}

	// The document names the one unknown outcome that the same key cannot resolve.
	if says := at("#/components/responses/Unavailable").(map[string]any)["description"].(string); !strings.Contains(says, "given up") || !strings.Contains(says, "new_key") {
		t.Errorf("503 is documented as %q", says)
	}

	var codes []string
	for _, c := range at("#/components/schemas/Problem").(map[string]any)["properties"].(map[string]any)["error"].(map[string]any)["x-extensible-enum"].([]any) {
		codes = append(codes, c.(string))
	}
	var want []string
	for _, c := range problem.Codes() {
		want = append(want, string(c))
	}
	codes = append(codes, at("#/components/schemas/NotReady").(map[string]any)["properties"].(map[string]any)["error"].(map[string]any)["const"].(string))
	want = append(want, string(problem.NotReady))
	slices.Sort(codes)
	slices.Sort(want)
	if !slices.Equal(codes, want) {
		t.Errorf("documented codes %v\nwant %v", codes, want)
	}
}

// words returns the string literals of the package in dir.
func words(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+f.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				all[word] = true
			}
			return true
		})
	}
	return all
}

// The server, the document and the Go client accept the same members. docs/API.md names the required
// ones, and none that the server refuses. The types of the clients in TypeScript and Python are made from the
// document. stripeapi.TestParametersAreStripesAndDocumented does the same for forms.
func TestMembersOfRequests(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
				Required   []string
			}
		}
	}
	require.NoError(t, json.Unmarshal(OpenAPI(), &doc))
	contract, err := os.ReadFile("../../docs/API.md")
	require.NoError(t, err)
	spelled := words(t, "../../payment")
	for _, tc := range []struct {
		op     payment.Operation
		schema string
		params any
		page   string // the beginning of its row in docs/API.md; "": it lists no members
	}{
		{payment.Charge, "ChargeRequest", client.ChargeParams{}, "| `POST /v1/charges` |"},
		{payment.Transfer, "TransferRequest", client.TransferParams{}, "| `POST /v1/transfers` |"},
		{payment.Refund, "RefundRequest", client.RefundParams{}, "| `POST /v1/refunds` |"},
		{payment.Capture, "CaptureRequest", client.CaptureParams{}, ""},
		{payment.Cancel, "CancelRequest", client.CancelParams{}, ""},
	} {
		accepted := map[string]bool{}
		for _, from := range []map[string]bool{spelled, membersOf(tc.params), keys(doc.Components.Schemas[tc.schema].Properties)} {
			for word := range from {
				quoted, _ := json.Marshal(word)
				if _, err := payment.Parse(tc.op, []byte("{"+string(quoted)+":null}")); !strings.Contains(err.Error(), "is not a member") {
					accepted[word] = true
				}
			}
		}
		delete(accepted, "") // an error that names no member
		if tc.op.Orders() {
			delete(accepted, "charge") // the path names it
		}
		require.NotEmpty(t, spelled)

		documented := keys(doc.Components.Schemas[tc.schema].Properties)
		for ignored := range DefaultUnstable() {
			delete(documented, ignored)
		}
		require.Equal(t, sorted(accepted), sorted(documented), "%s of the document", tc.schema)

		delete(accepted, "amount_units") // of requests that were forms
		require.Equal(t, sorted(accepted), sorted(membersOf(tc.params)), "%T", tc.params)

		if tc.page == "" {
			continue
		}
		_, row, found := strings.Cut(string(contract), tc.page)
		require.True(t, found, "docs/API.md has no row %s", tc.page)
		row, _, _ = strings.Cut(row, "\n")
		named := map[string]bool{}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row, -1) {
			named[m[1]] = true
			require.Contains(t, accepted, m[1], "docs/API.md names it in the row %s", tc.page)
		}
		for _, m := range doc.Components.Schemas[tc.schema].Required {
			require.Contains(t, named, m, "docs/API.md lacks it in the row %s", tc.page)
		}
	}
}

// membersOf returns the JSON names of a struct's fields.
func membersOf(params any) map[string]bool {
	all := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(params)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			all[name] = true
		}
	}
	return all
}

func keys[V any](m map[string]V) map[string]bool {
	all := map[string]bool{}
	for k := range m {
		all[k] = true
	}
	return all
}

func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
