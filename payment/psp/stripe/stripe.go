// Package stripe is the adapter for Stripe, on its official SDK.
//
//	Charge     a PaymentIntent, created and confirmed in one request, off session unless
//	           the merchant says that the payer is there; the same one, confirmed again,
//	           where it was declined for now
//	Transfer   a Transfer from our balance to a connected account
//	Refund     a Refund of a PaymentIntent
//	Capture    the capture of a PaymentIntent with capture_method manual
//	Cancel     its cancellation, or that of one that waits for its payer
//
// An object in a connected account is named by its id, "@" and the account's, and read
// in the account's name.
//
// Our reference is in each object's metadata as homeward_reference, and is the
// transfer_group of a transfer. The provider key is Stripe's idempotency key, and in
// the metadata as homeward_key.
//
// How replies are read:
//
//	succeeded, our own parameters                     Approved
//	requires_action, on session; processing           Pending
//	requires_capture                                  Authorized
//	402 card_error; a PaymentIntent that needs        Declined, by its code and the
//	another card, or, off session, the payer; one     network's advice, see declines.go
//	that was canceled                                 and advice.go
//	400 or 404 invalid_request_error                  Declined, Invalid, or by its code
//	everything else                                   Unknown
//
// Everything else is: 409 (the key's first request is still under way), 429, a 400 of
// type idempotency_error (the key met other parameters, psp.ErrKeyReused), 401 and 403, 5xx, any other shape, a reply too large or malformed, a
// network error, a time-out.
//
// Our amounts are in the minor units of ISO 4217, and Stripe's in its own: see
// amount.go. An amount that Stripe does not accept is Invalid, and is not sent.
//
// # Idempotency keys
//
// Stripe keeps the reply to a key for at least 24 hours, 500s included, once the
// endpoint has begun to execute; payment.Executor relies on a key for less. A kept 5xx
// would be repeated for as long, whether or not the money moved. So if the reply to a
// repeat is a kept 5xx (header Idempotent-Replayed), or if an object was still
// undecided when the kept reply was made, the adapter reads the present object of that
// key, or, as a confirmation leaves no key in the metadata, the PaymentIntent that was
// to be confirmed. These are reads; it never sends a call twice.
//
// # Look-up
//
// PaymentIntents are searched for by metadata. The search is eventually consistent:
// under a minute in normal operation, and up to an hour behind during outages, says
// Stripe. That hour is the settle window. Transfers are listed by transfer group,
// refunds by their PaymentIntent, which is consistent. A capture or a cancellation is
// read off its PaymentIntent. Search does not serve accounts in India.
//
// # No retries
//
// The SDK would retry conflicts, 5xx and lost connections by itself, twice. That is
// switched off, as is net/http's own retry of requests with an Idempotency-Key on a
// dead connection: the claim decides whether a second call is safe, and the audit must
// have each one.
package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/form"

	"github.com/homeward-io/homeward/internal/span"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/internal/wire"
)

const (
	// DefaultName is the provider's name in records.
	DefaultName = "stripe"
	// DefaultBaseURL is Stripe.
	DefaultBaseURL = "https://api.stripe.com"
	// DefaultTimeout is the SDK's own. Stripe's time-outs form a funnel of which it
	// is the widest part (stripe-ruby issue 46): whatever is slower inside has been
	// given up there before, so a shorter one would turn healthy charges into
	// unknown ones.
	DefaultTimeout = 80 * time.Second
	// SettleWindow is how far behind Stripe's search may be during outages
	// (docs.stripe.com/search, "Data freshness"; the SDK's Search).
	SettleWindow = time.Hour
	pageLen      = 100
	// maxReply bounds a reply in bytes: a page of 100 objects has some 500 kB.
	maxReply     = 4 << 20
	maxRespHead  = 64 << 10 // bytes
	secretPrefix = "whsec_"
	// referenceMember names our reference in metadata.
	referenceMember = "homeward_reference"
	// keyMember names the provider key: it shows which of several attempts under one reference made
	// the object.
	keyMember = "homeward_key"
)

