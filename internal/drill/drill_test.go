package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// fake is a deployment as a drill sees it: the APIs of two regions, one memory of keys, and a
// provider's book. A test can make it break promises.
type fake struct {
	t       *testing.T
	regions []Region
	book    *httptest.Server

	mu       sync.Mutex
	answers  map[string]fakeAnswer // by key
	effects  []effect
	requests map[string]int // by key
	away     string         // region
	did      []string       // by the means
	broken   string         // what the next payment suffers, once
	faults   map[string]any
	failing  func() // when faults are set
}

type fakeAnswer struct {
	status int
	body   string
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, answers: map[string]fakeAnswer{}, requests: map[string]int{}, faults: map[string]any{"latency_ms": 3.0}, failing: func() {}}
	for code, name := range []string{"here", "there"} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/idempotency-keys", func(w http.ResponseWriter, _ *http.Request) {
			key, err := claim.Stamp(claim.RegionCode(code+1), nil)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = fmt.Fprintf(w, `{"keys":[%q]}`, key)
		})
		mux.HandleFunc("GET /v1/idempotency-keys/{key}", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"state":"IN_FLIGHT"}`)
		})
		pay := func(w http.ResponseWriter, r *http.Request) { f.pay(w, r, name) }
		mux.HandleFunc("POST /v1/charges", pay)
		mux.HandleFunc("POST /v1/transfers", pay)
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		f.regions = append(f.regions, Region{name, []string{s.URL}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/effects", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		e := json.NewEncoder(w)
		for _, one := range f.effects {
			_ = e.Encode(one) // the reader is the test
		}
	})
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(f.faults)
	})
	mux.HandleFunc("PUT /_sim/faults", func(_ http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.faults = map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&f.faults)
		f.did = append(f.did, fmt.Sprint("faults ", f.faults["error_after"], " ", f.faults["latency_ms"]))
		f.failing()
	})
	f.book = httptest.NewServer(mux)
	t.Cleanup(f.book.Close)
	return f
}

func problem(w http.ResponseWriter, status int, code, retry string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":%q,"retry":%q,"retry_after_ms":20}`, code, retry)
}

// pay answers as Homeward does: what is remembered is repeated, what is away is not
// served, and a stolen card is declined.
func (f *fake) pay(w http.ResponseWriter, r *http.Request, entry string) {
	var body struct {
		Amount        int64
		PaymentMethod string `json:"payment_method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	key := r.Header.Get("Idempotency-Key")
	f.mu.Lock()
	defer f.mu.Unlock()
	home := "there"
	if code, stamped := claim.ReadStamp(strings.Trim(key, `"`)); stamped && code == 1 {
		home = "here"
	}
	if f.requests[key]++; f.away == home || f.away == entry {
		problem(w, http.StatusServiceUnavailable, "home_unavailable", "same_key")
		return
	}
	breaks := func(what string) bool {
		if f.broken != what {
			return false
		}
		f.broken = ""
		return true
	}
	a, ok := f.answers[key]
	switch {
	case ok && breaks("another answer"):
		a.body = strings.Replace(a.body, "}", `,"more":1}`, 1)
	case ok && a.status == http.StatusCreated && breaks("an answer that is no JSON"):
		a.body = a.body[1:]
	case !ok && breaks("no answer"):
		f.answers[key] = fakeAnswer{status: http.StatusConflict}
		a = f.answers[key]
	case ok:
	case body.PaymentMethod == "pm_card_stolen":
		a = fakeAnswer{http.StatusPaymentRequired, `{"error":"card_declined","retry":"new_key"}`}
		f.answers[key] = a
	default:
		id := fmt.Sprint("ch_", len(f.answers))
		a = fakeAnswer{http.StatusCreated, fmt.Sprintf(`{"id":%q}`, id)}
		f.answers[key] = a
		if !breaks("no charge") {
			f.effects = append(f.effects, effect{id, body.Amount})
		}
		if breaks("charged again, and more") {
			f.effects = append(f.effects, effect{id, 100 * body.Amount})
		}
		if breaks("charged twice") {
			f.effects = append(f.effects, effect{id + "_again", body.Amount})
		}
	}
	if a.status == http.StatusConflict {
		problem(w, a.status, "idempotency_key_in_use", "same_key")
		return
	}
	w.Header().Set("Homeward-Home-Region", home)
	w.Header().Set("Homeward-Served-By", home)
	w.WriteHeader(a.status)
	_, _ = fmt.Fprint(w, a.body)
}

// fakeMeans record their calls.
type fakeMeans struct {
	f       *fake
	refuses error
	fails   string // an order that is not obeyed
	owns    bool   // each region has a database
}

func (m *fakeMeans) do(what, where string) error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.did = append(m.f.did, what+" "+where)
	switch what {
	case "kill", "cut":
		m.f.away = "there"
	case "start", "join":
		m.f.away = ""
	}
	if what == m.fails {
		return errors.New("it will not " + what)
	}
	return nil
}

