package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/reconcile"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

const statementHead = "id,kind,reference,amount,currency,created\n"

// cannot expects exit code 2 and one line with all of these.
func cannot(t *testing.T, says []string, args ...string) {
	t.Helper()
	code, _, errs := homeward(t, append([]string{"reconcile"}, args...)...)
	require.Equal(t, exitUnread, code, errs)
	require.NotContains(t, strings.TrimSuffix(errs, "\n"), "\n", "more than one line")
	for _, s := range says {
		require.Contains(t, errs, s)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReconcile(t *testing.T) {
	twoBooks(t, func(t *testing.T, flags []string, open func(do func(*store))) {
		with := func(args ...string) []string { return append(append([]string{"reconcile"}, args...), flags...) }
		statement := statementHead
		open(func(s *store) {
			for i := range 30 {
				id := fmt.Sprintf("ch_%d", i)
				post(t, s, ledger.Transaction{ID: id, Region: "us-east1", Kind: ledger.Charge, Amount: 100, ProviderRef: "p_" + id})
				statement += fmt.Sprintf("p_%s,charge,%s,100,USD,%d\n", id, id, time.Now().Unix())
			}
		})
		out := does(t, with("--statement", write(t, "s.csv", statement))...)
		require.Contains(t, out, "30 lines, 30 bookings and 0 claims of simulator: 30 movements agree")
		require.Regexp(t, `not_on_statement +0`, out)
		require.Contains(t, out, "The statement agrees with the books and the claims.\n")

		// A dispute and a failure of payments without a record.
		for _, kind := range []string{"dispute", "charge_failed"} {
			code, out, errs := homeward(t, with("--statement", write(t, "s.csv", statement+fmt.Sprintf("du_1,%s,order-7,100,usd,%d\n", kind, time.Now().Unix())))...)
			require.Equal(t, exitDiffers, code, errs)
			require.Regexp(t, `unasked_not_booked +1\n`, out)
			require.Regexp(t, `unasked_not_booked +order-7 +du_1`, out)
			require.NotContains(t, out, "agrees")
		}

		all := filepath.Join(t.TempDir(), "all.jsonl")
		file := filepath.Join(t.TempDir(), "statement.prom")
		code, out, errs := homeward(t, with("--statement", write(t, "s.csv", strings.ReplaceAll(statement, ",100,", ",101,")), "--out", all, "--metrics-file", file)...)
		require.Equal(t, exitDiffers, code, errs)
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(written), `homeward_reconciliation_mismatches{homeward_class="all",homeward_provider="simulator"} 30`)
		require.Contains(t, string(written), `homeward_reconciliation_mismatches{homeward_class="amount_differs",homeward_provider="simulator"} 30`)
		require.Regexp(t, `homeward_reconciliation_last_seconds\{homeward_provider="simulator"\} [1-9]`, string(written))
		require.Regexp(t, `amount_differs +30`, out)
		require.Equal(t, reconcile.Shown, strings.Count(out, "differ by 1"))
		require.Contains(t, errs, "there are 10 more: --out")
		text, err := os.ReadFile(all)
		require.NoError(t, err)
		require.Equal(t, 30, strings.Count(string(text), `"class":"amount_differs"`))

		// One that cannot be compared leaves what was there.
		code, _, errs = homeward(t, with("--statement", write(t, "s.csv", statement+"p,charge,\"x,1,usd,1\nq,charge,x,1,usd,1\n"), "--out", all)...)
		require.Equal(t, exitUnread, code)
		require.Contains(t, errs, `statement, line 33: extraneous or missing "`)
		code, out, errs = homeward(t, with("--statement", write(t, "s.csv", statement+"p,charge,x,none,usd,1\n"))...)
		require.Equal(t, exitDiffers, code, errs)
		require.Contains(t, out, "30 movements agree")
		require.Regexp(t, `unreadable_line .* line 32: amount`, out)
		again, err := os.ReadFile(all)
		require.NoError(t, err)
		require.Equal(t, text, again)
		entries, err := os.ReadDir(filepath.Dir(all))
		require.NoError(t, err)
		require.Len(t, entries, 1)

		var found reconcile.Comparison
		code, out, _ = homeward(t, with("--statement", write(t, "s.jsonl", `{"id":"x","kind":"charge","reference":"r","amount":1,"currency":"usd","created":1}`), "--json", "--from", time.Now().Add(-time.Hour).Format(time.RFC3339))...)
		require.Zero(t, code)
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		require.Equal(t, 1, found.Outside)
		require.Equal(t, 30, found.Undecided, "too near the beginning of the period")

		// As Stripe writes it; and as a mapping describes it.
		stripe := "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,payment_intent_id,payment_metadata[homeward_reference]\n"
		for i := range 30 {
			stripe += fmt.Sprintf("txn_%d,%s,usd,1.00,0.00,1.00,charge,ch_x,p_ch_%d,ch_%d\n", i, time.Now().UTC().Format(time.DateTime), i, i)
		}
		stripe += fmt.Sprintf("txn_x,%s,usd,1.00,0.00,1.00,anticipation_repayment,x,,\n", time.Now().UTC().Format(time.DateTime))
		out = does(t, with("--statement", write(t, "s.csv", stripe), "--format", "stripe", "--day", time.Now().UTC().Format(time.DateOnly))...)
		require.Contains(t, out, "30 movements agree")
		require.Regexp(t, `UNKNOWN KIND +LINES\nanticipation_repayment +1\n`, out)
		require.Contains(t, out, "What was compared agrees. Left out: 1 line of an unknown kind.\n")
		own := write(t, "m.yaml", "columns: {id: id, reference: reference, kind: kind, created: created, amount: {value: amount, currency: currency}}\nnumbers: {unit: minor}\ntime: {format: unix}\nkinds: {charge: charge}\n")
		out = does(t, with("--statement", write(t, "s.csv", statement), "--mapping", own)...)
		require.Contains(t, out, "30 movements agree")
	})
}

func TestReconcileRefuses(t *testing.T) {
	onlyWith(t)
	good := write(t, "s.csv", statementHead)
	cannot(t, []string{"--statement"})
	cannot(t, []string{"--format"}, "--statement", good, "--format", "xml")
	cannot(t, []string{"HOMEWARD_DATABASE_URL"}, "--statement", good)
	cannot(t, []string{"--format csv"}, "--statement", write(t, "s.txt", ""))
	cannot(t, []string{"cannot be read", "nowhere.csv"}, "--statement", "nowhere.csv")
	cannot(t, []string{"--from", "before --to"}, "--statement", good, "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-01T00:00:00Z")
	cannot(t, []string{"--slack"}, "--statement", good, "--slack", "0s")
	cannot(t, []string{"--every"}, "--statement", good, "--every", "-1s")
	cannot(t, []string{"read again"}, "--statement", "-", "--every", "1h")
	cannot(t, []string{"{from} and {to}"}, "--statement", good, "--every", "1h", "--from", "2026-03-02T00:00:00Z")
	cannot(t, []string{"place for the period"}, "--statement", "https://127.0.0.1:1/?from={from}")
	cannot(t, []string{"127.0.0.1:1", "https", "--allow-http"}, "--statement", "HTTP://127.0.0.1:1/s.csv")
	cannot(t, []string{"leave --data out"}, "--statement", good, "--heal", "--data", t.TempDir())
	cannot(t, []string{"--json"}, "--statement", good, "--json", "--every", "1h")
	cannot(t, []string{"--day", "leave --from and --to out"}, "--statement", good, "--day", "2026-03-01", "--from", "2026-03-02T00:00:00Z")
	cannot(t, []string{"--day must be a date"}, "--statement", good, "--day", "yesterday")
	cannot(t, []string{"--timezone", "Middle/Earth"}, "--statement", good, "--day", "2026-03-01", "--timezone", "Middle/Earth")
	cannot(t, []string{"--lag"}, "--statement", good, "--lag", "-1s")
	cannot(t, []string{"leave --format out"}, "--statement", good, "--format", "stripe", "--mapping", good)
	cannot(t, []string{"nowhere.yaml"}, "--statement", good, "--mapping", "nowhere.yaml")
	cannot(t, []string{"mapping: numbers.unit must be", "; kinds is missing"}, "--statement", good, "--mapping", write(t, "m.yaml", "name: x\n"))
	t.Run("with a secret in its URL", func(t *testing.T) {
		t.Setenv(node.StatementURL, "http://me:hunter2@127.0.0.1:1/s.csv")
		cannot(t, []string{"127.0.0.1:1", "https", "--allow-http"})
		code, _, errs := homeward(t, "reconcile", "--allow-http", "--data", t.TempDir())
		require.Equal(t, exitUnread, code)
		require.NotContains(t, errs, "hunter2")
		cannot(t, []string{"cannot be fetched from 127.0.0.1:1"}, "--allow-http")
		cannot(t, []string{"both set", node.StatementURL}, "--statement", good)
		t.Setenv(node.StatementURL, "s.csv")
		cannot(t, []string{"not an https URL", "--statement"})
		t.Setenv(node.StatementURL, "")
		file := write(t, "url", "http://me:hunter2@127.0.0.1:1/s.csv\n")
		t.Setenv(node.StatementURL+"_FILE", file)
		cannot(t, []string{"127.0.0.1:1", "https", "--allow-http"})
	})
	cannot(t, []string{"no store of a demo"}, "--statement", good, "--data", t.TempDir())
	cannot(t, []string{"--provider other is not one of", "simulator"}, "--statement", good, "--heal", "--provider", "other")
}

// The day of a place is from midnight to midnight there, also when clocks change.
func TestADayOfAPlace(t *testing.T) {
	c := reconcileCommand{Day: "2026-03-29", Timezone: "Europe/Berlin"}
	require.NoError(t, c.day())
	require.Equal(t, "2026-03-28T23:00:00Z", c.From.UTC().Format(time.RFC3339))
	require.Equal(t, 23*time.Hour, c.To.Sub(c.From))
}

func TestAStatementThatIsFetched(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1"))
	requests := make(chan string, 10)
	answer := func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.RawQuery
		switch r.URL.Path {
		case "/typed":
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		case "/broken.csv":
			w.Header().Set("Content-Length", "1000000")
		case "/untyped", "/named.csv":
			w.Header().Set("Content-Type", "application/octet-stream")
		default:
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, statementHead)
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	from := func(path string) { t.Setenv(node.StatementURL, "http://me:hunter2@"+host+path) }

	from("/typed")
	does(t, "reconcile", "--allow-http")
	from("/named.csv")
	does(t, "reconcile", "--allow-http")
	from("/untyped")
	does(t, "reconcile", "--allow-http", "--format", "csv")
	cannot(t, []string{"--format csv", host}, "--allow-http")
	from("/typo")
	cannot(t, []string{host + " answered 403 Forbidden"}, "--allow-http")
	from("/broken.csv")
	cannot(t, []string{"read statement", "unexpected EOF"}, "--allow-http")
	for len(requests) > 0 {
		<-requests
	}
	from("/typed?since={from}&until={to}")
	does(t, "reconcile", "--allow-http", "--from", "2026-03-01T00:00:00+01:00", "--to", "2026-03-02T00:00:00Z")
	require.Equal(t, "since=2026-02-28T23%3A00%3A00Z&until=2026-03-02T00%3A00%3A00Z", <-requests)
	server.Close()
	from("/typed")
	cannot(t, []string{"cannot be fetched from " + host}, "--allow-http")
	_, _, errs := homeward(t, "reconcile", "--allow-http")
	require.NotContains(t, errs, "hunter2")
}

func TestAStatementFromStandardInput(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1"))
	file, err := os.Open(write(t, "s", statementHead+"p,charge,r,1,usd,1\n"))
	require.NoError(t, err)
	defer file.Close()
	before := os.Stdin
	os.Stdin = file
	defer func() { os.Stdin = before }()
	code, out, _ := homeward(t, "reconcile", "--statement", "-", "--format", "csv")
	require.Equal(t, exitDiffers, code)
	require.Contains(t, out, "the reference is not an id of this deployment")
	cannot(t, []string{"--format csv"}, "--statement", "-")
}

// ghost has a simulator charge a card for a claim that was refused, and returns the
// claim's object.
func ghost(t *testing.T, s *store, provider psp.Provider, key string) string {
	t.Helper()
	home := "us-east1"
	var code claim.RegionCode
	for c, name := range s.codes {
		if name == home {
			code = c
		}
	}
	id, err := claim.NewObjectID("ch", code, nil)
	require.NoError(t, err)
	store := s.rows
	begun, err := store.Begin(t.Context(), claimtest.NewArrival(claim.Key{Tenant: "acme", Value: key}, home, "1", "n", id))
	require.NoError(t, err)
	_, err = store.Settle(t.Context(), begun.Record, claim.Verdict{Outcome: &claim.Refused{Reason: "expired", Response: claim.Response{Status: 402}}})
	require.NoError(t, err)
	r := provider.Charge(t.Context(), psp.Call{Kind: psp.KindCharge, Key: key, Reference: id, Amount: 4200, Currency: "usd", Source: "pm_card_visa"})
	require.Equal(t, psp.Approved, r.Outcome, r.Err)
	return id
}

// simulated is a provider, and the settings of nodes that use it.
func simulated(t *testing.T) (*lab.Simulator, psp.Provider, string) {
	t.Helper()
	sim, err := lab.StartSimulator("--listen", "127.0.0.1:0", simulator.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Stop(context.Background())) })
	provider, err := httpjson.New(httpjson.Config{Name: "simulator", BaseURL: "http://" + sim.Addr(), Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Close()) })
	return sim, provider, settingsFile(t, "provider: {base_url: 'http://"+sim.Addr()+"'}")
}