// Config is what [New] needs.
type Config struct {
	// Name identifies the provider in records and metrics; "" means [DefaultName].
	Name string
	// Key is the secret or restricted API key. It decides the account, and whether
	// money is real.
	Key string
	// WebhookSecret is the endpoint's signing secret (whsec_…), or several with commas or
	// white space between them, any of which may have signed: events of connected accounts
	// come from an endpoint of their own ("Connect webhooks"). "" refuses all notices.
	WebhookSecret string
	// Tolerance is how old the signature of a notice may be; 0 means
	// psp.NoticeTolerance, which is Stripe's own default.
	Tolerance time.Duration
	// BaseURL is an absolute http or https URL without query; "" means
	// [DefaultBaseURL].
	BaseURL string
	// Timeout bounds one call; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Transport sends the requests; nil means one tuned for a single busy host.
	// It must not retry.
	Transport http.RoundTripper
}

// Provider implements [psp.Provider] and [psp.Notifier]. It is safe for concurrent use.
// It uses the API version that the SDK is pinned to, whatever the account's default;
// create the webhook endpoint with the same one (see [APIVersion]).
type Provider struct {
	name      string
	caps      psp.Capabilities
	backend   sdk.Backend
	key       string
	secrets   []string
	tolerance time.Duration
	own       *http.Transport // nil when the transport came from outside
}

// APIVersion is the version of Stripe's API that the adapter uses.
const APIVersion = sdk.APIVersion

var (
	_ psp.Provider = (*Provider)(nil)
	_ psp.Notifier = (*Provider)(nil)
)

// New returns an adapter. It makes no call.
func New(cfg Config) (*Provider, error) {
	if cfg.Name == "" {
		cfg.Name = DefaultName
	}
	if strings.Trim(cfg.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return nil, fmt.Errorf("stripe: name %q: use lower case letters, digits, '-' and '_'", cfg.Name)
	}
	// Not shown in the error: it may be a real key with a space before it.
	if !strings.HasPrefix(cfg.Key, "sk_") && !strings.HasPrefix(cfg.Key, "rk_") {
		return nil, errors.New("stripe: the API key must start with sk_ or rk_: copy it again from the dashboard")
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("stripe: the API key holds white space or non-ASCII characters: copy it again from the dashboard")
	}
	secrets := strings.FieldsFunc(cfg.WebhookSecret, between)
	// "Receive Stripe events in your webhook endpoint": an endpoint's secret starts with whsec_.
	if slices.ContainsFunc(secrets, func(s string) bool { return len(s) <= len(secretPrefix) || !strings.HasPrefix(s, secretPrefix) }) {
		return nil, errors.New("stripe: each webhook secret must start with " + secretPrefix + ", and an API key is none: copy the signing secret of the endpoint from the dashboard")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("stripe: base URL: %w", err)
	}
	if !wire.IsBase(base) {
		return nil, fmt.Errorf("stripe: base URL %q: must be an absolute http or https URL without query", cfg.BaseURL)
	}
	if cfg.Timeout < 0 || cfg.Tolerance < 0 {
		return nil, fmt.Errorf("stripe: time-out %s and webhook tolerance %s: must not be negative", cfg.Timeout, cfg.Tolerance)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = psp.NoticeTolerance
	}
	p := &Provider{
		name: cfg.Name, secrets: secrets, tolerance: cfg.Tolerance,
		caps: psp.Capabilities{
			Dedupe: psp.DedupeKeyAndParameters, Lookup: true, Captures: true,
			Timeout: cfg.Timeout, SettleWindow: SettleWindow,
		},
	}
	if cfg.Transport == nil {
		p.own = wire.NewTransport(maxRespHead)
		cfg.Transport = p.own
	}
	backends := sdk.NewBackendsWithConfig(&sdk.BackendConfig{
		URL:               sdk.String(base.Scheme + "://" + base.Host),
		MaxNetworkRetries: sdk.Int64(0), // see "No retries"
		EnableTelemetry:   new(false),
		LeveledLogger:     &sdk.LeveledLogger{Level: sdk.LevelNull}, // results say it all
		HTTPClient: &http.Client{
			Transport:     once{cfg.Transport, strings.TrimSuffix(base.Path, "/")},
			Timeout:       cfg.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	// Not sdk.NewClient: it links every resource of Stripe's, which would make the
	// program four megabytes larger for the three that are used here.
	p.backend, p.key = backends.API, cfg.Key
	return p, nil
}

// between reports whether r separates two secrets.
func between(r rune) bool { return r == ',' || r <= ' ' }

// once sends each request once, below a base path that the SDK, which has only Stripe's own paths,
// must not see. It traces the call, and bounds the reply, which the SDK would read without limit.
type once struct {
	next   http.RoundTripper
	prefix string
}

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, sp := span.Client(req.Context(), req.Method)
	defer sp.End()
	out := req.Clone(ctx)
	out.GetBody = nil // without it net/http cannot send the body a second time
	out.URL.Path = o.prefix + out.URL.Path
	if sp.IsRecording() {
		sp.SetAttributes(span.Method.String(out.Method), span.Address.String(out.URL.Host), span.URLPath.String(out.URL.Path))
	}
	res, err := o.next.RoundTrip(out)
	if err != nil {
		span.Fail(sp, err)
		return nil, err
	}
	sp.SetAttributes(span.Status.Int(res.StatusCode))
	if res.StatusCode >= http.StatusInternalServerError {
		span.Fail(sp, fmt.Errorf("stripe: status %d", res.StatusCode))
	}
	res.Body = &bounded{res.Body, maxReply}
	return res, nil
}

// bounded fails, rather than ends, past its bound: half an object must not look
// like a whole one.
type bounded struct {
	io.ReadCloser
	remaining int
}

func (b *bounded) Read(to []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, fmt.Errorf("reply over %d bytes", maxReply)
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.remaining)])
	b.remaining -= n
	return n, err
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

