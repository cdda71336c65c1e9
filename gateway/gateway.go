package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/seal"
)

const (
	// Operation is that of every claim, and prefix begins the ids of their objects. What is sent with
	// a header for repeats has that in its operation, too: see [Gateway.operation].
	Operation = "call"
	prefix    = "gw"
	// Tenant has all keys: callers share one space of them.
	Tenant = "gateway"
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
	// Upstream is the base URL of the API: its path begins every path that is sent there.
	Upstream *url.URL
	// Dedupe names the header by which the upstream recognises a repeat for at least 24 h, and
	// answers it as it answered the first. "": it recognises none. Idempotency-Key gets the caller's
	// key, any other header one of the claim's own.
	Dedupe string
	// Timeout is how long the upstream may take to answer a guarded request; 0 means a minute.
	// A longer one outlasts the time that callers wait.
	Timeout time.Duration
	// Seal seals requests at rest. Without a key no request is guarded, and none is sent.
	Seal *seal.Ring
	// RetryAfter is when a retry of a released request is sent: claim.Policy.TryAgainAfter.
	RetryAfter time.Duration
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}

// defaultTimeout leaves a third of the 90 s that a request may run to a wait for a rival and to
// forwards.
const defaultTimeout = time.Minute

var dedupeForm = regexp.MustCompile(`^[A-Za-z0-9-]{0,48}$`) // the operation has room for as many

// Gateway is the executor of guarded requests, and the handler of all others. It is safe for
// concurrent use.
type Gateway struct {
	c    Config
	log  *slog.Logger
	call *http.Transport
	pass http.Handler
}

// New returns a Gateway. The error names what is wrong with the upstream's URL.
func New(c Config) (*Gateway, error) {
	if err := checkUpstream(c.Upstream); err != nil {
		return nil, err
	}
	c.Dedupe = http.CanonicalHeaderKey(c.Dedupe)
	if !dedupeForm.MatchString(c.Dedupe) {
		return nil, fmt.Errorf("%q is not the name of a header by which an upstream recognises repeats; write one as in Idempotency-Key", c.Dedupe)
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	g := &Gateway{c: c, log: cmp.Or(c.Logger, slog.Default()), call: callTransport()}
	g.pass = g.newPass()
	return g, nil
}

// ReadUpstream reads the URL of an upstream.
func ReadUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the upstream's URL: %w", err)
	}
	return u, checkUpstream(u)
}

func checkUpstream(u *url.URL) error {
	if u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("the upstream must be an absolute URL without query or credentials, as in http://127.0.0.1:9000")
	}
	return nil
}

// Operations is for claim.Config.
func (g *Gateway) Operations() claim.Operations { return claim.Operations{g.operation(): prefix} }

// operation is that of new claims. It says whether a claim's request was sent with a header by which
// the upstream recognises it, and with which: the setting may have changed since.
func (g *Gateway) operation() string {
	if g.c.Dedupe == "" {
		return Operation
	}
	return Operation + " " + g.c.Dedupe
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

// Guards reports whether r becomes a claim: a POST or PATCH with an Idempotency-Key. gRPC never
// does.
func (*Gateway) Guards(r *http.Request) bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPatch) && len(r.Header[keyHeader]) > 0 && !isGRPC(r)
}

func isGRPC(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// ServeHTTP sends a request that is not guarded to the upstream, and its answer back, both as they
// stream.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.pass.ServeHTTP(w, r) }

// Request completes req, whose key is set, with the operation, the fingerprint's input and the
// sealed payload of a guarded request with this body.
func (g *Gateway) Request(r *http.Request, body []byte, req *claim.Request) (err error) {
	req.Operation = g.operation()
	req.Input = claim.FingerprintInput{
		Method: r.Method, Path: cut(r.URL.EscapedPath()), Tenant: req.Key.Tenant, ContentType: cut(contentType(r)), Canonical: digest(r, body),
	}
	req.Payload, err = g.c.Seal.Seal(r.Context(), row(req.Key), pack(r, body))
	if err != nil {
		return fmt.Errorf("%w: the request could not be sealed: %w", claim.ErrUnavailable, err)
	}
	return nil
}

func contentType(r *http.Request) string { return strings.Join(r.Header["Content-Type"], ",") }

func cut(s string) string { return s[:min(len(s), maxPart)] }

// row binds a payload to its key, which errors do not name.
func row(key claim.Key) seal.Row {
	sum := sha256.Sum256([]byte(key.Tenant + "\x00" + key.Value))
	return seal.Row{Table: "call", ID: hex.EncodeToString(sum[:])}
}

// digest is what identifies a request beside its method: target, credentials, coding and canonical
// body. Authorization belongs to it, as otherwise whoever can guess a key and its request would read
// another caller's reply.
func digest(r *http.Request, body []byte) []byte {
	h := sha256.New()
	kind := contentType(r)
	for _, part := range [...]string{r.URL.RequestURI(), strings.Join(r.Header["Authorization"], ","), strings.Join(r.Header["Content-Encoding"], ","), kind[len(cut(kind)):]} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash refuses no write
		_, _ = io.WriteString(h, part)
	}
	h.Write(canonical(r, body))
	return h.Sum(nil)
}

// canonical is the canonical form of a body that is JSON by its type and in fact, and any other
// body itself. No body is another one's canonical form: that would be JSON, too.
func canonical(r *http.Request, body []byte) []byte {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return body
	}
	out, err := claim.Canonical(body, claim.CanonicalOptions{})
	if err != nil {
		return body
	}
	return out
}

// pack is a request as it is stored: HTTP/1.1, with the headers that the upstream gets.
func pack(r *http.Request, body []byte) []byte {
	h := r.Header.Clone()
	dropHopByHop(h)
	// The body is whole, so that it needs no chunks, no permission and no trailers.
	for _, name := range []string{"Content-Length", "Expect", "Trailer"} {
		h.Del(name)
	}
	forwarded := httputil.ProxyRequest{In: r, Out: &http.Request{Header: h}}
	forward(&forwarded)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: upstream\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), len(body))
	_ = h.Write(&b) // a Buffer refuses no write
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// unpack is the opposite of pack. The request is for the upstream.
func (g *Gateway) unpack(ctx context.Context, a *claim.Attempt) (*http.Request, error) {
	plain, err := g.c.Seal.Open(ctx, row(a.Record.Key), a.Payload)
	if err != nil {
		return nil, err
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(plain)))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out := r.WithContext(ctx)
	out.RequestURI = ""
	(&httputil.ProxyRequest{In: r, Out: out}).SetURL(g.c.Upstream)
	quiet(out.Header)
	switch name := dedupeOf(a.Record.Operation); name {
	case "":
	case keyHeader:
		out.Header.Set(name, a.Record.Key.Value)
	default:
		out.Header.Set(name, a.Record.ProviderKey)
	}
	out.Body, out.GetBody, out.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
		hide(out.Header)
	}
	return out, nil
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

// dropHopByHop removes the headers of one connection (RFC 9110, section 7.6.1).
func dropHopByHop(h http.Header) {
	for _, values := range h["Connection"] {
		for name := range strings.SplitSeq(values, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}
