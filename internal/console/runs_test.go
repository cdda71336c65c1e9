package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/region"
)

// fakeRuns is a fake Runs.
type fakeRuns struct {
	all   []runs.Run
	err   error
	mu    sync.Mutex
	lists int
	gate  chan struct{} // List waits for it, unless it is nil
}

func (k *fakeRuns) List(_ context.Context, kind runs.Kind, limit int) (list []runs.Run, err error) {
	k.mu.Lock()
	k.lists++
	k.mu.Unlock()
	if k.gate != nil {
		<-k.gate
	}
	for _, r := range k.all {
		if r.Kind == kind && len(list) < limit {
			list = append(list, r)
		}
	}
	return list, k.err
}

func (k *fakeRuns) Get(_ context.Context, kind runs.Kind, id string) (runs.Run, error) {
	for _, r := range k.all {
		if r.Kind == kind && r.ID == id {
			return r, nil
		}
	}
	return runs.Run{}, runs.ErrNone
}

func someRuns() *fakeRuns {
	return &fakeRuns{all: []runs.Run{
		{
			ID: "4", Kind: runs.Drill, Of: "region-loss us-east1", Region: us, By: "jo@laptop", Began: noon.Add(-time.Minute), Verdict: runs.Open,
			Steps: []runs.Step{{At: noon.Add(-50 * time.Second), Text: "during: region-loss begins"}},
		},
		{
			ID: "3", Kind: runs.Drill, Of: "partition europe-west1", Region: eu, By: "jo@laptop", Began: noon.Add(-time.Hour), Ended: noon.Add(-50 * time.Minute), Verdict: runs.Bad,
			Sentence: "PROMISES WERE BROKEN", Findings: []string{"key <b>k</b>: money moved 2 times"}, More: 7, Figures: []runs.Figure{{Name: "duplicates", Value: "8", Bad: true}},
			Steps: []runs.Step{{At: noon.Add(-59 * time.Minute), Text: "during: partition begins"}},
		},
		{ID: "2", Kind: runs.Drain, Of: as, Region: as, Began: noon.Add(-2 * time.Hour), Ended: noon.Add(-119 * time.Minute), Verdict: runs.Good, Sentence: "asia-northeast1 is safe to take down."},
		{ID: "9", Kind: runs.Drill, Of: "drain us-east1", Began: noon.Add(-30 * time.Hour), Verdict: runs.Open},
		{
			ID: "1", Kind: runs.Verify, Of: "the books of us-east1", Began: noon.Add(-3 * time.Hour), Ended: noon.Add(-3 * time.Hour), Verdict: runs.Good, Sentence: "Every balance was proved from zero.",
			Figures: []runs.Figure{{Name: "transactions", Value: "9"}, {Name: runs.Suspense + "usd", Value: "7 minor units", Bad: true}},
		},
		{ID: "0", Kind: runs.Reconcile, Of: "simulator", Began: noon.Add(-4 * time.Hour), Ended: noon, Verdict: runs.Unknown, Sentence: "the statement cannot be fetched"},
	}}
}

