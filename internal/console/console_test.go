package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

const (
	us = "us-east1"
	eu = "europe-west1"
	as = "asia-northeast1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// deployment is a fake deployment.
type deployment struct {
	all      *admin.Overview
	requests atomic.Int32
	panic    bool
}

func (d *deployment) Look(_ context.Context, q admin.Question) *admin.Overview {
	d.requests.Add(1)
	if d.panic || !q.Gather || !q.WithoutBacklog {
		panic("no page asks this")
	}
	return d.all
}

// member returns a node that answered, with its counts.
func member(name, home string, t admin.Traffic) admin.Member {
	t.Since = noon.Add(-time.Hour)
	return admin.Member{Name: name, Region: home, Part: &admin.Part{Node: name, Region: home, Traffic: &t}}
}

func threeRegions() *admin.Overview {
	return &admin.Overview{
		Node: "u1", Epoch: 7,
		Regions: []admin.RegionState{
			{Name: as, Code: 3, RTT: 150 * time.Millisecond, LastSeen: noon},
			{Name: eu, Code: 2, RTT: 64 * time.Millisecond, LastSeen: noon},
			{Name: us, Code: 1, RTT: -1, LastSeen: noon},
		},
		Members: []admin.Member{
			member("a1", as, admin.Traffic{
				Total: admin.Tally{Requests: 3, Replayed: 1}, Lately: admin.Tally{Requests: 1},
				Flows:      []admin.Flow{{Home: eu, Way: admin.WayForward, Total: 3, Lately: 1}},
				Mismatches: []admin.TenantCount{{Tenant: "acme", Count: 2}},
				Arrivals: []admin.Arrival{{
					At: noon, Took: 80 * time.Millisecond, Operation: "charge", Tenant: "acme", Key: "<script>alert(1)</script>", Home: eu, Way: admin.WayForward, Hops: 1, Status: 201,
				}},
			}),
			member("e1", eu, admin.Traffic{Mismatches: []admin.TenantCount{{Tenant: "globex", Count: 1}, {Tenant: "acme", Count: 3}}}),
			member("u1", us, admin.Traffic{}),
		},
	}
}

func newTestConsole(t *testing.T, c Config) http.Handler {
	t.Helper()
	if c.Access == nil {
		c.Access = ThisMachine{}
	}
	if c.Now == nil {
		c.Now = func() time.Time { return noon }
	}
	h, err := New(c)
	require.NoError(t, err)
	return h
}

func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8092"+path, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The vendored script is the published one: htmx 2.0.11, dist/htmx.min.js.
func TestVendoredScriptsArePinned(t *testing.T) {
	text, err := staticFiles.ReadFile("static/htmx.min.js")
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	require.Equal(t, "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717", hex.EncodeToString(sum[:]))
	licence, err := staticFiles.ReadFile("static/htmx.LICENSE")
	require.NoError(t, err)
	require.Contains(t, string(licence), "Zero-Clause BSD")
}

func TestTheMapShowsEveryRegionAndFlow(t *testing.T) {
	d := &deployment{all: threeRegions()}
	h := newTestConsole(t, Config{Deployment: d})
	w := get(t, h, "/")
	require.Equal(t, http.StatusOK, w.Code)
	body := w.Body.String()
	require.Contains(t, body, "All 3 regions serve, with 3 nodes; 0.1 requests a second.")
	require.Contains(t, body, "forwarded to europe-west1")
	require.Contains(t, body, `class="flow forward moving"`)
	require.Contains(t, body, "&lt;script&gt;alert(1)")
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, body, "<!doctype html>")
	live := get(t, h, "/", func(r *http.Request) { r.Header.Set("Hx-Request", "true") })
	require.NotContains(t, live.Body.String(), "<!doctype html>")
	require.Contains(t, live.Body.String(), `id="live"`)
	for range 20 {
		get(t, h, "/")
	}
	require.EqualValues(t, 1, d.requests.Load(), "viewers share one query")
}

func TestEachStandingIsDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admin.Overview)
		say    []string
	}{
		"draining": {func(o *admin.Overview) { o.Regions[1].Status = region.Draining },
			[]string{"europe-west1 is draining: takes no new traffic", `class="region draining"`}},
		"down": {func(o *admin.Overview) { o.Regions[1].Status = region.Down },
			[]string{"europe-west1 is down: an operator has marked it down.", `class="region down"`}},
		"none seen": {func(o *admin.Overview) { o.Members = o.Members[:1] },
			[]string{"europe-west1 is lost: no live node is seen.", `class="region lost"`}},
		"deputies": {func(o *admin.Overview) {
			o.Members[0].Part.Traffic.DeputyFor = []string{eu}
			o.Members[2].Part.Traffic.DeputyFor = []string{eu}
			o.Members[0].Part.Traffic.Flows = []admin.Flow{{Home: eu, Way: admin.WayDeputy, Total: 1}}
		}, []string{"europe-west1 is lost: out of reach; asia-northeast1 and us-east1 act for it.", `class="flow deputy"`, "deputy for europe-west1"}},
		"deputies of a region that records nothing": {func(o *admin.Overview) {
			o.Members[0].Part.Traffic.DeputyFor = []string{eu}
			o.Members[1].Part.NotReady = "the database does not answer"
		}, []string{"europe-west1 is lost: e1 cannot record charges; asia-northeast1 acts for it."}},
		"silent": {func(o *admin.Overview) { o.Members[1].Part = nil },
			[]string{"europe-west1 is impaired: e1 does not answer.", `class="region impaired"`}},
		"not ready": {func(o *admin.Overview) { o.Members[1].Part.NotReady = "the database does not answer" },
			[]string{"europe-west1 is impaired: e1 is not ready."}},
		"no traffic":     {func(o *admin.Overview) { o.Members[1].Part.Traffic = nil }, []string{"All 3 regions serve"}},
		"unknown places": {func(o *admin.Overview) { o.Regions[1].Name, o.Members[1].Region = "mars", "mars" }, []string{">mars</text>"}},
		"no regions":     {func(o *admin.Overview) { *o = admin.Overview{} }, []string{"All 0 regions serve"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deployment{all: threeRegions()}
			c.change(d.all)
			w := get(t, newTestConsole(t, Config{Deployment: d}), "/")
			require.Equal(t, http.StatusOK, w.Code)
			for _, say := range c.say {
				require.Contains(t, w.Body.String(), say)
			}
		})
	}
}

func TestTheHintIsThereUntilItsLinesHaveArrived(t *testing.T) {
	d := &deployment{all: threeRegions()} // three requests have arrived
	line := "curl http://127.0.0.1:8081/v1/charges"
	for lines, there := range map[int]bool{3: false, 4: true} {
		hint := func() []string {
			return append(slices.Repeat([]string{"# next", line}, lines), "curl http://127.0.0.1:8090/_sim/summary")
		}
		require.Equal(t, there, strings.Contains(get(t, newTestConsole(t, Config{Deployment: d, Hint: hint}), "/").Body.String(), line))
	}
	require.NotContains(t, get(t, newTestConsole(t, Config{Deployment: d}), "/").Body.String(), "Send these")
}

func TestMismatchesAreAddedUpByTenant(t *testing.T) {
	d := &deployment{all: threeRegions()}
	d.all.Members[2].Part = nil
	body := get(t, newTestConsole(t, Config{Deployment: d}), "/tenants").Body.String()
	require.Less(t, strings.Index(body, ">acme<"), strings.Index(body, ">globex<"))
	require.Contains(t, body, ">5</td>")
	require.Contains(t, body, "u1 did not answer")
}

// Every answer, also a refusal, has the policy, and no page violates it with an inline script or
// style.
func TestEveryAnswerIsUnderThePolicy(t *testing.T) {
	d := &deployment{all: threeRegions()}
	h := newTestConsole(t, Config{Deployment: d})
	for _, path := range []string{"/", "/tenants", "/nowhere", "/static/console.css", "/static/htmx.min.js", "/static/land.svg", "/static/nothing", "//tenants"} {
		w := get(t, h, path)
		require.Equal(t, policy, w.Header().Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), path)
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			require.NotContains(t, w.Body.String(), "style=", path)
			require.NotContains(t, w.Body.String(), "<style", path)
			require.NotContains(t, w.Body.String(), " onclick", path)
			require.NotContains(t, w.Body.String(), "://", path)
		}
	}
	require.Equal(t, http.StatusNotFound, get(t, h, "/nowhere").Code)
	require.Equal(t, http.StatusNotFound, get(t, h, "/static/nothing").Code)
}

func TestAPageThatCannotBeReadReportsIt(t *testing.T) {
	w := get(t, newTestConsole(t, Config{Deployment: &deployment{panic: true}}), "/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "cannot be read now")
}

func TestTheDemosConsoleIsForItsMachine(t *testing.T) {
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}})
	for name, c := range map[string]struct {
		remote, host string
		status       int
	}{
		"here":           {"127.0.0.1:1", "127.0.0.1:8092", http.StatusOK},
		"by name":        {"127.0.0.1:1", "localhost:8092", http.StatusOK},
		"IPv6":           {"[::1]:1", "[::1]:8092", http.StatusOK},
		"no port":        {"127.0.0.1:1", "localhost", http.StatusOK},
		"from elsewhere": {"10.0.0.7:1", "127.0.0.1:8092", http.StatusForbidden},
		"rebound name":   {"127.0.0.1:1", "evil.example:8092", http.StatusForbidden},
		"rebound, bare":  {"127.0.0.1:1", "127.0.0.1.evil.example", http.StatusForbidden},
	} {
		w := get(t, h, "/", func(r *http.Request) { r.RemoteAddr, r.Host = c.remote, c.host })
		require.Equal(t, c.status, w.Code, name)
	}
}
