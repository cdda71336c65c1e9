package httpapi

import (
	"bytes"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// pathErrors is the path of the pages that problem.Served names.
const pathErrors = "/errors"

// explain links a stored refusal to its page. The header is not stored: it follows from
// the type in the stored bytes.
func (s *server) explain(res *response, resp *claim.Response) {
	if resp.Status < http.StatusBadRequest {
		return
	}
	if to := s.ErrorPages.Link(resp.Body); to != "" {
		res.Header()["Link"] = []string{to}
	}
}

// errorPage is for people who follow the type of a problem.
func (s *server) errorPage(res *response, r *http.Request) error {
	e, ok := s.entry(problem.Code(r.PathValue("error")))
	if !ok {
		return refuse(problem.NotFound, "There is no error of this name; "+strings.TrimSuffix(r.URL.Path, "/"+r.PathValue("error"))+" lists them.")
	}
	return res.sendPage("error", e)
}

// entry is what the server's pages say of a code.
func (s *server) entry(code problem.Code) (problem.Entry, bool) {
	i := slices.IndexFunc(s.entries, func(e problem.Entry) bool { return e.Code == code })
	if i < 0 {
		return problem.Entry{}, false
	}
	return s.entries[i], true
}

func (s *server) errorIndex(res *response, _ *http.Request) error {
	return res.sendPage("index", s.entries)
}

func (res *response) sendPage(name string, data any) error {
	var b bytes.Buffer
	if err := errorPages.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	h := res.Header()
	h["Content-Security-Policy"] = []string{"default-src 'none'; style-src 'unsafe-inline'"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["Cache-Control"] = []string{"public, max-age=3600"}
	res.send(http.StatusOK, "text/html; charset=utf-8", b.Bytes())
	return nil
}

// code renders text whose code spans are between backquotes.
func code(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // each part was escaped
}

var errorPages = template.Must(template.New("").Funcs(template.FuncMap{"code": code}).Parse(`
{{- define "head"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.}}</title>
<style>body{max-width:42rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}dt{font-weight:bold;margin-top:1rem}dd{margin:0}</style>
</head><body>
{{end}}
{{- define "error"}}{{template "head" .Code}}<h1><code>{{.Code}}</code></h1>
<p>{{.Title}}. Status {{.Status}}, <code>retry</code> is usually <code>{{.Retry}}</code>; the response has the value for its request.</p>
<dl><dt>What it means</dt><dd>{{code .Means}}</dd>
<dt>Is it safe to retry?</dt><dd>{{code .Safe}}</dd>
<dt>What to do</dt><dd>{{code .Do}}</dd></dl>
<p><a href="../errors">All errors</a></p>
</body></html>
{{end}}
{{- define "index"}}{{template "head" "Errors"}}<h1>Errors</h1>
<ul>{{range .}}
<li>{{.Status}} <a href="errors/{{.Code}}"><code>{{.Code}}</code></a> {{.Title}}</li>{{end}}
</ul></body></html>
{{end}}`))
