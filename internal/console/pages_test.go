package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/region/admin"
)

// rows are fake queues: one parked event in Europe, one that fails, and a charge with an unknown
// outcome.
type rows struct {
	parked  bool
	away    string // the region with unreadable rows
	unparks int
	lost    bool // an Unpark with a lost answer
	notes   []string
	acts    []string
	// unaudited is the error of AppendAudit.
	unaudited error
}

type rowsQueue struct {
	outbox.Store
	*rows
	name outbox.Queue
}

const secretBody = "a body with 4242 in it"

func (r *rows) Queue(q outbox.Queue) outbox.Store { return rowsQueue{rows: r, name: q} }

func (r *rows) reach(region string) error {
	if region == r.away {
		return fmt.Errorf("%w: its rows\nare away", claim.ErrHomeUnreachable)
	}
	return nil
}

func (r *rows) Unknown(_ context.Context, home string, live bool, _ int) ([]claim.Record, error) {
	if home != us || !live {
		return nil, r.reach(home)
	}
	return []claim.Record{{
		Key: claim.Key{Tenant: "acme", Value: "order-7"}, Home: us, Operation: "charge", FirstUse: noon.Add(-90 * time.Minute),
		LeaseUntil: noon.Add(time.Minute), Attempts: 3, Unknowns: 2, Reason: "provider_timeout", Minted: claim.Minted{ID: "ch_7"}, ProviderKey: "hw_secret",
	}}, r.reach(home)
}

func (r *rows) AppendAudit(_ context.Context, home string, key claim.Key, e claim.AuditEntry) error {
	if r.unaudited != nil {
		return r.unaudited
	}
	r.acts = append(r.acts, home+" "+key.Tenant+" "+key.Value+": "+string(e.Event)+" "+e.Detail)
	return nil
}

func (r *rows) Note(_ context.Context, key claim.Key, home string, e claim.AuditEntry) {
	r.notes = append(r.notes, fmt.Sprint(key.Tenant, " ", key.Value, " ", home, " ", e.Event, " ", e.Detail))
}

func (q rowsQueue) here(region string) bool { return q.name == outbox.Events && region == eu }

func (q rowsQueue) message() outbox.Message {
	return outbox.Message{
		ID: "evt_1", Region: eu, Kind: outbox.KindWebhook, Tenant: "acme", Key: "order-1", Payload: []byte(secretBody), CreatedAt: noon.Add(-time.Hour),
		Attempts: 300, LastError: "410 <b>Gone</b>", Parked: q.parked,
	}
}

func (q rowsQueue) Depth(_ context.Context, region string) (d outbox.Depth, err error) {
	if q.here(region) {
		d = outbox.Depth{Pending: 12345, Due: 1, OldestDue: noon.Add(-time.Minute)}
		if q.parked {
			d.Parked = 1
		}
	}
	return d, q.reach(region)
}

func (q rowsQueue) Parked(_ context.Context, region, _ string, _ int) ([]outbox.Message, error) {
	if q.here(region) && q.parked {
		return []outbox.Message{q.message()}, nil
	}
	return nil, q.reach(region)
}

func (q rowsQueue) Waiting(context.Context, string, int) ([]outbox.Message, error) {
	return []outbox.Message{
		{ID: "evt_2", Region: eu, Key: "order-2", Tenant: "acme", LastError: "no route to host", Attempts: 2, Payload: []byte(secretBody)},
		{ID: "evt_3", Region: eu},
	}, nil
}

func (q rowsQueue) Message(_ context.Context, region, id string) (outbox.Message, bool, error) {
	return q.message(), q.here(region) && id == "evt_1", nil
}

func (q rowsQueue) Unpark(context.Context, string, string) (bool, error) {
	q.unparks++
	was := q.parked
	q.rows.parked = false
	if q.lost {
		return false, claim.ErrUnavailable
	}
	return was, nil
}

// history is a fake History.
type history struct {
	h   inspect.History
	err error
	q   inspect.Query
}

func (h *history) Read(_ context.Context, q inspect.Query) (inspect.History, error) {
	h.q = q
	return h.h, h.err
}

func post(t *testing.T, h http.Handler, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8092/queues/requeue", strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// only is an Access that admits one user.
type only Who

func (o only) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, withWho(r, Who(o))) })
}

var form = url.Values{"queue": {"events"}, "region": {eu}, "id": {"evt_1"}}