// Capabilities implements [psp.Provider].
func (p *Provider) Capabilities() psp.Capabilities { return p.caps }

// Stripe's paths of the resources that are used here.
const (
	pathPaymentIntents = "/v1/payment_intents"
	pathTransfers      = "/v1/transfers"
	pathRefunds        = "/v1/refunds"
)

// errNoKey is a bug of the caller. Without a key the SDK would generate one, and
// nothing would dedupe the call.
var errNoKey = errors.New("stripe: the call has no provider key, without which Stripe cannot dedupe it")

// Transfer implements [psp.Provider].
func (p *Provider) Transfer(ctx context.Context, call psp.Call) psp.Result {
	if refused := refuseMetadata(call.Terms); refused != nil {
		return *refused
	}
	return p.move(ctx, psp.KindTransfer, "", call, func(ctx context.Context, amount int64) (movement, error) {
		var tr sdk.Transfer
		err := p.backend.Call(http.MethodPost, pathTransfers, p.key, &sdk.TransferCreateParams{
			Params:      sdk.Params{Context: ctx, IdempotencyKey: &call.Key},
			Amount:      &amount,
			Currency:    &call.Currency,
			Destination: &call.Source,
			Description: text(call.Description),
			Metadata:    metadata(call),
			// Transfers can be listed by it, see "Look-up".
			TransferGroup: &call.Reference,
		}, &tr)
		return ofTransfer(&tr), err
	})
}

// Refund implements [psp.Provider].
func (p *Provider) Refund(ctx context.Context, call psp.Call) psp.Result {
	charge, account := split(call.Source)
	return p.move(ctx, psp.KindRefund, account, call, func(ctx context.Context, amount int64) (movement, error) {
		var re sdk.Refund
		err := p.backend.Call(http.MethodPost, pathRefunds, p.key, &sdk.RefundCreateParams{
			Params:        params(ctx, call.Key, account),
			PaymentIntent: &charge,
			Amount:        &amount,
			Metadata:      metadata(call),
		}, &re)
		return ofRefund(&re).in(account), err
	})
}