func (m *fakeMeans) Offers(Scenario, string) (string, error) { return "by hand", m.refuses }
func (m *fakeMeans) Nodes() []Node                           { return []Node{{"h1", "here"}, {"t1", "there"}, {"t2", "there"}} }

func (m *fakeMeans) Kill(_ context.Context, node string) error  { return m.do("kill", node) }
func (m *fakeMeans) Stop(_ context.Context, node string) error  { return m.do("stop", node) }
func (m *fakeMeans) Start(_ context.Context, node string) error { return m.do("start", node) }
func (m *fakeMeans) Cut(_ context.Context, node string) error   { return m.do("cut", node) }
func (m *fakeMeans) Join(_ context.Context, node string) error  { return m.do("join", node) }
func (m *fakeMeans) Drop(_ context.Context, node, from string) error {
	return m.do("drop", strings.TrimSpace(node+" "+from))
}
func (m *fakeMeans) Pass(_ context.Context, node string) error { return m.do("pass", node) }
func (m *fakeMeans) HasDatabase(string) bool                   { return m.owns }
func (m *fakeMeans) KillDatabase(_ context.Context, region string) error {
	return m.do("kill database", region)
}
func (m *fakeMeans) StartDatabase(_ context.Context, region string) error {
	return m.do("start database", region)
}
func (m *fakeMeans) CutDatabase(_ context.Context, region string) error {
	return m.do("cut database", region)
}
func (m *fakeMeans) JoinDatabase(_ context.Context, region string) error {
	return m.do("join database", region)
}
func (m *fakeMeans) Drain(_ context.Context, region string, _ func(string)) error {
	return m.do("drain", region)
}
func (m *fakeMeans) Undrain(_ context.Context, region string, _ func(string)) error {
	return m.do("undrain", region)
}

func (f *fake) config(s Scenario) Config {
	c := Config{
		Scenario: s, Means: &fakeMeans{f: f}, Regions: f.regions, APIKeys: []string{"sk_1", "sk_2"},
		Provider: f.book.URL, Rate: 100, For: minFor, Patience: time.Minute,
	}
	if s.needsRegion() {
		c.Region = "there"
	}
	return c
}

// Each scenario gives its orders in order, and a deployment that keeps its
// promises passes. One after the other: the load has a rate, which all at once would not
// reach on a busy machine.
func TestScenarios(t *testing.T) {
	for s, want := range map[Scenario][]string{
		RegionLoss:     {"kill t1", "kill t2", "start t1", "start t2"},
		Partition:      {"cut t1", "cut t2", "join t1", "join t2"},
		Blackhole:      {"drop t1", "drop t2", "pass t1", "pass t2"},
		Drain:          {"drain there", "stop t1", "stop t2", "start t1", "start t2", "undrain there"},
		RollingRestart: {"stop h1", "start h1", "stop t1", "start t1", "stop t2", "start t2"},
		PSPOutage:      {"faults 1 3", "faults <nil> 3"},
		DBFailover:     {"kill database there", "start database there"},
		DatabasePath:   {"cut database there", "join database there"},
	} {
		t.Run(string(s), func(t *testing.T) {
			f := newFake(t)
			c := f.config(s)
			if s == RegionLoss {
				c.For *= 2 // a busy machine, too, meets the outage with every sort of request
			}
			r, err := Run(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, want, f.did)
			v := r.Verdict
			require.True(t, v.OK(), "%+v", v)
			require.Equal(t, v.Payments, v.Answered)
			require.Equal(t, v.Payments, v.Compared)
			require.Equal(t, v.Charges, v.Answered-v.Declined)
			require.Equal(t, len(f.answers), v.Payments)
			require.Positive(t, v.Declined)
			var sent, calls int64
			for _, one := range r.Seconds {
				sent += int64(one.Sent)
			}
			for _, p := range v.Phases {
				calls += p.New.Calls + p.Repeats.Calls
			}
			require.Equal(t, sent, calls)
			require.Greater(t, sent, int64(v.Payments), "old payments are repeated, too")
			if s == RegionLoss {
				require.Positive(t, v.Retries)
				require.NotNil(t, v.LastRefused)
				require.NotNil(t, v.Back)
				require.Nil(t, v.ServedAgain, "this deployment has no deputies")
			}
		})
	}
}

