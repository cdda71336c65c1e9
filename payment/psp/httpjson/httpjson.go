// Package httpjson is the adapter for providers with a plain JSON API over HTTP, in the
// format that package simulator documents:
//
//	POST {base}/v1/charges, /v1/transfers, /v1/refunds
//	GET  {base}/v1/lookup?kind=…&reference=…
//	GET  {base}/v1/movements?kind=…&reference=…&id=…
//
// How replies are read:
//
//	200, "status":"succeeded", our own parameters   Approved
//	402, class soft, hard or invalid                Declined
//	400, 404, 422, class invalid                    Declined, Invalid
//	everything else                                 Unknown
//
// Everything else is: 409 (of class key_reuse, psp.ErrKeyReused: the key was used with
// other parameters, and the first call may well have moved money), 429, 5xx, a
// redirect, any other class or shape, a reply too large, malformed, or about another
// movement, a network error, a time-out.
//
// The reply to a GET of a charge has in "disputed" how much of it the payer disputes, or has
// back by a dispute, see psp.Movement.
//
// # Notices
//
// The provider reports movements by webhook, with a POST signed in the manner of
// Standard Webhooks (HMAC-SHA256 over id, time and body):
//
//	{"id":"evt_…","type":"charge.succeeded","created":1772366400,
//	 "data":{"id":"psp_ch_…","status":"succeeded","reference","amount","currency"}}
//
// The type is charge, transfer or refund, a dot, and the status. A refusal has the
// status declined and the error object of a reply. A movement that succeeded and has
// failed since has the status failed, with its id and an error object. Any other type
// is ignored.
//
// # Configuration
//
// Paths, the name of the header that carries the key, further headers, the
// capabilities, and how notices are signed can differ, see [Config]; how bodies
// look cannot.
//
// # No retries
//
// The adapter makes one attempt per call, and ensures that net/http does too.
// net/http's Transport resends a POST on a fresh connection if a kept-alive one turns
// out to be dead and either the request carries an Idempotency-Key or its body can be
// rewound. Without GetBody it can do neither, so requests here have none; nor are
// redirects followed. The price is an Unknown if a connection dies during a call, which
// idle time-outs shorter than the provider's keep rare.
package httpjson

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/internal/wire"
)

const (
	// DefaultTimeout bounds one call where Capabilities.Timeout is 0.
	DefaultTimeout = 30 * time.Second
	// maxReply bounds a reply in bytes; a healthy one has a few hundred.
	maxReply = 64 << 10
)

const (
	maxRespHead  = 16 << 10 // bytes
	expectedRead = 1 << 10  // bytes: first size of a reply buffer
)

// Config is what [New] needs.
type Config struct {
	// Name identifies the provider in records and metrics: lower case letters,
	// digits, '-' and '_'.
	Name string
	// Account is the provider's id of our account, which its API does not report; "" if it is not
	// set.
	Account string
	// BaseURL is an absolute http or https URL, without query.
	BaseURL string
	// Paths are relative to BaseURL; members left out default to those of the package
	// comment.
	Paths Paths
	// KeyHeader carries the provider key; "" means Idempotency-Key.
	KeyHeader string
	// Header is sent with each request unchanged: credentials, a version. It must not
	// contain the headers that the adapter sets itself.
	Header http.Header
	// Client sends the requests; nil means one with a transport tuned for a
	// single busy host. It is copied, and follows no redirect. Its transport
	// must not retry.
	Client *http.Client
	// Capabilities is what the provider can do. Without dedupe (psp.DedupeNone) the
	// adapter sends no provider key, so that no proxy takes the call for one that is
	// safe to repeat. Timeout 0 means [DefaultTimeout].
	Capabilities psp.Capabilities
	// Notices configures the signatures of the provider's webhooks.
	Notices Notices
}

// Paths are the paths of a provider's calls and look-ups.
type Paths struct{ Charges, Transfers, Refunds, Lookup, Movements string }

// Notices configures how a provider signs its webhooks, in the manner of Standard
// Webhooks.
type Notices struct {
	// Secret is base64, with or without "whsec_" before it; "" refuses all notices.
	Secret string
	// The headers that carry the event's id, the time of signing and the signature;
	// "" means webhook-id, webhook-timestamp and webhook-signature.
	IDHeader, TimestampHeader, SignatureHeader string
	// Tolerance 0 means psp.NoticeTolerance.
	Tolerance time.Duration
}

// Provider implements [psp.Provider]. It is safe for concurrent use.
type Provider struct {
	psp.NoCapture
	name    string
	account string
	caps    psp.Capabilities
	client  *http.Client
	own     *http.Transport // nil when the client came from outside

	charges, transfers, refunds, lookup, movements string // URLs

	keyHeader string
	header    http.Header
	notices   Notices
	signature *standardwebhooks.Webhook // nil: no secret

	buffers sync.Pool // *bytes.Buffer, for replies
}

