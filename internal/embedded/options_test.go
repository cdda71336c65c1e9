package embedded_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/embedded"
)

// GOMEMLIMIT counts where it is set.
func TestLimitMemory(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(was) })
	t.Setenv("GOMEMLIMIT", "1GiB")
	embedded.LimitMemory()
	require.Equal(t, was, debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "")
	embedded.LimitMemory()
	require.Less(t, debug.SetMemoryLimit(-1), int64(150<<20))
}
