package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/adyen"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// dedupes are the values of provider.dedupe.
var dedupes = map[string]psp.Dedupe{
	"key_and_parameters": psp.DedupeKeyAndParameters,
	"key":                psp.DedupeKey,
	"none":               psp.DedupeNone,
}

// The values of provider.kind.
const (
	kindHTTPJSON = "httpjson"
	kindStripe   = "stripe"
	kindAdyen    = "adyen"
)

var providerKinds = []string{kindHTTPJSON, kindStripe, kindAdyen}

func (p *configuredProvider) validate() error {
	errs := []error{mustPass(p.at+".timeout", p.Timeout), mustPass(p.at+".webhooks.tolerance", p.Webhooks.Tolerance)}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("settings: "+p.at+"."+format, args...))
		}
	}
	base, err := url.Parse(p.BaseURL)
	if err != nil { // its text contains the URL, which may contain a password
		base = &url.URL{}
	}
	own := hasOwnURL(p.Kind)
	check(slices.Contains(providerKinds, p.Kind), "kind %q is none of %s, %s and %s", p.Kind, kindHTTPJSON, kindStripe, kindAdyen)
	check(p.Name != "" && strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == "", "name %q: use lower case letters, digits, '-' and '_'", p.Name)
	check(p.Name != claim.TestProvider, "name %q is that of the provider of test tenants, which each node has itself; choose another", p.Name)
	check(own && p.BaseURL == "" || (base.Scheme == "http" || base.Scheme == "https") && base.Host != "" && base.RawQuery == "" && base.Fragment == "", "base_url must be an absolute http or https URL without query")
	check(base.Scheme != "http" || p.AllowHTTP || onLoopback(net.JoinHostPort(base.Hostname(), "0")), "base_url is http:// on another machine: whoever is on the way could read payments and the provider's key, and answer in its place; make it https://, or set %s.allow_http to allow it", p.at)
	check(base.User == nil, "base_url holds a user or password, which the settings must not; set %s to the provider's key", p.key)
	switch p.Kind {
	case kindStripe:
		return errors.Join(errs...)
	case kindAdyen:
		return errors.Join(append(errs, p.validateAdyen())...)
	}
	dedupe, found := dedupes[p.Dedupe]
	check(found, "dedupe %q is none of key_and_parameters, key and none", p.Dedupe)
	check(p.SettleWindow >= 0, "settle_window must not be negative, is %v", p.SettleWindow)
	check(!found || dedupe != psp.DedupeNone || p.SettleWindow > 0, "settle_window must be above 0 where dedupe is none: how long after a call a look-up may still miss it")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return p.accepts(ProviderSecrets{}) // the adapter sets it
}

// accepts makes the adapter as a node does at its start, and returns why it cannot be
// made. [Secrets.Missing] reports a missing key.
func (p *configuredProvider) accepts(secrets ProviderSecrets) error {
	if hasOwnURL(p.Kind) && secrets.Key == "" {
		if secrets.Webhooks == "" {
			return nil
		}
		secrets.Key = "sk_missing" // for the adapter's error about the other secret
	}
	adapter, err := p.open(secrets)
	if err != nil {
		return err
	}
	return adapter.Close()
}

// speaker is an opened adapter.
type speaker interface {
	psp.Provider
	psp.Notifier
	Close() error
}

// made converts an adapter to the interface, so that a nil pointer becomes a nil
// interface.
func made[A speaker](p *configuredProvider, adapter A, err error) (speaker, error) {
	if err != nil {
		return nil, fmt.Errorf("settings: %s, %s or %s: %w", p.at, p.key, p.webhooks, err)
	}
	return adapter, nil
}

// open makes the adapter. It makes no call.
func (p *configuredProvider) open(secrets ProviderSecrets) (speaker, error) {
	switch p.Kind {
	case kindStripe:
		adapter, err := stripe.New(stripe.Config{
			Name: p.Name, BaseURL: p.BaseURL, Timeout: p.Timeout, Key: secrets.Key,
			WebhookSecret: secrets.Webhooks, Tolerance: p.Webhooks.Tolerance,
		})
		return made(p, adapter, err)
	case kindAdyen:
		adapter, err := adyen.New(p.adyen(secrets))
		return made(p, adapter, err)
	}
	c := httpjson.Config{
		Name: p.Name, Account: p.Account, BaseURL: p.BaseURL, KeyHeader: p.KeyHeader,
		Paths: httpjson.Paths{Charges: p.Paths.Charges, Transfers: p.Paths.Transfers, Refunds: p.Paths.Refunds, Lookup: p.Paths.Lookup, Movements: p.Paths.Movements},
		Notices: httpjson.Notices{
			Secret: secrets.Webhooks, IDHeader: p.Webhooks.IDHeader, TimestampHeader: p.Webhooks.TimestampHeader,
			SignatureHeader: p.Webhooks.SignatureHeader, Tolerance: p.Webhooks.Tolerance,
		},
		Capabilities: psp.Capabilities{Dedupe: dedupes[p.Dedupe], Lookup: p.Lookup, Blind: !p.Show, Timeout: p.Timeout, SettleWindow: p.SettleWindow},
	}
	if secrets.Key != "" {
		c.Header = http.Header{"Authorization": {"Bearer " + secrets.Key}}
	}
	adapter, err := httpjson.New(c)
	return made(p, adapter, err)
}
