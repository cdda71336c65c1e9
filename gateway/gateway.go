package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/seal"
)

const (
	// Operation is that of every claim, and prefix begins the ids of their objects. The name of a header
	// for repeats, behind a space, is a part of the operation of what is sent with one: the route may
	// have changed since.
	Operation = "call"
	prefix    = "gw"
	// DefaultTenant has the keys of all callers, unless the settings tell tenants apart.
	DefaultTenant = "gateway"
	// Own begins the paths that the gateway answers itself. The upstream never gets them.
	Own = "/_homeward/"

	keyHeader = "Idempotency-Key"
	// maxPart bounds the path and the Content-Type in a fingerprint's input, in bytes: nodes
	// send each other no longer ones. The digest covers the whole of the path, and what is cut off
	// the Content-Type.
	maxPart = 1024
)

// Config configures a [Gateway].
type Config struct {
	Settings Settings
	// Region is where the node runs.
	Region string
	// Service is the header of the service's own credentials, as in "Authorization: Bearer …", for
	// routes whose recovery uses it; "": there is none.
	Service string
	// Verify verifies tokens, for tenants from a claim.
	Verify Verifier
	// Seal seals requests at rest. Without a key no request is guarded, and none is sent.
	Seal *seal.Ring
	// RetryAfter is when a retry of a released request is sent: claim.Policy.TryAgainAfter.
	RetryAfter time.Duration
	// Dial dials the upstreams, as net.Dialer does; nil means the machine's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}

const (
	// DefaultTimeout is how long an upstream may take to answer: less than a drain lasts by default, so
	// that none leaves a request in doubt.
	DefaultTimeout = 40 * time.Second
	// maxTimeout leaves a third of the 90 s that a request may run to a wait for a rival and to forwards.
	maxTimeout = time.Minute
)

// Gateway is the executor of guarded requests, and the handler of all others. It is safe for
// concurrent use.
type Gateway struct {
	c       Config
	log     *slog.Logger
	match   matcher
	proxies []netip.Prefix
	apart   bool // a key alone names no claim
	// upstreams are by region; "" has that of all others.
	upstreams map[string]*url.URL
	call      *http.Transport
	pass      http.Handler
	// serviceName and serviceValue are the header of Config.Service.
	serviceName, serviceValue string
	// Of shadow mode.
	tally       tally
	comparisons chan struct{}
}

// New returns a Gateway. The error names what is wrong with the settings, one mistake to a line.
func New(c Config) (*Gateway, error) {
	if !c.Settings.On() {
		return nil, errors.New("settings: gateway.upstream is missing; name the API to guard")
	}
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{c: c, log: cmp.Or(c.Logger, slog.Default()), call: callTransport(c.Dial), upstreams: map[string]*url.URL{}, comparisons: make(chan struct{}, comparing)}
	for _, text := range append([]string{"=" + c.Settings.Upstream}, c.Settings.Upstreams...) {
		region, at, _ := strings.Cut(text, "=")
		if at == "" {
			continue
		}
		u, err := ReadUpstream(at)
		if err != nil {
			return nil, err
		}
		g.upstreams[region] = u
	}
	if g.at(c.Region) == nil {
		return nil, fmt.Errorf("settings: gateway.upstreams has none for region %s; add it, or set gateway.upstream for all others", c.Region)
	}
	for _, text := range c.Settings.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		g.proxies = append(g.proxies, p.Masked())
	}
	var err error
	if g.match, err = newMatcher(&c.Settings); err != nil {
		return nil, err
	}
	g.apart = c.Settings.KeysApart()
	if g.serviceName, g.serviceValue, err = ReadService(c.Service); err != nil {
		return nil, err
	}
	if c.Service == "" && c.Settings.NeedsService() {
		return nil, errors.New("a route of the gateway recovers with the service's credentials, and there are none: set HOMEWARD_GATEWAY_CREDENTIALS, as in Authorization: Bearer …")
	}
	g.pass = g.newPass()
	return g, nil
}

