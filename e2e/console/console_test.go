package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

const (
	us = "us-east1"
	eu = "europe-west1"
	as = "asia-northeast1"

	visa    = `{"amount":4200,"currency":"usd","payment_method":"pm_card_visa"}`
	another = `{"amount":9900,"currency":"usd","payment_method":"pm_card_visa"}`
)

// demo is a running one, and what merchants send to it.
type demo struct {
	*testing.T
	*lab.Demo
}

func start(t *testing.T) demo {
	t.Helper()
	settings := node.DefaultSettings()
	distances := wan.Defaults([]string{us, eu, as})
	for pair := range distances {
		distances[pair] /= 10 // a page reads rows of three regions, and this test some thirty pages
	}
	d, err := lab.StartDemo(t.Context(), lab.DemoConfig{
		Settings: settings, Data: t.TempDir(), Listen: "127.0.0.1:0", PSPLatency: 20 * time.Millisecond, Distances: distances,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Stop(t.Context())) })
	return demo{t, d}
}

// send sends a request and returns its status and body.
func (d demo) send(method, url, apiKey, key, body string) (int, string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, url, strings.NewReader(body))
	require.NoError(d, err)
	r.Header.Set("Authorization", "Bearer "+apiKey)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(d, err)
	defer func() { require.NoError(d, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(d, err)
	return res.StatusCode, string(text)
}

func (d demo) charge(at, apiKey, key, body string) int {
	d.Helper()
	status, _ := d.send(http.MethodPost, "http://"+d.Region(at).APIAddr()+"/v1/charges", apiKey, key, body)
	return status
}

// lines sends the README's first requests.
func (d demo) lines() {
	d.Helper()
	require.Equal(d, 201, d.charge(us, lab.DemoKeys()["acme"], "order-1", visa))
	require.Equal(d, 201, d.charge(eu, lab.DemoKeys()["acme"], "order-1", visa))
	require.Equal(d, 422, d.charge(eu, lab.DemoKeys()["acme"], "order-1", another))
	_, text := d.send(http.MethodPost, "http://"+d.Region(eu).APIAddr()+"/v1/idempotency-keys", "sk_demo_globex", "", `{"count":1}`)
	var minted struct{ Keys []string }
	require.NoError(d, json.Unmarshal([]byte(text), &minted), text)
	require.Equal(d, 201, d.charge(as, "sk_demo_globex", minted.Keys[0], `{"amount":1250,"currency":"eur","payment_method":"pm_card_visa"}`))
}

// stuck makes a charge with an outcome that stays unknown.
func (d demo) stuck(key string) {
	d.Helper()
	status, _ := d.send(http.MethodPut, d.PSP+"/_sim/faults", "", "", `{"late_effect":1,"late_effect_ms":600000}`)
	require.Equal(d, 200, status)
	require.Equal(d, 503, d.charge(us, lab.DemoKeys()["acme"], key, visa))
}

// park parks the provider call of a key, as a worker does after its last try.
func (d demo) park(key, reason string) (id string) {
	d.Helper()
	store, err := d.DB.Region(us)
	require.NoError(d, err)
	q := store.Queue(outbox.ProviderCalls)
	for { // until no worker is between the look and the step
		rows, err := q.Waiting(d.Context(), us, 10)
		require.NoError(d, err)
		i := slices.IndexFunc(rows, func(m outbox.Message) bool { return m.Key == key })
		require.GreaterOrEqual(d, i, 0)
		err = q.Park(d.Context(), us, rows[i].Hold(), reason)
		if !errors.Is(err, outbox.ErrFenced) {
			require.NoError(d, err)
			return rows[i].ID
		}
	}
}

// TestTheConsole goes through one demo with one browser, part by part: the first finds it
// as a newcomer does.
func TestTheConsole(t *testing.T) {
	findBrowser(t)
	d := start(t)
	b := open(t, d.ConsoleURL())
	for _, part := range []struct {
		name string
		run  func(demo, *tab)
	}{
		{"a newcomer watches the README's lines arrive", aNewcomerWatchesTheReadmesLinesArrive},
		{"a key is found by keyboard alone", aKeyIsFoundByKeyboardAlone},
		{"what is parked is requeued by a person", whatIsParkedIsRequeuedByAPerson},
		{"a drill is followed to its verdict", aDrillIsFollowedToItsVerdict},
		{"the books are looked after", theBooksAreLookedAfter},
		{"every page fits a narrow screen", everyPageFitsANarrowScreen},
		{"the policy is enforced", thePolicyIsEnforced},
		{"a drain is seen on the map", aDrainIsSeenOnTheMap},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(demo{t, d.Demo}, b.of(t)) })
	}
}

