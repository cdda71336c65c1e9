package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// sealNotice keeps a notice as a node with the desk's keys does.
func sealNotice(t testing.TB, s *store, event string) {
	t.Helper()
	const region = "europe-west1"
	id := notice.ID("sim", event)
	body, err := s.ring.Seal(t.Context(), seal.Row{Table: "notice", Region: region, ID: id}, []byte("erika.mustermann"))
	require.NoError(t, err)
	bodies, err := s.Region(region)
	require.NoError(t, err)
	_, err = bodies.(notice.Store).Keep(t.Context(), region, []notice.Notice{{ID: id, Provider: "sim", Body: body}})
	require.NoError(t, err)
}

// TestSecrets: secrets and persons' data at rest go from no key to one and to the next. The error
// of a lost key is one line.
func TestSecrets(t *testing.T) {
	onlyKey := func(t *testing.T, dir string, keys ...string) {
		t.Helper()
		if dir == "" {
			t.Setenv("HOMEWARD_SEAL_KEYS", strings.Join(keys, "\n"))
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "seal.key"), []byte(strings.Join(keys, "\n")), 0o600))
	}
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		dir := ""
		if len(flags) > 0 {
			dir = flags[1]
		}
		with := func(args ...string) []string { return append(args, flags...) }
		a, b := strings.TrimSpace(does(t, "secrets", "key")), strings.TrimSpace(does(t, "secrets", "key"))
		require.Regexp(t, `^base64key://[A-Za-z0-9_=-]{44}$`, a)
		const url = "https://shop.example/hooks"
		if dir == "" { // the demo always has a key
			require.NoError(t, os.Unsetenv(node.SealKeys))
			refuses(t, []string{"HOMEWARD_SEAL_KEYS", "homeward secrets key"}, with("secrets", "rotate")...)
			for _, args := range [][]string{{"set", "globex", url}, {"secret", "acme"}} {
				if args[0] == "secret" {
					t.Setenv(node.SealSetting, "false")
					does(t, "endpoint", "set", "acme", url)
					require.NoError(t, os.Unsetenv(node.SealSetting))
				}
				refuses(t, []string{"there is no sealing key: set HOMEWARD_SEAL_KEYS", "HOMEWARD_SEAL=false"}, append([]string{"endpoint"}, args...)...)
			}
			require.Regexp(t, `none +1 +not sealed`, does(t, with("secrets", "show")...), "nothing else was stored")
			does(t, "endpoint", "remove", "acme")
			t.Setenv(node.SealSetting, "false")
			does(t, with("endpoint", "set", "globex", url)...)
			t.Setenv(node.SealKeys, a)
			refuses(t, []string{"HOMEWARD_SEAL is false"}, with("secrets", "rotate")...)
			require.NoError(t, os.Unsetenv(node.SealSetting))
			require.NoError(t, os.Unsetenv(node.SealKeys))
			require.Regexp(t, `none +1 +not sealed`, does(t, with("secrets", "show")...))
		}
		onlyKey(t, dir, a)
		does(t, with("endpoint", "set", "acme", url)...)
		open(func(s *store) { sealNotice(t, s, "evt_1") })
		does(t, with("secrets", "rotate")...)
		require.NotContains(t, does(t, with("secrets", "show")...), "not sealed")

		onlyKey(t, dir, b, a)
		require.Regexp(t, `(?s)[0-9a-f]{16} +0 +seals\n[0-9a-f]{16} +[23] `, does(t, with("secrets", "show")...))
		open(func(s *store) { sealNotice(t, s, "evt_2") })
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
		open(func(s *store) {
			rows, err := s.Region("europe-west1")
			require.NoError(t, err)
			m, found, err := rows.Queue(outbox.Notices).Message(t.Context(), "europe-west1", "sim:evt_2")
			require.NoError(t, err)
			require.True(t, found)
			_, err = s.ring.Open(t.Context(), seal.Row{Table: "notice", Region: "europe-west1", ID: m.ID}, m.Payload)
			require.ErrorIs(t, err, seal.ErrLost)
		})
	})
}

// TestSecretsOfRequestsInFlight: a gateway's request is sealed until there is a reply. Its recovery needs
// the key, so that it counts, and the key is not to be removed.
func TestSecretsOfRequestsInFlight(t *testing.T) {
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		with := func(args ...string) []string { return append(args, flags...) }
		a, b := strings.TrimSpace(does(t, "secrets", "key")), strings.TrimSpace(does(t, "secrets", "key"))
		only := func(keys ...string) {
			t.Setenv(node.SealKeys, strings.Join(keys, "\n"))
			if len(flags) > 0 {
				require.NoError(t, os.WriteFile(filepath.Join(flags[1], "seal.key"), []byte(strings.Join(keys, "\n")), 0o600))
			}
		}
		const region = "europe-west1"
		only(a)
		open(func(s *store) {
			for _, id := range []string{"clear", "open", "parked"} {
				sent := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: id}, region, "1", "n", "ch_"+id)
				if id != "clear" {
					sealed, err := s.ring.Seal(t.Context(), seal.Row{Table: "call", ID: id}, []byte("{}"))
					require.NoError(t, err)
					sent.Payload = sealed
				}
				rows, err := s.Region(region)
				require.NoError(t, err)
				begun, err := rows.Begin(t.Context(), sent)
				require.NoError(t, err)
				if id == "parked" {
					require.NoError(t, rows.Queue(outbox.ProviderCalls).Park(t.Context(), region, claimtest.Call(begun.Record, 0), "look"))
				}
			}
		})
		only(b, a)
		require.Regexp(t, `sealed anew under key [0-9a-f]{16}: 0\nrequests in flight that stay under a former key: 2; `, does(t, with("secrets", "rotate")...))
		require.Regexp(t, `(?s)[0-9a-f]{16} +0 +seals\n[0-9a-f]{16} +2 `, does(t, with("secrets", "show")...))
		only(b)
		require.Regexp(t, `[0-9a-f]{16} +2 +missing`, does(t, with("secrets", "show")...))
	})
}

