package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
)

// twoStores runs a test on a database and on what a demo has left. flags name the
// store to the commands; open is the store itself, for as long as do takes.
func twoStores(t *testing.T, run func(t *testing.T, flags []string, open func(do func(*store)))) {
	t.Run("database", func(t *testing.T) {
		emptyDatabase(t)
		t.Setenv(node.SealKeys, strings.TrimSpace(does(t, "secrets", "key")))
		does(t, "migrate", "up", "--regions", "us-east1,europe-west1,asia-northeast1")
		does(t, "tenant", "create", "acme", "--name", "Acme Rockets", "--registrar", "us-east1")
		does(t, "tenant", "create", "globex", "--name", "Globex", "--registrar", "europe-west1")
		run(t, nil, func(do func(*store)) {
			require.NoError(t, (&storeFlags{}).withStore(t.Context(), func(s *store) error { do(s); return nil }))
		})
	})
	t.Run("demo", func(t *testing.T) {
		dir := stoppedDemo(t)
		run(t, []string{"--data", dir}, func(do func(*store)) {
			require.NoError(t, (&storeFlags{Data: dir}).withStore(t.Context(), func(s *store) error { do(s); return nil }))
		})
	})
}

// stoppedDemo is the directory of a demo.
func stoppedDemo(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	settings := node.DefaultSettings()
	var regions []claim.Region
	for _, r := range settings.Regions {
		regions = append(regions, claim.Region{Name: r.Name, Code: r.Code})
	}
	db, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, node.StoreDir), Regions: regions, Policy: settings.Policy})
	require.NoError(t, err)
	for id, registrar := range map[string]string{"acme": "us-east1", "globex": "europe-west1"} {
		require.NoError(t, db.PutTenant(t.Context(), claim.Tenant{ID: id, Registrar: registrar}, lab.DemoKeys()[id]))
	}
	refuses(t, []string{"in use"}, "outbox", "list", "--data", dir)
	require.NoError(t, db.Close())
	return dir
}

// begin makes one provider call's row, due when the lease runs out, and returns its
// id.
func begin(t testing.TB, s *store, region, tenant, id string) {
	t.Helper()
	rows, err := s.Region(region)
	require.NoError(t, err)
	_, found, err := rows.Queue(outbox.ProviderCalls).Message(t.Context(), region, id)
	require.NoError(t, err)
	require.False(t, found)
	begun, err := rows.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: tenant, Value: "order " + id}, region, `{"amount":1}`, "n", id))
	require.NoError(t, err)
	require.Equal(t, claim.Won, begun.Decision)
}