// aNewcomerWatchesTheReadmesLinesArrive opens the console of a demo, sends the lines,
// and follows one of them to its key.
func aNewcomerWatchesTheReadmesLinesArrive(d demo, b *tab) {
	line := "curl -sS -i http://127.0.0.1:8081/v1/charges " + strings.Repeat("-H 'and more' ", 20)
	d.Hint([]string{"# 1.", line, "# 2.", line})
	b.visit("/")
	b.shows("All 3 regions serve, with 3 nodes", "Nothing has arrived since the nodes started.", "curl -sS -i")
	// A reader who copies one line after the other finds the next, where it was.
	copied := says[string](b, `(() => {
		const pre = document.querySelector("#hint pre"); getSelection().selectAllChildren(pre);
		document.querySelector("#live").dataset.old = "yes"; return String(getSelection())
	})()`)
	require.Contains(b, copied, "curl")
	require.Equal(b, 201, d.charge(us, lab.DemoKeys()["acme"], "order-0", visa))
	b.shows("201 done", "curl -sS -i")
	require.False(b, says[bool](b, `"old" in document.querySelector("#live").dataset`), "the page has been renewed")
	b.fits("a long line")
	require.Equal(b, copied, says[string](b, `String(getSelection())`))
	d.lines()
	b.shows("201 done", "201 replayed", "422 fingerprint mismatch", "forwarded to us-east1", "forwarded to europe-west1")
	require.Contains(b, b.text(), "curl -sS -i", "the lines to copy stay")
	b.visit("/")
	require.NotContains(b, b.text(), "curl -sS -i", "a reader who has sent all lines needs no hint")
	require.Positive(b, says[int](b, `document.querySelectorAll("path.flow.forward").length`))
	b.picture("console-map")
	b.prefers("prefers-color-scheme", "dark")
	b.picture("console-map-dark")
	b.prefers("prefers-color-scheme", "light")
	b.clean()

	b.do(chromedp.Click(`main a[href*="order-1"]`))
	b.shows("Charged once", "replayed once", "COMPLETED", "settled", "psp_ch_", "provider:simulator", "us-east1 home")
	require.NotContains(b, b.text(), "pm_card_visa", "a body")
	require.NotContains(b, b.text(), "hw_", "what the provider dedupes on")
	b.picture("console-key")
	b.visit("/tenants")
	b.shows("acme")
	b.clean()
}

// aKeyIsFoundByKeyboardAlone: the first stop of the tab key skips to the page, and the
// search field is one of the stops.
func aKeyIsFoundByKeyboardAlone(_ demo, b *tab) {
	b.visit("/")
	b.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(b, "Skip to the page", says[string](b, "document.activeElement.innerText"))
	require.NotEqual(b, "none", says[string](b, "getComputedStyle(document.activeElement).outlineStyle"), "what has the focus is seen")
	for range 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if says[string](b, "document.activeElement.id") == "q" {
			break
		}
	}
	b.do(chromedp.KeyEvent("order-1"), chromedp.KeyEvent(kb.Enter))
	b.shows("Charged once")
	// What is live keeps the focus where it was.
	b.visit("/")
	b.shows("201 replayed")
	id := says[string](b, `(() => { const a = document.querySelector("main a[href*=order-1]"); a.focus(); a.dataset.old = "yes"; return a.id })()`)
	for until := time.Now().Add(patience); says[bool](b, `!!document.querySelector("[data-old]")`) && time.Now().Before(until); {
		<-time.After(50 * time.Millisecond) // until the page has been renewed
	}
	require.Equal(b, id, says[string](b, "document.activeElement.id"))
	b.clean()
}

