package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

func shadowing(c *Config) { c.Settings.Mode = modeShadow }

// shadowed passes r through g, and compares it with what claims has, as a node does.
func shadowed(t *testing.T, g *Gateway, claims map[string]claim.Reply, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s := g.Match(r).Watch(r)
	g.ServeHTTP(w, s.Request)
	g.Later(s, func(_ context.Context, s *Seen) {
		body, whole, refused := s.Body()
		switch {
		case !whole:
			s.Uncompared()
			return
		case refused != "":
			s.Refused("", refused)
			return
		}
		req, err := s.Claim(key.Tenant, key.Value, key.Value, body)
		require.NoError(t, err)
		require.NotContains(t, req.Key.Value, key.Value)
		require.NotContains(t, string(req.Payload), "secret")
		reply, again := claims[req.Key.Value]
		if !again {
			switch o := g.Attempt(t.Context(), claim.Attempt{Record: claim.Record{Operation: req.Operation}, Payload: req.Payload}).(type) {
			case *claim.Done:
				reply.Response = o.Response
				claims[req.Key.Value] = claim.Reply{Response: o.Response, Replayed: true}
			case *claim.Released:
				reply.Response = o.Response
			}
		}
		s.Compared(key.Value, &reply)
	})
	g.Settle(t.Context())
	return w
}

func TestWhatShadowModeFinds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status []int
		bodies []string
		want   Counts
	}{
		{"recognised", []int{201, 201}, []string{"1", "1"}, Counts{Requests: 2, First: 1, Replayed: 1}},
		{"done again", []int{201, 201}, []string{"1", "2"}, Counts{Requests: 2, First: 1, Replayed: 1, DoneAgain: 1}},
		{"done, then failed", []int{201, 500}, []string{"1", "2"}, Counts{Requests: 2, First: 1, Replayed: 1}},
		{"refused twice", []int{404, 404}, []string{"1", "2"}, Counts{Requests: 2, First: 1, Replayed: 1}},
		{"in doubt, then done", []int{500, 201}, []string{"1", "2"}, Counts{Requests: 2, First: 1, HeldBack: 1}},
		{"slowed down, then done", []int{429, 201}, []string{"1", "2"}, Counts{Requests: 2, First: 2}},
		{"slowed down, then done twice", []int{429, 201, 201}, []string{"1", "2", "3"}, Counts{Requests: 3, First: 2, Replayed: 1, DoneAgain: 1}},
		{"long", []int{200, 200}, []string{strings.Repeat("a", 2*shadowBody) + "1", strings.Repeat("a", 2*shadowBody) + "2"}, Counts{Requests: 2, First: 1, Replayed: 1, DoneAgain: 1}},
	} {
		n := 0
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(tc.status[n])
			_, _ = io.WriteString(w, tc.bodies[n])
			n++
		}))
		g, claims := newGateway(t, upstream.URL, shadowing), map[string]claim.Reply{}
		require.True(t, g.Shadow())
		for i := range tc.status {
			w := shadowed(t, g, claims, post("/orders", "a secret"))
			require.Equal(t, []any{tc.status[i], tc.bodies[i]}, []any{w.Code, w.Body.String()}, tc.name)
		}
		upstream.Close()
		found, changes := g.Found(true)
		require.Equal(t, tc.want, found.Counts, tc.name)
		require.NotZero(t, changes)
		found, _ = g.Found(false)
		require.Zero(t, found, tc.name)
	}
}

// TestShadowModeOfAnUpstreamThatIsAway: nothing was sent, so that nothing is compared.
func TestShadowModeOfAnUpstreamThatIsAway(t *testing.T) {
	g, claims := newGateway(t, "http://127.0.0.1:1", shadowing), map[string]claim.Reply{}
	for _, body := range []string{"{}", ""} {
		require.Equal(t, http.StatusBadGateway, shadowed(t, g, claims, post("/orders", body)).Code)
	}
	found, _ := g.Found(false)
	require.Equal(t, Counts{Requests: 2, Uncompared: 2}, found.Counts)
}

