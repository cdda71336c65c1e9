package node

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"github.com/homeward-io/homeward/payment"
)

// The variables of the secrets of the settings provider; see [Secret]. Those of the
// settings providers.NAME are HOMEWARD_PROVIDERS__NAME__KEY and
// HOMEWARD_PROVIDERS__NAME__WEBHOOK_SECRET.
const (
	ProviderKey      = "HOMEWARD_PROVIDER_KEY"
	ProviderWebhooks = "HOMEWARD_PROVIDER_WEBHOOK_SECRET"
)

const (
	providersPrefix = "HOMEWARD_PROVIDERS__"
	keySuffix       = "__KEY"
	webhooksSuffix  = "__WEBHOOK_SECRET"
)

// ProviderSecrets are the secrets shared with one provider: Key is the key of its API,
// Webhooks verifies its webhooks; "" for none.
type ProviderSecrets struct{ Key, Webhooks string }

// configuredProvider is one provider of the settings, with the name of its settings and
// the variables of its secrets.
type configuredProvider struct {
	ProviderSettings
	at, key, webhooks string
}

// providers returns those of the settings, the default first and the others by name. A gateway has none.
func (s *ServeSettings) providers() []configuredProvider {
	if s.Gateway.On() {
		return nil
	}
	if len(s.Providers) == 0 {
		return []configuredProvider{{s.Provider, "provider", ProviderKey, ProviderWebhooks}}
	}
	var all []configuredProvider
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		p := s.Providers[name]
		p.Name = name
		variable := providersPrefix + variableName(name)
		all = append(all, configuredProvider{p, "providers." + name, variable + keySuffix, variable + webhooksSuffix})
	}
	slices.SortStableFunc(all, func(a, b configuredProvider) int {
		return cmp.Compare(rank(a.Name != s.DefaultProvider), rank(b.Name != s.DefaultProvider))
	})
	return all
}

func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

// ProviderNames returns the names of the settings' providers, the default's first.
func (s ServeSettings) ProviderNames() []string {
	var names []string
	for _, p := range s.providers() {
		names = append(names, p.Name)
	}
	return names
}

