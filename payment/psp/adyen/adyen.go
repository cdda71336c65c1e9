// Package adyen is the adapter for Adyen's Checkout API, version 71.
//
//	Charge     POST /payments with a stored payment method
//	Refund     POST /payments/{pspReference}/refunds
//	Capture    POST /payments/{pspReference}/captures
//	Cancel     POST /payments/{pspReference}/cancels
//	Transfer   none: payouts are another product of Adyen's, with another API
//
// Our reference is the merchant's reference of each request. A charge whose money is
// held ([psp.Terms].Manual) has [heldMark] behind it: Adyen's event for an authorised
// payment does not say whether a capture follows, and no other signed member is ours to
// choose. A capture or cancellation has that reference, too, and its own behind it.
//
// # What the answer to a payment says
//
// "Payment result codes", with amount and reference as they were asked for:
//
//	Authorised                                    Approved; Authorized where it is held
//	Refused, Error, Cancelled                     Declined, see refusals.go
//	RedirectShopper, IdentifyShopper,             Pending, the payer has to act; off session
//	ChallengeShopper, PresentToShopper            Declined, authentication_required
//	Pending, Received                             Pending, the method takes its time
//	PartiallyAuthorised, and all others           Unknown
//
// If the payer has to act, the merchant's page submits the result to Adyen's
// /payments/details, and the event reports the outcome.
//
// # Modifications are asynchronous
//
// The answer to a refund, a capture or a cancellation is the status received ("Refund",
// "Capture", "Cancel"): Adyen has the request, and reports the result in an event.
// Until then it is Pending; a repeat of the call learns nothing new.
//
// # Errors
//
// "API idempotency", "Response handling", "Error codes":
//
//	400, 404 or 422, errorType validation or      Declined, Invalid
//	configuration, an errorCode that is not 704
//	all else                                      Unknown
//
// All else is: an answer with the header transient-error: true; 704, request already
// processed or in progress (409 or 422, of type validation: the key's first request may
// be moving money this moment); 703, the store of keys is out of reach (503); 401, 403,
// 429, 5xx; an answer in another shape, or about another payment.
//
// # Idempotency keys
//
// Adyen keeps a key for at least 7 days, per company account, in up to 64 characters.
// It answers a repeat with the first answer, and does not document that it compares the
// parameters: the adapter does, by the reference and the amount of the answer, and
// returns psp.ErrKeyReused if they differ. A key is not known in another region's
// endpoints. So each home region has one endpoint ([Config].Endpoints), and every call
// of a claim goes to that of its home, whichever node makes it.
//
// # No look-up
//
// The Checkout API shows no payment, neither by the merchant's reference nor by its
// own. A call without an answer is repeated under its key. Only the repeat's answer or
// the event has the outcome; after the key's 7 days only the event, and the statement.
//
// # No retries
//
// One call is one request: the adapter neither repeats it nor follows a redirect, and
// net/http cannot repeat it, as it has no second copy of the body.
package adyen

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/internal/wire"
)

const (
	// DefaultName is the provider's name in records.
	DefaultName = "adyen"
	// APIVersion is the version of the Checkout API that the adapter uses.
	APIVersion = "v71"
	// TestURL is the test environment ("Live endpoints").
	TestURL = "https://checkout-test.adyen.com"
	// DefaultTimeout is that of Adyen's own Go library (src/adyen/api.go, NewClient): a
	// shorter one turns charges at slow issuers into unknown ones.
	DefaultTimeout = 60 * time.Second
	// KeyLife is the least time that a key is valid ("API idempotency", "Key scope and
	// validity time").
	KeyLife = 7 * 24 * time.Hour
	// maxKey is the longest key, in characters (same page).
	maxKey = 64
	// maxReference is the longest reference of a payment, in characters ("/payments",
	// reference).
	maxReference = 80
	// heldMark follows the reference of a charge that holds its money. Adyen splits a merchant's
	// reference at hyphens only for its own search ("/payments", reference).
	heldMark = "-held"
	// orderMark separates that from the reference of a capture or cancellation.
	orderMark = "-"
)

// LiveURL is the live environment of a company account in one data centre. Its prefix is in the
// Customer Area ("Live endpoints", "Live URL prefix").
func LiveURL(prefix string) string {
	return "https://" + prefix + "-checkout-live.adyenpayments.com/checkout"
}