func TestDrillsAndDrainsAreShownWithTheirVerdicts(t *testing.T) {
	d := &deployment{all: threeRegions()}
	d.all.Regions[1].Status = region.Draining
	h := newTestConsole(t, Config{Deployment: d, Runs: someRuns(), Queues: &rows{parked: true}})
	body := get(t, h, "/drills").Body.String()
	for _, say := range []string{
		"A drill is under way: <a href=\"/run?id=4&amp;kind=drill\">region-loss us-east1</a>, since <time>11:59:00</time>, by jo@laptop. during: region-loss begins",
		"The last drill (partition europe-west1, 2026-03-01 11:00:00): PROMISES WERE BROKEN",
		"The last drain (asia-northeast1, 2026-03-01 10:00:00): asia-northeast1 is safe to take down.",
		"europe-west1 is draining: 12 345 rows of its queues wait.", "homeward region drain europe-west1",
		"safe to take down</span>", "wrong</span>", "It still runs, or ended without a report.",
	} {
		require.Contains(t, body, say)
	}
	require.Equal(t, 1, strings.Count(body, "is under way"), "a run that began a day ago counts as dead")

	one := get(t, h, "/run?kind=drill&id=3").Body.String()
	for _, say := range []string{"Drill: partition europe-west1", "PROMISES WERE BROKEN", "key &lt;b&gt;k&lt;/b&gt;: money moved 2 times", "There are 7 more", "during: partition begins", "11:01:00", `<span class="pill bad">8</span>`} {
		require.Contains(t, one, say)
	}
	require.Contains(t, one, `href="/drills" aria-current="page"`)
	require.Contains(t, get(t, h, "/run?kind=drill&id=4").Body.String(), "This run has not ended")
	require.Equal(t, http.StatusNotFound, get(t, h, "/run?kind=drill&id=none").Code)
	require.Equal(t, http.StatusNotFound, get(t, h, "/run").Code)
}

// What a gateway in shadow mode has found so far is shown while it goes on.
func TestTheShadowOfAGatewayIsShown(t *testing.T) {
	one := runs.Run{
		ID: "9", Kind: runs.Shadow, Of: "http://127.0.0.1:9000", By: "us-east1-1", Began: noon.Add(-time.Minute), Verdict: runs.Open, Sentence: "Of 9 guarded requests …",
		Figures: []runs.Figure{{Name: "done again by the API", Value: "3", Bad: true}}, Findings: []string{"POST /orders, key order-17: came again"},
	}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Runs: &fakeRuns{all: []runs.Run{one}}})
	list := get(t, h, "/drills").Body.String()
	require.Contains(t, list, "A shadow of a gateway is under way: ")
	require.Contains(t, list, "Of 9 guarded requests")
	page := get(t, h, "/run?kind=shadow&id=9").Body.String()
	require.Contains(t, page, `<span class="pill bad">3</span>`)
	require.Contains(t, page, "POST /orders, key order-17: came again")
	require.Contains(t, page, `href="/drills" aria-current="page"`)
}

func TestProofsAreShownWithTheirVerdicts(t *testing.T) {
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Runs: someRuns()})
	body := get(t, h, "/reconciliation").Body.String()
	require.Contains(t, body, "Every balance was proved from zero.")
	require.Contains(t, body, "The last reconciliation (simulator, 2026-03-01 08:00:00): the statement cannot be fetched")
	require.Contains(t, body, `<span class="pill no">no verdict</span>`)
	require.NotContains(t, body, "region-loss")
	require.Contains(t, get(t, h, "/run?kind=verify&id=1").Body.String(), `href="/reconciliation" aria-current="page"`)
}

// If the bucket does not answer, its own pages have no lists, and the map has everything.
func TestTheMapDoesNotWaitForTheBucket(t *testing.T) {
	gate := make(chan struct{})
	k := &fakeRuns{all: someRuns().all, gate: gate}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Runs: k})
	require.NotContains(t, get(t, h, "/").Body.String(), "under way", "it is not waited for")
	close(gate)
	require.Contains(t, get(t, h, "/drills").Body.String(), "under way")
	require.Contains(t, get(t, h, "/").Body.String(), "A drill is under way")
	k.mu.Lock()
	require.Equal(t, 3, k.lists, "one listing of each kind serves everybody")
	k.mu.Unlock()

	h = newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Runs: &fakeRuns{err: errors.New("the bucket\nis away")}})
	for _, path := range []string{"/drills", "/reconciliation"} {
		w := get(t, h, path)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), "The reports cannot be read now: the bucket is away")
	}
	h = newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}})
	require.Contains(t, get(t, h, "/drills").Body.String(), "HOMEWARD_RUNS")
	require.Contains(t, get(t, h, "/reconciliation").Body.String(), "HOMEWARD_RUNS")
	require.Equal(t, http.StatusNotFound, get(t, h, "/run?kind=drill&id=4").Code)
	h = newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Runs: &fakeRuns{}})
	require.Contains(t, get(t, h, "/drills").Body.String(), "homeward drill region-loss")
	require.Contains(t, get(t, h, "/reconciliation").Body.String(), "homeward ledger verify")
}

