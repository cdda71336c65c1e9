package claim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Golden values: a provider that got another key would charge again.
func TestProviderKeysNeverChange(t *testing.T) {
	const object = "ch_04hkaps9le6uv093vvvo1md9b8"
	order := Key{Tenant: "acme", Value: "order-1"}
	require.Equal(t, "hw_b587123a1d4e35af7071c1b2522b39b23f26d927", providerKey(order, object, 1, "simulator"))
	require.Equal(t, "hw_52b24feb2de8219ff8c51a74d369b4e38f456f6a", providerKey(order, object, 2, ""))
	long := Key{Tenant: strings.Repeat("t", 300), Value: strings.Repeat("k", MaxKeyLength)}
	require.Equal(t, "hw_4451de13ab09f06e5448de0f46db00825f5ad400", providerKey(long, object, 1<<31, "stripe"))

	r := Record{Key: order, Minted: Minted{ID: object}, Generation: 2, ProviderKey: "hw_52b24feb2de8219ff8c51a74d369b4e38f456f6a"}
	with := func(want string, here bool, names ...string) {
		t.Helper()
		name, ok := r.With(names)
		require.Equal(t, want, name)
		require.Equal(t, here, ok)
	}
	with("", true, "simulator") // as a refund, which names none
	r.ProviderKey = providerKey(order, object, 2, "stripe")
	with("", false, "simulator")
	with("stripe", true, "stripe")
	with("stripe", true, "simulator", "stripe")
	with("", true)
}
