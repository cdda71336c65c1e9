package httpapi

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/internal/problem"
)

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
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case map[string]any:
			if ref, ok := n["$ref"].(string); ok {
				refs++
				if at(ref) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, v := range n {
				walk(v)
			}
		case []any:
			for _, v := range n {
				walk(v)
			}
		}
	}
	walk(doc)
	if refs == 0 {
		t.Error("no references were checked")
	}

	// The one unknown outcome that the same key cannot resolve is told of.
	if says := at("#/components/responses/Unavailable").(map[string]any)["description"].(string); !strings.Contains(says, "given up") || !strings.Contains(says, "new_key") {
		t.Errorf("503 is documented as %q", says)
	}

	var codes []string
	for _, c := range at("#/components/schemas/Problem").(map[string]any)["properties"].(map[string]any)["error"].(map[string]any)["enum"].([]any) {
		codes = append(codes, c.(string))
	}
	var want []string
	for _, c := range problem.Codes() {
		want = append(want, string(c))
	}
	slices.Sort(codes)
	slices.Sort(want)
	if !slices.Equal(codes, want) {
		t.Errorf("documented codes %v\nwant %v", codes, want)
	}
}
