package problem

import (
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write docs/ERRORS.md and client/code.go")

// What is rendered leads to its page wherever that is by then; what was rendered before
// there were pages leads to where they are now.
func TestPages(t *testing.T) {
	const elsewhere = Pages("https://developer.example.com/errors/")
	p := New(CardDeclined, `With "quotes".`)
	for _, c := range []struct {
		name, body, want string
		pages            Pages
	}{
		{"served", string(p.JSON("")), "/errors/card_declined", ""},
		{"elsewhere", string(p.JSON(elsewhere)), "https://developer.example.com/errors/card_declined", elsewhere},
		{"moved since", string(p.JSON(elsewhere)), "https://developer.example.com/errors/card_declined", ""},
		{"without pages", `{"type":"urn:homeward:error:card_declined","title":"x"}`, "https://developer.example.com/errors/card_declined", elsewhere},
	} {
		if got, want := c.pages.Link([]byte(c.body)), "<"+c.want+`>; rel="describedby"; type="text/html"`; got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
	for _, body := range []string{"", "{}", `{"id":"ch_1"}`, `{"type":"`} {
		if got := elsewhere.Link([]byte(body)); got != "" {
			t.Errorf("%q: got %q", body, got)
		}
	}
	if got, want := elsewhere.LinkOf(KeyInUse), `<https://developer.example.com/errors/idempotency_key_in_use>; rel="describedby"; type="text/html"`; got != want {
		t.Errorf("got %q", got)
	}
}

func TestPagesValidate(t *testing.T) {
	for pages, ok := range map[Pages]bool{
		"": true, Served: true, "https://developer.example.com/errors/": true, "http://localhost:8080/": true,
		"https://developer.example.com/errors": false, "/docs/": false, "errors/": false, "ftp://example.com/": false,
		"https://": false, "https://example.com/?error=/": false, "https://example.com/#/": false, `https://example.com/"/`: false, "https://exa mple.com/": false,
	} {
		if err := pages.Validate(); (err == nil) != ok {
			t.Errorf("%q: got %v", pages, err)
		}
	}
}

// Each code has a page that says all that a page says.
func TestCatalogue(t *testing.T) {
	seen := map[Code]bool{}
	status := 0
	for _, e := range Catalogue() {
		if seen[e.Code] || e.Status < status {
			t.Errorf("%s is there twice, or not in the order of statuses", e.Code)
		}
		seen[e.Code], status = true, e.Status
		for _, text := range []string{e.Title, e.Means, e.Safe, e.Do} {
			if text == "" || strings.Count(text, "`")%2 != 0 || strings.Contains(text, "\n") {
				t.Errorf("%s: %q", e.Code, text)
			}
		}
		if got, ok := Lookup(e.Code); !ok || got != e {
			t.Errorf("%s: got %+v", e.Code, got)
		}
	}
}

// constants returns the names of the codes that problem.go declares.
func constants(t *testing.T) map[Code]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[Code]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Code" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[Code(value)] = spec.Names[0].Name
		}
		return true
	})
	return names
}

// New makes an internal error of a code that the catalogue lacks.
func TestTheCatalogueHasEveryCode(t *testing.T) {
	names := constants(t)
	for code, name := range names {
		if _, ok := Lookup(code); !ok {
			t.Errorf("the catalogue lacks %s (%s)", code, name)
		}
	}
	for _, e := range Catalogue() {
		if names[e.Code] == "" {
			t.Errorf("%s of the catalogue has no constant", e.Code)
		}
	}
}

// The merchant's contract has every error.
func TestTheContractListsEveryCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range Codes() {
		if !strings.Contains(string(text), "`"+string(code)+"`") {
			t.Errorf("docs/API.md does not list %s", code)
		}
	}
}

// TestThePageIsCurrent compares docs/ERRORS.md with the catalogue.
func TestThePageIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, e := range Catalogue() {
		fmt.Fprintf(&b, "\n## %s\n\n%s. Status %d, `retry` is usually `%s`.\n\n%s\n\n**Is it safe to retry?** %s\n\n**What to do:** %s\n",
			e.Code, e.Title, e.Status, e.Retry, e.Means, e.Safe, e.Do)
	}
	current(t, "../../docs/ERRORS.md", b.String())
}

// TestTheClientsCodesAreCurrent compares client/code.go with the catalogue.
func TestTheClientsCodesAreCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString(codesHead)
	names := constants(t)
	for _, code := range Codes() {
		e, _ := Lookup(code)
		fmt.Fprintf(&b, "\t// Code%s: %s. Status %d.\n\tCode%s = %q\n", names[code], e.Title, e.Status, names[code], code)
	}
	b.WriteString(")\n")
	source, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	current(t, "../../client/code.go", string(source))
}

// current compares a generated file with what it should be, or writes it.
func current(t *testing.T, path, want string) {
	t.Helper()
	if *write {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the catalogue says; run make generate", path)
	}
}

const codesHead = `// Code generated from internal/problem/catalogue.go by make generate. DO NOT EDIT.

package client

// The codes of [Error], by status. docs/ERRORS.md describes each. Later versions of the API may
// have more: treat one that is not here by its [Error].Retry.
const (
`

const pageHead = `# Errors

<!-- Made from internal/problem/catalogue.go by make generate. -->

Each error is ` + "`application/problem+json`" + ` (RFC 9457). A program decides by these members:

| member | |
| --- | --- |
| ` + "`error`" + ` | the name |
| ` + "`status`" + ` | the HTTP status |
| ` + "`retry`" + ` | what to do next: ` + "`same_key`" + ` (retry the same request), ` + "`new_key`" + ` (this key is spent) or ` + "`never`" + ` (correct the request). If it differs from this page, the response is right |

New names may appear. Treat one that you do not know by its ` + "`retry`" + `.

` + "`type`" + ` leads to a page with the text below, and so does the response's ` + "`Link`" + ` header with ` + "`rel=\"describedby\"`" + `. A node serves the pages below ` + "`/errors/`" + `. The setting ` + "`error_pages`" + ` puts them elsewhere.
`