// whatIsParkedIsRequeuedByAPerson goes from an unknown outcome to a parked row, and
// back into its queue, without JavaScript for the last part.
func whatIsParkedIsRequeuedByAPerson(d demo, b *tab) {
	d.stuck("order-7")
	b.visit("/unknown")
	b.shows("order-7", "acme", "no answer")
	b.picture("console-unknown")
	id := d.park("order-7", "the provider does not have it, and neither do we")
	b.visit("/unknown")
	b.shows("No outcome is unknown.", "the provider does not have it")
	b.visit("/queues")
	b.shows("Parked for a person", "the provider does not have it", "Requeue…")
	b.picture("console-queues")
	b.clean()

	b.scripts(false)
	b.visit("/queues")
	b.do(chromedp.Click(`a[href^="/queues/requeue"]`))
	b.do(chromedp.WaitVisible("form.confirm button"), chromedp.Click("form.confirm button"), chromedp.WaitVisible("p.verdict.calm"))
	b.scripts(true)
	b.visit("/queues")
	b.shows("Nothing is parked.")
	store, err := d.DB.Region(us)
	require.NoError(b, err)
	m, found, err := store.Queue(outbox.ProviderCalls).Message(b.Context(), us, id)
	require.NoError(b, err)
	require.False(b, found && m.Parked)
	b.visit("/key?q=" + id)
	b.shows("requeued", "a user of this machine")
	b.clean()
}

// aDrillIsFollowedToItsVerdict watches a drill on the map and on its page, without loading
// either again, and then reads what it found.
func aDrillIsFollowedToItsVerdict(d demo, b *tab) {
	b.visit("/drills")
	b.shows("No region is draining.", "There is no report of a drill or a drain yet.") // and from here by itself
	k, err := d.Runs().Begin(b.Context(), runs.Run{Kind: runs.Drill, Of: "region-loss europe-west1", Region: eu, By: "jo@laptop"})
	require.NoError(b, err)
	k.Step(b.Context(), "during: region-loss begins")
	b.shows("A drill is under way: region-loss europe-west1", "during: region-loss begins")
	b.visit("/")
	b.shows("A drill is under way: region-loss europe-west1")
	b.do(chromedp.Click(`main a[href^="/run"]`))
	b.shows("Drill: region-loss europe-west1", "This run has not ended")
	k.Step(b.Context(), "after: everything is brought back")
	require.NoError(b, k.End(b.Context(), func(r *runs.Run) {
		r.Verdict, r.Sentence = runs.Good, "Every promise was kept."
		r.Figures = []runs.Figure{{Name: "payments", Value: "412"}, {Name: "duplicates", Value: "0"}, {Name: "differing replays", Value: "0"}, {Name: "lost replies", Value: "0"}, {Name: "first one served without it", Value: "after 3.1 s"}}
	}))
	b.finds("/drills", "The last drill (region-loss europe-west1", "Every promise was kept.", "promises kept")
	require.NotContains(b, b.text(), "under way")
	b.picture("console-drills")
	// By keyboard: to the first run of the list.
	b.do(chromedp.Focus(`main table a`), chromedp.KeyEvent(kb.Enter))
	b.shows("Drill: region-loss europe-west1", "during: region-loss begins", "after: everything is brought back", "first one served without it")
	b.clean()
}

// theBooksAreLookedAfter goes from what payers are owed to the proof that sums it.
func theBooksAreLookedAfter(d demo, b *tab) {
	store, err := d.DB.Region(eu)
	require.NoError(b, err)
	posted, err := store.Post(b.Context(), ledger.Transaction{
		ID: ledger.GhostID("simulator", "psp_ch_ghost"), Region: eu, Tenant: "acme", Kind: ledger.Ghost, Amount: 1999, Currency: "eur", Object: "ch_ghost",
		Provider: "simulator", ProviderRef: "psp_ch_ghost", Debit: ledger.Provider("simulator"), Credit: ledger.Suspense("acme"),
	})
	require.NoError(b, err)
	require.True(b, posted)
	_, err = notice.Stop(b.Context(), d.DB, "simulator", "more refunds than ever")
	require.NoError(b, err)
	for _, one := range []runs.Run{
		{Kind: runs.Verify, Of: "the books of " + eu, Verdict: runs.Good, Sentence: "Every balance was proved from zero.", Figures: []runs.Figure{{Name: runs.Suspense + "eur", Value: "1999 minor units", Bad: true}}},
		{Kind: runs.Reconcile, Of: "simulator", Verdict: runs.Bad, Sentence: "The statement does not agree: 1 mismatch left.", Findings: []string{"charged_but_unknown_to_us: ch_x, at the provider psp_ch_9"}},
	} {
		one.By = "jo@laptop"
		k, err := d.Runs().Begin(b.Context(), one)
		require.NoError(b, err)
		require.NoError(b, k.End(b.Context(), func(r *runs.Run) { r.Verdict, r.Sentence = one.Verdict, one.Sentence }))
	}
	b.finds("/suspense", "1 ghost has not been refunded yet.", "1 999 eur", "psp_ch_ghost", "Automatic refunds of simulator are stopped", "more refunds than ever", "1999 minor units")
	b.picture("console-suspense")
	b.do(chromedp.Click(`main a[href^="/run"]`))
	b.shows("Proof: the books of europe-west1", "Every balance was proved from zero.")
	b.do(chromedp.Click(`nav a[aria-current="page"]`))
	b.shows("The last reconciliation (simulator", "The statement does not agree: 1 mismatch left.", "wrong", "proved")
	b.picture("console-reconciliation")
	b.do(chromedp.Click(`main a[href*="kind=reconcile"]`))
	b.shows("What was wrong", "charged_but_unknown_to_us")
	b.clean()
}

