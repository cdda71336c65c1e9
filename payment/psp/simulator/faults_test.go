package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

func setFaults(t *testing.T, s *Simulator, f Faults) {
	t.Helper()
	if err := s.SetFaults(f); err != nil {
		t.Fatal(err)
	}
}

// TestPagesOfOthersAreRefused: a page in a browser on this machine neither moves money here nor
// turns webhooks elsewhere, by its own origin or by a name that it points to this address.
func TestPagesOfOthersAreRefused(t *testing.T) {
	s, err := Open(Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	server := httptest.NewServer(s.NewServer("").Handler)
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	ask := func(method, path, host string, h http.Header) int {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(`{"targets":[]}`))
		require.NoError(t, err)
		req.Host = host
		maps.Copy(req.Header, h)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for _, host := range []string{"127.0.0.1" + port, "[::1]" + port, "localhost" + port, "simulator" + port, "simulator"} {
		require.Equal(t, http.StatusOK, ask(http.MethodPut, "/_sim/webhooks", host, nil), host)
		require.Equal(t, http.StatusOK, ask(http.MethodPut, "/_sim/webhooks", host, http.Header{"Origin": {"http://" + host}}), host)
	}
	for _, origin := range []string{"http://evil.example", "null", "http://127.0.0.1:1"} {
		require.Equal(t, http.StatusForbidden, ask(http.MethodPut, "/_sim/webhooks", "127.0.0.1"+port, http.Header{"Origin": {origin}}), origin)
	}
	for _, path := range []string{"/_sim/webhooks", "/_sim/faults", "/v1/charges", "/stripe/v1/payment_intents", "/adyen/v71/payments"} {
		require.Equal(t, http.StatusForbidden, ask(http.MethodPost, path, "127.0.0.1"+port, http.Header{"Sec-Fetch-Site": {"cross-site"}}), path)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			require.Equal(t, http.StatusForbidden, ask(method, path, "rebound.evil.example"+port, nil), path)
		}
	}
}

func TestErrorBeforeMovesNothing(t *testing.T) {
	s := open(t, Config{})
	setFaults(t, s, Faults{ErrorBefore: 1, ErrorAfter: 1, DropReply: 1})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 503, "unavailable")
	wantSummary(t, s, Summary{})
	if st := s.Stats(); st.ErrorsBefore != 1 || st.ErrorsAfter != 0 || st.RepliesDropped != 0 || st.Calls != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestErrorAfterMovesMoney(t *testing.T) {
	s := open(t, Config{})
	setFaults(t, s, Faults{ErrorAfter: 1})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 500, "internal")
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
	setFaults(t, s, Faults{})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
}

