package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/homeward-io/homeward/claim"
)

// rule is a route, complete.
type rule struct {
	Route
	ask *template // nil: the upstream cannot be asked
}

// Call is a request that a gateway guards.
type Call struct {
	g *Gateway
	*rule
	wild map[string]string // what the wildcards of the route's pattern stand for
}

// matcher finds the rule of a request.
type matcher struct {
	mux   *http.ServeMux
	plain map[string]*rule // by method, of what no other route matches
}

// found takes what the mux finds; it is an answer that nobody reads.
type found struct {
	rule *rule
	wild map[string]string
}

func (*found) Header() http.Header         { return http.Header{} }
func (*found) Write(b []byte) (int, error) { return len(b), nil }
func (*found) WriteHeader(int)             {}

func newMatcher(s *Settings) (m matcher, err error) {
	m.mux, m.plain = http.NewServeMux(), map[string]*rule{}
	all := s.withPlain()
	for i, r := range all {
		one := &rule{Route: r.complete(s)}
		if r.Ask.Path != "" {
			if one.ask, err = newTemplate(r.Ask.Path, r.Match, len(r.Ask.Replies) > 0); err != nil {
				return m, err
			}
		}
		if slices.Contains(plainRoutes, r.Match) {
			method, _, _ := strings.Cut(r.Match, " ")
			m.plain[method] = one
		}
		if err := m.add(one); err != nil {
			return m, conflict(all, i, len(s.Routes), err)
		}
	}
	return m, nil
}

// conflict is err, the mux's word on the route i of all, for people. Those from own on are not in the
// settings.
func conflict(all []Route, i, own int, err error) error {
	j := slices.IndexFunc(all[:i], func(r Route) bool {
		two := matcher{mux: http.NewServeMux()}
		return two.add(&rule{Route: r}) == nil && two.add(&rule{Route: all[i]}) != nil
	})
	alone := matcher{mux: http.NewServeMux()}
	switch {
	case j < 0 || alone.add(&rule{Route: all[i]}) != nil:
		return fmt.Errorf("settings: gateway.routes[%d] match %q: %w", i, all[i].Match, err)
	case i >= own:
		return fmt.Errorf("settings: gateway.routes[%d] match %q takes all that no other route matches; write %s for that", j, all[j].Match, all[i].Match)
	}
	return fmt.Errorf("settings: gateway.routes[%d] match %q: %w of gateway.routes[%d]; change one of them", i, all[i].Match, err, j)
}

// add adds a rule. The mux panics at a pattern that it does not read, or that is there already.
func (m *matcher) add(one *rule) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), ":\n")
			err = errors.New(registered.ReplaceAllString(text, ""))
		}
	}()
	names := wildcards(one.Match)
	m.mux.HandleFunc(one.Match, func(w http.ResponseWriter, r *http.Request) {
		f := w.(*found)
		f.rule, f.wild = one, make(map[string]string, len(names))
		for _, name := range names {
			f.wild[name] = r.PathValue(name)
		}
	})
	return nil
}

// match finds the rule of r, whose path the upstream may clean: /a//b is guarded as /a/b is.
func (m *matcher) match(r *http.Request) *found {
	c, at := *r, cleanURL(r.URL)
	c.URL = &at
	var f found
	if m.mux.ServeHTTP(&f, &c); f.rule == nil && !strings.HasSuffix(at.Path, "/") {
		// The mux redirects /a to /a/, and upstreams answer both alike.
		at.RawPath, at.Path = at.EscapedPath()+"/", at.Path+"/"
		m.mux.ServeHTTP(&f, &c)
	}
	if f.rule == nil { // whatever else the mux answers by itself
		f.rule = m.plain[r.Method]
	}
	return &f
}

func cleanURL(u *url.URL) url.URL {
	at := *u
	at.RawPath, at.Path = cleaned(at.EscapedPath()), cleaned(at.Path)
	return at
}

