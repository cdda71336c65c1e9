package sqlstore

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// What a caller waits for is not sent on a connection that may have died while it was
// idle. What a node sends in rounds is, as the next round repeats it.
func TestWhatIsPingedFor(t *testing.T) {
	rounds := context.WithValue(t.Context(), roundKey{}, true)
	for idle, want := range map[time.Duration][2]bool{
		time.Second: {false, false}, time.Second + 1: {true, false}, time.Minute: {true, false}, 90*time.Second + 1: {true, true},
	} {
		p := pgxpool.ShouldPingParams{IdleDuration: idle}
		require.Equal(t, want[0], shouldPing(t.Context(), p), idle)
		require.Equal(t, want[1], shouldPing(rounds, p), idle)
	}
	for _, name := range inRounds {
		sql, _, err := postgreSQL.bind(name, reflect.Zero(declared[name]).Interface())
		require.NoError(t, err)
		require.Contains(t, sql, "SELECT")
		for _, write := range []string{"INSERT", "UPDATE", "DELETE"} {
			require.NotContains(t, sql, write, name)
		}
	}
}
