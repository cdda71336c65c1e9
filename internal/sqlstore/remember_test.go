package sqlstore

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// TestMemoryIsBounded: keys that nobody has come without end, and what is kept of them
// does not.
func TestMemoryIsBounded(t *testing.T) {
	m := newMemory[apiKeyHash](time.Hour)
	for i := range 3 * tenantsRemembered {
		m.put(sha256.Sum256(fmt.Append(nil, i)), claim.Tenant{})
	}
	if n := m.cache.Len(); n != tenantsRemembered {
		t.Errorf("%d are remembered", n)
	}
}
