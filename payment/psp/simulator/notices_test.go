package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const noticeSecret = "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSB0ZXN0"

// got is one notice that came.
type got struct {
	header http.Header
	body   string
	event
}

// receiver takes notices in and answers as configured.
func receiver(t *testing.T, status func(n int) int) (url string, in <-chan got) {
	t.Helper()
	ch := make(chan got, 10_000)
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		n++
		answer := status(n)
		mu.Unlock()
		g := got{header: r.Header.Clone(), body: string(body)}
		if err := json.Unmarshal(body, &g.event); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		w.WriteHeader(answer)
		ch <- g
	}))
	t.Cleanup(srv.Close)
	return srv.URL, ch
}

func always(status int) func(int) int { return func(int) int { return status } }

func notify(t *testing.T, s *Simulator, w Notices, urls ...string) {
	t.Helper()
	for _, u := range urls {
		w.Targets = append(w.Targets, NoticeTarget{URL: u, Secret: noticeSecret})
	}
	if err := s.SetNotices(w); err != nil {
		t.Fatal(err)
	}
}

func TestNoticeIsSigned(t *testing.T) {
	url, in := receiver(t, always(204))
	s := open(t, Config{Dir: t.TempDir()})
	charge(s, "before", "ch_before", "pm_card_visa") // no notice is sent yet
	notify(t, s, Notices{}, url)
	charge(s, "soft", "ch_0", "pm_card_insufficient_funds") // no money moved
	charge(s, "k", "ch_1", "pm_card_visa")
	charge(s, "k", "ch_1", "pm_card_visa") // a repeat is no movement
	g := <-in
	const want = `{"id":"evt_000000000003","type":"charge.succeeded","created":1772366400,"data":{"id":"psp_ch_000000000003","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1772366400}}`
	if g.body != want {
		t.Errorf("got  %s\nwant %s", g.body, want)
	}
	wh, err := standardwebhooks.NewWebhook(noticeSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := wh.VerifyIgnoringTimestamp([]byte(g.body), g.header); err != nil {
		t.Error(err)
	}
	if g.header.Get("Webhook-Id") != g.ID || g.header.Get("Webhook-Timestamp") != "1772366400" {
		t.Errorf("header %v", g.header)
	}
	closeNow(t, s)
	if len(in) > 0 {
		t.Errorf("a webhook too many: %s", (<-in).body)
	}
}

func TestDeclinesAreSentIfConfigured(t *testing.T) {
	url, in := receiver(t, always(200))
	s := open(t, Config{})
	notify(t, s, Notices{Declines: true}, url)
	charge(s, "k", "ch_1", "pm_card_stolen")
	if g := <-in; g.Type != "charge.declined" || g.Data.Error == nil || g.Data.Error.Code != "stolen_card" {
		t.Errorf("got %s", g.body)
	}
}

// What is not answered 2xx is sent again, with the same id, until it is.
func TestNoticeIsSentUntilTaken(t *testing.T) {
	url, in := receiver(t, func(n int) int { return []int{500, 301, 404, 200}[min(n, 4)-1] })
	s := open(t, Config{})
	notify(t, s, Notices{RetryAfter: time.Millisecond}, url)
	charge(s, "k", "ch_1", "pm_card_visa")
	for range 4 {
		if g := <-in; g.ID != "evt_000000000001" {
			t.Errorf("got %s", g.body)
		}
	}
	closeNow(t, s)
	if st := s.NoticeStats(); st.Sent != 1 || st.Failed != 3 || st.Pending != 0 || len(in) > 0 {
		t.Errorf("%+v, %d more came", st, len(in))
	}
}

// No endpoint can be reached for a day; then one can.
func TestRetriesSlowDownAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		var mu sync.Mutex
		var tries []time.Time
		s.notices.client.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Now())
			return nil, io.ErrUnexpectedEOF
		})
		notify(t, s, Notices{}, "http://nobody.example")
		start := time.Now()
		charge(s, "k", "ch_1", "pm_card_visa")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, want := range []int{0, 1, 3, 7, 15, 31, 63, 123, 183} {
			if got := tries[i].Sub(start); got != time.Duration(want)*time.Second {
				t.Errorf("try %d after %s, want %ds", i+1, got, want)
			}
		}
		if last := time.Since(tries[len(tries)-1]); last > time.Minute {
			t.Errorf("the last of %d tries was %s ago", len(tries), last)
		}
		if st := s.NoticeStats(); st.Pending != 1 {
			t.Errorf("%+v", st)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDelayAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{})
		var mu sync.Mutex
		var came []time.Duration
		var order []string
		start := time.Now()
		s.notices.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			came, order = append(came, time.Since(start)), append(order, r.Header.Get("webhook-id"))
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		notify(t, s, Notices{Delay: 15 * time.Minute, Jitter: time.Minute, Seed: 1}, "http://somebody.example")
		for i := range 50 {
			charge(s, fmt.Sprint("k", i), fmt.Sprint("ch_", i), "pm_card_visa")
		}
		time.Sleep(15*time.Minute - 1)
		synctest.Wait()
		mu.Lock()
		if len(came) > 0 {
			t.Errorf("%d came before the delay", len(came))
		}
		mu.Unlock()
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(came) != 50 || came[49]-came[0] < 30*time.Second {
			t.Errorf("%d came, from %s to %s", len(came), came[0], came[len(came)-1])
		}
		sorted := true
		for i := 1; i < len(order); i++ {
			sorted = sorted && order[i-1] < order[i]
		}
		if sorted {
			t.Error("jitter put nothing out of order")
		}
	})
}

