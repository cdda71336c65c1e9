package claim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The latest keys are known, of any number that came.
func TestLatelyIsBounded(t *testing.T) {
	const slots = 1 << 10
	l := NewLately(slots)
	key := func(i int) Key { return Key{Tenant: "acme", Value: fmt.Sprint(i)} }
	for i := range 4 * slots {
		l.Add(key(i))
		require.True(t, l.Knows(key(i)))
	}
	require.Len(t, l.slots, slots)
	known := 0
	for i := range 3 * slots {
		if l.Knows(key(i)) {
			known++
		}
	}
	require.Less(t, known, slots, "the latest ones are kept")
	k := key(1)
	l.Add(k)
	require.False(t, l.Knows(Key{Tenant: "globex", Value: k.Value}), "of another tenant")
	l.Forget(key(2))
	require.True(t, l.Knows(k))
	l.Forget(k)
	require.False(t, l.Knows(k))
}
