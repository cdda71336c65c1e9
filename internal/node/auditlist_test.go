package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestABucketOfFilesIsListedWhileItIsWritten: another process' temporary files come and go.
func TestABucketOfFilesIsListedWhileItIsWritten(t *testing.T) {
	b, err := OpenAudit(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	const kept = 200
	for i := range kept {
		require.NoError(t, b.Put(t.Context(), fmt.Sprintf("home/day/%06d", 2*i), []byte("x")))
	}
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && ctx.Err() == nil; i = (i + 1) % kept {
			err = b.Put(context.Background(), fmt.Sprintf("home/day/%06d", 2*i+1), []byte("y"))
		}
		written <- err
	}()
	for range 200 {
		last, even := "", 0
		require.NoError(t, b.List(t.Context(), "home/", func(name string) error {
			require.Greater(t, name, last, "each name once")
			if last = name; len(name) == len("home/day/000000") && (name[len(name)-1]-'0')%2 == 0 { // no temporary file
				even++
			}
			return nil
		}))
		require.Equal(t, kept, even)
	}
	stop()
	require.NoError(t, <-written)
}