func TestReconcileHeals(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1,europe-west1"))
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	sim, provider, config := simulated(t)
	var f storeFlags
	require.NoError(t, f.withBooks(t.Context(), func(s *store) error {
		ghost(t, s, provider, "one")
		ghost(t, s, provider, "two")
		return nil
	}))
	statement := "http://" + sim.Addr() + "/_sim/statement"

	code, out, _ := homeward(t, "reconcile", "--allow-http", "--statement", statement)
	require.Equal(t, exitDiffers, code)
	require.Regexp(t, `charged_but_unknown_to_us +2`, out)
	out = does(t, "reconcile", "--allow-http", "--statement", statement, "--heal", "--config", config)
	require.Regexp(t, `healed +2`, out)
	out = does(t, "reconcile", "--allow-http", "--statement", statement, "--heal", "--config", config)
	require.Contains(t, out, "4 movements agree", "two charges and two refunds")
	require.NotContains(t, out, "healed")
	require.Contains(t, does(t, "ledger", "verify"), " 0 failures")
	out = does(t, "ledger", "balances")
	require.Regexp(t, `suspense:acme +usd +8400 +8400 +0 `, out)
	require.NotContains(t, out, "LIMBO")

	// A provider that does not answer: the payer waits, and that is no agreement.
	require.NoError(t, f.withBooks(t.Context(), func(s *store) error { ghost(t, s, provider, "three"); return nil }))
	text, err := http.Get(statement)
	require.NoError(t, err)
	defer text.Body.Close()
	all, err := io.ReadAll(text.Body)
	require.NoError(t, err)
	down := settingsFile(t, "provider: {base_url: 'http://127.0.0.1:1'}")
	code, out, _ = homeward(t, "reconcile", "--statement", write(t, "s.csv", string(all)), "--heal", "--config", down)
	require.Equal(t, exitDiffers, code)
	require.Regexp(t, `pending +1`, out)
	require.Contains(t, does(t, "ledger", "balances"), "LIMBO, or waiting")
}

