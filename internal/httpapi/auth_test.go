package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// TestMadeUpKeysAskNobody: a key that says it is ours and whose check value is wrong is
// refused before anybody is asked or the body is read; one of another form is looked up; neither is logged.
func TestMadeUpKeysAskNobody(t *testing.T) {
	f := newFake()
	good := claim.NewAPIKey()
	f.tenants[good] = claim.Tenant{ID: "acme"}
	var said bytes.Buffer
	h := newAPI(t, f, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for i := range 100 {
		w := serve(h, charge("Authorization", fmt.Sprintf("Bearer %s%02d", good[:len(good)-2], i)))
		if good[len(good)-2:] == fmt.Sprintf("%02d", i) {
			continue
		}
		require.Equal(t, "unauthorized", problemIn(t, w).Error)
		require.Equal(t, "Bearer", w.Header().Get("Www-Authenticate"))
	}
	r := charge("Authorization", "Bearer hwk_made_up")
	r.Body, r.ContentLength = unread{t}, 1<<20
	require.Equal(t, 401, serve(h, r).Code)
	require.LessOrEqual(t, f.asked, 1)
	f.asked = 0
	require.Equal(t, 201, serve(h, charge("Authorization", "Bearer "+good)).Code)
	require.Equal(t, 201, serve(h, charge()).Code, "a key of before opens the door")
	require.Equal(t, 401, serve(h, charge("Authorization", "Bearer sk_none")).Code)
	require.Equal(t, 3, f.asked)
	require.Contains(t, said.String(), "msg=request")
	require.NotContains(t, said.String(), good[:len(good)-2])
	require.NotContains(t, said.String(), "sk_")
}