// NeedsService reports whether a route recovers with the service's credentials.
func (s *Settings) NeedsService() bool {
	return slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Credentials == service })
}

// ReadService reads a header with credentials, as [Config].Service has it.
func ReadService(text string) (name, value string, err error) {
	if text == "" {
		return "", "", nil
	}
	name, value, ok := strings.Cut(text, ":")
	name, value = http.CanonicalHeaderKey(name), strings.TrimSpace(value)
	if !ok || !isHeader(name) || value == "" || strings.ContainsAny(value, "\r\n") {
		return "", "", errors.New("the gateway's credentials are no header; write one as in Authorization: Bearer …")
	}
	return name, value, nil
}

// at is the upstream of a region.
func (g *Gateway) at(region string) *url.URL { return cmp.Or(g.upstreams[region], g.upstreams[""]) }

// upstreamOf is the upstream that gets the requests of claims at home. One that does not recognise what
// another has done never gets what was meant for that, also from a deputy.
func (g *Gateway) upstreamOf(home string) *url.URL {
	if g.c.Settings.ShareKeys {
		return g.at(g.c.Region)
	}
	return g.at(home)
}

// UnknownRegions names the upstreams of regions that are none of these: they would never get a request.
func (s *Settings) UnknownRegions(regions []string) error {
	var errs []error
	for i, text := range s.Upstreams {
		if name, _, ok := strings.Cut(text, "="); ok && name != "" && !slices.Contains(regions, name) {
			errs = append(errs, fmt.Errorf("settings: gateway.upstreams[%d] names the region %s, which does not exist; write one of %s", i, name, strings.Join(regions, ", ")))
		}
	}
	return errors.Join(errs...)
}

// WithoutUpstream are those of regions whose keys only their own nodes can send requests for. A node goes
// on without them: a region is added to the topology before its nodes are, and before all settings name it.
func (s *Settings) WithoutUpstream(regions []string) []string {
	if s.Upstream != "" || s.ShareKeys {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(regions), func(name string) bool {
		return slices.ContainsFunc(s.Upstreams, func(text string) bool { return strings.HasPrefix(text, name+"=") })
	})
}

// ReadUpstream reads the URL of an upstream.
func ReadUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("the upstream must be an absolute URL without query or credentials, as in http://127.0.0.1:9000")
	}
	return u, nil
}

// Operations is for claim.Config.
func (*Gateway) Operations() claim.Operations {
	return claim.Operations{Operation: prefix, claim.CancelKey: "key", shadow: shadowPrefix}
}

// Unstopped is for claim.Config: what was sent cannot be called back.
func (*Gateway) Unstopped() map[string]bool { return map[string]bool{Operation: true} }

// operation is that of new claims of c.
func (c *Call) operation() string {
	if c.Dedupe == "" {
		return Operation
	}
	return Operation + " " + c.Dedupe
}

// dedupeOf is the header for repeats that operation names, "" for none.
func dedupeOf(operation string) string {
	_, name, _ := strings.Cut(operation, " ")
	return name
}

// Close closes the idle connections to the upstream. A nil Gateway has none.
func (g *Gateway) Close() {
	if g != nil {
		g.call.CloseIdleConnections()
	}
}

func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(contentType(r), "application/grpc")
	return ok && (rest == "" || strings.ContainsRune("+-;", rune(rest[0])))
}

// ServeHTTP sends a request that is not guarded to the upstream, and its answer back, both as they
// stream.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.pass.ServeHTTP(w, r) }

