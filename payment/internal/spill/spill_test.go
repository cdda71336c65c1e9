package spill

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsOfAKeyAreTogetherAndInOrder(t *testing.T) {
	type row struct {
		Key string
		N   int
	}
	p, err := New[row](t.TempDir(), "rows", 7)
	require.NoError(t, err)
	defer p.Close()
	const keys, each = 40, 5
	for n := range each {
		for k := range keys {
			key := fmt.Sprint("key-", k)
			require.NoError(t, p.Put(key, row{key, n}))
		}
	}
	where, next := map[string]int{}, map[string]int{}
	used := map[int]bool{}
	for i := range p.Len() {
		require.NoError(t, p.Each(i, func(r row) {
			if at, seen := where[r.Key]; seen {
				require.Equal(t, at, i)
			}
			where[r.Key], used[i] = i, true
			require.Equal(t, next[r.Key], r.N)
			next[r.Key]++
		}))
	}
	require.Len(t, next, keys)
	for key, n := range next {
		require.Equal(t, each, n, key)
	}
	require.Greater(t, len(used), 1, "rows are spread")
}

func TestNoRoom(t *testing.T) {
	_, err := New[int](t.TempDir()+"/nowhere", "rows", 2)
	require.ErrorContains(t, err, "make a temporary file")
	p, err := New[[]byte](t.TempDir(), "rows", 1)
	require.NoError(t, err)
	p.Close()
	require.ErrorContains(t, p.Put("k", make([]byte, 2*writeBuffer)), "make room")
}