var (
	_ psp.Provider = (*Provider)(nil)
	_ psp.Notifier = (*Provider)(nil)
)

// New returns an adapter. It makes no call.
func New(cfg Config) (*Provider, error) {
	if cfg.Name == "" || strings.Trim(cfg.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return nil, fmt.Errorf("httpjson: name %q: use lower case letters, digits, '-' and '_'", cfg.Name)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("httpjson: base URL: %w", err)
	}
	if !wire.IsBase(base) {
		return nil, fmt.Errorf("httpjson: base URL %q: must be an absolute http or https URL without query", cfg.BaseURL)
	}
	if cfg.Capabilities.Timeout < 0 {
		return nil, fmt.Errorf("httpjson: time-out %s: must not be negative", cfg.Capabilities.Timeout)
	}
	p := &Provider{
		name:      cfg.Name,
		account:   cfg.Account,
		caps:      cfg.Capabilities,
		charges:   base.JoinPath(orElse(cfg.Paths.Charges, "v1/charges")).String(),
		transfers: base.JoinPath(orElse(cfg.Paths.Transfers, "v1/transfers")).String(),
		refunds:   base.JoinPath(orElse(cfg.Paths.Refunds, "v1/refunds")).String(),
		lookup:    base.JoinPath(orElse(cfg.Paths.Lookup, "v1/lookup")).String(),
		movements: base.JoinPath(orElse(cfg.Paths.Movements, "v1/movements")).String(),
		keyHeader: orElse(cfg.KeyHeader, "Idempotency-Key"),
		header:    cfg.Header.Clone(),
		buffers:   sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, expectedRead)) }},
	}
	if p.caps.Timeout == 0 {
		p.caps.Timeout = DefaultTimeout
	}
	if err := p.sendable(); err != nil {
		return nil, err
	}
	for _, reserved := range []string{p.keyHeader, "Content-Type"} {
		if len(p.header.Values(reserved)) > 0 {
			return nil, fmt.Errorf("httpjson: header %s: the adapter sets it itself", reserved)
		}
	}
	if err := p.setNotices(cfg.Notices); err != nil {
		return nil, err
	}
	var client http.Client
	if cfg.Client != nil {
		client = *cfg.Client
	} else {
		p.own = wire.NewTransport(maxRespHead)
		client.Transport = p.own
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.client = &client
	return p, nil
}

// sendable refuses headers that net/http would not send: each call would fail with an
// unknown outcome. The error does not contain the values, which may be secrets.
func (p *Provider) sendable() error {
	if !isHeader(p.keyHeader) {
		return fmt.Errorf("httpjson: key header %q cannot be the name of a header; write one as Idempotency-Key", p.keyHeader)
	}
	for name, values := range p.header {
		if !isHeader(name) {
			return fmt.Errorf("httpjson: %q cannot be the name of a header", name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("httpjson: the value of the header %s holds a line break or another control character; copy it again from the provider", name)
			}
		}
	}
	return nil
}

// isHeader reports whether net/http accepts name as a header's: RFC 9110's token.
func isHeader(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Close closes idle connections of a transport the adapter made itself. Running calls
// continue, and later ones still work.
func (p *Provider) Close() error {
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
	return nil
}

// Name implements [psp.Provider].
func (p *Provider) Name() string { return p.name }

// Account implements [psp.Accounted] from the configuration.
func (p *Provider) Account(context.Context) (string, error) { return p.account, nil }

// Capabilities implements [psp.Provider].
func (p *Provider) Capabilities() psp.Capabilities { return p.caps }

// Charge implements [psp.Provider].
func (p *Provider) Charge(ctx context.Context, call psp.Call) psp.Result {
	if member := call.Terms.Special(); member != "" {
		return psp.Result{Outcome: psp.Declined, Decline: &psp.Decline{
			Class: psp.Invalid, Code: "unsupported", Member: member, Message: "this provider has no " + member + "; nothing was sent.",
		}}
	}
	return p.move(ctx, p.charges, call)
}

// Transfer implements [psp.Provider].
func (p *Provider) Transfer(ctx context.Context, call psp.Call) psp.Result {
	return p.move(ctx, p.transfers, call)
}

// Refund implements [psp.Provider].
func (p *Provider) Refund(ctx context.Context, call psp.Call) psp.Result {
	return p.move(ctx, p.refunds, call)
}

// errNoKey is a bug of the caller. It is not folded into a decline: the caller may have
// sent the call before, with its key.
var errNoKey = errors.New("httpjson: the call has no provider key, without which the provider cannot dedupe it")

func (p *Provider) move(ctx context.Context, to string, call psp.Call) psp.Result {
	if p.caps.Dedupe != psp.DedupeNone && call.Key == "" {
		return psp.Result{Err: errNoKey}
	}
	// The body is not pooled: the transport may read it after Do has returned.
	body, err := json.Marshal(moveBody{call.Reference, call.Amount, call.Currency, call.Source, call.Description})
	if err != nil {
		return psp.Result{Err: fmt.Errorf("httpjson: encode call: %w", err)}
	}
	// A caller that has just set this time-out need not pay for it again.
	if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > p.caps.Timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.caps.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return psp.Result{Err: fmt.Errorf("httpjson: make request: %w", err)}
	}
	req.GetBody = nil // see "No retries"
	req.Header.Set("Content-Type", "application/json")
	if p.caps.Dedupe != psp.DedupeNone {
		req.Header.Set(p.keyHeader, call.Key)
	}
	reply, status, err := p.do(req)
	if err != nil {
		return psp.Result{Err: err}
	}
	return reply.result(status, call)
}

