package payment

import (
	"fmt"
	"strings"
)

// MaxProvider is the longest name of a provider, in bytes: one line of a page.
const MaxProvider = 64

// ValidProvider reports whether name may be a provider's: 1 to [MaxProvider] lower case
// letters, digits, '-' and '_'. It is part of paths, of the books and of environment
// variables.
func ValidProvider(name string) bool {
	return name != "" && len(name) <= MaxProvider && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Routes choose the provider of a tenant's charges and transfers that name none: rules
// separated by commas, of which the first match counts.
//
//	eur/pm_sepa_=bank,gbp=acquirer,*=stripe
//
// Before the '=' is a currency, or '*' for any; behind a '/' a prefix of the payment method, or of
// a transfer's destination. "" routes nothing: everything goes to the default.
type Routes string

// anyCurrency matches every currency in a rule.
const anyCurrency = "*"

// MaxRoutes bounds the text of routes, in bytes: a hundred rules.
const MaxRoutes = 4096

// Provider returns the provider of in by r, "" if no rule matches. It does not
// allocate.
func (r Routes) Provider(in *Intent) string {
	for rest, more := string(r), r != ""; more; {
		var rule string
		rule, rest, more = strings.Cut(rest, ",")
		match, provider, _ := strings.Cut(rule, "=")
		currency, method, _ := strings.Cut(match, "/")
		if (currency == anyCurrency || currency == in.Currency) && strings.HasPrefix(in.Source, method) {
			return provider
		}
	}
	return ""
}

// Validate returns a one-line error if r is invalid.
func (r Routes) Validate() error {
	if r == "" {
		return nil
	}
	if len(r) > MaxRoutes {
		return fmt.Errorf("routes of %d bytes are more than the %d that a tenant may have; leave some to the default", len(r), MaxRoutes)
	}
	for rule := range strings.SplitSeq(string(r), ",") {
		match, provider, ok := strings.Cut(rule, "=")
		currency, method, by := strings.Cut(match, "/")
		_, found := currencies[currency]
		switch {
		case !ok:
			return fmt.Errorf("the route %q names no provider; write it as eur=bank, eur/pm_sepa_=bank or *=bank", rule)
		case currency != anyCurrency && !found:
			return fmt.Errorf("the route %q names no currency; write an ISO 4217 code in lower case, or * for all", rule)
		case by && (method == "" || strings.Trim(method, methodCharacters) != ""):
			return fmt.Errorf("the route %q names no payment method; write what its tokens begin with, as in eur/pm_sepa_=bank", rule)
		case !ValidProvider(provider):
			return fmt.Errorf("the route %q names no provider: use lower case letters, digits, '-' and '_'", rule)
		}
	}
	return nil
}

// methodCharacters are the characters of tokens.
const methodCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// provider checks the form of a provider's name. The node checks whether the provider exists.
func provider(raw []byte) (string, error) {
	name, _ := text(raw)
	if !ValidProvider(name) {
		return "", invalid("provider", "must be the name of a provider: at most %d lower case letters, digits, '-' and '_'", MaxProvider)
	}
	return name, nil
}