func TestQueuesShowWhatWaitsAndWhy(t *testing.T) {
	r := &rows{parked: true}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: true})
	body := get(t, h, "/queues").Body.String()
	require.Contains(t, body, "410 &lt;b&gt;Gone")
	require.Contains(t, body, "Requeue…")
	require.Contains(t, body, "no route to host")
	require.NotContains(t, body, "evt_3", "a row without a failure is only counted")
	require.Contains(t, body, "12 345")
	require.NotContains(t, body, secretBody)
	r.away = as
	body = get(t, h, "/queues").Body.String()
	require.Contains(t, body, "The rows of asia-northeast1 cannot be read now")
	require.Contains(t, body, "evt_1", "the rows of other regions are missing")
}

func TestUnknownOutcomesAreShownByAge(t *testing.T) {
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: &rows{}})
	body := get(t, h, "/unknown").Body.String()
	require.Contains(t, body, "1 h 30 min")
	require.Contains(t, body, "2 of 3")
	require.Contains(t, body, "provider timeout")
	require.NotContains(t, body, "hw_secret")
}

func TestARowIsRequeuedOnceConfirmedAndAudited(t *testing.T) {
	var log bytes.Buffer
	r := &rows{parked: true}
	h := newTestConsole(t, Config{
		Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: true, Access: only{Name: "operator jo", Operator: true},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ask := get(t, h, "/queues/requeue?"+form.Encode()).Body.String()
	require.Contains(t, ask, `action="/queues/requeue"`)
	require.NotContains(t, ask, secretBody)
	require.Zero(t, r.unparks, "the page that asks for a confirmation changed something")
	w := post(t, h, form)
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, 1, r.unparks)
	require.Equal(t, []string{"acme order-1 europe-west1 requeued operator jo"}, r.notes)
	require.Equal(t, []string{"europe-west1 @operators operator jo: acted outbox retry --queue=events --region=europe-west1 evt_1, in the console"}, r.acts)
	require.Contains(t, log.String(), "operator jo")
	require.Contains(t, get(t, h, w.Header().Get("Location")).Body.String(), "evt_1 is due now.")
	w = post(t, h, form)
	require.Equal(t, http.StatusConflict, w.Code, "a second requeue")
	require.Len(t, r.notes, 1)
	require.Equal(t, http.StatusConflict, get(t, h, "/queues/requeue?"+form.Encode()).Code)
}

func TestWithoutARecordNoRowIsRequeued(t *testing.T) {
	r := &rows{parked: true, unaudited: errors.New("the disk is gone")}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: true, Access: only{Name: "operator jo", Operator: true}})
	w := post(t, h, form)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the disk is gone")
	require.Zero(t, r.unparks)
}

func TestOnlyOperatorsAct(t *testing.T) {
	for name, c := range map[string]struct {
		who     only
		actions bool
		change  func(*http.Request)
		status  int
	}{
		"another site":      {only{Name: "jo", Operator: true}, true, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another origin":    {only{Name: "jo", Operator: true}, true, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"a viewer":          {only{Name: "jo", Operator: false}, true, nil, http.StatusForbidden},
		"actions are off":   {only{Name: "jo", Operator: true}, false, nil, http.StatusForbidden},
		"a form too large":  {only{Name: "jo", Operator: true}, true, func(r *http.Request) { r.Body = http.NoBody; r.PostForm, r.Form = nil, nil }, http.StatusBadRequest},
		"an operator":       {only{Name: "jo", Operator: true}, true, nil, http.StatusSeeOther},
		"no browser at all": {only{Name: "jo", Operator: true}, true, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, http.StatusSeeOther},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rows{parked: true}
			h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: c.actions, Access: c.who})
			change := c.change
			if change == nil {
				change = func(*http.Request) {}
			}
			require.Equal(t, c.status, post(t, h, form, change).Code)
			if c.status != http.StatusSeeOther {
				require.Zero(t, r.unparks)
				require.Empty(t, r.notes)
			}
			body := get(t, h, "/queues").Body.String()
			require.Equal(t, c.who.Operator && c.actions && c.status != http.StatusSeeOther, strings.Contains(body, "Requeue…"))
		})
	}
}

// The page reports neither yes nor no if the store's answer was lost.
func TestARequeueWithALostAnswerIsUnknown(t *testing.T) {
	r := &rows{parked: true, lost: true}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: true})
	w := post(t, h, form)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "It is unknown whether this was done")
}

func TestARequestThatNamesNoRow(t *testing.T) {
	r := &rows{parked: true}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Queues: r, Actions: true})
	for status, bad := range map[int]url.Values{
		http.StatusBadRequest: {"queue": {"mars"}, "region": {eu}, "id": {"evt_1"}},
		http.StatusNotFound:   {"queue": {"events"}, "region": {eu}, "id": {"evt_9"}},
	} {
		require.Equal(t, status, post(t, h, bad).Code)
		require.Equal(t, status, get(t, h, "/queues/requeue?"+bad.Encode()).Code)
	}
	require.Equal(t, http.StatusBadRequest, get(t, h, "/queues/requeue?queue=events&id=evt_1&region=mars").Code)
	require.Zero(t, r.unparks)
}