// Lookup implements [psp.Provider].
func (p *Provider) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	if !p.caps.Lookup {
		return psp.FoundUnknown, psp.Result{Err: errors.New("httpjson: the provider has no look-up")}
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	query := url.Values{"kind": {string(call.Kind)}, "reference": {call.Reference}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.lookup+"?"+query, nil)
	if err != nil {
		return psp.FoundUnknown, psp.Result{Err: fmt.Errorf("httpjson: make request: %w", err)}
	}
	reply, status, err := p.do(req)
	if err != nil {
		return psp.FoundUnknown, psp.Result{Err: err}
	}
	return reply.found(status, call)
}

// Show implements [psp.Provider].
func (p *Provider) Show(ctx context.Context, kind psp.Kind, reference, providerRef string) (psp.Found, psp.Movement, error) {
	if p.caps.Blind {
		return psp.FoundUnknown, psp.Movement{}, errors.New("httpjson: the provider has no look-up by its own id")
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	query := url.Values{"kind": {string(kind)}, "reference": {reference}, "id": {providerRef}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.movements+"?"+query, nil)
	if err != nil {
		return psp.FoundUnknown, psp.Movement{}, fmt.Errorf("httpjson: make request: %w", err)
	}
	reply, status, err := p.do(req)
	if err != nil {
		return psp.FoundUnknown, psp.Movement{}, err
	}
	return reply.shown(status)
}

// do sends the request once and reads a reply of at most maxReply bytes. An error means
// that no whole, well-formed reply arrived, and nothing more.
//
// The trace context is not sent: the provider is another organisation, and its trace must not
// continue ours.
func (p *Provider) do(req *http.Request) (r reply, status int, err error) {
	_, sp := span.Client(req.Context(), req.Method)
	defer func() {
		trace(sp, req, status, err)
		sp.End()
	}()
	return p.exchange(req)
}

// trace records where a call went and its result, without the query and the headers.
func trace(sp span.Span, req *http.Request, status int, err error) {
	if !sp.IsRecording() {
		return
	}
	sp.SetAttributes(span.Method.String(req.Method), span.Address.String(req.URL.Host), span.URLPath.String(req.URL.Path))
	if status != 0 {
		sp.SetAttributes(span.Status.Int(status))
	}
	if err == nil && status >= http.StatusInternalServerError {
		err = fmt.Errorf("httpjson: status %d", status)
	}
	span.Fail(sp, err)
}

func (p *Provider) exchange(req *http.Request) (reply, int, error) {
	maps.Copy(req.Header, p.header)
	res, err := p.client.Do(req)
	if err != nil {
		return reply{}, 0, fmt.Errorf("httpjson: %w", err)
	}
	defer res.Body.Close()
	buf := p.buffers.Get().(*bytes.Buffer)
	defer p.buffers.Put(buf)
	buf.Reset()
	n, err := buf.ReadFrom(io.LimitReader(res.Body, maxReply+1))
	if err != nil {
		return reply{}, res.StatusCode, fmt.Errorf("httpjson: status %d: read reply: %w", res.StatusCode, err)
	}
	if n > maxReply {
		return reply{}, res.StatusCode, fmt.Errorf("httpjson: status %d: reply over %d bytes", res.StatusCode, maxReply)
	}
	var r reply
	if err := json.Unmarshal(buf.Bytes(), &r); err != nil {
		return reply{}, res.StatusCode, fmt.Errorf("httpjson: status %d: reply is not the expected JSON: %w", res.StatusCode, err)
	}
	return r, res.StatusCode, nil
}