// A ghost whose claim was deleted is healed all the same: its unpaid row has the tenant.
func TestReconcileHealsWhatIsForgotten(t *testing.T) {
	if dbtest.Shared(t).Kind() == localdb.CockroachDB {
		t.Skip("CockroachDB's row-level TTL deletes claims, by the hour")
	}
	url := migrated(t, "us-east1")
	useDatabase(t, url)
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	sim, provider, config := simulated(t)
	policy := claim.DefaultPolicy()
	policy.ReplayFor, policy.TombstoneFor, policy.PinGrace, policy.DeclinePause = time.Millisecond, time.Millisecond, time.Millisecond, 0
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: url, Policy: policy, Pool: node.ToolPool()})
	require.NoError(t, err)
	v, err := db.Region("us-east1")
	require.NoError(t, err)
	s := &store{rows: v, codes: map[claim.RegionCode]string{1: "us-east1"}}
	id := ghost(t, s, provider, "long-ago")
	for found := true; found; { // until housekeeping has deleted it: that takes some milliseconds
		_, err = v.Sweep(t.Context(), 100)
		require.NoError(t, err)
		_, found, err = v.ByObject(t.Context(), "us-east1", id)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())

	statement := "http://" + sim.Addr() + "/_sim/statement"
	code, out, _ := homeward(t, "reconcile", "--allow-http", "--statement", statement)
	require.Equal(t, exitDiffers, code)
	require.Contains(t, out, "was deleted: its answer on")
	require.Regexp(t, `healed +1`, does(t, "reconcile", "--allow-http", "--statement", statement, "--heal", "--config", config))
	require.Contains(t, does(t, "reconcile", "--allow-http", "--statement", statement, "--heal", "--config", config), "2 movements agree")
	require.Regexp(t, `suspense:acme +usd +4200 +4200 +0 `, does(t, "ledger", "balances"))
}