func TestDuplicateAndDrop(t *testing.T) {
	url, in := receiver(t, always(200))
	s := open(t, Config{})
	notify(t, s, Notices{Duplicate: 1}, url)
	charge(s, "k", "ch_1", "pm_card_visa")
	if first, second := <-in, <-in; first.ID != second.ID || first.body != second.body {
		t.Errorf("got %s and %s", first.body, second.body)
	}
	notify(t, s, Notices{Drop: 1}, url)
	charge(s, "k2", "ch_2", "pm_card_visa")
	s.notices.look()
	notify(t, s, Notices{}, url)
	charge(s, "k3", "ch_3", "pm_card_visa")
	if g := <-in; g.Data.Reference != "ch_3" {
		t.Errorf("got %s, want the one after that which was dropped", g.body)
	}
	if st := s.NoticeStats(); st.Duplicated != 1 || st.Dropped != 1 {
		t.Errorf("%+v", st)
	}
}

func TestHoldAndRelease(t *testing.T) {
	url, in := receiver(t, always(200))
	s := open(t, Config{})
	notify(t, s, Notices{Hold: true}, url)
	references := func(n int) (out []string) {
		for range n {
			out = append(out, (<-in).Data.Reference)
		}
		return out
	}
	round := 0
	move := func() (want []string) {
		round++
		for i := range 20 {
			ref := fmt.Sprintf("ch_%d_%02d", round, i)
			charge(s, ref, ref, "pm_card_visa").want(t, 200, "succeeded")
			want = append(want, ref)
		}
		return want
	}
	want := move()
	if r := do(s, "POST", "/_sim/webhooks/release", "", ""); r.body != `{"released":20}`+"\n" {
		t.Errorf("got %+v", r)
	}
	if got := references(20); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in order: got %v", got)
	}
	want = move()
	do(s, "POST", "/_sim/webhooks/release?order=reversed", "", "")
	for i, got := range references(20) {
		if got != want[19-i] {
			t.Errorf("reversed: %d is %s", i, got)
		}
	}
	want = move()
	do(s, "POST", "/_sim/webhooks/release?order=shuffled", "", "")
	if got := references(20); fmt.Sprint(got) == fmt.Sprint(want) {
		t.Errorf("shuffled: got %v", got)
	}
	move()
	if r := do(s, "POST", "/_sim/webhooks/discard", "", ""); r.body != `{"released":20}`+"\n" {
		t.Errorf("got %+v", r)
	}
	do(s, "POST", "/_sim/webhooks/release?order=sideways", "", "").want(t, 400, "invalid_request")
	if st := s.NoticeStats(); st.Held != 0 || st.Dropped != 20 {
		t.Errorf("%+v", st)
	}
	last := move()[0]
	notify(t, s, Notices{}, url) // without Hold, what was held goes out
	found := false
	for _, got := range references(20) {
		found = found || got == last
	}
	if !found {
		t.Error("what was held did not go out")
	}
}