// place is the path of u in one spelling of all that its route's pattern takes for it.
func place(u *url.URL) string {
	at := cleanURL(u)
	parts := strings.Split(strings.TrimSuffix(at.EscapedPath(), "/"), "/")
	for i, part := range parts {
		if plain, err := url.PathUnescape(part); err == nil {
			parts[i] = url.PathEscape(plain)
		}
	}
	return strings.Join(parts, "/")
}

func cleaned(p string) string {
	out := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && out != "/" {
		out += "/"
	}
	return out
}

// registered is what a panic of the mux says about our code.
var registered = regexp.MustCompile(` \(registered at [^)]*\)`)

var wildcardForm = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)(?:\.\.\.)?\}`)

func wildcards(pattern string) (names []string) {
	for _, m := range wildcardForm.FindAllStringSubmatch(pattern, -1) {
		names = append(names, m[1])
	}
	return names
}

// Match returns the call that r is if it is guarded, and nil if it passes. gRPC always passes, and so
// does what has no key where its route lets that pass.
func (g *Gateway) Match(r *http.Request) *Call {
	if isGRPC(r) {
		return nil
	}
	f := g.match.match(r)
	if f.rule == nil || f.rule.Key.Header != "" && f.rule.Key.Missing == missingPass && len(r.Header[http.CanonicalHeaderKey(f.rule.Key.Header)]) == 0 {
		return nil
	}
	return &Call{g: g, rule: f.rule, wild: f.wild}
}

// Dialect is how the gateway's own errors are spelled.
func (c *Call) Dialect() Dialect {
	if c.Profile == "rest" {
		return ""
	}
	return Dialect(c.Profile)
}

// BodyLimit is the longest body, in bytes.
func (c *Call) BodyLimit() int64 { return c.BodyBytes }

// ErrNoIdentity: the request does not show whose it is; its text is one line for the caller.
var ErrNoIdentity = errors.New("the request does not say whose it is")

// identityError is ErrNoIdentity with its reason.
type identityError struct{ reason string }

func (e *identityError) Error() string { return e.reason }

// Is reports whether target is ErrNoIdentity.
func (*identityError) Is(target error) bool { return target == ErrNoIdentity }

// Tenant is the tenant of a request, and the name that its caller has there. The error is
// [ErrNoIdentity], or of the keys by which tokens are verified.
func (c *Call) Tenant(r *http.Request) (id, name string, err error) {
	return c.g.tenant(r, c.Route.Tenant)
}

// ErrNotNamed: a request to the gateway's own paths does not say which claim it is about; its text is one
// line for the caller.
var ErrNotNamed = errors.New("the key does not name a claim")

// notNamedError is ErrNotNamed with its reason.
type notNamedError struct{ reason string }

func (e *notNamedError) Error() string { return e.reason }

// Is reports whether target is ErrNotNamed.
func (*notNamedError) Is(target error) bool { return target == ErrNotNamed }

// Named is the call whose key a request to the gateway's own paths is about, and its key as claims have it.
// The query names the request of the key, as in method=POST&path=/v1/orders; it may be left out where all
// routes have the same tenant, and keys that are the same at each path. The error is [ErrNotNamed], or a
// [*claim.KeyError].
func (g *Gateway) Named(r *http.Request, spelled string) (c *Call, key string, err error) {
	const how = "Name the request of the key in the query, as in ?method=POST&path=/v1/orders"
	if key, err = claim.ParseKey(spelled); err != nil {
		return nil, "", err
	}
	q := r.URL.Query()
	method, at := q.Get("method"), q.Get("path")
	switch {
	case len(q) == 0 && g.apart:
		return nil, "", &notNamedError{how + ": a route of this gateway has keys of its own."}
	case len(q) == 0:
		return &Call{g: g, rule: &rule{Route: Route{}.complete(&g.c.Settings)}}, key, nil
	case len(q) != 2 || method == "" || !strings.HasPrefix(at, "/"):
		return nil, "", &notNamedError{how + ", and nothing else."}
	}
	u, err := url.ParseRequestURI(at)
	if err != nil {
		return nil, "", &notNamedError{how + "; its path is none."}
	}
	f := g.match.match(&http.Request{Method: method, URL: u, Host: r.Host})
	if f.rule == nil {
		return nil, "", &notNamedError{"No route guards a request with this method and path. " + how + "."}
	}
	c = &Call{g: g, rule: f.rule, wild: f.wild}
	return c, c.scoped(key, u), nil
}

// KeysApart reports whether a key alone does not name a claim: a route has a tenant of its own, or keys that
// are others at each path.
func (s *Settings) KeysApart() bool {
	own := Route{}.complete(s).Tenant
	return slices.ContainsFunc(s.Routes, func(r Route) bool {
		full := r.complete(s)
		return full.Tenant != own || full.Key.Scope == scopePath
	})
}

func (g *Gateway) tenant(r *http.Request, t Tenant) (id, name string, err error) {
	switch t.From {
	case fromHeader:
		if !g.authenticated(r) {
			return "", "", &identityError{"Only an authenticated peer may name a tenant: show a client certificate, or come through a trusted proxy."}
		}
		values := r.Header[http.CanonicalHeaderKey(t.Name)]
		if len(values) != 1 || values[0] == "" {
			return "", "", &identityError{"Send exactly one " + t.Name + " header: it names the tenant."}
		}
		name = values[0]
	case fromClaim:
		token, ok := bearer(r)
		if !ok {
			return "", "", &identityError{"Send an Authorization header with a bearer token."}
		}
		claims, err := g.c.Verify(r.Context(), token)
		if err != nil {
			return "", "", err
		}
		if name, ok = claims[t.Name].(string); !ok || name == "" {
			return "", "", &identityError{"The token has no claim " + t.Name + "."}
		}
	case fromCertificate:
		if name = nameIn(r, t.Name); name == "" {
			return "", "", &identityError{"Show a client certificate with a name (" + t.Name + ")."}
		}
	default:
		return t.Name, t.Name, nil
	}
	if len(name) > maxTenantName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", "", &identityError{fmt.Sprintf("The tenant's name must be text of at most %d bytes, without control characters.", maxTenantName)}
	}
	return tenantOf(name), name, nil
}

// maxTenantName is the longest name of a tenant, in bytes: that of a SPIFFE ID.
const maxTenantName = 2048

// tenantOf is the id of the tenant with a name. Ids have a form, and others than these are hashed.
func tenantOf(name string) string {
	if tenantForm.MatchString(name) && !strings.HasPrefix(name, hashed) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:16])
}

const hashed = "t-"

func bearer(r *http.Request) (string, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// authenticated reports whether the peer of r has shown a certificate, or is a trusted proxy.
func (g *Gateway) authenticated(r *http.Request) bool {
	if leaf(r) != nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(host)
	at = at.Unmap()
	return err == nil && slices.ContainsFunc(g.proxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

// leaf is the certificate that the peer of r has shown, and the listener verified.
func leaf(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

func nameIn(r *http.Request, part string) string {
	cert := leaf(r)
	switch {
	case cert == nil:
	case part == "uri" && len(cert.URIs) > 0:
		return cert.URIs[0].String()
	case part == "dns" && len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	case part == "cn":
		return cert.Subject.CommonName
	}
	return ""
}

// Key returns the key of a request with this body: as the upstream gets it, in the caller's spelling, and
// as claims have it. Both are "" if there is none and the route lets that pass. The error is a
// [*claim.KeyError].
func (c *Call) Key(r *http.Request, body []byte) (sent, key string, err error) {
	var text string
	if c.Route.Key.Member != "" {
		if _, err := claim.Canonical(body, claim.CanonicalOptions{}); err != nil {
			if _, ok := decode(body); ok { // the upstream may find another key in it
				return "", "", claim.InvalidKey(fmt.Sprintf("send one JSON value as the body, each member once, as its member %s is the key", c.Route.Key.Member))
			}
			if len(body) > 0 && mayHide(r) {
				return "", "", claim.InvalidKey(fmt.Sprintf("send the body as JSON in UTF-8, without a Content-Encoding, as its member %s is the key", c.Route.Key.Member))
			}
		}
		text = textAt(body, c.Route.Key.Member)
	} else {
		switch values := r.Header[http.CanonicalHeaderKey(c.Route.Key.Header)]; len(values) {
		case 0:
		case 1:
			text = values[0]
		default:
			return "", "", claim.InvalidKey("send exactly one " + c.Route.Key.Header + " header")
		}
	}
	if key, err = claim.ParseKey(text); err != nil {
		if errors.Is(err, claim.ErrKeyMissing) && c.Route.Key.Member != "" {
			if c.Route.Key.Missing == missingPass {
				return "", "", nil
			}
			return "", "", claim.MissingKey(fmt.Sprintf("send a JSON body whose member %s is a key of 1 to %d visible ASCII characters", c.Route.Key.Member, claim.MaxKeyLength))
		}
		if errors.Is(err, claim.ErrKeyMissing) {
			return "", "", claim.MissingKey(fmt.Sprintf("send a header %s of 1 to %d visible ASCII characters", c.Route.Key.Header, claim.MaxKeyLength))
		}
		return "", "", err
	}
	return text, c.scoped(key, r.URL), nil
}

// mayHide reports whether the upstream may read JSON in a body in which the gateway finds none: it is packed,
// or JSON by its type, as in UTF-16, behind a byte order mark, or with a comma too many.
func mayHide(r *http.Request) bool {
	packed := slices.ContainsFunc(r.Header["Content-Encoding"], func(coding string) bool { return !strings.EqualFold(coding, "identity") })
	return packed || isJSON(r)
}

// scoped is a key as the claims of c have it.
func (c *Call) scoped(key string, u *url.URL) string {
	if c.Route.Key.Scope != scopePath {
		return key
	}
	return atPath(key, place(u))
}

// atPath is a key that is another one at each path.
func atPath(key, at string) string {
	const digits = 16
	sum := sha256.Sum256([]byte(at))
	if scoped := key + "@" + hex.EncodeToString(sum[:digits/2]); len(scoped) <= claim.MaxKeyLength {
		return scoped
	}
	sum = sha256.Sum256([]byte(key + "@" + at))
	return hex.EncodeToString(sum[:])
}

// kind is how a body is compared and looked into: json, form, or bytes.
func (c *Call) kind(r *http.Request) string {
	if len(r.Header["Content-Encoding"]) > 0 {
		return bodyBytes
	}
	if c.Fingerprint.Body != "" {
		return c.Fingerprint.Body
	}
	if isJSON(r) {
		return bodyJSON
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/x-www-form-urlencoded" {
		return bodyForm
	}
	return bodyBytes
}

// isJSON reports whether the body of r is JSON by its type.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// canonical is the canonical form of a body of this kind, and the body itself if it is none. No body is
// another one's canonical form: that would be of the kind, too.
func (c *Call) canonical(kind string, body []byte) (out []byte, ok bool) {
	switch kind {
	case bodyJSON:
		if out, err := claim.Canonical(body, claim.CanonicalOptions{Drop: c.drop()}); err == nil {
			return out, true
		}
	case bodyForm:
		if fields, err := parseForm(body); err == nil {
			fields = slices.DeleteFunc(fields, func(f field) bool { return slices.Contains(c.Fingerprint.Without, f.name) })
			sort.SliceStable(fields, func(i, j int) bool { return fields[i].place() < fields[j].place() })
			var b bytes.Buffer
			for i, f := range fields {
				if i > 0 {
					b.WriteByte('&')
				}
				b.WriteString(url.QueryEscape(f.name) + "=" + url.QueryEscape(f.value))
			}
			return b.Bytes(), true
		}
	}
	return body, false
}

func (c *Call) drop() map[string]struct{} {
	if len(c.Fingerprint.Without) == 0 {
		return nil
	}
	all := make(map[string]struct{}, len(c.Fingerprint.Without))
	for _, name := range c.Fingerprint.Without {
		all[name] = struct{}{}
	}
	return all
}

type field struct{ name, value string }

// place is by what a field is ordered: fields of one place keep their order. In i[][id]=1&i[][n]=2&i[][id]=3
// it says to which item of the list each belongs.
func (f *field) place() string {
	if before, _, list := strings.Cut(f.name, "[]"); list {
		return before + "[]"
	}
	return f.name
}

// parseForm reads the fields of a form in their order, which url.ParseQuery forgets.
func parseForm(body []byte) (fields []field, err error) {
	for part := range strings.SplitSeq(string(body), "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		f := field{}
		if f.name, err = url.QueryUnescape(name); err == nil {
			f.value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// storable reports whether the request line of r and a body of this kind may be stored: they have none of
// the members that never are. What cannot be looked into may have them.
func (c *Call) storable(r *http.Request, kind string, body []byte) bool {
	if len(c.NeverStore) == 0 {
		return true
	}
	if c.formHolds([]byte(r.URL.RawQuery)) {
		return false
	}
	switch {
	case len(body) == 0:
		return true
	case kind == bodyJSON:
		v, ok := decode(body)
		return ok && !c.holds(nil, v)
	case kind == bodyForm:
		return !c.formHolds(body)
	}
	return false
}

// formHolds reports whether a form or a query has a member that is never stored, or is neither: JSON is
// one field with an odd name.
func (c *Call) formHolds(text []byte) bool {
	fields, err := parseForm(text)
	return err != nil || slices.ContainsFunc(fields, func(f field) bool {
		return strings.ContainsAny(f.name, `{":`) || c.holds(nil, map[string]any{f.name: f.value})
	})
}