// aDrainIsSeenOnTheMap draws a region that an operator drains as what it is.
func aDrainIsSeenOnTheMap(d demo, b *tab) {
	b.visit("/")
	b.shows("All 3 regions serve")
	store, err := d.DB.Region(us)
	require.NoError(b, err)
	_, err = store.SetRegionStatus(b.Context(), eu, claim.RegionDraining)
	require.NoError(b, err)
	b.shows("Europe-west1 is draining")
	require.Equal(b, 1, says[int](b, `document.querySelectorAll("g.region.draining").length`))
	b.finds("/drills", "Europe-west1 is draining: ")
	b.clean()
}

// everyPageFitsANarrowScreen opens each page on a phone, in both colours.
func everyPageFitsANarrowScreen(d demo, b *tab) {
	d.stuck("a-key-that-is-as-long-as-keys-of-merchants-who-put-everything-into-them-tend-to-be")
	id := d.park("a-key-that-is-as-long-as-keys-of-merchants-who-put-everything-into-them-tend-to-be", strings.Repeat("a-reason-without-a-space-", 8))
	b.size(360, 740)
	paths := []string{"/", "/unknown", "/queues", "/suspense", "/drills", "/reconciliation", "/tenants", "/key", "/key?q=order-1", "/key?q=" + id, "/nowhere"}
	kept, err := d.Runs().List(d.Context(), runs.Drill, 1)
	require.NoError(b, err)
	require.NotEmpty(b, kept, "of the part before")
	paths = append(paths, "/run?kind=drill&id="+kept[0].ID)
	paths = append(paths, fmt.Sprintf("/queues/requeue?queue=provider_calls&region=%s&id=%s", us, id))
	defer b.size(1120, 780)
	for _, path := range paths {
		b.visit(path)
		require.NotEmpty(b, says[string](b, "document.querySelector('h1').innerText"), path)
		for _, colour := range []string{"dark", "light"} {
			b.prefers("prefers-color-scheme", colour)
			b.fits(path)
		}
		if path == "/" {
			b.picture("console-phone")
		}
	}
	b.mu.Lock() // the browser logs that /nowhere was a 404
	b.faults = removed(b.faults, "/nowhere")
	b.mu.Unlock()
	b.clean()
}

func removed(all []string, with string) (rest []string) {
	for _, s := range all {
		if !strings.Contains(s, with) {
			rest = append(rest, s)
		}
	}
	return rest
}

// thePolicyIsEnforced: an injected script or style in a page does nothing, and a page of another
// site cannot embed the console.
func thePolicyIsEnforced(_ demo, b *tab) {
	b.visit("/tenants")
	b.clean()
	require.True(b, says[bool](b, `(() => {
		const s = document.createElement("script"); s.textContent = "window.injected = 1"; document.body.append(s);
		const d = document.createElement("div"); d.innerHTML = '<img src="data:x" onerror="window.injected = 1"><p style="color:red" id="styled">x</p>'; document.body.append(d);
		return window.injected === undefined && getComputedStyle(document.getElementById("styled")).color !== "rgb(255, 0, 0)"
	})()`))
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(b, b.faults, "the browser reports that it refused")
	b.faults = nil
}