func TestOutbox(t *testing.T) {
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		with := func(args ...string) []string { return append([]string{"outbox"}, append(args, flags...)...) }
		open(func(s *store) {
			begin(t, s, "us-east1", "acme", "ch_1")
			begin(t, s, "us-east1", "globex", "ch_2")
			begin(t, s, "europe-west1", "acme", "ch_3")
		})
		list := does(t, with("list")...)
		require.Regexp(t, `provider_calls +us-east1 +2 +0 +0\n`, list)
		require.Regexp(t, `provider_calls +europe-west1 +1 +0 +0\n`, list)
		require.Regexp(t, `events +asia-northeast1 +0 +0 +0\n`, list)
		require.NotContains(t, list, "REASON")
		refuses(t, []string{"ch_1 of provider_calls in us-east1 is not parked", "next at 20"}, with("retry", "ch_1")...)

		// Parked by hand, in whatever region it is.
		for _, id := range []string{"ch_1", "ch_2", "ch_3"} {
			require.Contains(t, does(t, with("park", id, "--reason", "the bank\tcalled")...), "homeward outbox retry "+id)
		}
		refuses(t, []string{"ch_1", "parked already: the bank.called"}, with("park", "ch_1")...)
		list = does(t, with("list", "--queue", "provider_calls")...)
		require.Regexp(t, `provider_calls +us-east1 +0 +0 +2\n`, list)
		require.Regexp(t, `ch_3 +provider_calls +europe-west1 +acme +order ch_3 +\d+s +0 +the bank.called\n`, list)
		require.NotContains(t, list, "notices")
		require.NotContains(t, does(t, with("list", "--limit", "0")...), "REASON")

		code, page, more := homeward(t, with("list", "--region", "us-east1", "--limit", "1")...)
		require.Zero(t, code)
		require.Contains(t, page, "ch_1")
		require.NotContains(t, page, "ch_2")
		_, next, ok := strings.Cut(strings.TrimSpace(more), "there are more: homeward outbox list ")
		require.True(t, ok, more)
		code, page, more = homeward(t, with(append([]string{"list"}, strings.Fields(next)...)...)...)
		require.Zero(t, code)
		require.NotContains(t, page, "ch_1")
		require.Contains(t, page, "ch_2")
		require.Empty(t, more)

		var parsed outboxList
		require.NoError(t, json.Unmarshal([]byte(does(t, with("list", "--json")...)), &parsed))
		require.Len(t, parsed.Queues, 12)
		require.Len(t, parsed.Parked, 3)
		require.Equal(t, "ch_1", parsed.Parked[1].ID)
		require.Equal(t, "the bank\tcalled", parsed.Parked[1].LastError)
		require.Equal(t, outbox.KindProviderCall, parsed.Parked[1].Kind)

		// And brought back: by id, by tenant, all.
		require.Contains(t, does(t, with("retry", "ch_1")...), "ch_1 is due now in provider_calls of us-east1; it was parked because: the bank.called")
		require.Regexp(t, `provider_calls +us-east1 +1 +1 +\S+ +1\n`, does(t, with("list")...))
		out := does(t, with("retry", "--all", "--queue", "provider_calls", "--tenant", "globex")...)
		require.Contains(t, out, "1 rows are due now in provider_calls of us-east1\n")
		require.Contains(t, out, "0 rows are due now in provider_calls of europe-west1\n")
		require.Contains(t, does(t, with("retry", "--all", "--queue", "provider_calls", "--region", "europe-west1")...), "1 rows are due")
		require.NotContains(t, does(t, with("list")...), "REASON")

		code, _, errs := homeward(t, with("retry", "ch_1", "ch_none")...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, "ch_1 of provider_calls in us-east1 is not parked")
		require.Contains(t, errs, `row "ch_none" was not found`)
		refuses(t, []string{`row "ch_1" was not found`}, with("park", "ch_1", "--queue", "events")...)
		refuses(t, []string{`row "ch_1" was not found`}, with("park", "ch_1", "--region", "europe-west1")...)
		refuses(t, []string{`"mars"`, "us-east1"}, with("list", "--region", "mars")...)
		refuses(t, []string{"--queue"}, with("list", "--queue", "x")...)
		refuses(t, []string{"--limit"}, with("list", "--limit", "100000")...)
		refuses(t, []string{"--after"}, with("list", "--after", "x")...)
		refuses(t, []string{"--all"}, with("retry")...)
		refuses(t, []string{"--all"}, with("retry", "ch_1", "--all")...)
		refuses(t, []string{"--all needs --queue"}, with("retry", "--all")...)
		refuses(t, []string{"--tenant"}, with("retry", "ch_1", "--tenant", "acme")...)
		refuses(t, []string{"--reason"}, with("park", "ch_1", "--reason", " ")...)
	})
}

// awayStall cannot be read.
type awayStall struct{ outbox.Store }

func (awayStall) Parked(context.Context, string, string, int) ([]outbox.Message, error) {
	return nil, errors.New("the region is away")
}

func TestRetryOfAllCountsNothingThatWasNotRead(t *testing.T) {
	var out strings.Builder
	err := (&outboxRetryCommand{}).retryAll(t.Context(), streams{out: &out}, []stall{{awayStall{}, outbox.Events, "us-east1"}})
	require.EqualError(t, err, "events of us-east1: the region is away")
	require.Empty(t, out.String())
}

func TestOutboxOfADirectoryThatHoldsNone(t *testing.T) {
	dir := t.TempDir()
	refuses(t, []string{"holds no store of a demo", "homeward demo --data"}, "outbox", "list", "--data", dir)
	require.NoDirExists(t, filepath.Join(dir, node.StoreDir), "looking makes none")
	refuses(t, []string{"--config is for --data"}, "outbox", "list", "--config", filepath.Join(dir, "x.yaml"))
}

