package problem

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write docs/ERRORS.md")

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
	const path = "../../docs/ERRORS.md"
	var b strings.Builder
	b.WriteString(pageHead)
	for _, e := range Catalogue() {
		fmt.Fprintf(&b, "\n## %s\n\n%s. Status %d, `retry` is usually `%s`.\n\n%s\n\n**Is it safe to retry?** %s\n\n**What to do:** %s\n",
			e.Code, e.Title, e.Status, e.Retry, e.Means, e.Safe, e.Do)
	}
	if *write {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the catalogue says; run make generate", path)
	}
}

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