// Request completes req, whose key is set and which the upstream gets as sent, with the operation, the
// fingerprint's input and the sealed payloads of c, which came as r with this body.
func (c *Call) Request(r *http.Request, body []byte, sent string, req *claim.Request) (err error) {
	kind := c.kind(r)
	canonical, ok := c.canonical(kind, body)
	req.Operation = c.operation()
	req.Input = claim.FingerprintInput{
		Method: r.Method, Path: cut(r.URL.EscapedPath()), Tenant: req.Key.Tenant, ContentType: cut(contentType(r)), Canonical: c.digest(r, sent, canonical),
	}
	with := sending{Profile: c.Profile, Timeout: c.Timeout, Dedupe: c.Dedupe, DedupeFor: c.DedupeFor, Recovery: c.Recovery, Service: c.Credentials == service, Replies: c.Replies, Keep: c.Route.KeepHeaders, ReplayFor: c.ReplayFor}
	if sent != req.Key.Value {
		with.Key = sent
	}
	if c.ask != nil {
		in := []byte(nil)
		if kind == bodyJSON && ok {
			in = body
		}
		if with.Ask = c.ask.target(sent, req.Key.Tenant, c.wild, in); with.Ask != "" {
			with.AskReplies, with.Answers, with.SureAfter = c.Ask.Replies, c.Ask.Answers, c.Ask.SureAfter
		}
	}
	if kind != bodyBytes && !ok {
		kind = bodyBytes // it is none
	}
	head := headOf(r)
	if c.Recovery == recoverRepeat && !with.Service && c.storable(r, kind, body) {
		req.Payload, err = c.g.seal(r.Context(), req.Key, &with, r, head, body)
		return err
	}
	// What is stored is what a recovery needs, and has no member that never is.
	if req.Unstored, err = c.g.seal(r.Context(), req.Key, &with, r, head, body); err != nil {
		return err
	}
	if with.Partial = c.Recovery != recoverRepeat || !c.storable(r, kind, body); with.Partial {
		body = nil
	}
	switch {
	case c.Recovery == none:
		head = http.Header{}
	case with.Service:
		for _, name := range credentials {
			head.Del(name)
		}
		head.Del(c.g.serviceName)
	}
	req.Payload, err = c.g.seal(r.Context(), req.Key, &with, r, head, body)
	return err
}

// credentials are headers that say who sends a request.
var credentials = []string{"Authorization", "Cookie", "X-Api-Key"}

func contentType(r *http.Request) string { return strings.Join(r.Header["Content-Type"], ",") }

func cut(s string) string { return s[:min(len(s), maxPart)] }

// row binds a payload to its key, which errors do not name.
func row(key claim.Key) seal.Row {
	sum := sha256.Sum256([]byte(key.Tenant + "\x00" + key.Value))
	return seal.Row{Table: "call", ID: hex.EncodeToString(sum[:])}
}

// digest is what identifies a request beside its method: target, the headers of the rule, the key's
// spelling, coding and canonical body. An upstream may take another spelling for another key: a repeat, or
// a look-up, of a retry with it would miss what the first try did. Headers with credentials belong to it unless the tenant says who calls: else whoever
// can guess a key and its request would read another caller's reply.
func (c *Call) digest(r *http.Request, sent string, canonical []byte) []byte {
	h := sha256.New()
	part := func(text string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(text))) // a hash refuses no write
		_, _ = io.WriteString(h, text)
	}
	kind := contentType(r)
	part(r.URL.RequestURI())
	part(sent)
	part(strings.Join(r.Header["Content-Encoding"], ","))
	part(kind[len(cut(kind)):])
	for _, name := range c.Fingerprint.Headers {
		values := r.Header[http.CanonicalHeaderKey(name)]
		if strings.EqualFold(name, "Host") {
			values = []string{strings.ToLower(r.Host)}
		}
		part(name)
		part(strings.Join(values, ","))
	}
	h.Write(canonical)
	return h.Sum(nil)
}

// sending is what a node needs to send a request, beside the request: its rule when it came.
type sending struct {
	// Key is as the upstream gets it, if the claim has another one.
	Key       string        `json:"k,omitempty"`
	Profile   string        `json:"p,omitempty"`
	Timeout   time.Duration `json:"t,omitempty"`
	Dedupe    string        `json:"d,omitempty"`
	DedupeFor time.Duration `json:"f,omitempty"`
	Recovery  string        `json:"y,omitempty"`
	Service   bool          `json:"s,omitempty"`
	Replies   []Reply       `json:"r,omitempty"`
	Keep      []string      `json:"h,omitempty"`
	ReplayFor time.Duration `json:"l,omitempty"`
	// Ask is the target of a look-up; "": there is none.
	Ask        string        `json:"a,omitempty"`
	AskReplies []Reply       `json:"q,omitempty"`
	Answers    bool          `json:"w,omitempty"`
	SureAfter  time.Duration `json:"u,omitempty"`
	// Partial: the target and the body are not there, and never stored.
	Partial bool `json:"x,omitempty"`
}