// holds reports whether v, which is at this path, has a member that is never stored. a[b][0].c is a.b.c,
// and a text that is JSON is looked into.
func (c *Call) holds(at []string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			here := slices.Clip(at)
			for _, part := range nameParts(name) {
				if here = append(here, part); c.never(here) {
					return true
				}
			}
			if c.holds(here, value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(value any) bool { return c.holds(at, value) })
	case string:
		text := []byte(strings.TrimSpace(v))
		if len(text) == 0 || !strings.ContainsRune(`{["`, rune(text[0])) {
			return false
		}
		inner, ok := decode(text)
		if _, err := claim.Canonical(text, claim.CanonicalOptions{}); err != nil {
			// A member that comes twice hides one, and what is cut off hides all. Plain text may begin like a list.
			return text[0] == '{' || ok && text[0] == '['
		}
		return ok && c.holds(at, inner)
	}
	return false
}

// nameParts are the names in a[b][0].c, without indexes.
func nameParts(name string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(name, func(r rune) bool { return r == '[' || r == ']' || r == '.' }), func(part string) bool {
		return strings.Trim(part, "0123456789") == ""
	})
}

// never reports whether a member at this path is never stored.
func (r *Route) never(at []string) bool {
	for _, name := range r.NeverStore {
		want := strings.Split(name, ".")
		if len(want) > len(at) {
			continue
		}
		if end := at[len(at)-len(want):]; slices.EqualFunc(want, end, strings.EqualFold) {
			return true
		}
	}
	return false
}