// Config is what [New] needs.
type Config struct {
	// Name identifies the provider in records and metrics; "" means [DefaultName].
	Name string
	// Key is the API key of a credential with the Checkout webservice role.
	Key string
	// HMACKey is the webhook's key, in hexadecimal; "" refuses all notices.
	HMACKey string
	// MerchantAccount is the account that receives and pays.
	MerchantAccount string
	// ReturnURL is where a payer returns to if the merchant names none: Adyen requires
	// one with every payment.
	ReturnURL string
	// BaseURL is an absolute http or https URL without query, to which the API's version
	// is added: [TestURL], a [LiveURL], or "", which means the former.
	BaseURL string
	// Endpoints are such URLs by the home region of a claim, for those that have another than
	// BaseURL. One must not change while claims of its region are open: only the endpoint that
	// received a key has it.
	Endpoints map[string]string
	// Timeout bounds one call; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Transport sends the requests; nil means one tuned for a single busy host.
	// It must not retry.
	Transport http.RoundTripper
}

// Provider implements [psp.Provider] and [psp.Notifier]. It is safe for concurrent use.
type Provider struct {
	name      string
	caps      psp.Capabilities
	account   string
	returnURL string
	key       string
	hmacKey   []byte // nil: none
	base      *url.URL
	endpoints map[string]*url.URL // by home region
	client    *http.Client
	own       *http.Transport // nil when the transport came from outside
}

var (
	_ psp.Provider = (*Provider)(nil)
	_ psp.Notifier = (*Provider)(nil)
)

// New returns an adapter. It makes no call.
func New(cfg Config) (*Provider, error) {
	if cfg.Name == "" {
		cfg.Name = DefaultName
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = TestURL
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("adyen: %w", err)
	}
	p := &Provider{
		name: cfg.Name, account: cfg.MerchantAccount, returnURL: cfg.ReturnURL, key: cfg.Key, endpoints: map[string]*url.URL{},
		caps: psp.Capabilities{
			Dedupe: psp.DedupeKey, KeyLife: KeyLife, RegionalKeys: true, Blind: true, Asynchronous: true, Captures: true, NoTransfers: true, Timeout: cfg.Timeout,
		},
	}
	var err error
	if cfg.HMACKey != "" {
		// Not shown in the error: it is a secret.
		if p.hmacKey, err = hex.DecodeString(cfg.HMACKey); err != nil {
			return nil, errors.New("adyen: the webhook's HMAC key is not hexadecimal: copy it again from the Customer Area")
		}
	}
	if p.base, err = endpoint(cfg.BaseURL); err != nil {
		return nil, fmt.Errorf("adyen: base URL: %w", err)
	}
	for home, at := range maps.All(cfg.Endpoints) {
		if p.endpoints[home], err = endpoint(at); err != nil {
			return nil, fmt.Errorf("adyen: endpoint of the region %q: %w", home, err)
		}
	}
	if cfg.Transport == nil {
		p.own = wire.NewTransport(maxRespHead)
		cfg.Transport = p.own
	}
	p.client = &http.Client{
		Transport:     cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

func (cfg *Config) check() error {
	switch {
	case strings.Trim(cfg.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return fmt.Errorf("name %q: use lower case letters, digits, '-' and '_'", cfg.Name)
	case cfg.Key == "" || strings.ContainsFunc(cfg.Key, unprintable):
		// Not shown in the error: it may be a real key with a space before it.
		return errors.New("the API key is missing, or holds white space or non-ASCII characters: copy it again from the Customer Area")
	case cfg.MerchantAccount == "" || strings.ContainsFunc(cfg.MerchantAccount, unprintable):
		return fmt.Errorf("merchant account %q: must be its name as the Customer Area has it", cfg.MerchantAccount)
	case cfg.Timeout < 0:
		return fmt.Errorf("time-out %s: must not be negative", cfg.Timeout)
	}
	if at, err := url.Parse(cfg.ReturnURL); err != nil || at.Scheme == "" {
		return fmt.Errorf("return URL %q: must be absolute; Adyen wants one with every payment", cfg.ReturnURL)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

func endpoint(at string) (*url.URL, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	if !wire.IsBase(u) {
		return nil, fmt.Errorf("%q must be an absolute http or https URL without query", at)
	}
	return u.JoinPath(APIVersion), nil
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