func TestEndpoint(t *testing.T) {
	const url = "https://shop.example/hooks"
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		with := func(args ...string) []string { return append([]string{"endpoint"}, append(args, flags...)...) }
		stored := func() (e relay.Endpoint) {
			open(func(s *store) {
				var err error
				e, _, err = s.endpoints().Endpoint(t.Context(), "acme")
				require.NoError(t, err)
			})
			return e
		}
		for _, command := range []string{"show", "secret", "remove"} {
			refuses(t, []string{"acme has no webhook endpoint", "endpoint set acme"}, with(command, "acme")...)
			refuses(t, []string{`no tenant "nobody"`}, with(command, "nobody")...)
		}
		refuses(t, []string{`no tenant "nobody"`}, with("set", "nobody", url)...)
		refuses(t, []string{"https://"}, with("set", "acme", "http://shop.example/hooks")...)
		refuses(t, []string{"password"}, with("set", "acme", "https://a:b@shop.example/hooks")...)

		for _, host := range []string{"127.0.0.1", "localhost", "10.0.0.1", "[fd00::1]", "169.254.169.254", "168.63.129.16", "[fd00:ec2::254]", "100.100.100.200"} {
			refuses(t, []string{"not public", "nodes refuse"}, with("set", "acme", "https://"+host+"/hooks")...)
		}
		for _, host := range []string{"169.254.169.254", "168.63.129.16"} {
			refuses(t, []string{"nodes refuse"}, with("set", "acme", "https://"+host+"/hooks", "--allow-private")...)
		}
		out := does(t, with("set", "acme", url)...)
		first := secret(t, out)
		require.Equal(t, relay.Endpoint{Tenant: "acme", URL: url, Secrets: []string{first}}, stored())
		require.NoError(t, stored().Check(false))
		show := does(t, with("show", "acme")...)
		require.Regexp(t, `(?s)url +https://shop.example/hooks\nsecrets +1\nstatus +(ok|off)\nwebhooks +(unknown|off): .*events.webhooks.on`, show)
		if len(flags) > 0 { // a demo's directory, by its settings
			require.Regexp(t, `status +off`, show)
			on := filepath.Join(t.TempDir(), "on.yaml")
			require.NoError(t, os.WriteFile(on, []byte("events: {webhooks: {on: true}}"), 0o600))
			require.Regexp(t, `status +ok\nwebhooks +on\n`, does(t, append(with("show", "acme"), "--config", on)...))
		} else {
			require.Regexp(t, `status +ok\nwebhooks +unknown: .*--node`, show)
		}
		require.NotContains(t, show, first)

		// Another URL keeps the secret.
		out = does(t, with("set", "acme", url+"2", "--allow-http")...)
		require.NotContains(t, out, "whsec_")
		require.Equal(t, []string{first}, stored().Secrets)
		require.Equal(t, url+"2", stored().URL)

		second := secret(t, does(t, with("secret", "acme")...))
		require.Equal(t, []string{second, first}, stored().Secrets)
		third := secret(t, does(t, with("secret", "acme")...))
		require.Equal(t, []string{third, second}, stored().Secrets)
		require.NotContains(t, does(t, with("secret", "acme", "--end-old")...), "whsec_")
		require.Equal(t, []string{third}, stored().Secrets)
		require.Contains(t, does(t, with("secret", "acme", "--end-old")...), "nothing to do")
		fourth := secret(t, does(t, with("secret", "acme", "--only")...))
		require.Equal(t, []string{fourth}, stored().Secrets)
		refuses(t, []string{"--only"}, with("secret", "acme", "--only", "--end-old")...)

		// A disabled endpoint is shown as such, and setting it enables it.
		open(func(s *store) {
			for range 2 {
				_, err := s.endpoints().NoteDelivery(t.Context(), "acme", url+"2", false, 0)
				require.NoError(t, err)
			}
		})
		require.Regexp(t, `(?s)status +disabled\nfailing since +20.*disabled at +20`, does(t, with("show", "acme")...))
		var shown endpointShown
		require.NoError(t, json.Unmarshal([]byte(does(t, with("show", "acme", "--json")...)), &shown))
		require.Equal(t, "disabled", shown.Status)
		require.NotNil(t, shown.DisabledAt)
		require.Contains(t, does(t, with("set", "acme", url)...), "homeward outbox retry --all --queue events --tenant acme")
		require.NotContains(t, does(t, with("show", "acme")...), "disabled")

		require.Contains(t, does(t, with("remove", "acme")...), "gets no more events")
		refuses(t, []string{"no webhook endpoint"}, with("remove", "acme")...)
		require.NotContains(t, does(t, with("set", "acme", url)...), fourth, "a new endpoint has a new secret")
	})
}

// secret finds the secret in what was printed.
func secret(t testing.TB, printed string) string {
	t.Helper()
	_, rest, found := strings.Cut(printed, "signing secret: ")
	require.True(t, found, printed)
	require.Contains(t, rest, "not shown again")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}
