package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/homeward-io/homeward/payment/psp/adyen"
)

// validateAdyen checks the settings of the adapter for Adyen.
func (p *configuredProvider) validateAdyen() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("settings: "+p.at+".adyen."+format, args...))
		}
	}
	check(p.Adyen.MerchantAccount != "", "merchant_account must be the account's name as Adyen's Customer Area has it")
	check(p.Adyen.ReturnURL != "", "return_url must be an absolute URL: Adyen wants one with every payment, for payers who have to come back")
	check(p.BaseURL == "" || p.Adyen.LivePrefix == "" && len(p.Adyen.LivePrefixes) == 0, "live_prefix and %s.base_url both give Adyen's address; keep one", p.at)
	check(prefixed(p.Adyen.LivePrefix) || p.Adyen.LivePrefix == "", "live_prefix %q: letters, digits and '-', as under API URLs in the Customer Area", p.Adyen.LivePrefix)
	check(p.Adyen.LivePrefix != "" || len(p.Adyen.LivePrefixes) == 0, "live_prefixes are of regions that have another than live_prefix; set that")
	seen := map[string]bool{}
	for _, one := range p.Adyen.LivePrefixes {
		region, prefix, ok := strings.Cut(one, "=")
		check(ok && region != "" && prefixed(prefix), "live_prefixes: %q is not REGION=PREFIX, as in us-east1=1797a841fbb37ca7-Shop", one)
		check(!seen[region], "live_prefixes name the region %q twice; Adyen has a key at one endpoint alone", region)
		seen[region] = true
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := adyen.New(p.adyen(ProviderSecrets{Key: "unknown"})) // checks that only the adapter has
	if err != nil {
		return fmt.Errorf("settings: %s: %w", p.at, err)
	}
	return nil
}

// prefixed reports whether s can be the beginning of a host's name.
func prefixed(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// adyen is what the adapter is made of.
func (p *configuredProvider) adyen(secrets ProviderSecrets) adyen.Config {
	c := adyen.Config{
		Name: p.Name, Key: secrets.Key, HMACKey: secrets.Webhooks, MerchantAccount: p.Adyen.MerchantAccount,
		ReturnURL: p.Adyen.ReturnURL, BaseURL: p.BaseURL, Timeout: p.Timeout, Endpoints: map[string]string{},
	}
	if p.Adyen.LivePrefix != "" {
		c.BaseURL = adyen.LiveURL(p.Adyen.LivePrefix)
	}
	for _, one := range p.Adyen.LivePrefixes {
		region, prefix, _ := strings.Cut(one, "=")
		c.Endpoints[region] = adyen.LiveURL(prefix)
	}
	return c
}
