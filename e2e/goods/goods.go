// Package goods is an API that somebody has, for tests that put a gateway in front of it. It has four
// resources, which differ in what the API can do with a repeat. It fails as it is told, counts what it has
// done, and reports what no gateway may send.
//
//	api := goods.New(goods.Config{Remembers: 2 * time.Hour})
//	server := httptest.NewServer(api.At("us-east1"))
//	settings.Upstream, settings.Routes = server.URL, goods.Routes(2*time.Hour, time.Minute)
package goods

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// The resources. A POST makes one. Its JSON body has an amount, in any unit, and a payment_method, which is
// refused if it is pm_card_stolen.
const (
	Orders    = "/v1/orders"    // a repeat is another one, and nobody can ask
	Payouts   = "/v1/payouts"   // a repeat is recognised by Idempotency-Key
	Bookings  = "/v1/bookings"  // a repeat is recognised by X-Once
	Shipments = "/v1/shipments" // a repeat is another one, and GET /v1/shipments/{key} finds the first
)

// All are the resources.
var All = []string{Orders, Payouts, Bookings, Shipments}

const once = "X-Once"

// Routes are the rules of a gateway in front of an API that remembers repeats for so long, and in which a
// request shows within sureAfter.
func Routes(remembers, sureAfter time.Duration) []gateway.Route {
	return []gateway.Route{
		{Match: "POST " + Orders},
		{Match: "POST " + Payouts, Dedupe: "Idempotency-Key", DedupeFor: remembers},
		{Match: "POST " + Bookings, Dedupe: once, DedupeFor: remembers},
		{Match: "POST " + Shipments, Ask: gateway.Ask{Path: Shipments + "/{key}", Answers: true, SureAfter: sureAfter}},
	}
}

// Config configures an [API].
type Config struct {
	// Remembers is for how long a repeat is recognised.
	Remembers time.Duration
	// Now is the API's clock; nil means the system's.
	Now func() time.Time
}

// Stats are what an API was asked, and what it did.
type Stats struct {
	Effects  int // what it made
	Repeats  int // repeats that it recognised
	Doubts   int // requests that left their sender in doubt
	Found    int // look-ups that found something
	NotFound int // look-ups that did not
}

// Add adds more to s.
func (s *Stats) Add(more Stats) {
	s.Effects, s.Repeats, s.Doubts = s.Effects+more.Effects, s.Repeats+more.Repeats, s.Doubts+more.Doubts
	s.Found, s.NotFound = s.Found+more.Found, s.NotFound+more.NotFound
}

// API is the API. Its methods are safe for concurrent use.
type API struct {
	c    Config
	late sync.WaitGroup

	mu      sync.Mutex
	rng     *rand.Rand
	faults  simulator.Faults
	release chan struct{} // closed when nothing is to be late any more
	books   map[string]*book
	stats   Stats
	effects []history.Movement
	seen    map[string]*seen // by tenant and key
	breaks  []string
}

// book is what one deployment of the API remembers.
type book struct {
	done  map[string]made   // by what a repeat is recognised by
	found map[string]answer // shipments, by key
}

type made struct {
	answer
	at time.Time
}

type answer struct {
	status int
	text   string
}

// seen is what came under one key.
type seen struct {
	first string // the first request
	sends int
	busy  bool // the last one was answered 429, and nothing was done
	doubt bool // the last one left its sender in doubt
}

// New returns an API without faults.
func New(c Config) *API {
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &API{c: c, books: map[string]*book{}, seen: map[string]*seen{}}
	a.SetFaults(simulator.Faults{})
	return a
}

// SetFaults sets what fails from now on. Of what fails before it is done, a third each is answered 500, 409
// and 429. Where no reply is to come, the connection is closed, at times after a part of a reply.
func (a *API) SetFaults(f simulator.Faults) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults, a.rng = f, rand.New(rand.NewPCG(f.Seed, 7))
	if f.LateEffect > 0 || a.release == nil {
		a.release = make(chan struct{})
	}
}

// ReleaseLate does what is late at once.
func (a *API) ReleaseLate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.release:
	default:
		close(a.release)
	}
}

// Settled waits until nothing is late any more.
func (a *API) Settled() { a.late.Wait() }

// Effects are what the API has made: the kind is the resource's, the reference its id.
func (a *API) Effects() []history.Movement {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.effects)
}

// Stats returns the counts.
func (a *API) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// Breaks are what no gateway may do: what it sent to the API, and what it answered, by the history of its
// callers, about requests that left it in doubt for good.
func (a *API) Breaks(h *history.History) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, told := slices.Clone(a.breaks), map[string]bool{}
	for _, o := range h.Operations() {
		in, out := o.Input.(history.Sent), o.Output.(history.Got)
		if is := a.seen[in.Key]; in.Path == Orders && out.Kind == history.Final && is != nil && is.doubt && !strings.HasPrefix(out.Reply, "503|") && !told[in.Key] {
			told[in.Key] = true
			all = append(all, fmt.Sprintf("%s left its sender in doubt, and was answered %s", in.Key, out.Reply))
		}
	}
	return all
}

// At is the deployment of the API with a name. Each one recognises what itself has done, and nothing else.
func (a *API) At(name string) http.Handler {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.books[name]
	if b == nil {
		b = &book{map[string]made{}, map[string]answer{}}
		a.books[name] = b
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it is not whole
		}
		if r.Method == http.MethodGet {
			a.look(w, r, b)
			return
		}
		a.serve(w, r, b, string(body))
	})
}

// fate is what becomes of a request.
type fate int

const (
	answered fate = iota
	failsBefore
	inUse
	tooMany
	failsAfter
	closes
	halfHead
	halfBody
	late
)

