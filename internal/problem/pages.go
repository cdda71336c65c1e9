package problem

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
)

// Pages is the address of the pages of errors: a URI reference that ends with a slash,
// which the code follows. It makes a code the type of a problem (RFC 9457, section
// 3.1.1), and the target of a link with the relation "describedby", as section 2.7 of
// the expired draft-ietf-httpapi-idempotency-key-header-07 has it. "" is [Served].
type Pages string

// Served is the path at which a node serves the pages itself. As a type it is relative:
// it resolves against the URL of the request, at whichever region was asked.
const Served Pages = "/errors/"

// Behind is the path at which a gateway does, as its other paths are the upstream's.
const Behind Pages = "/_homeward/errors/"

// oldType begins the type of problems that were rendered before there were pages. Such
// answers are still replayed.
const oldType = "urn:homeward:error:"

// Validate returns what is wrong with p, in words that follow a setting's name.
func (p Pages) Validate() error {
	if p == "" || p == Served || p == Behind {
		return nil
	}
	u, err := url.Parse(string(p))
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "", strings.ContainsAny(string(p), " <>\"\\?#"):
		return errors.New(`must be "" or an absolute URL without query, as in https://developer.example.com/errors/`)
	case !strings.HasSuffix(u.Path, "/"):
		return errors.New("must end with a slash: the error's name follows it")
	}
	return nil
}

// Of returns the address of a code's page.
func (p Pages) Of(code Code) string {
	if p == "" {
		p = Served
	}
	return string(p) + string(code)
}

// Link returns the value of a Link header to the page of a body that [Problem.JSON]
// rendered, and "" for any other body. The page of a body that was rendered before
// there were pages is in p.
func (p Pages) Link(body []byte) string {
	rest, ok := bytes.CutPrefix(body, []byte(`{"type":"`))
	if !ok {
		return ""
	}
	at, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return ""
	}
	if code, old := strings.CutPrefix(string(at), oldType); old {
		return link(p.Of(Code(code)))
	}
	return link(string(at))
}

// LinkOf returns the value of a Link header to the page of code.
func (p Pages) LinkOf(code Code) string { return link(p.Of(code)) }

func link(to string) string { return "<" + to + `>; rel="describedby"; type="text/html"` }