func aHistory() inspect.History {
	return inspect.History{
		Verdict: "charged once, replayed three times; home europe-west1", Tenant: "acme", Key: "order-1", Object: "ch_1", Home: eu,
		Claim: &inspect.Claim{Operation: "charge", State: "COMPLETED", Age: "live", Fence: 2, Generation: 1, Attempts: 2, FirstUse: noon, SettledAt: noon, Status: 201, ProviderRef: "psp_1"},
		Timeline: []inspect.Entry{
			{At: noon, Event: claim.EventClaimed, Region: eu, Node: "e1", Fence: 1, Home: eu},
			{At: noon.Add(time.Second), Event: claim.EventTakenOver, Region: us, Node: "u1", Fence: 2, Home: eu},
			{At: noon.Add(2 * time.Second), Event: claim.EventSettled, Region: us, Node: "u1", Fence: 2, Home: eu},
		},
		Attempts: []inspect.Attempt{{Region: us, Fence: 2, Began: noon, Ended: noon.Add(time.Second), Outcome: "done", Provider: "simulator", ProviderRef: "psp_1"}},
		Bookings: []inspect.Booking{{ID: "ch_1", Kind: "charge", Amount: 4200, Currency: "usd", Debit: "provider:simulator", Credit: "merchant:acme"}},
		Waiting:  []inspect.Waiting{{Queue: outbox.Events, ID: "evt_1", Parked: true, LastError: "410"}},
		Deputies: []string{us}, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
	}
}

func TestAKeysPageHasItsWholeHistory(t *testing.T) {
	hs := &history{h: aHistory()}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, History: hs, TraceURL: "https://traces.example/trace/{trace}"})
	w := get(t, h, "/key?tenant=acme&q=order-1")
	require.Equal(t, http.StatusOK, w.Code)
	for _, say := range []string{
		"charged once, replayed three times; home europe-west1", "COMPLETED", "taken over", `class="pill bad"`, "psp_1", "4 200 usd", "provider:simulator",
		"https://traces.example/trace/4bf92f3577b34da6a3ce929d0e0e4736", "parked", "us-east1",
	} {
		require.Contains(t, w.Body.String(), say)
	}
	require.Equal(t, inspect.Query{Of: "order-1", Tenant: "acme"}, hs.q)
}

func TestAKeyIsFoundByItsTenant(t *testing.T) {
	d := &deployment{all: threeRegions()}
	hs := &history{h: aHistory()}
	h := newTestConsole(t, Config{Deployment: d, History: hs})
	require.Contains(t, get(t, h, "/key").Body.String(), "Name an idempotency key")
	require.Contains(t, get(t, h, "/key?q=order-1").Body.String(), "Name the tenant of this key")
	require.Empty(t, hs.q, "the page searched for the key")

	d.all.Members[0].Part.Traffic.Arrivals = []admin.Arrival{{Tenant: "acme", Key: "order-1"}, {Tenant: "acme", Key: "order-1"}}
	h = newTestConsole(t, Config{Deployment: d, History: hs})
	body := get(t, h, "/key?q=order-1").Body.String()
	require.Contains(t, body, "charged once", "the nodes have seen its tenant")
	require.Contains(t, body, "Recent entries</dt><dd>asia-northeast1")
	d.all.Members[1].Part.Traffic.Arrivals = []admin.Arrival{{Tenant: "globex", Key: "order-1"}}
	require.Contains(t, get(t, newTestConsole(t, Config{Deployment: d, History: hs}), "/key?q=order-1").Body.String(), "Name the tenant of this key")

	object, err := claim.NewObjectID("ch", 1, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, get(t, h, "/key?q="+object).Code)
	require.Equal(t, inspect.Query{Of: object}, hs.q)
}

func TestAKeysUnreadableParts(t *testing.T) {
	for status, err := range map[int]error{
		http.StatusNotFound:           fmt.Errorf("%w: it", inspect.ErrNotFound),
		http.StatusServiceUnavailable: errors.New("the database\ndoes not answer"),
	} {
		h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, History: &history{err: err}})
		require.Equal(t, status, get(t, h, "/key?tenant=acme&q=order-1").Code)
	}
	hs := &history{h: aHistory()}
	hs.h.Missing = []string{"pin: the database does not answer"}
	h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, History: hs})
	require.Contains(t, get(t, h, "/key?tenant=acme&q=order-1").Body.String(), "Not read: pin: the database does not answer")
}

