package sdk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/sdk"
)

// runner is a client's tests, with a client of the worst kind.
type runner struct {
	t    *testing.T
	at   string
	http http.Client
}

type instruction struct {
	Wrong, Call string
	Client      struct {
		Bases  []string `json:"base_urls"`
		APIKey string   `json:"api_key"`
	}
	Args struct{ Key string }
}

func newRunner(t *testing.T) *runner {
	h, err := sdk.New(sdk.World{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		h.Close()
	})
	return &runner{t: t, at: server.URL, http: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (r *runner) ask(path, body string) (next instruction) {
	r.t.Helper()
	res, err := r.http.Post(r.at+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&next); err != nil {
		r.t.Fatal(err)
	}
	return next
}

// begin begins the scenario of this name.
func (r *runner) begin(name string) (path string, first instruction) {
	r.t.Helper()
	res, err := r.http.Get(r.at + "/")
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	var all []struct{ Name, At string }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		r.t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == name {
			return s.At, r.ask(s.At, "")
		}
	}
	r.t.Fatalf("there is no scenario %q", name)
	return "", first
}

// send is a request of the client's; whatever comes of it.
func (r *runner) send(to instruction, base int, key, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, to.Client.Bases[base]+"/v1/charges", bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+to.Client.APIKey)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if res, err := r.http.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// What a client does wrong, the harness says.
func TestTheHarnessSeesFaults(t *testing.T) {
	const moves = "The next region, if one is lost, and then that one first"
	const good = `{"outcome":"succeeded","object":{"id":"ch_1"},"attempts":2,"pauses":[3]}`
	for name, c := range map[string]struct {
		does   func(r *runner, to instruction)
		result string
		says   string // "": nothing is wrong
	}{
		"nothing": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "k", "{}") },
			result: good,
		},
		"another outcome": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "k", "{}") },
			result: `{"outcome":"unknown","why":"no_answer","attempts":2,"pauses":[3]}`, says: `want {"attempts":2`,
		},
		"another key in a retry": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "l", "{}") },
			result: good, says: "2 keys in one call",
		},
		"another body in a retry": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "k", "{ }") },
			result: good, says: "was sent with",
		},
		"the same region again": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 0, "k", "{}") },
			result: good, says: "requests at each region [2 0]",
		},
		"no pause": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "k", "{}") },
			result: `{"outcome":"succeeded","object":{"id":"ch_1"},"attempts":2,"pauses":[]}`, says: "0 pauses",
		},
		"too long a pause": {
			does:   func(r *runner, to instruction) { r.send(to, 0, "k", "{}"); r.send(to, 1, "k", "{}") },
			result: `{"outcome":"succeeded","object":{"id":"ch_1"},"attempts":2,"pauses":[101]}`, says: "pause 0 was 101 ms",
		},
		"no API key": {
			does:   func(r *runner, to instruction) { to.Client.APIKey = ""; r.send(to, 0, "k", "{}") },
			result: good, says: "with the authorization",
		},
		"no JSON": {does: func(*runner, instruction) {}, result: "made", says: "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t)
			path, to := r.begin(moves)
			if to.Call != "charge" || len(to.Client.Bases) != 2 || to.Args.Key == "" {
				t.Fatalf("the first instruction is %+v", to)
			}
			c.does(r, to)
			next := r.ask(path, c.result)
			if c.says == "" && next.Wrong != "" || !strings.Contains(next.Wrong, c.says) || (c.says != "") != (next.Call == "") {
				t.Errorf("it says %q and goes on with %q", next.Wrong, next.Call)
			}
		})
	}
}

// A pause is at least as long as the API asks for.
func TestTheHarnessSeesAShortPause(t *testing.T) {
	r := newRunner(t)
	path, to := r.begin("The same region again: the outcome is open")
	r.send(to, 0, "k", "{}")
	r.send(to, 0, "k", "{}")
	if next := r.ask(path, `{"outcome":"succeeded","object":{"id":"ch_1"},"attempts":2,"pauses":[1499]}`); !strings.Contains(next.Wrong, "pause 0 was 1499 ms, want 1500") {
		t.Errorf("it says %q", next.Wrong)
	}
	if next := r.ask(path, `{}`); !strings.Contains(next.Wrong, "does not run") {
		t.Errorf("a scenario that has failed goes on: %+v", next)
	}
}
