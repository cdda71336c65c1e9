package claim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Golden values: a provider that was told another key would charge again.
func TestProviderKeysNeverChange(t *testing.T) {
	const object = "ch_04hkaps9le6uv093vvvo1md9b8"
	order := Key{Tenant: "acme", Value: "order-1"}
	require.Equal(t, "hw_24f940a640aa7ccb0b230827c5b508eb8deaf13a", providerKey(order, object, 1, "simulator"))
	require.Equal(t, "hw_05ffc79f0dd5a9a28b7b0ba32eadf8af30ff24ca", providerKey(order, object, 2, ""))
	long := Key{Tenant: strings.Repeat("t", 300), Value: strings.Repeat("k", MaxKeyLength)}
	require.Equal(t, "hw_a0b26f26e95a71fdf9e70d60e3839a51f25cd162", providerKey(long, object, 1<<31, "stripe"))

	r := Record{Key: order, Minted: Minted{ID: object}, Generation: 2, ProviderKey: "hw_05ffc79f0dd5a9a28b7b0ba32eadf8af30ff24ca"}
	with := func(want string, here bool, names ...string) {
		t.Helper()
		name, ok := r.With(names)
		require.Equal(t, want, name)
		require.Equal(t, here, ok)
	}
	with("", true, "simulator") // begun when no provider was named
	r.ProviderKey = providerKey(order, object, 2, "stripe")
	with("", false, "simulator")
	with("stripe", true, "stripe")
	with("stripe", true, "simulator", "stripe")
	with("", true)
	names := []string{"simulator", "stripe"}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.With(names) }))
}
