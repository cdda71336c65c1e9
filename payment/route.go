package payment

import (
	"fmt"
	"strings"
)

// MaxProvider is the longest name of a provider, in bytes: one line of a page.
const MaxProvider = 64

// ValidProvider reports whether a provider may have that name: 1 to [MaxProvider] lower
// case letters, digits, '-' and '_'. It stands in paths, in the books and in variables.
func ValidProvider(name string) bool {
	return name != "" && len(name) <= MaxProvider && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Routes say which provider the charges and transfers of a tenant go to that name none
// themselves: rules with commas between them, of which the first that fits counts.
//
//	eur/pm_sepa_=bank,gbp=acquirer,*=stripe
//
// Before the '=' stands a currency, or '*' for any; behind a '/' what the payment method,
// or a transfer's destination, begins with. "" routes nothing: all goes to the default.
type Routes string

// anyCurrency stands for every currency in a rule.
const anyCurrency = "*"

// MaxRoutes bounds the text of routes, in bytes: a hundred rules.
const MaxRoutes = 4096

// Provider is whom in goes to by r, "" where no rule fits. It allocates nothing.
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

// Providers are those that r names, each as often as it does.
func (r Routes) Providers() []string {
	if r == "" {
		return nil
	}
	var all []string
	for rule := range strings.SplitSeq(string(r), ",") {
		_, provider, _ := strings.Cut(rule, "=")
		all = append(all, provider)
	}
	return all
}

// Validate says in one line what is wrong with r.
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
		_, known := currencies[currency]
		switch {
		case !ok:
			return fmt.Errorf("the route %q names no provider; write it as eur=bank, eur/pm_sepa_=bank or *=bank", rule)
		case currency != anyCurrency && !known:
			return fmt.Errorf("the route %q names no currency; write an ISO 4217 code in lower case, or * for all", rule)
		case by && (method == "" || strings.Trim(method, methodCharacters) != ""):
			return fmt.Errorf("the route %q names no payment method; write what its tokens begin with, as in eur/pm_sepa_=bank", rule)
		case !ValidProvider(provider):
			return fmt.Errorf("the route %q names no provider: use lower case letters, digits, '-' and '_'", rule)
		}
	}
	return nil
}

// methodCharacters are those that tokens have.
const methodCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// provider takes what could be a provider's name. Whether there is one is the node's to
// say.
func provider(raw []byte) (string, error) {
	name, _ := text(raw)
	if !ValidProvider(name) {
		return "", invalid("provider", "must be the name of a provider: at most %d lower case letters, digits, '-' and '_'", MaxProvider)
	}
	return name, nil
}