// variableName is a provider's name as part of a variable.
func variableName(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// validateProviders checks the map as a whole and each of its providers.
func (s *ServeSettings) validateProviders() error {
	var errs []error
	spelled := map[string]string{}
	for _, p := range s.providers() {
		errs = append(errs, p.validate())
		if strings.Contains(p.Name, "__") && len(s.Providers) > 0 {
			errs = append(errs, fmt.Errorf("settings: the provider's name %q has a '__', which a variable cannot have; write one '_'", p.Name))
		}
		if other, twice := spelled[p.key]; twice {
			errs = append(errs, fmt.Errorf("settings: providers %s and %s would have the same variables, %s; rename one", other, p.Name, p.key))
		}
		spelled[p.key] = p.Name
	}
	errs = append(errs, s.failoverMistake())
	_, named := s.Providers[s.DefaultProvider]
	switch {
	case len(s.Providers) == 0 && s.DefaultProvider != "":
		errs = append(errs, errors.New("settings: default_provider is set without providers; remove it, or add providers"))
	case s.DefaultProvider != "" && !named:
		errs = append(errs, fmt.Errorf("settings: default_provider %q is not one of %s", s.DefaultProvider, strings.Join(slices.Sorted(maps.Keys(s.Providers)), ", ")))
	case len(s.Providers) > 1 && s.DefaultProvider == "":
		errs = append(errs, fmt.Errorf("settings: there are several providers; set default_provider to one of %s", strings.Join(slices.Sorted(maps.Keys(s.Providers)), ", ")))
	}
	return errors.Join(errs...)
}

// failoverMistake refuses a fail-over to an unknown provider, or in a circle.
func (s *ServeSettings) failoverMistake() error {
	var errs []error
	for _, p := range s.providers() {
		seen := []string{p.Name}
		for at := p.Failover; at != ""; at = s.Providers[at].Failover {
			if _, ok := s.Providers[at]; !ok {
				errs = append(errs, fmt.Errorf("settings: %s.failover names %q, which is not one of providers", p.at, at))
				break
			}
			if slices.Contains(seen, at) {
				errs = append(errs, fmt.Errorf("settings: %s.failover forms a cycle: %s, %s; remove one of them", p.at, strings.Join(seen, ", "), at))
				break
			}
			seen = append(seen, at)
		}
	}
	return errors.Join(errs...)
}

// failover converts the settings' for the executor.
func (s *ServeSettings) failover() map[string]payment.Failover {
	all := map[string]payment.Failover{}
	for _, p := range s.providers() {
		if p.Failover != "" {
			all[p.Name] = payment.Failover{To: p.Failover, Codes: p.FailoverOn}
		}
	}
	return all
}

// providersFrom gives each named provider of the settings the defaults of a single one,
// and refuses both forms at once.
func providersFrom(set, k *koanf.Koanf) error {
	names := set.MapKeys("providers")
	if len(names) == 0 {
		ownURL(set, k, "provider")
		return namelessMistake(set)
	}
	one := koanf.New(".")
	if err := one.Load(structs.Provider(DefaultServeSettings().Provider, "koanf"), nil); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	one.Delete("name") // it precedes the group
	for _, name := range names {
		if err := k.MergeAt(one, "providers."+name); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
		ownURL(set, k, "providers."+name)
	}
	if set.Exists("provider") {
		return errors.New("settings: provider and providers are both set; move the settings of provider into providers, under its name")
	}
	return nil
}

// namelessMistake refuses to call another provider by the name that is the default, the
// simulator's: books, claims and the path of webhooks would have it for ever. The name does
// not follow the kind, because a deployment that ran before this was refused has rows with
// the simulator's, and would lose its way to them.
func namelessMistake(set *koanf.Koanf) error {
	kind := set.String("provider.kind")
	elsewhere := strings.HasPrefix(set.String("provider.base_url"), "https://") // the simulator has no TLS
	if set.Exists("provider.name") || !hasOwnURL(kind) && !elsewhere {
		return nil
	}
	name := kind
	if !hasOwnURL(kind) {
		name = "acquirer"
	}
	return fmt.Errorf("settings: provider.name is missing; books and claims go by it for ever: write name: %s, or name: %s in a deployment that has charged without a name, which was its name then", name, DefaultServeSettings().Provider.Name)
}

// ownURL removes the default URL, the simulator's, from the settings of a provider
// whose adapter has its own: payments must not go to whatever listens there.
func ownURL(set, k *koanf.Koanf, at string) {
	if hasOwnURL(set.String(at + ".kind")) {
		_ = k.Set(at+".base_url", "") // fails only for values that are no map, and this is one
	}
}

// hasOwnURL reports whether an adapter has a URL of its own.
func hasOwnURL(kind string) bool { return kind == kindStripe || kind == kindAdyen }

// providerNamed returns the name of a provider as the file spells it, for its part of a
// variable: variables have no '-'.
func providerNamed(set *koanf.Koanf, part string) string {
	for _, name := range set.MapKeys("providers") {
		if variableName(name) == strings.ToUpper(part) {
			return name
		}
	}
	return strings.ToLower(part)
}

// isProviderSecret reports whether a variable's name is that of a secret of one of the
// providers.
func isProviderSecret(variable string) bool {
	variable = strings.TrimSuffix(variable, fileSuffix)
	return strings.HasPrefix(variable, providersPrefix) && (strings.HasSuffix(variable, keySuffix) || strings.HasSuffix(variable, webhooksSuffix))
}

// providerSecretNames are what people take for the settings of a provider's secrets, and how
// the variable ends that holds them.
var providerSecretNames = map[string]string{
	"key": keySuffix, "api_key": keySuffix, "secret": keySuffix,
	"webhook_secret": webhooksSuffix, "webhooks.secret": webhooksSuffix,
}

// misplacedProviderSecrets removes secrets from the providers' groups in k and reports
// where they belong.
func misplacedProviderSecrets(k *koanf.Koanf) error {
	var errs []error
	for _, name := range k.MapKeys("providers") {
		for _, setting := range slices.Sorted(maps.Keys(providerSecretNames)) {
			if path := "providers." + name + "." + setting; k.Exists(path) {
				errs = append(errs, misplaced(path, providersPrefix+variableName(name)+providerSecretNames[setting]))
				k.Delete(path)
			}
		}
	}
	return errors.Join(errs...)
}

// readProviderSecrets reads those of the settings' providers. One of a provider that
// the settings do not have is a mistake.
func readProviderSecrets(environ []string, settings *ServeSettings) (map[string]ProviderSecrets, error) {
	var errs []error
	all := map[string]ProviderSecrets{}
	meant := map[string]bool{}
	for _, p := range settings.providers() {
		var s ProviderSecrets
		var err error
		s.Key, err = Secret(environ, p.key)
		errs = append(errs, err)
		s.Webhooks, err = Secret(environ, p.webhooks)
		errs = append(errs, err)
		if s != (ProviderSecrets{}) {
			all[p.Name] = s
		}
		meant[p.key], meant[p.webhooks] = true, true
	}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		base := strings.TrimSuffix(name, fileSuffix)
		switch one := base == ProviderKey || base == ProviderWebhooks; {
		case value == "" || meant[base] || !one && !isProviderSecret(base):
		case one:
			errs = append(errs, fmt.Errorf("%s belongs to the setting provider, but the settings have providers; name one of them, as in %s", name, strings.Replace(name, "HOMEWARD_PROVIDER_", settings.providers()[0].prefix(), 1)))
		default:
			errs = append(errs, fmt.Errorf("%s belongs to no provider of the settings, which have %s", name, strings.Join(settings.ProviderNames(), ", ")))
		}
	}
	if len(all) == 0 {
		all = nil
	}
	return all, errors.Join(errs...)
}

// prefix is the prefix of the variables of p.
func (p *configuredProvider) prefix() string { return strings.TrimSuffix(p.key, "KEY") }