// Each target gets its notices, whatever becomes of the others.
func TestTwoTargets(t *testing.T) {
	broken, tried := receiver(t, always(500))
	url, in := receiver(t, always(200))
	s := open(t, Config{})
	notify(t, s, Notices{}, broken, url)
	charge(s, "k", "ch_1", "pm_card_visa")
	if a, b := <-tried, <-in; a.ID != b.ID {
		t.Errorf("got %s and %s", a.body, b.body)
	}
	closeNow(t, s)
	if st := s.NoticeStats(); st.Pending != 1 || st.Sent != 1 {
		t.Errorf("%+v", st)
	}
}

// The next process sends what was not taken when this one ended, to the stored targets.
func TestNoticesOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	url, in := receiver(t, func(n int) int {
		if n == 2 || n == 3 {
			return 500
		}
		return 200
	})
	s := open(t, Config{Dir: dir})
	notify(t, s, Notices{RetryAfter: time.Hour}, url)
	var first []string
	for i := range 3 {
		charge(s, fmt.Sprint("k", i), fmt.Sprint("ch_", i), "pm_card_visa")
		first = append(first, (<-in).ID)
	}
	closeNow(t, s)
	s = open(t, Config{Dir: dir})
	again := map[string]bool{(<-in).ID: true, (<-in).ID: true}
	if !again[first[1]] || !again[first[2]] {
		t.Errorf("got %v, want %s and %s", again, first[1], first[2])
	}
	charge(s, "after", "ch_after", "pm_card_visa")
	if g := <-in; g.Data.Reference != "ch_after" {
		t.Errorf("got %s", g.body)
	}
	closeNow(t, s)
	if len(in) > 0 {
		t.Errorf("a webhook too many: %s", (<-in).body)
	}
	for what, content := range map[string]string{"damage": "{", "another shape": `{"secrets":1}`} {
		if err := os.WriteFile(filepath.Join(dir, noticesName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := Open(Config{Dir: dir}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v", what, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

func TestSetNoticesOverHTTP(t *testing.T) {
	s := open(t, Config{})
	set := `{"targets":[{"url":"http://127.0.0.1:1/x","secret":"any","stripe":true}],"delay_ms":900000,"jitter_ms":1.5,"duplicate":0.1,"drop":0.2,"retry_after_ms":5,"hold":true,"declines":true,"seed":7}`
	want := `{"webhooks":` + set + `,"sent":0,"failed":0,"abandoned":0,"dropped":0,"duplicated":0,"pending":0,"held":0}` + "\n"
	for _, r := range []reply{do(s, "PUT", "/_sim/webhooks", "", set), do(s, "GET", "/_sim/webhooks", "", "")} {
		if r.status != 200 || r.body != want {
			t.Errorf("got  %+v\nwant %s", r, want)
		}
	}
	for body, names := range map[string]string{
		`{"delay_ms":-1}`:    "delay_ms",
		`{"jitter_ms":1e18}`: "jitter_ms",
		`{"duplicate":2}`:    "duplicate",
		`{"drop":-1}`:        "drop",
		`{"targets":[{"url":"/x","secret":"YQ=="}]}`:        "url",
		`{"targets":[{"url":"http://h","secret":""}]}`:      "secret",
		`{"targets":[{"url":"http://h","secret":"%"}]}`:     "base64",
		`{"targets":[` + strings.Repeat(`{},`, 16) + `{}]}`: "at most 16",
		`{"delay":1}`: "delay",
		`{`:           "EOF",
	} {
		r := do(s, "PUT", "/_sim/webhooks", "", body)
		r.want(t, 400, "invalid_request")
		if !strings.Contains(r.body, names) || strings.Contains(r.body, `\n`) {
			t.Errorf("%s: %s does not name %s in one line", body, r.body, names)
		}
	}
	if r := do(s, "GET", "/_sim/webhooks", "", ""); r.body != want {
		t.Errorf("a refused PUT left %s", r.body)
	}
}
