package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/webhook"
	"github.com/homeward-io/homeward/seal"
)

// sealNotice keeps a notice as a node with the desk's keys does.
func sealNotice(t testing.TB, d desk, event string) {
	t.Helper()
	const region = "europe-west1"
	id := webhook.NoticeID("sim", event)
	body, err := d.Seal().Seal(t.Context(), seal.Row{Table: "notice", Region: region, ID: id}, []byte("erika.mustermann"))
	require.NoError(t, err)
	bodies, err := d.Bodies(region)
	require.NoError(t, err)
	_, err = bodies.(webhook.Store).Keep(t.Context(), region, []webhook.Notice{{ID: id, Provider: "sim", Body: body}})
	require.NoError(t, err)
}

// TestSecrets: secrets and persons' data at rest go from no key to one and to the next,
// and a lost key is told in one line.
func TestSecrets(t *testing.T) {
	onlyKey := func(t *testing.T, dir string, keys ...string) {
		t.Helper()
		if dir == "" {
			t.Setenv("HOMEWARD_SEAL_KEYS", strings.Join(keys, "\n"))
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "seal.key"), []byte(strings.Join(keys, "\n")), 0o600))
	}
	twoStores(t, func(t *testing.T, flags []string, open func(func(desk))) {
		dir := ""
		if len(flags) > 0 {
			dir = flags[1]
		}
		with := func(args ...string) []string { return append(args, flags...) }
		a, b := strings.TrimSpace(does(t, "secrets", "key")), strings.TrimSpace(does(t, "secrets", "key"))
		require.Regexp(t, `^base64key://[A-Za-z0-9_=-]{44}$`, a)
		const url = "https://shop.example/hooks"
		if dir == "" { // the demo always has a key
			refuses(t, []string{"HOMEWARD_SEAL_KEYS", "homeward secrets key"}, with("secrets", "rotate")...)
			does(t, with("endpoint", "set", "globex", url)...)
			require.Regexp(t, `none +1 +not sealed`, does(t, with("secrets", "show")...))
		}
		onlyKey(t, dir, a)
		does(t, with("endpoint", "set", "acme", url)...)
		open(func(d desk) { sealNotice(t, d, "evt_1") })
		does(t, with("secrets", "rotate")...)
		require.NotContains(t, does(t, with("secrets", "show")...), "not sealed")

		onlyKey(t, dir, b, a)
		require.Regexp(t, `(?s)[0-9a-f]{16} +0 +seals\n[0-9a-f]{16} +[23] `, does(t, with("secrets", "show")...))
		open(func(d desk) { sealNotice(t, d, "evt_2") })
		require.Regexp(t, `sealed anew under key [0-9a-f]{16}: [23]\n`, does(t, with("secrets", "rotate")...))
		onlyKey(t, dir, b)
		require.NotContains(t, does(t, with("secrets", "show")...), "missing")
		require.Contains(t, does(t, with("secrets", "rotate")...), ": 0\n")
		require.Contains(t, does(t, with("endpoint", "set", "acme", url+"2")...), "signed as before")

		// The key is lost. What it sealed is counted, and named; a new secret mends the
		// endpoint, and the notice waits for the key.
		c := strings.TrimSpace(does(t, "secrets", "key"))
		onlyKey(t, dir, c)
		require.Contains(t, does(t, with("secrets", "show")...), "missing")
		refuses(t, []string{"cannot be opened", "which this process does not have"}, with("secrets", "rotate")...)
		refuses(t, []string{"sealed under a key that is not here", "--only"}, with("endpoint", "set", "acme", url)...)
		refuses(t, []string{"sealed under a key that is not here", "--only"}, with("endpoint", "secret", "acme")...)
		require.Contains(t, does(t, with("endpoint", "show", "acme")...), "sealed under a key that is not here")
		require.Contains(t, does(t, with("endpoint", "secret", "acme", "--only")...), "whsec_")
		require.NotContains(t, does(t, with("endpoint", "show", "acme")...), "sealed under")
		open(func(d desk) {
			q, err := d.Queue("europe-west1", outbox.Notices)
			require.NoError(t, err)
			m, found, err := q.Message(t.Context(), "europe-west1", "sim:evt_2")
			require.NoError(t, err)
			require.True(t, found)
			_, err = d.Seal().Open(t.Context(), seal.Row{Table: "notice", Region: "europe-west1", ID: m.ID}, m.Payload)
			require.ErrorIs(t, err, seal.ErrLost)
		})
	})
}
