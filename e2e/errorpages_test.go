package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/problem"
)

// A deployment moves the pages of its errors. Stored answers keep their bytes, and link to the old
// address. New answers link to the new one.
func TestErrorPagesMove(t *testing.T) {
	t.Parallel()
	rows, dir, j := newBackend(t), t.TempDir(), newJudge(t)
	stolen := charge(stamped(t, us), 700)
	stolen.body = strings.Replace(stolen.body, "pm_card_visa", "pm_card_stolen", 1)
	mismatch := charge(stolen.key, 701)
	begin := func(pages problem.Pages) *world {
		return startWorldOn(t, rows, j, func(c *node.ClusterConfig) { c.Dir, c.ErrorPages = dir, pages })
	}
	leadsTo := func(at string) string { return "<" + at + `>; rel="describedby"; type="text/html"` }

	w := begin("")
	first := w.at(us, stolen, http.StatusPaymentRequired)
	require.Contains(t, string(first.Body), `{"type":"/errors/card_declined",`)
	page, err := http.Get(w.base(us) + "/errors/card_declined")
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.NoError(t, w.cluster.Stop(w.ctx))

	const elsewhere = "https://developer.example.com/errors/"
	w = begin(elsewhere)
	for _, region := range regions {
		again := w.at(region, stolen, http.StatusPaymentRequired)
		require.Equal(t, first.Remembered(), again.Remembered())
		require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
		require.Equal(t, leadsTo("/errors/card_declined"), again.Header.Get("Link"))
		refused := w.at(region, mismatch, http.StatusUnprocessableEntity)
		require.Contains(t, string(refused.Body), `{"type":"`+elsewhere+`idempotency_key_fingerprint_mismatch",`)
		require.Equal(t, leadsTo(elsewhere+"idempotency_key_fingerprint_mismatch"), refused.Header.Get("Link"))
	}
	other := stolen
	other.key = stamped(t, us)
	require.Contains(t, string(w.at(asia, other, http.StatusPaymentRequired).Body), `{"type":"`+elsewhere+`card_declined",`)
	j.once(t, 0)
}
