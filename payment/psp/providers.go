package psp

// Providers are those that a process can call, each under a name of its own; the first
// is the default. Do not modify it once it is in use.
type Providers []Provider

// Named finds the provider of that name, as [Clean] returns it.
func (ps Providers) Named(name string) (Provider, bool) {
	for _, p := range ps {
		if p.Name() == name {
			return Clean(p), true
		}
	}
	return nil, false
}

// Names returns the names of the providers, the default's first.
func (ps Providers) Names() []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name()
	}
	return names
}