func TestDropReplyMovesMoneyAndCutsTheConnection(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	url := serve(t, s, readTimeout) + "/v1/charges"
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	setFaults(t, s, Faults{DropReply: 1})
	if r, err := post(t, client, url, "k", body("ch_1", 1250, "pm_card_visa")); !errors.Is(err, io.EOF) {
		t.Errorf("got %+v, %v; want the connection cut", r, err)
	}
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
	setFaults(t, s, Faults{})
	r, err := post(t, client, url, "k", body("ch_1", 1250, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, 200, "succeeded")
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
	if st := s.Stats(); st.RepliesDropped != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestFaultsFollowTheirSeed(t *testing.T) {
	s := open(t, Config{})
	run := func(f Faults) (out string) {
		setFaults(t, s, f)
		for range 200 {
			f := s.faults.draw()
			out += fmt.Sprint(f.errorBefore, f.errorAfter, f.dropReply, f.delay)
		}
		return out
	}
	f := Faults{Jitter: time.Second, ErrorBefore: 0.3, ErrorAfter: 0.3, DropReply: 0.3, Seed: 7}
	first := run(f)
	if run(f) != first {
		t.Error("the same seed gave another sequence")
	}
	f.Seed++
	if run(f) == first {
		t.Error("another seed gave the same sequence")
	}
}

func TestFaultsHappenAsOftenAsSet(t *testing.T) {
	s := open(t, Config{})
	setFaults(t, s, Faults{ErrorBefore: 0.1, ErrorAfter: 0.5, DropReply: 0.9, Latency: time.Second, Jitter: time.Second, Seed: 1})
	const n = 20_000
	var before, after, drop float64
	var least, most time.Duration = math.MaxInt64, 0
	for range n {
		f := s.faults.draw()
		for _, c := range []struct {
			hit bool
			sum *float64
		}{{f.errorBefore, &before}, {f.errorAfter, &after}, {f.dropReply, &drop}} {
			if c.hit {
				*c.sum++
			}
		}
		least, most = min(least, f.delay), max(most, f.delay)
	}
	for _, c := range []struct{ got, want float64 }{{before / n, 0.1}, {after / n, 0.5}, {drop / n, 0.9}} {
		if math.Abs(c.got-c.want) > 0.02 {
			t.Errorf("happened at %.3f, set to %.1f", c.got, c.want)
		}
	}
	if least < time.Second || least > 1010*time.Millisecond || most > 2*time.Second || most < 1990*time.Millisecond {
		t.Errorf("delays from %s to %s, want 1s to 2s", least, most)
	}
}

func TestSetFaultsOverHTTP(t *testing.T) {
	s := open(t, Config{Latency: 2 * time.Millisecond, Jitter: 1500 * time.Microsecond})
	if got, want := do(s, "GET", "/_sim/faults", "", "").body,
		`{"latency_ms":2,"jitter_ms":1.5,"error_before":0,"error_after":0,"drop_reply":0,"seed":0}`+"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	set := `{"latency_ms":0.25,"jitter_ms":3,"error_before":0.1,"error_after":0.2,"drop_reply":1,"seed":18446744073709551615}`
	if r := do(s, "PUT", "/_sim/faults", "", set); r.status != 200 || r.body != set+"\n" {
		t.Errorf("got %+v", r)
	}
	want := Faults{Latency: 250 * time.Microsecond, Jitter: 3 * time.Millisecond, ErrorBefore: 0.1, ErrorAfter: 0.2, DropReply: 1, Seed: math.MaxUint64}
	if got := s.Faults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for body, names := range map[string]string{
		`{"error_before":1.01}`:      "error_before",
		`{"error_after":-0.1}`:       "error_after",
		`{"drop_reply":2}`:           "drop_reply",
		`{"drop_reply":"often"}`:     "drop_reply",
		`{"latency_ms":-1}`:          "latency_ms",
		`{"latency_ms":60001}`:       "latency_ms",
		`{"jitter_ms":1e300}`:        "jitter_ms",
		`{"seed":-1}`:                "seed",
		`{"latency":1}`:              "latency",
		`{} {}`:                      "more than one",
		`[]`:                         "faults",
		``:                           "faults",
		`{"seed":1,"drop_reply":1}x`: "more than one",
	} {
		r := do(s, "PUT", "/_sim/faults", "", body)
		r.want(t, 400, "invalid_request")
		var e errorBody
		if err := json.Unmarshal([]byte(r.body), &e); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.Error.Message, names) || strings.Contains(e.Error.Message, "\n") {
			t.Errorf("%s: %q is not one line that names %q", body, e.Error.Message, names)
		}
	}
	if got := s.Faults(); got != want {
		t.Errorf("a refused PUT changed the faults to %+v", got)
	}
	if do(s, "PUT", "/_sim/faults", "", `{}`); s.Faults() != (Faults{}) {
		t.Errorf("an empty PUT left %+v", s.Faults())
	}
}

func TestSetFaultsRefuses(t *testing.T) {
	s := open(t, Config{})
	for _, f := range []Faults{
		{Latency: -1}, {Latency: MaxLatency + 1}, {Jitter: -1}, {Jitter: MaxLatency + 1},
		{ErrorBefore: math.NaN()}, {ErrorAfter: 1.1}, {DropReply: -1},
	} {
		if s.SetFaults(f) == nil {
			t.Errorf("%+v was taken", f)
		}
	}
	if _, err := Open(Config{Latency: -1}); err == nil {
		t.Error("Open took a negative latency")
	}
}

func TestLatencyComesBeforeTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Latency: 80 * time.Millisecond})
		start := time.Now()
		go charge(s, "k", "ch_1", "pm_card_visa")
		time.Sleep(80*time.Millisecond - 1)
		synctest.Wait()
		wantSummary(t, s, Summary{})
		time.Sleep(1)
		synctest.Wait()
		wantSummary(t, s, Summary{Effects: 1, Keys: 1})
		do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", "").want(t, 200, "succeeded")
		if took := time.Since(start); took != 160*time.Millisecond {
			t.Errorf("call and look-up took %s, want 160ms", took)
		}
	})
}

func TestHangingUpBeforeTheChargeUndoesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Latency: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer cancel()
		doContext(ctx, s, "POST", "/v1/charges", "k", body("ch_1", 1250, "pm_card_visa"))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSummary(t, s, Summary{})
		if n := s.Summary().Calls; n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

// A client that hangs up once the call is past the latency does not undo it:
// neither before the decision (the call still on its way), nor after it.
func TestHangingUpLaterUndoesNothing(t *testing.T) {
	for name, hooks := range map[string]func(context.CancelFunc) Hooks{
		"before": func(hangUp context.CancelFunc) Hooks {
			return Hooks{Before: func(context.Context, psp.Call) { hangUp() }}
		},
		"after": func(hangUp context.CancelFunc) Hooks {
			return Hooks{After: func(context.Context, psp.Call) { hangUp() }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Config{Dir: t.TempDir()})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.SetHooks(hooks(cancel))
			doContext(ctx, s, "POST", "/v1/charges", "k", body("ch_1", 1250, "pm_card_visa"))
			wantSummary(t, s, Summary{Effects: 1, Keys: 1})
		})
	}
}

func TestHooksSeeTheCall(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	want := psp.Call{Kind: psp.KindTransfer, Key: "k", Reference: "tr_1", Amount: 5, Currency: "eur", Source: "acct_1", Description: "d"}
	var seen []string
	see := func(at string) func(context.Context, psp.Call) {
		return func(_ context.Context, got psp.Call) {
			if got != want {
				t.Errorf("%s: %+v, want %+v", at, got, want)
			}
			seen = append(seen, fmt.Sprint(at, s.Summary().Effects))
		}
	}
	s.SetHooks(Hooks{Before: see("before"), After: see("after")})
	do(s, "POST", "/v1/transfers", "k", `{"reference":"tr_1","amount":5,"currency":"eur","source":"acct_1","description":"d"}`).want(t, 200, "succeeded")
	if got := strings.Join(seen, " "); got != "before0 after1" {
		t.Errorf("hooks ran as %q", got)
	}
}

// The read time-out ends with the body: a call held longer is not hung up on.
func TestHeldCallOutlivesTheReadTimeout(t *testing.T) {
	s := open(t, Config{Latency: 200 * time.Millisecond})
	url := serve(t, s, 50*time.Millisecond) + "/v1/charges"
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	r, err := post(t, client, url, "k", body("ch_1", 1250, "pm_card_visa"))
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, 200, "succeeded")
}

func TestServerBoundsEverything(t *testing.T) {
	s := open(t, Config{})
	srv := s.NewServer("127.0.0.1:0")
	if srv.ReadHeaderTimeout <= 0 || srv.ReadTimeout <= 0 || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 {
		t.Errorf("a limit is missing: %+v", srv)
	}
	if srv.WriteTimeout <= 2*MaxLatency {
		t.Errorf("write time-out %s cuts off calls of the longest latency", srv.WriteTimeout)
	}
	rec := httptest.NewRecorder()
	srv.Handler.ServeHTTP(rec, httptest.NewRequest("GET", "http://127.0.0.1/_sim/summary", nil))
	if rec.Code != 200 {
		t.Errorf("got %d", rec.Code)
	}
}