// busy has more parked rows and unknown outcomes of test tenants than a page reads.
type busy struct{ *rows }

func (b busy) Queue(q outbox.Queue) outbox.Store { return busyQueue{b.rows.Queue(q)} }

func (b busy) Unknown(_ context.Context, _ string, live bool, limit int) ([]claim.Record, error) {
	if live {
		return nil, nil
	}
	return slices.Repeat([]claim.Record{{Key: claim.Key{Tenant: claim.TestTenant("acme")}}}, limit), nil
}

type busyQueue struct{ outbox.Store }

func (busyQueue) Depth(context.Context, string) (outbox.Depth, error) {
	return outbox.Depth{Parked: 1000}, nil
}

func (busyQueue) Parked(_ context.Context, _, _ string, limit int) ([]outbox.Message, error) {
	return slices.Repeat([]outbox.Message{{Tenant: claim.TestTenant("acme")}}, limit), nil
}

// TestNoPageDeniesWhatItHasNotRead: a page says that there is nothing only if it has read everything.
func TestNoPageDeniesWhatItHasNotRead(t *testing.T) {
	bucket := &fakeRuns{err: errors.New("the bucket is away")}
	d := &deployment{all: threeRegions()}
	away := newTestConsole(t, Config{Deployment: d, Queues: &rows{away: us}, Runs: bucket})
	full := newTestConsole(t, Config{Deployment: d, Queues: busy{&rows{}}})
	for path, denial := range map[string]string{
		"/unknown":        "No outcome is unknown",
		"/queues":         "Nothing is parked",
		"/drills":         "There is no report",
		"/reconciliation": "Nothing has been compared",
	} {
		body := get(t, away, path).Body.String()
		assert.Contains(t, body, "cannot be read now", path)
		assert.NotContains(t, body, denial)
		if body := get(t, full, path).Body.String(); path == "/unknown" || path == "/queues" {
			assert.NotContains(t, body, denial)
			assert.Contains(t, body, "There are more than were read", path)
		}
	}
}

// TestASwitchShowsOneSide: every page shows what live tenants have, or what test tenants have, as the
// browser has chosen, and never both.
func TestASwitchShowsOneSide(t *testing.T) {
	d := &deployment{all: threeRegions()}
	test := claim.TestTenant("acme")
	d.all.Members[0].Part.Traffic.Mismatches = []admin.TenantCount{{Tenant: "acme", Count: 2}, {Tenant: test, Count: 5}}
	d.all.Members[0].Part.Traffic.Arrivals = []admin.Arrival{{At: noon, Tenant: "acme", Key: "order-live"}, {At: noon, Tenant: test, Key: "order-test"}}
	hs := &history{h: aHistory()}
	h := newTestConsole(t, Config{Deployment: d, History: hs, Queues: &rows{parked: true}})
	chosen := get(t, h, "/?side=test").Header().Get("Set-Cookie")
	require.Contains(t, chosen, "HttpOnly")
	onTest := func(r *http.Request) { r.Header.Set("Cookie", strings.Split(chosen, ";")[0]) }
	for path, says := range map[string][2]string{"/": {"order-live", "order-test"}, "/tenants": {">acme<", ">acme~test<"}} {
		live, tried := get(t, h, path).Body.String(), get(t, h, path, onTest).Body.String()
		require.Contains(t, live, says[0], path)
		require.NotContains(t, live, says[1], path)
		require.Contains(t, tried, says[1], path)
		require.NotContains(t, tried, says[0], path)
		require.Contains(t, tried, "no money moves")
		require.NotContains(t, get(t, h, path+"?side=live", onTest).Body.String(), says[1], "switched back")
	}
	for path, row := range map[string]string{"/queues": "evt_1", "/unknown": "order-7"} { // of acme
		require.Contains(t, get(t, h, path).Body.String(), row)
		require.NotContains(t, get(t, h, path, onTest).Body.String(), row)
	}
	require.Equal(t, http.StatusOK, get(t, h, "/key?tenant=acme&q=order-1").Code)
	w := get(t, h, "/key?tenant=acme&q=order-1", onTest)
	require.Equal(t, inspect.Query{Of: "order-1", Tenant: test}, hs.q, "of the tenant's test side")
	require.Equal(t, http.StatusNotFound, w.Code, "which this history is not of")
	require.Contains(t, w.Body.String(), "of the other side")
	row := rowView{ID: "test:acme~test/hw_1/1"}
	require.False(t, claim.Livemode(row.tenant()), "a notice of the provider of test tenants")
}
