package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// The API refuses a key of our form with a wrong check value before any look-up, and before it
// reads the body. It looks up a key of another form. It logs neither.
func TestMistypedKeysAreNotLookedUp(t *testing.T) {
	f := newFake()
	good := claim.NewAPIKey("acme")
	f.tenants[good] = claim.Tenant{ID: "acme"}
	var logged bytes.Buffer
	h := newAPI(t, f, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for i := range 100 {
		w := serve(h, charge("Authorization", fmt.Sprintf("Bearer %s%02d", good[:len(good)-2], i)))
		if good[len(good)-2:] == fmt.Sprintf("%02d", i) {
			continue
		}
		require.Equal(t, "unauthorized", problemIn(t, w).Error)
		require.Equal(t, "Bearer", w.Header().Get("Www-Authenticate"))
	}
	r := charge("Authorization", "Bearer hw_live_made_up")
	r.Body, r.ContentLength = unread{t}, 1<<20
	require.Equal(t, 401, serve(h, r).Code)
	require.LessOrEqual(t, f.lookUps, 1)
	f.lookUps = 0
	require.Equal(t, 201, serve(h, charge("Authorization", "Bearer "+good)).Code)
	require.Equal(t, 201, serve(h, charge()).Code, "a key without a check value is admitted")
	require.Equal(t, 401, serve(h, charge("Authorization", "Bearer sk_none")).Code)
	require.Equal(t, 3, f.lookUps)
	require.Contains(t, logged.String(), "msg=request")
	require.NotContains(t, logged.String(), good[:len(good)-2])
	require.NotContains(t, logged.String(), "sk_")
}