// A deployment that breaks one promise once is found out.
func TestBrokenPromisesAreFound(t *testing.T) {
	for broken, count := range map[string]func(v *Findings) int{
		"charged twice":  func(v *Findings) int { return v.Duplicates },
		"another answer": func(v *Findings) int { return v.Differing },
		// The client asks again for it, and reads the right one.
		"an answer that is no JSON": func(v *Findings) int { return v.Differing },
		"charged again, and more":   func(v *Findings) int { return v.Duplicates },
		"no charge":                 func(v *Findings) int { return v.Unpaid },
		"no answer":                 func(v *Findings) int { return v.Unanswered },
	} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.broken = broken
			c := f.config(RegionLoss)
			c.Patience = 15 * time.Second // more than a client pauses after an outage of seconds
			r, err := Run(t.Context(), c)
			require.NoError(t, err)
			require.Empty(t, f.broken, "no request met it")
			require.False(t, r.Verdict.OK())
			found := count(&r.Verdict)
			require.Positive(t, found, "%+v", r.Verdict)
			if broken == "an answer that is no JSON" {
				return // met by a rival, it may be the first, and then names no charge either
			}
			require.Equal(t, found, r.Verdict.Duplicates+r.Verdict.Differing+r.Verdict.Lost, "and nothing else")
			if broken != "another answer" { // which is as many as answers to its key differ from it
				require.Equal(t, 1, found)
			}
			if broken == "no answer" {
				require.Equal(t, 1, r.Verdict.OpenClaims)
			}
		})
	}
}

// A drill proves nothing if no payment falls into its outage.
func TestAnOutageWithoutAPaymentIsNotChecked(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := f.config(PSPOutage)
	c.Rate = 0.001 // the second request is due after the drill's end
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Contains(t, r.Verdict.Unasked, "no new payment fell into the outage")
	require.False(t, r.Verdict.OK())
}

// What was begun is ended, whatever happens.
func TestWhatIsTakenIsBroughtBack(t *testing.T) {
	t.Run("a kill that fails", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		c := f.config(RegionLoss)
		c.Means = &fakeMeans{f: f, fails: "kill"}
		_, err := Run(t.Context(), c)
		require.ErrorContains(t, err, "it will not kill")
		require.Equal(t, []string{"kill t1", "kill t2", "start t1", "start t2"}, f.did)
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := f.config(PSPOutage)
		f.failing = cancel
		_, err := Run(ctx, c)
		require.ErrorContains(t, err, "interrupted")
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Equal(t, map[string]any{"latency_ms": 3.0}, f.faults)
		require.Len(t, f.did, 2)
	})
}

// A region is lost with its database, and comes back with it.
func TestARegionIsLostWithItsDatabase(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := f.config(RegionLoss)
	c.Means = &fakeMeans{f: f, owns: true}
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, r.Verdict.OK())
	require.Equal(t, []string{"kill t1", "kill t2", "kill database there", "start database there", "start t1", "start t2"}, f.did)
}

// One node, or what one region sends, is hit as named.
func TestABlackholeIsAsWideAsRequested(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := f.config(Blackhole)
	c.Node, c.From = "t2", "here"
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, r.Verdict.OK())
	require.Equal(t, []string{"drop t2 here", "pass t2"}, f.did)
	require.Equal(t, "by hand, at t2 alone, for what here sends", r.How)
}

// emptyMeans offer everything, and have no node.
type emptyMeans struct{ Means }

func (emptyMeans) Nodes() []Node { return nil }

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"no such drill":     {func(c *Config) { c.Scenario = "fire" }, "region-loss, partition"},
		"no region":         {func(c *Config) { c.Region = "" }, "here, there"},
		"an unknown region": {func(c *Config) { c.Region = "her" }, "here, there"},
		"a region too many": {func(c *Config) { c.Scenario = RollingRestart }, "leave the region out"},
		"no such node":      {func(c *Config) { c.Scenario, c.Node = Blackhole, "h1" }, `no node "h1"`},
		"from nowhere":      {func(c *Config) { c.Scenario, c.From = Blackhole, "there" }, "no other region"},
		"from, of another":  {func(c *Config) { c.From = "here" }, "blackhole alone"},
		"no load":           {func(c *Config) { c.Rate = 0 }, "above 0"},
		"a test key":        {func(c *Config) { c.APIKeys = []string{claim.NewAPIKey(claim.TestTenant("acme"))} }, "set live ones"},
		"too short":         {func(c *Config) { c.For = time.Second }, "at least"},
		"too much":          {func(c *Config) { c.Rate = 1e6 }, "lower one of them"},
		"no provider":       {func(c *Config) { c.Provider = "" }, "provider"},
		"no node to hit":    {func(c *Config) { c.Means = emptyMeans{c.Means} }, "no node to hit"},
		"no node to restart": {func(c *Config) {
			c.Scenario, c.Region, c.Means = RollingRestart, "", emptyMeans{c.Means}
		}, "no node to hit"},
		"no means":             {func(c *Config) { c.Means = &fakeMeans{refuses: errors.New("not here")} }, "not here"},
		"no server at the API": {func(c *Config) { c.Regions[0].URLs = []string{"http://127.0.0.1:1"} }, "does not answer"},
		"no simulator there":   {func(c *Config) { c.Provider = c.Regions[0].URLs[0] }, "simulator"},
		"an API without host":  {func(c *Config) { c.Regions[0].URLs = []string{"here"} }, "http://host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			config := f.config(RegionLoss)
			config.Regions = slices.Clone(config.Regions)
			c.change(&config)
			_, err := Run(t.Context(), config)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, f.did)
		})
	}
}
