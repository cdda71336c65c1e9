package claim

import "testing"

// TestEachSideHasItsProviders: a new claim of a test tenant names the provider of test tenants whatever
// its request does, a live one never does, and neither finds its provider among the other side's.
func TestEachSideHasItsProviders(t *testing.T) {
	s := &Service{c: Config{Providers: []string{"bank", TestProvider}}}
	live, test := "acme", TestTenant("acme")
	for _, c := range []struct {
		tenant, names, provider string
		has                     bool
	}{
		{live, "", "bank", true}, {live, "bank", "bank", true}, {live, TestProvider, TestProvider, false},
		{test, "", TestProvider, true}, {test, "bank", TestProvider, true}, {test, TestProvider, TestProvider, true},
	} {
		req := &Request{Key: Key{Tenant: c.tenant}, Provider: c.names}
		if got, has := s.provider(req), s.has(req); got != c.provider || has != c.has {
			t.Errorf("%s, naming %q: %s %v, want %s %v", c.tenant, c.names, got, has, c.provider, c.has)
		}
	}
	if s := (&Service{c: Config{Providers: []string{"bank"}}}); s.has(&Request{Key: Key{Tenant: test}}) {
		t.Error("a node without the provider of test tenants begins a test payment at another")
	}
	for tenant, at := range map[string]map[string]bool{live: {"bank": true, TestProvider: false}, test: {"bank": false, TestProvider: true}} {
		for provider, finds := range at {
			r := &Record{Key: Key{Tenant: tenant, Value: "k"}, Minted: Minted{ID: "ch_1"}, Generation: 1}
			r.ProviderKey = providerKey(r.Key, "ch_1", 1, provider)
			if name, ok := r.With(s.c.Providers); ok != finds || finds && name != provider {
				t.Errorf("a claim of %s at %s is recovered at %q (%v)", tenant, provider, name, ok)
			}
		}
	}
}
