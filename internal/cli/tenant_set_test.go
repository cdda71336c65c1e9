package cli

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tenant's rate and burst are set and shown by command, and hold at nodes that run.
func TestATenantsRateIsSet(t *testing.T) {
	url := migrated(t, "us-east1")
	key := apiKey(t, does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1"))
	require.Regexp(t, `RATE +BURST +CARD NUMBERS +ROUTES\n.*acme .* default +default +refuse`, does(t, "tenant", "list"))

	onlyWith(t, "HOMEWARD_DATABASE_URL="+url)
	s := serveHere(t, "database: {tenant_cache: -1s}"+freePorts)
	asks := func() int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api+"/v1/idempotency-keys/none", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for range 3 {
		require.Equal(t, http.StatusNotFound, asks())
	}
	require.Contains(t, does(t, "tenant", "set", "acme", "--rate", "0.001", "--burst", "2"), "0.001 requests per second, and 2 at once")
	require.Regexp(t, `acme .* 0.001 +2 +refuse +\n`, does(t, "tenant", "list"))
	require.Equal(t, http.StatusNotFound, asks())
	require.Equal(t, http.StatusNotFound, asks())
	require.Equal(t, http.StatusTooManyRequests, asks())

	does(t, "tenant", "set", "acme", "--burst", "7")
	require.Regexp(t, `acme .* 0.001 +7 +refuse +\n`, does(t, "tenant", "list"), "the other stays")
	does(t, "tenant", "rotate-key", "acme")
	require.Regexp(t, `acme .* 0.001 +7 +refuse +\n`, does(t, "tenant", "list"))
	require.Contains(t, does(t, "tenant", "set", "acme", "--default"), "left to the settings of the nodes")
	require.Regexp(t, `acme .* default +default`, does(t, "tenant", "list"))
	s.stop()

	refuses(t, []string{"nothing to set"}, "tenant", "set", "acme")
	refuses(t, []string{"both --rate and --burst"}, "tenant", "set", "acme", "--rate", "5")
	refuses(t, []string{"both --rate and --burst"}, "tenant", "set", "acme", "--burst", "5")
	refuses(t, []string{`"nobody"`, "tenant list"}, "tenant", "set", "nobody", "--rate", "5", "--burst", "5")
	refuses(t, []string{"--default", "leave --rate"}, "tenant", "set", "acme", "--default", "--rate", "5")
	for _, rate := range []string{"0", "-1", "NaN", "Inf", "1e9"} {
		refuses(t, []string{"--rate must be above 0"}, "tenant", "set", "acme", "--burst", "5", "--rate="+rate)
	}
	for _, burst := range []string{"0", "-1", "1000001"} {
		refuses(t, []string{"--burst must be from 1"}, "tenant", "set", "acme", "--rate", "5", "--burst="+burst)
	}
}