func TestWhatShadowModeWouldRefuse(t *testing.T) {
	var got int
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got = int(n)
	}))
	defer upstream.Close()
	g := newGateway(t, upstream.URL, shadowing, plain(Route{BodyBytes: 4}))
	require.Equal(t, http.StatusOK, shadowed(t, g, map[string]claim.Reply{}, post("/orders", "five!")).Code)
	require.Equal(t, 5, got, "it passes")
	found, _ := g.Found(false)
	require.Equal(t, Counts{Requests: 1, Refused: 1}, found.Counts)
	require.Contains(t, found.Examples[0], string(problem.BodyTooLarge))
	require.Equal(t, http.StatusOK, shadowed(t, g, map[string]claim.Reply{}, post("/orders", "four")).Code)
	found, _ = g.Found(false)
	require.Equal(t, 1, found.First)
}

// TestExamplesOfShadowMode: each says its column, and which of two came first, although that one may be
// answered last. What has no key that can be one shows none.
func TestExamplesOfShadowMode(t *testing.T) {
	answers := make(chan string, 2)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body := <-answers
		if body == "part" {
			w.Header().Set("Content-Length", "100")
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, body)
	}))
	defer upstream.Close()
	for name, tc := range map[string]struct{ first, then, want string }{
		"twice":    {"1", "2", "came again while the first was under way, 1s later; the API answered 201, and then 201 with another body (JOINED, DONE AGAIN)"},
		"the same": {"1", "1", "201, and then 201 with the same body (JOINED)"},
		"cut off":  {"part", "2", "1s later; the API answered 201, and then 201, not whole (HELD BACK)"},
	} {
		g := newGateway(t, upstream.URL, shadowing)
		early, late := post("/orders", "{}"), post("/orders", "{}")
		a, b := g.Match(early).Watch(early), g.Match(late).Watch(late)
		a.began = b.began.Add(-time.Second)
		var made claim.Reply
		for _, s := range []*Seen{b, a} { // b is answered before a
			answers <- map[*Seen]string{b: tc.first, a: tc.then}[s]
			g.ServeHTTP(httptest.NewRecorder(), s.Request)
			if s == b {
				req, err := s.Claim(key.Tenant, key.Value, key.Value, nil)
				require.NoError(t, err)
				made = claim.Reply{Replayed: true, Response: claim.Response{Body: req.Payload}}
			}
		}
		a.Compared(key.Value, &made)
		found, _ := g.Found(false)
		require.Len(t, found.Examples, 1)
		require.Contains(t, found.Examples[0], tc.want, name)
		require.Contains(t, found.Examples[0], b.began.UTC().Format("15:04:05Z")+" POST /orders, key "+key.Value+":", name)

		a.Refused("", problem.KeyInvalid)
		found, _ = g.Found(false)
		require.Contains(t, found.Examples[len(found.Examples)-1], " POST /orders: would be refused, idempotency_key_invalid (REFUSED)")
	}
}

// TestShadowModeBoundsItsWork: what there is no room for passes all the same.
func TestShadowModeBoundsItsWork(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	g := newGateway(t, upstream.URL, shadowing)
	held := make(chan struct{})
	for range comparing + 3 {
		r := post("/orders", "{}")
		s := g.Match(r).Watch(r)
		g.ServeHTTP(httptest.NewRecorder(), s.Request)
		g.Later(s, func(context.Context, *Seen) { <-held })
	}
	close(held)
	g.Settle(t.Context())
	found, _ := g.Found(false)
	require.Equal(t, Counts{Requests: comparing + 3, Uncompared: 3}, found.Counts)
}

func TestModes(t *testing.T) {
	s := DefaultSettings()
	s.Upstream = "http://x"
	for mode, ok := range map[string]bool{"": true, "guard": true, "shadow": true, "dark": false} {
		s.Mode = mode
		if err := s.Validate(); ok {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, fmt.Sprintf("settings: gateway.mode %q", mode))
		}
	}
	require.False(t, (*Gateway)(nil).Shadow())
}