func decode(text []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// at is the member of v at a JSON pointer.
func at(v any, pointer string) (any, bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch w := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = w[part]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(w) {
				return nil, false
			}
			v = w[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// textAt is the text at a JSON pointer into a body, or the number, which is the same for equal bodies; "" if
// there is none.
func textAt(body []byte, pointer string) string {
	v, ok := decode(body)
	if !ok {
		return ""
	}
	v, ok = at(v, pointer)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		if number, err := claim.Canonical([]byte(v), claim.CanonicalOptions{}); err == nil {
			return string(number)
		}
	}
	return ""
}

// template is the target of a look-up, with names in braces.
type template struct{ text string }

var nameForm = regexp.MustCompile(`\{([^{}]*)\}`)

// newTemplate reads a look-up for requests of a pattern. A path names what a request is about, and not the
// request: one of a PUT or a DELETE is told by what became of that, if the route's own replies say how.
func newTemplate(text, pattern string, ownReplies bool) (*template, error) {
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, " #\\") {
		return nil, fmt.Errorf("%q is not a path of the upstream; write one as in /v1/orders?reference={key}", text)
	}
	if _, err := url.ParseRequestURI(nameForm.ReplaceAllString(text, "x")); err != nil {
		return nil, fmt.Errorf("%q is not a path of the upstream; write one as in /v1/orders?reference={key}", text)
	}
	if strings.ContainsAny(nameForm.ReplaceAllString(text, ""), "{}") {
		return nil, fmt.Errorf("%q has a brace without its other one; write names as in {key}, and a brace itself as %%7B or %%7D", text)
	}
	known, apart, thing := append([]string{"key", "tenant"}, wildcards(pattern)...), false, ""
	for _, m := range nameForm.FindAllStringSubmatch(text, -1) {
		switch name := m[1]; {
		case !slices.Contains(known, name) && !isPointer(name):
			return nil, fmt.Errorf("has {%s}, which is not known; write %s, or a JSON pointer into the body, as in {/reference}", name, "{"+strings.Join(known, "}, {")+"}")
		case name == "key" || isPointer(name):
			apart = true
		case name != "tenant":
			thing = name
		}
	}
	switch method, _, _ := strings.Cut(pattern, " "); {
	case apart:
	case thing == "":
		return nil, fmt.Errorf("%q asks about every request alike, so that one is taken for another; name what tells them apart, as in /v1/orders?reference={key}", text)
	case method != http.MethodPut && method != http.MethodDelete:
		return nil, fmt.Errorf("%q asks about the {%s} of the path alone, so that another request about it is taken for this one; name what tells them apart as well, as in ?reference={key}", text, thing)
	case !ownReplies:
		return nil, fmt.Errorf("%q asks about the {%s} of the path alone, which may have been there before; say in ask.replies how its answers are read, as in {status: 404, outcome: done} of a DELETE", text, thing)
	}
	return &template{text}, nil
}

// target is where to ask about a request; "" if it lacks a member that the template names, or if a value
// leads to another path.
func (t *template) target(key, tenant string, wild map[string]string, body []byte) string {
	whole := true
	before, query, search := strings.Cut(t.text, "?")
	fill := func(text string, escape func(string) string) string {
		return nameForm.ReplaceAllStringFunc(text, func(name string) string {
			name = name[1 : len(name)-1]
			var value string
			switch {
			case isPointer(name):
				value = textAt(body, name)
			case name == "key":
				value = key
			case name == "tenant":
				value = tenant
			default:
				value = wild[name]
			}
			if value == "" {
				whole = false
			}
			return escape(value)
		})
	}
	out := fill(before, url.PathEscape)
	if at, err := url.PathUnescape(out); !whole || err != nil || climbs(at) {
		return ""
	}
	if search {
		out += "?" + fill(query, url.QueryEscape)
	}
	if !whole {
		return ""
	}
	return out
}

// climbs reports whether a path has a part . or .. for an upstream that decodes it first.
func climbs(at string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(at, func(r rune) bool { return r == '/' || r == '\\' }), func(part string) bool { return part == "." || part == ".." })
}

// Verifier verifies a token and returns its claims. The error is [ErrNoIdentity], by [NoIdentity], or of
// the keys, which may be back soon. It is safe for concurrent use.
type Verifier func(ctx context.Context, token string) (map[string]any, error)

// NoIdentity is [ErrNoIdentity] with a reason, a sentence for the caller.
func NoIdentity(reason string) error { return &identityError{reason} }
