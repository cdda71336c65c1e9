package sqlstore

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// TestMemoryIsBounded: keys that nobody has come without end, and what is kept of them
// does not.
func TestMemoryIsBounded(t *testing.T) {
	m := newMemory[claim.APIKeyHash](time.Hour)
	for i := range 3 * tenantsRemembered {
		m.put(sha256.Sum256(fmt.Append(nil, i)), claim.Tenant{})
	}
	if n := m.cache.Len(); n != tenantsRemembered {
		t.Errorf("%d are remembered", n)
	}
}

// TestRecentKeysAreBounded: the latest keys are known, of any number that came.
func TestRecentKeysAreBounded(t *testing.T) {
	const slots = 1 << 10
	r := newRecentKeys(slots)
	key := func(i int) claim.Key { return claim.Key{Tenant: "acme", Value: fmt.Sprint(i)} }
	for i := range 4 * slots {
		r.add(key(i))
		require.True(t, r.knows(key(i)))
	}
	require.Len(t, r.slots, slots)
	known := 0
	for i := range 3 * slots {
		if r.knows(key(i)) {
			known++
		}
	}
	require.Less(t, known, slots, "the latest ones are kept")
	k := key(1)
	r.add(k)
	require.False(t, r.knows(claim.Key{Tenant: "globex", Value: k.Value}), "of another tenant")
	r.forget(key(2))
	require.True(t, r.knows(k))
	r.forget(k)
	require.False(t, r.knows(k))
}
