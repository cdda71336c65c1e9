package httpapi

import (
	"html/template"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// The type of every error is the address of a page. The page has the texts of the error's entry,
// and the index lists it.
func TestErrorPages(t *testing.T) {
	h := newAPI(t, newFake())
	index := serve(h, httptest.NewRequest("GET", "/errors", nil)).Body.String()
	for _, e := range problem.Catalogue() {
		p := problem.New(e.Code, "d")
		at := problem.Pages("").Of(p.Code)
		w := serve(h, httptest.NewRequest("GET", at, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Content-Security-Policy") == "" {
			t.Fatalf("%s: %d %v", at, w.Code, w.Header())
		}
		for _, text := range []string{string(e.Code), template.HTMLEscapeString(e.Title), string(code(e.Means)), string(code(e.Safe)), string(code(e.Do))} {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s lacks %q", at, text)
			}
		}
		if !strings.Contains(index, `href="errors/`+string(e.Code)+`"`) {
			t.Errorf("the index has no %s", e.Code)
		}
	}
	if w := serve(h, httptest.NewRequest("GET", "/errors/nothing", nil)); w.Code != 404 || problemIn(t, w).Error != "not_found" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if got := code("a `<b>` & c"); got != "a <code>&lt;b&gt;</code> &amp; c" {
		t.Errorf("got %s", got)
	}
}

// The API renders errors with the deployment's own pages. A stored answer that has other pages, or
// none, keeps its bytes, and the Link header leads to its page.
func TestErrorPagesElsewhere(t *testing.T) {
	const pages = "https://developer.example.com/errors/"
	if _, err := New(Config{Tenants: newFake(), Router: newFake(), List: noList, Region: "us-east1", RegionCode: 1, ErrorPages: "errors"}); err == nil || !strings.Contains(err.Error(), "ErrorPages must be") {
		t.Errorf("got %v", err)
	}
	f := newFake()
	h := newAPI(t, f, func(c *Config) { c.ErrorPages = pages })
	w := serve(h, httptest.NewRequest("GET", "/nowhere", nil))
	if got := w.Body.String(); !strings.HasPrefix(got, `{"type":"`+pages+`not_found",`) || !strings.HasPrefix(w.Header().Get("Link"), "<"+pages+`not_found>; rel="describedby"`) {
		t.Errorf("got %s %v", got, w.Header())
	}
	for body, link := range map[string]string{
		`{"type":"urn:homeward:error:card_declined","title":"t"}` + "\n": "<" + pages + "card_declined>",
		`{"type":"/errors/card_declined","title":"t"}` + "\n":            "</errors/card_declined>",
	} {
		f.answers(claim.Response{Status: 402, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: []byte(body)})
		w := serve(h, charge())
		if w.Code != 402 || w.Body.String() != body || w.Header().Get("Link") != link+`; rel="describedby"; type="text/html"` {
			t.Errorf("got %d %s %v", w.Code, w.Body, w.Header())
		}
	}
	f.answers(claim.Response{Status: 201, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}}, Body: []byte("{}")})
	if w := serve(h, charge()); w.Code != 201 || w.Header().Get("Link") != "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}