// money is made up: ghosts in us, of which every second was refunded.
type money struct {
	account.Store
	account.Work
	ghosts int
	away   string
	held   *notice.Hold
}

func (m *money) Accounts(context.Context) ([]account.Row, error) {
	return []account.Row{{Provider: "simulator", Version: 1}}, nil
}

func (m *money) Brakes(context.Context) ([]notice.Brake, time.Time, error) {
	return []notice.Brake{{Provider: "simulator", Held: m.held}, {Provider: notice.AllProviders}}, noon, nil
}

func (m *money) Ghosts(_ context.Context, home, provider, _ string, limit int) (list []ledger.Transaction, err error) {
	if home == m.away {
		return nil, errors.New("its rows are away")
	}
	tenant, ghosts := "acme", m.ghosts
	if provider == claim.TestProvider {
		tenant, ghosts = claim.TestTenant("acme"), 1
	}
	for i := range ghosts {
		if home == us && len(list) < limit {
			list = append(list, ledger.Transaction{
				ID: ledger.GhostID(provider, fmt.Sprint(i)), Region: us, Tenant: tenant, Kind: ledger.Ghost, Amount: 1000, Currency: "usd",
				Object: fmt.Sprintf("ch_%d", i), Provider: provider, ProviderRef: fmt.Sprint(i), At: noon.Add(-time.Duration(i) * time.Minute),
			})
		}
	}
	return list, nil
}

func (m *money) ReversalsAt(context.Context, string, string) ([]ledger.Transaction, error) {
	return nil, nil
}

func (m *money) Transaction(_ context.Context, _, id string) (t ledger.Transaction, found bool, err error) {
	for i := 1; i < m.ghosts; i += 2 {
		found = found || id == ledger.GhostRefundTryID("simulator", fmt.Sprint(i), 1)
	}
	return t, found, nil
}

func TestSuspenseIsShown(t *testing.T) {
	m := &money{ghosts: 4, away: eu, held: &notice.Hold{At: noon, Reason: "101 in an hour <b>"}}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: &rows{}, Money: m, Runs: someRuns(), History: &history{}})
	body := get(t, h, "/suspense").Body.String()
	for _, say := range []string{
		"2 ghosts have not been refunded yet.", "2 000 usd", "ch_0", "ch_2", "The rows of europe-west1 cannot be read now: its rows are away",
		"Automatic refunds of simulator are stopped since", "101 in an hour &lt;b&gt;", "homeward compensations release --provider simulator",
		"7 minor units", `/run?id=1&amp;kind=verify`, "/key?" + strings.ReplaceAll(url.Values{"tenant": {"acme"}, "q": {"ch_0"}}.Encode(), "&", "&amp;"),
	} {
		require.Contains(t, body, say)
	}
	require.NotContains(t, body, "ch_1", "it was refunded")
	require.NotContains(t, body, "acme~test")
	chosen := get(t, h, "/?side=test").Header().Get("Set-Cookie")
	body = get(t, h, "/suspense", func(r *http.Request) { r.Header.Set("Cookie", strings.Split(chosen, ";")[0]) }).Body.String()
	for _, say := range []string{"1 ghost has not been refunded yet.", "acme~test", "1 000 usd"} {
		require.Contains(t, body, say)
	}
	require.NotContains(t, body, "stopped", "no brake holds it")

	body = get(t, newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: &rows{}, Money: &money{}}), "/suspense").Body.String()
	require.Contains(t, body, "No ghost waits for its refund.")
	require.Contains(t, body, "homeward ledger verify")

	body = get(t, newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: &rows{}, Money: &money{ghosts: 3 * ghostsLooked}}), "/suspense").Body.String()
	require.Contains(t, body, "There are more ghosts in the books than the 100 that were checked")
}
