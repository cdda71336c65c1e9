// Package contract checks the API's responses against its OpenAPI document, by
// kin-openapi, which shares no code with the service. It is for tests: a [Checker] sits
// in a client's transport, checks each response that passes, and changes none.
//
// An answer is checked for its status, media type, headers and body, unless [enough] of its
// shape were: a storm has a hundred thousand of a few hundred shapes. A header that the
// document does not have is a mismatch, too, and so is a request that was accepted though
// the document would not have it. What no operation describes (404 and 405 of other paths)
// must be a problem.
package contract

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// free are headers of HTTP itself, which no document lists.
var free = []string{"Date", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding", "Allow", "Www-Authenticate"}

// atMost is how many mismatches are kept: one fault makes thousands of them.
const atMost = 20

// enough is how many exchanges of one shape are checked: kin-openapi compiles its schemas anew for
// each, which took more of a storm's time than the service.
const enough = 8

// Checker checks responses against one document. It is safe for concurrent use.
type Checker struct {
	doc    *openapi3.T
	router routers.Router

	mu         sync.Mutex
	seen       map[[sha256.Size]byte]int
	said       map[string]bool
	mismatches []string
	checked    int
}

// New reads the document, and returns an error if it is not valid, examples included.
func New(document []byte) (*Checker, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return checker(doc, router), nil
}

func checker(doc *openapi3.T, router routers.Router) *Checker {
	return &Checker{doc: doc, router: router, seen: map[[sha256.Size]byte]int{}, said: map[string]bool{}}
}

// Another checks against the same document, which takes long to read, and has seen nothing.
func (c *Checker) Another() *Checker { return checker(c.doc, c.router) }

// Mismatches returns the mismatches so far, one sentence each, and how many responses
// were checked.
func (c *Checker) Mismatches() (all []string, checked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mismatches), c.checked
}

// Transport checks each response of next, except those that other selects: the tests'
// clients call the provider, too.
func (c *Checker) Transport(next http.RoundTripper, other func(*http.Request) bool) http.RoundTripper {
	return &transport{c, next, other}
}

type transport struct {
	*Checker
	next  http.RoundTripper
	other func(*http.Request) bool
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.other(r) {
		return t.next.RoundTrip(r)
	}
	sent := r.Clone(r.Context())
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := t.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	t.look(r, body, res)
	return res, nil
}

// CloseIdleConnections is http.Client's.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// look checks the answer to r, which had the body sent. It reads the answer's body and puts an equal
// one in its place; it does not check a truncated answer, which stays truncated.
func (t *Checker) look(r *http.Request, sent []byte, res *http.Response) {
	got, cut := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(got))
	if cut != nil {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(got), failing{cut}))
		return
	}
	route, params, none := t.router.FindRoute(at(r))
	what := r.Method + " " + r.URL.Path
	if slices.Contains(slices.Collect(maps.Values(params)), "") {
		none = errors.New("a part of the path is missing") // which the router does not see
	}
	if none == nil {
		what = r.Method + " " + route.Path
	}
	if !t.first(what, sent, res, got) {
		return
	}
	if none != nil || res.StatusCode == http.StatusMethodNotAllowed {
		t.report(what, res, got, stray(res, got))
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), bytes.NewReader(sent)), PathParams: params, Route: route, Options: options,
	}
	in.Request.Header = r.Header.Clone()
	form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	if res.StatusCode < 300 && !form { // kin-openapi cannot read Stripe's bracket notation
		t.report(what, res, got, openapi3filter.ValidateRequest(context.Background(), in))
	}
	t.report(what, res, got, undocumented(route.Operation, res))
	t.report(what, res, got, openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(got)), Options: options,
	}))
}

var options = &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true}

// at is r as the document's servers have it, which is a path alone.
func at(r *http.Request) *http.Request {
	to := *r
	u := *r.URL
	u.Scheme, u.Host, u.Opaque = "", "", ""
	to.URL, to.Host = &u, ""
	return &to
}

// first reports whether fewer than [enough] exchanges like this one were checked.
func (t *Checker) first(what string, sent []byte, res *http.Response, got []byte) bool {
	h := sha256.New()
	fmt.Fprint(h, what, res.StatusCode, slices.Sorted(maps.Keys(res.Header)), shape(sent), shape(got))
	key := [sha256.Size]byte(h.Sum(nil))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked++
	t.seen[key]++
	return t.seen[key] <= enough
}

// shape is a body with # for its digits, for strings that have some, and for long ones: ids and
// amounts differ from payment to payment, names of members and of states do not.
func shape(body []byte) []byte {
	const long = 40
	var out []byte
	for len(body) > 0 {
		n := 1
		switch c := body[0]; {
		case c == '"':
			for n < len(body) && body[n] != '"' {
				if body[n] == '\\' {
					n++
				}
				n++
			}
			n = min(n+1, len(body))
			if n > long || bytes.ContainsAny(body[:n], "0123456789") {
				out = append(out, `"#"`...)
				break
			}
			out = append(out, body[:n]...)
		case '0' <= c && c <= '9':
			for n < len(body) && '0' <= body[n] && body[n] <= '9' {
				n++
			}
			out = append(out, '#')
		default:
			out = append(out, c)
		}
		body = body[n:]
	}
	return out
}

func (t *Checker) report(what string, res *http.Response, got []byte, err error) {
	if err == nil {
		return
	}
	kind := fmt.Sprint(what, res.StatusCode, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.said[kind] && len(t.mismatches) < atMost {
		t.said[kind] = true
		t.mismatches = append(t.mismatches, fmt.Sprintf("%s, answered %d: %v\n%v\n%.600s", what, res.StatusCode, err, res.Header, got))
	}
}

// undocumented finds headers that the operation's response does not have.
func undocumented(op *openapi3.Operation, res *http.Response) error {
	ref := op.Responses.Status(res.StatusCode)
	if ref == nil {
		return nil // which ValidateResponse refuses
	}
	var unknown []string
	for name := range res.Header {
		documented := slices.Contains(free, name)
		for other := range ref.Value.Headers {
			documented = documented || strings.EqualFold(name, other)
		}
		if !documented {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("the document does not have the headers %v", unknown)
}

// stray is an answer of no operation's.
func stray(res *http.Response, got []byte) error {
	refusals := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed}
	switch media := res.Header.Get("Content-Type"); {
	case !slices.Contains(refusals, res.StatusCode):
		return errors.New("no operation answers at this path")
	case media == "application/json": // in Stripe's shape
		return nil
	case media != "application/problem+json" || !bytes.Contains(got, []byte(`"retry":`)):
		return fmt.Errorf("an unknown path is not answered with a problem document, but with %s", media)
	}
	return nil
}

// Event checks the body of a webhook to a merchant against the document.
func (t *Checker) Event(body []byte) error {
	kind, _, _ := strings.Cut(after(string(body), `"type":"`), ".")
	hook := t.doc.Webhooks[kind]
	if hook == nil {
		return fmt.Errorf("contract: no webhook of the document is of this kind: %s", body)
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return openapi3filter.ValidateRequestBody(context.Background(), &openapi3filter.RequestValidationInput{
		Request: r, Options: options, Route: &routers.Route{Spec: t.doc, PathItem: hook, Method: http.MethodPost, Operation: hook.Post},
	}, hook.Post.RequestBody.Value)
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