// TestServeBeginsToSeal walks the steps of docs/SECURITY.md: a node in clear text, one that
// has keys and only reads, and one that seals. Each acts on what the others have kept, and
// a node that lost the key leaves what is sealed to others.
func TestServeBeginsToSeal(t *testing.T) {
	url := migrated(t, "us-east1")
	key := strings.TrimSpace(does(t, "secrets", "key"))
	hook := relay.NewSecret()
	basic := []string{node.DatabaseURL + "=" + url, node.ProviderWebhooks + "=" + hook}
	const seals = node.SealSetting + "=true"
	serve := func(event string, environ ...string) *serving {
		t.Helper()
		onlyWith(t, slices.Concat(basic, environ)...)
		s := serveHere(t, freePorts)
		sendNotice(t, s.api, hook, event)
		return s
	}
	// The provider's notices are of another party's charges, so that they are parked with the
	// contents of their bodies. Each row is waited for until it has been taken once more.
	taken := map[string]uint64{}
	until := func(event string, is func(m outbox.Message) bool) (reason string) {
		t.Helper()
		require.NoError(t, (&storeFlags{}).withStore(t.Context(), func(s *store) error {
			rows, err := s.Region("us-east1")
			require.NoError(t, err)
			for giveUp := time.Now().Add(time.Minute); ; {
				m, found, err := rows.Queue(outbox.Notices).Message(t.Context(), "us-east1", notice.ID("simulator", event))
				require.NoError(t, err)
				require.True(t, found)
				if m.Fence > taken[event] && is(m) {
					taken[event], reason = m.Fence, m.LastError
					return nil
				}
				require.True(t, time.Now().Before(giveUp), "a notice is acted on within a minute")
			}
		}))
		return reason
	}
	parked := func(event string) string {
		t.Helper()
		return until(event, func(m outbox.Message) bool { return m.Parked })
	}
	s := serve("evt_1")
	require.Contains(t, parked("evt_1"), "order-evt_1 is not an id of this deployment")
	s.stop()
	require.Regexp(t, `none +1 +not sealed`, does(t, "secrets", "show"))

	reads := serve("evt_2", node.SealKeys+"="+key)
	require.Contains(t, parked("evt_2"), "order-evt_2 is not an id of this deployment")
	require.Regexp(t, `(?s)0 +seals.*none +2 +not sealed`, does(t, "secrets", "show"))
	sealing := serve("evt_3", node.SealKeys+"="+key, seals) // beside it, as in a rolling restart
	require.Contains(t, parked("evt_3"), "order-evt_3 is not an id of this deployment")
	require.Regexp(t, `(?s)1 +seals.*none +2 +not sealed`, does(t, "secrets", "show"))
	sealing.stop()
	does(t, "outbox", "retry", "--all", "--queue", "notices")
	for _, event := range []string{"evt_1", "evt_3"} {
		require.Contains(t, parked(event), "order-"+event+" is not an id of this deployment", "who only reads opens both")
	}
	reads.stop()

	require.Contains(t, does(t, "secrets", "rotate"), ": 2\n")
	require.NotContains(t, does(t, "secrets", "show"), "not sealed")
	lost := serve("evt_4", node.SealKeys+"="+strings.TrimSpace(does(t, "secrets", "key")), seals)
	require.Contains(t, parked("evt_4"), "order-evt_4 is not an id of this deployment", "the rest goes on")
	does(t, "outbox", "retry", "--all", "--queue", "notices")
	res, err := http.Get(lost.api + "/readyz")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	until("evt_3", func(m outbox.Message) bool {
		return !m.Parked && m.Attempts > 0 && strings.Contains(m.LastError, "cannot be opened: it is sealed under key ")
	})
	lost.stop()
}

// sendNotice is a provider's webhook about another party's charge.
func sendNotice(t testing.TB, api, secret, event string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"id":%q,"type":"charge.succeeded","created":1,"data":{"id":"p_%s","reference":"order-%[2]s","status":"succeeded","amount":100,"currency":"usd"}}`, event, event)
	signer, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	now := time.Now()
	signature, err := signer.Sign(event, now, body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+"/v1/webhooks/simulator", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", event)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", signature)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}