// Healing obeys the brakes of nodes: it refunds nothing that a person has stopped, nor beyond the
// limit, and goes on after a release.
func TestHealingIsBraked(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1,europe-west1"))
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	sim, provider, config := simulated(t)
	settings, err := os.ReadFile(config)
	require.NoError(t, err)
	config = settingsFile(t, string(settings)+"\ncompensations: {per_hour: 2}\n")
	var f storeFlags
	require.NoError(t, f.withBooks(t.Context(), func(s *store) error {
		for _, key := range []string{"one", "two", "three"} {
			ghost(t, s, provider, key)
		}
		return nil
	}))
	heal := func(want int) string {
		code, out, _ := homeward(t, "reconcile", "--allow-http", "--statement", "http://"+sim.Addr()+"/_sim/statement", "--heal", "--config", config)
		require.Equal(t, want, code, out)
		return out
	}
	does(t, "compensations", "stop", "--reason", "a drill")
	require.Regexp(t, `held +3`, heal(exitDiffers))
	require.Zero(t, sim.Summary().Refunds)
	does(t, "compensations", "release")
	out := heal(exitDiffers)
	require.Regexp(t, `healed +2`, out)
	require.Regexp(t, `held +1`, out)
	require.Regexp(t, `held +1`, heal(exitDiffers), "time alone does nothing")
	require.EqualValues(t, 2, sim.Summary().Refunds)
	does(t, "compensations", "release", "--provider", "simulator")
	require.Regexp(t, `healed +1`, heal(0))
	require.Contains(t, does(t, "ledger", "verify"), " 0 failures")
}

func TestReconcileEvery(t *testing.T) {
	useDatabase(t, migrated(t, "us-east1"))
	var rounds atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := rounds.Add(1)
		if n == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, statementHead)
		if n > 2 {
			fmt.Fprintf(w, "p,charge,r,1,usd,%s\n", r.URL.Query().Get("from"))
		}
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"reconcile", "--allow-http", "--statement", server.URL + "/?from={from}", "--every", "20ms"}, streams{io.Discard, w})
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	says := func(what string) {
		t.Helper()
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), what)
	}
	says("reconciliation failed; the next run retries it")
	says("agrees with the books")
	says("does not agree")
	says(`"class":"charged_but_unknown_to_us"`)
	stop()
	for lines.Scan() {
	}
	require.Zero(t, <-code)
}