// arrives notes a request, and draws what becomes of it and how long that takes.
func (a *API) arrives(r *http.Request, body string) (f fate, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	chance := func(p float64) bool { return p > 0 && a.rng.Float64() < p }
	after = a.faults.Latency
	if a.faults.Jitter > 0 {
		after += time.Duration(a.rng.Int64N(int64(a.faults.Jitter)))
	}
	switch {
	case chance(a.faults.ErrorBefore):
		f = failsBefore + fate(a.rng.IntN(3))
	case chance(a.faults.LateEffect):
		f = late
	case chance(a.faults.DropReply):
		f = closes + fate(a.rng.IntN(3))
	case chance(a.faults.ErrorAfter):
		f = failsAfter
	}
	id, request := r.Header.Get("X-Tenant")+"/"+r.Header.Get("Idempotency-Key"), whole(r, body)
	is := a.seen[id]
	switch {
	case is == nil:
		is = &seen{first: request}
		a.seen[id] = is
	case is.first != request:
		a.breaks = append(a.breaks, fmt.Sprintf("%s was sent as\n%s\nand before that as\n%s", id, request, is.first))
	case r.URL.Path == Orders && !is.busy:
		a.breaks = append(a.breaks, fmt.Sprintf("%s was sent again, and nobody knows what became of it before", id))
	}
	is.sends++
	is.busy, is.doubt = f == tooMany, f != answered && f != tooMany
	if is.doubt {
		a.stats.Doubts++
	}
	return f, after
}

// whole is a request as each send of it must be, but for who forwarded it, and what a repeat is recognised by.
func whole(r *http.Request, body string) string {
	h := r.Header.Clone()
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || name == once {
			h.Del(name)
		}
	}
	var head strings.Builder
	_ = h.Write(&head) // a Builder refuses no write
	return r.Method + " " + r.RequestURI + "\n" + head.String() + body
}

func (a *API) serve(w http.ResponseWriter, r *http.Request, b *book, body string) {
	f, after := a.arrives(r, body)
	<-time.After(after) // whether or not somebody waits for the answer
	var got answer
	switch f {
	case failsBefore:
		got = answer{http.StatusInternalServerError, `{"error":"before"}`}
	case inUse:
		got = answer{http.StatusConflict, `{"error":"in use"}`}
	case tooMany:
		got = answer{http.StatusTooManyRequests, `{"error":"slow down"}`}
	case late:
		got = answer{http.StatusGatewayTimeout, `{"error":"not yet"}`}
		a.doLate(r, b, body)
	default:
		got = a.do(r, b, body)
	}
	if f == failsAfter {
		got = answer{http.StatusInternalServerError, `{"error":"after"}`}
	}
	if f == closes || f == halfHead || f == halfBody {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		if f == halfHead {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d OK\r\nContent-Le", got.status)
		}
		if f == halfBody {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s", got.status, len(got.text)+1, got.text)
		}
		_ = conn.Close()
		return
	}
	got.write(w)
}

func (got answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(got.status)
	_, _ = io.WriteString(w, got.text)
}

func (a *API) doLate(r *http.Request, b *book, body string) {
	a.mu.Lock()
	release, by := a.release, a.faults.LateBy
	a.mu.Unlock()
	r = r.Clone(r.Context())
	a.late.Go(func() {
		select {
		case <-time.After(by):
		case <-release:
		}
		a.do(r, b, body)
	})
}

// do does what a request asks for, unless it is recognised as a repeat.
func (a *API) do(r *http.Request, b *book, body string) answer {
	if strings.Contains(body, `"pm_card_stolen"`) {
		return answer{http.StatusPaymentRequired, `{"error":"card_declined","retry":"new_key"}`}
	}
	same := ""
	switch r.URL.Path {
	case Payouts:
		same = r.Header.Get("Idempotency-Key")
	case Bookings:
		same = r.Header.Get(once)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.c.Now()
	if is, ok := b.done[same]; ok && same != "" && now.Sub(is.at) <= a.c.Remembers {
		a.stats.Repeats++
		return is.answer
	}
	var asked struct{ Amount int64 }
	if err := json.Unmarshal([]byte(body), &asked); err != nil {
		return answer{http.StatusBadRequest, `{"error":"no JSON","retry":"new_key"}`}
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/"), "s")
	a.stats.Effects++
	id := fmt.Sprintf("%s_%d", kind, a.stats.Effects)
	a.effects = append(a.effects, history.Movement{Kind: kind, Reference: id, Amount: asked.Amount})
	got := answer{http.StatusCreated, fmt.Sprintf(`{"id":%q,"amount":%d}`, id, asked.Amount)}
	if same != "" {
		b.done[same] = made{got, now}
	}
	if r.URL.Path == Shipments {
		b.found[r.Header.Get("Idempotency-Key")] = answer{http.StatusOK, got.text}
	}
	return got
}

// look answers what became of a shipment.
func (a *API) look(w http.ResponseWriter, r *http.Request, b *book) {
	a.mu.Lock()
	after, fails := a.faults.Latency, a.rng.Float64() < a.faults.ErrorBefore
	a.mu.Unlock()
	<-time.After(after)
	if fails {
		answer{http.StatusServiceUnavailable, `{"error":"not now"}`}.write(w)
		return
	}
	a.mu.Lock()
	got, ok := b.found[strings.TrimPrefix(r.URL.Path, Shipments+"/")]
	if ok {
		a.stats.Found++
	} else {
		got = answer{http.StatusNotFound, `{"error":"not found"}`}
		a.stats.NotFound++
	}
	a.mu.Unlock()
	got.write(w)
}