// headOf is the head of r as the upstream gets it.
func headOf(r *http.Request) http.Header {
	h := r.Header.Clone()
	dropHopByHop(h)
	// The body is whole, so that it needs no chunks, no permission and no trailers.
	for _, name := range []string{"Content-Length", "Expect"} {
		h.Del(name)
	}
	forward(&httputil.ProxyRequest{In: r, Out: &http.Request{Header: h}})
	return h
}

// seal is a request as it is stored: what it is sent with, a line, and behind it HTTP/1.1.
func (g *Gateway) seal(ctx context.Context, key claim.Key, with *sending, r *http.Request, head http.Header, body []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(with); err != nil {
		return nil, err
	}
	target := r.URL.RequestURI()
	if with.Partial { // it is never sent again
		target = "/"
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: upstream\r\nContent-Length: %d\r\n", r.Method, target, len(body))
	_ = head.Write(&b) // a Buffer refuses no write
	b.WriteString("\r\n")
	b.Write(body)
	sealed, err := g.c.Seal.Seal(ctx, row(key), b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: the request could not be sealed: %w", claim.ErrUnavailable, err)
	}
	return sealed, nil
}

// open is the opposite of seal.
func (g *Gateway) open(ctx context.Context, a *claim.Attempt) (with sending, r *http.Request, body []byte, err error) {
	payload := a.Payload
	if len(a.Unstored) > 0 {
		payload = a.Unstored
	}
	plain, err := g.c.Seal.Open(ctx, row(a.Record.Key), payload)
	if err != nil {
		return with, nil, nil, err
	}
	line, rest, _ := bytes.Cut(plain, []byte("\n"))
	if err := json.Unmarshal(line, &with); err != nil {
		return with, nil, nil, err
	}
	if r, err = http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(rest), min(len(rest), 4096))); err != nil {
		return with, nil, nil, err
	}
	body, err = io.ReadAll(r.Body)
	return with, r, body, err
}

// aimed is r for the upstream of its home.
func (g *Gateway) aimed(ctx context.Context, r *http.Request, home string) *http.Request {
	out := r.WithContext(ctx)
	out.RequestURI = ""
	(&httputil.ProxyRequest{In: r, Out: out}).SetURL(g.upstreamOf(home))
	quiet(out.Header)
	return out
}

// forward makes pr.Out say where the caller was. The caller's own account of it is kept, as of a
// load balancer in front.
func forward(pr *httputil.ProxyRequest) {
	pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
	pr.SetXForwarded()
}

// hide keeps net/http from repeating a request without a body by itself, on another connection, as it
// does where it finds one of these headers. It does not find them in lower case, in which they mean
// the same to the upstream.
func hide(h http.Header) {
	for _, name := range []string{keyHeader, "X-" + keyHeader} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// quiet keeps net/http from naming itself in place of a caller who names nobody.
func quiet(h http.Header) {
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""}
	}
}

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings"}

// Dropped is a header of r that its Connection header takes away from the upstream, "" for none. The
// gateway has compared it, or has read from it whose request it is, so the request must be refused.
func (*Call) Dropped(r *http.Request) string {
	for _, values := range r.Header["Connection"] {
		for name := range strings.SplitSeq(values, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if len(r.Header[name]) > 0 && !slices.Contains(hopByHop, name) {
				return name
			}
		}
	}
	return ""
}

// dropHopByHop removes the headers of one connection. Connection names no others, see Dropped.
func dropHopByHop(h http.Header) {
	for _, name := range hopByHop {
		h.Del(name)
	}
}