// text returns nil for "", which Stripe would take for an order to unset.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// within makes one call with an amount in Stripe's unit, within a call's time-out.
func (p *Provider) within(ctx context.Context, call psp.Call, do func(_ context.Context, amount int64) psp.Result) psp.Result {
	if call.Key == "" {
		return psp.Result{Err: errNoKey}
	}
	amount, err := ToStripe(call.Amount, call.Currency)
	if err != nil {
		return refuseAmount("amount", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	return do(ctx, amount)
}

// move makes one call, and reads the object again if its reply is old, see "Idempotency
// keys".
func (p *Provider) move(ctx context.Context, kind psp.Kind, account string, call psp.Call, send func(_ context.Context, amount int64) (movement, error)) psp.Result {
	return p.within(ctx, call, func(ctx context.Context, amount int64) psp.Result {
		m, err := send(ctx, amount)
		if err != nil {
			return p.failed(ctx, kind, account, call, amount, err)
		}
		if m = m.onSession(call); m.undecided() && m.id != "" {
			if now, err := p.retrieve(ctx, kind, ref(m.id, account)); err == nil {
				m = now
			}
		}
		if err := m.differs(call, amount); err != nil {
			return psp.Result{Err: err}
		}
		return m.onSession(call).result() // as it was read again
	})
}

// failed maps an error of a call to a result. After a kept failure it reads the state
// of the call.
func (p *Provider) failed(ctx context.Context, kind psp.Kind, account string, call psp.Call, amount int64, err error) psp.Result {
	if bad := (*amountError)(nil); errors.As(err, &bad) {
		return refuseAmount(bad.member, bad.err)
	}
	r := refused(err)
	if r.Decline != nil && r.Decline.Class == psp.Soft && kind == psp.KindCharge {
		r.ProviderRef = declinedIntent(err, account)
	}
	if r.Outcome != psp.Unknown || !keptFailure(err) {
		return r
	}
	if call.Again != "" {
		return p.confirmed(ctx, call, amount, r)
	}
	// Of this call alone: a decline of another under the same reference would claim
	// that no money has moved, and let it move again.
	if found, known := p.find(ctx, call, func(m movement) bool { return m.key == call.Key }); found == psp.FoundYes {
		return known
	}
	return r
}

func (p *Provider) retrieve(ctx context.Context, kind psp.Kind, name string) (movement, error) {
	id, account := split(name)
	switch kind {
	case psp.KindTransfer:
		var tr sdk.Transfer
		err := p.backend.Call(http.MethodGet, sdk.FormatURLPath(pathTransfers+"/%s", id), p.key, &sdk.TransferRetrieveParams{Params: params(ctx, "", account)}, &tr)
		return ofTransfer(&tr).in(account), err
	case psp.KindRefund:
		var re sdk.Refund
		err := p.backend.Call(http.MethodGet, sdk.FormatURLPath(pathRefunds+"/%s", id), p.key, &sdk.RefundRetrieveParams{Params: params(ctx, "", account)}, &re)
		return ofRefund(&re).in(account), err
	default:
		var pi sdk.PaymentIntent
		err := p.backend.Call(http.MethodGet, sdk.FormatURLPath(pathPaymentIntents+"/%s", id), p.key, &sdk.PaymentIntentRetrieveParams{Params: params(ctx, "", account)}, &pi)
		return ofPaymentIntent(&pi).in(account), err
	}
}

// Show implements [psp.Provider].
func (p *Provider) Show(ctx context.Context, kind psp.Kind, _, providerRef string) (psp.Found, psp.Movement, error) {
	if !readable(providerRef) {
		return psp.FoundNo, psp.Movement{}, nil // no id of Stripe's
	}
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	m, err := p.retrieve(ctx, kind, providerRef)
	if e := (*sdk.Error)(nil); errors.As(err, &e) && e.HTTPStatusCode == http.StatusNotFound && e.Code == sdk.ErrorCodeResourceMissing {
		return psp.FoundNo, psp.Movement{}, nil
	}
	switch {
	case err != nil:
		return psp.FoundUnknown, psp.Movement{}, oneLine(err)
	case m.id == "":
		return psp.FoundUnknown, psp.Movement{}, errors.New("stripe: an object without id")
	}
	amount, err := FromStripe(m.amount, m.currency)
	if err != nil {
		return psp.FoundUnknown, psp.Movement{}, err
	}
	return psp.FoundYes, psp.Movement{
		ProviderRef: ref(m.id, m.account), Reference: m.reference, Amount: amount, Currency: m.currency,
		Outcome: m.status, Decline: m.decline, Wait: m.wait,
	}, nil
}

// errNoCharge is a bug of the caller: refunds are listed by their charge.
var errNoCharge = errors.New("stripe: a refund is looked for by its charge, which was not named")

// Lookup implements [psp.Provider].
func (p *Provider) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	switch {
	case call.Kind == psp.KindCapture:
		return p.lookCaptured(ctx, call)
	case call.Kind == psp.KindCancel:
		return p.lookCanceled(ctx, call)
	}
	return p.find(ctx, call, func(movement) bool { return true })
}

// find is Lookup among the objects that match.
func (p *Provider) find(ctx context.Context, call psp.Call, counts func(movement) bool) (psp.Found, psp.Result) {
	var best *movement
	// better prefers an approval, else one that holds the money, else one that may become either, else
	// the newest.
	better := func(m movement) (approved bool) {
		if m.reference != call.Reference || !counts(m) || !m.madeBy(call) {
			return false
		}
		m = m.asked(call)
		if best == nil || m.weight() > best.weight() {
			best = &m
		}
		return m.status == psp.Approved
	}
	var err error
	switch call.Kind {
	case psp.KindTransfer:
		err = p.eachTransfer(ctx, call.Reference, better)
	case psp.KindRefund:
		err = p.eachRefund(ctx, call.Source, better)
	default:
		err = p.eachPaymentIntent(ctx, call, better)
	}
	switch {
	case best != nil && best.status == psp.Approved:
		return psp.FoundYes, best.result()
	case err != nil:
		return psp.FoundUnknown, psp.Result{Err: oneLine(err)}
	case best == nil:
		return psp.FoundNo, psp.Result{}
	}
	if settled := best.onSession(call); settled.undecided() {
		// A search may be behind, and does not show the payer's next action.
		now, err := p.retrieve(ctx, call.Kind, ref(best.id, best.account))
		if err != nil {
			return psp.FoundUnknown, psp.Result{Err: oneLine(err)}
		}
		now = now.asked(call)
		best = &now
	}
	r := best.onSession(call).result()
	if r.Outcome == psp.Unknown {
		return psp.FoundUnknown, r
	}
	return psp.FoundYes, r
}

// list reads one page of the results of query, a struct of the SDK.
func (p *Provider) list(ctx context.Context, path, account string, query any, page sdk.LastResponseSetter) error {
	var body form.Values
	form.AppendTo(&body, query)
	own := params(ctx, "", account)
	return p.backend.CallRaw(http.MethodGet, path, p.key, []byte(body.Encode()), &own, page)
}

// eachTransfer passes the transfers of a reference to take until it returns false.
func (p *Provider) eachTransfer(ctx context.Context, reference string, take func(movement) (enough bool)) error {
	query := &sdk.TransferListParams{ListParams: sdk.ListParams{Limit: sdk.Int64(pageLen)}, TransferGroup: &reference}
	for {
		var page sdk.TransferList
		if err := p.list(ctx, pathTransfers, "", query, &page); err != nil {
			return err
		}
		for _, tr := range page.Data {
			if take(ofTransfer(tr)) {
				return nil
			}
			query.StartingAfter = &tr.ID
		}
		if !page.HasMore || len(page.Data) == 0 {
			return nil
		}
	}
}

// eachPaymentIntent is eachTransfer for charges.
func (p *Provider) eachPaymentIntent(ctx context.Context, call psp.Call, take func(movement) (enough bool)) error {
	account := accountOf(call)
	query := &sdk.PaymentIntentSearchParams{SearchParams: sdk.SearchParams{Query: byReference(call.Reference), Limit: sdk.Int64(pageLen)}}
	for {
		var page sdk.PaymentIntentSearchResult
		if err := p.list(ctx, pathPaymentIntents+"/search", account, query, &page); err != nil {
			return err
		}
		var more struct {
			Data []extras `json:"data"`
		}
		if page.LastResponse != nil {
			_ = json.Unmarshal(page.LastResponse.RawJSON, &more) // the SDK has read it before
		}
		more.Data = append(more.Data, make([]extras, len(page.Data))...)
		for i, pi := range page.Data {
			if take(ofIntent(pi, more.Data[i]).in(account)) {
				return nil
			}
		}
		if !page.HasMore || page.NextPage == nil {
			return nil
		}
		query.Page = page.NextPage
	}
}

// eachRefund passes the refunds of a charge to take until it returns false.
func (p *Provider) eachRefund(ctx context.Context, charge string, take func(movement) (enough bool)) error {
	id, account := split(charge)
	if id == "" {
		return errNoCharge
	}
	query := &sdk.RefundListParams{ListParams: sdk.ListParams{Limit: sdk.Int64(pageLen)}, PaymentIntent: &id}
	for {
		var page sdk.RefundList
		if err := p.list(ctx, pathRefunds, account, query, &page); err != nil {
			return err
		}
		for _, re := range page.Data {
			if take(ofRefund(re).in(account)) {
				return nil
			}
			query.StartingAfter = &re.ID
		}
		if !page.HasMore || len(page.Data) == 0 {
			return nil
		}
	}
}

// byReference is a query in Stripe's search language, in which a backslash escapes a
// quote or a backslash inside a string.
func byReference(reference string) string {
	return "metadata['" + referenceMember + "']:'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(reference) + "'"
}
