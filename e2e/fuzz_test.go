package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpguts"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/contract"
	"github.com/homeward-io/homeward/internal/node"
)

// What an input names, in place of what differs from run to run: the API keys of the run's tenant and
// of its test tenant, and a charge of whichever of the two the input is; or the key of a request through a gateway.
const (
	fuzzedLive   = "sk_live"
	fuzzedTest   = "sk_test"
	fuzzedCharge = "ch_made"
	fuzzedKey    = "key_of_run"
)

// FuzzAPI sends a request with a body to one region, and again to another. Nothing that a merchant
// sends is an error of the node's, what succeeded is repeated byte for byte, and money moves once
// at most. head is method, target and header, without length and host; each run has tenants of its
// own, and a test tenant's charge waits for its capture.
func FuzzAPI(f *testing.F) {
	const (
		bearer  = "\nAuthorization: Bearer "
		and     = "\nIdempotency-Key: k\nContent-Type: application/"
		headers = bearer + fuzzedLive + and
		test    = bearer + fuzzedTest + and
		form    = headers + "x-www-form-urlencoded\nStripe-Version: 2026-08-26.dahlia"
		small   = `{"amount":1999,"currency":"usd","payment_method":"pm_card_visa"`
	)
	for _, seed := range []struct{ head, body string }{
		{"POST /v1/charges" + headers + "json", small + `}`},
		{"POST /v1/charges" + headers + "json; charset=utf-8", small + `,"order_id":"7","description":"\u00e9","metadata":{"a":"b"},"client_ts":1}`},
		{"POST /v1/charges" + headers + "json", small + `,"order_id":"\ud83d\ude00\u0001\\u0000","metadata":{"":"\u0000"}}`},
		{"POST /v1/charges" + headers + "json", small + `,"order_id":"\u0000"}`},
		{"GET /v1/charges?order_id=%00" + headers + "json", ``},
		{"POST /v1/charges" + test + "json", small + `,"capture_method":"manual","expires_at":"2099-01-01T00:00:00Z"}`},
		{"POST /v1/charges" + test + "json", strings.Replace(small, "visa", "3ds", 1) + `,"off_session":false,"return_url":"https://a.example/"}`},
		{"POST /v1/charges" + headers + "json", strings.Replace(small, "visa", "stolen", 1) + `}`},
		{"POST /v1/charges" + headers + "json", strings.Replace(small, "visa", "insufficient_funds", 1) + `}`},
		{"POST /v1/charges" + form, "amount=1999&currency=usd&payment_method=pm_card_visa&metadata[a]=b"},
		{"POST /v1/payment_intents" + form, "amount=1999&currency=usd&payment_method=pm_card_visa&confirm=true&expand[]=latest_charge"},
		{"POST /v1/transfers" + headers + "json", `{"amount":5e2,"currency":"jpy","destination":"acct_1","provider":"simulator"}`},
		{"POST /v1/refunds" + headers + "json", `{"charge":"` + fuzzedCharge + `","amount":1}`},
		{"POST /v1/charges/" + fuzzedCharge + "/capture" + test + "json", `{"amount":7}`},
		{"POST /v1/charges/" + fuzzedCharge + "/cancel" + test + "json", `{}`},
		{"POST /v1/idempotency-keys" + headers + "json", `{"count":2}`},
		{"POST /v1/idempotency-keys/k/cancel" + headers + "json", ``},
		{"POST /v1/webhooks/simulator" + headers + "json", `{}`},
		{"GET /v1/charges?order_id=7&limit=2&created[gte]=1" + headers + "json", ``},
		{"GET /v1/charges?order_id=&limit=" + headers + "json", ``},
		{"GET /v1/refunds?charge=" + fuzzedCharge + headers + "json", ``},
		{"HEAD /v1/charges/" + fuzzedCharge + headers + "json", ``},
		{"GET /v1/idempotency-keys/k%2F" + headers + "json", ``},
		{"GET /errors/card_declined\nAccept: text/html\nAccept-Language: de", ``},
		{"OPTIONS *", ``},
	} {
		f.Add(seed.head, []byte(seed.body))
	}
	w := startWorld(f, nil, inMemory)
	documented, err := readContract()
	require.NoError(f, err)
	runs := 0
	f.Fuzz(func(t *testing.T, head string, body []byte) {
		runs++
		z := &fuzzing{world: w, t: t, document: documented.Another(), run: fmt.Sprint("fuzz-", runs)}
		raw := z.request(head, body)
		before := w.judge.Stats()
		first := z.settled(us, raw)
		between := w.judge.Stats()
		second := z.settled(eu, raw)
		after := w.judge.Stats()

		said := fmt.Sprintf("%q\n%s\n%s", raw, first, second)
		mismatches, _ := z.document.Mismatches()
		require.Empty(t, mismatches, said)
		require.Zero(t, after.DuplicateEffects, said)
		require.Zero(t, after.KeyReuses, said)
		require.LessOrEqual(t, after.Effects-before.Effects, int64(1), said)
		if first.Status < 300 {
			require.Equal(t, between.Effects, after.Effects, said)
		}
		switch key := first.Header.Get("Idempotency-Key"); {
		case (first.Status == http.StatusOK || first.Status == http.StatusCreated) && key != "":
			require.Equal(t, first.Remembered(), second.Remembered(), said)
			z.found(head, first)
		case first.Problem.Retry == "never":
			require.Equal(t, first.Status, second.Status, said)
		}
	})
}

// inMemory has the embedded store sync to no disk, as each run takes some syncs.
func inMemory(c *node.ClusterConfig) {
	if c.Databases == nil {
		c.FS = vfs.NewMem()
	}
}

// fuzzing is one run.
type fuzzing struct {
	*world
	t        *testing.T
	document *contract.Checker
	run      string // the tenant's id
}

// request is what the input spells, if a server reads it as one.
func (z *fuzzing) request(head string, body []byte) []byte {
	names := []string{fuzzedLive, z.tenant(z.run)}
	how := ""
	if strings.Contains(head, fuzzedTest) {
		names, how = []string{fuzzedTest, z.tenant(z.run + "~test")}, `,"capture_method":"manual"`
	}
	if strings.Contains(head+string(body), fuzzedCharge) {
		charge := spelled("POST /v1/charges\nAuthorization: Bearer "+names[1]+"\nIdempotency-Key: made\nContent-Type: application/json",
			[]byte(`{"amount":9,"currency":"usd","payment_method":"pm_card_visa"`+how+`}`))
		var made *answer.Answer
		until(z.t, "the charge is made", func() bool { // on a busy machine its outcome may be unknown for a while
			made = z.settled(us, charge)
			return made.Status < 300
		})
		names = append(names, fuzzedCharge, objectID(z.t, made))
	}
	in := strings.NewReplacer(names...)
	raw, _ := oneRequest(z.t, spelled(in.Replace(head), []byte(in.Replace(string(body)))))
	return raw
}

// oneRequest is the first request in raw. It skips what is none, and what net/http itself answers.
func oneRequest(t *testing.T, raw []byte) ([]byte, *http.Request) {
	read := bytes.NewReader(raw)
	buffered := bufio.NewReader(read)
	r, err := http.ReadRequest(buffered)
	if err != nil || r.Proto != "HTTP/1.1" || r.Host != "a" || r.Header.Get("Expect") != "" {
		t.Skip()
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			t.Skip()
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Skip()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return raw[:len(raw)-read.Len()-buffered.Buffered()], r
}

// tenant makes one, with an API key.
func (z *fuzzing) tenant(id string) (apiKey string) {
	apiKey = "sk_" + id
	require.NoError(z.t, z.cluster.DB.PutTenant(z.t.Context(), claim.Tenant{ID: id, Registrar: us}, apiKey))
	return apiKey
}

// spelled is a request with its length.
func spelled(head string, body []byte) []byte {
	line, header, _ := strings.Cut(head, "\n")
	return fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: a\r\n%s\r\nContent-Length: %d\r\n\r\n%s", line, strings.ReplaceAll(header, "\n", "\r\n"), len(body), body)
}

// found reads what was made at its Location, and lists a charge by its order. The books of a test
// tenant, and of what waits, are not asked.
func (z *fuzzing) found(head string, made *answer.Answer) {
	at := made.Header.Get("Location")
	if at == "" || made.Status != http.StatusCreated || strings.Contains(head, fuzzedTest) {
		return
	}
	ask := func(target string) *answer.Answer {
		return z.settled(asia, spelled("GET "+target+"\nAuthorization: Bearer sk_"+z.run, nil))
	}
	var o struct {
		ID      string
		OrderID string `json:"order_id"`
	}
	require.NoError(z.t, json.Unmarshal(made.Body, &o))
	read := ask(at)
	require.Equal(z.t, http.StatusOK, read.Status, "%s\n%s", made, read)
	require.Equal(z.t, o.ID, objectID(z.t, read))
	if o.OrderID != "" && strings.HasPrefix(at, "/v1/charges/") {
		list := ask("/v1/charges?order_id=" + url.QueryEscape(o.OrderID))
		require.Contains(z.t, string(list.Body), `"id":"`+o.ID+`"`, "%s\n%s", made, list)
	}
}

// settled is the answer once the node need not be asked again, or unknown if that is the provider's.
func (z *fuzzing) settled(region string, raw []byte) (a *answer.Answer) {
	until(z.t, "there is an answer", func() bool {
		a = z.exchange(region, raw)
		return a.Status != http.StatusServiceUnavailable || a.Problem.Error == "outcome_unknown"
	})
	require.True(z.t, a.Status < 500 || a.Problem.Error == "outcome_unknown", "%q\n%s", raw, a)
	return a
}

// exchange sends it over a connection of its own.
func (z *fuzzing) exchange(region string, raw []byte) *answer.Answer {
	_, r := oneRequest(z.t, raw)
	through := z.document.Transport(spelling{z.t, z.base(region), raw}, func(r *http.Request) bool {
		return r.Method == http.MethodHead || !strings.HasPrefix(r.URL.Path, "/v1/")
	})
	res, err := through.RoundTrip(r)
	require.NoError(z.t, err, "%q", raw)
	a := &answer.Answer{Status: res.StatusCode, Header: res.Header}
	a.Body, err = io.ReadAll(res.Body)
	require.NoError(z.t, err, "%q", raw)
	if r.Method != http.MethodHead && res.Header.Get("Content-Type") == "application/problem+json" {
		require.NoError(z.t, json.Unmarshal(a.Body, &a.Problem))
	}
	return a
}

// spelling is a request as it is sent.
type spelling struct {
	t    *testing.T
	base string
	raw  []byte
}

// RoundTrip sends it, and reads the answer to r.
func (s spelling) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(s.raw); err != nil {
		return nil, err
	}
	return lastResponse(bufio.NewReader(conn), r)
}

// lastResponse follows the interim ones.
func lastResponse(from *bufio.Reader, r *http.Request) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(from, r)
		if err != nil || res.StatusCode >= 200 {
			return res, err
		}
	}
}

// FuzzGateway sends a guarded request to one region and again to another, and its upstream answers
// with a reply that may be none. The upstream gets it once, unless it said that it did nothing. A
// whole reply is what both read, byte for byte, and what is in doubt stays so.
func FuzzGateway(f *testing.F) {
	const key = "\nIdempotency-Key: " + fuzzedKey
	for _, seed := range []struct{ head, body, reply string }{
		{"POST /orders" + key + "\nContent-Type: application/json", `{"a":1}`, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /orders/1\r\nContent-Length: 7\r\n\r\n{\"n\":1}"},
		{"PATCH /orders/7?x=%2F" + key + "\nContent-Type: application/x-www-form-urlencoded", `a[]=1&a[]=2`, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\n\r\n"},
		{"POST /" + key, ``, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n"},
		{"POST /" + key + "\nAccept-Encoding: gzip", `x`, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nVary: Origin\r\nContent-Length: 2\r\n\r\n\x1f\x8b"},
		{"POST /" + key, `x`, "HTTP/1.0 302 Found\r\nLocation: //b/\r\nCache-Control: no-store\r\nSet-Cookie: a=b\r\n\r\nto the end"},
		{"POST /" + key, `x`, "HTTP/1.1 422 \r\nContent-Length: 3\r\n\r\n{}\n"},
		{"POST /" + key, `x`, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"},
		{"POST /" + key, `x`, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"},
		{"POST /" + key, `x`, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"},
		{"POST /" + key, `x`, ""},
		{"POST /" + key + "\nConnection: keep-alive, Upgrade\nUpgrade: websocket", `x`, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
	} {
		f.Add(seed.head, []byte(seed.body), []byte(seed.reply))
	}
	u := newScripted(f)
	w := startGateway(f, u.URL, func(c *node.ClusterConfig) {
		inMemory(c)
		c.Policy.BackoffMin, c.Policy.BackoffMax = time.Hour, time.Hour // to look again at what is in doubt takes time from the next runs
		c.Policy.WaitPoll, c.Policy.WaitMax = 10*time.Millisecond, 10*time.Millisecond
	})
	runs := 0
	f.Fuzz(func(t *testing.T, head string, body, script []byte) {
		runs++
		named := fmt.Sprint("fuzz-", runs)
		request, r := oneRequest(t, spelled(strings.ReplaceAll(head, fuzzedKey, named), body))
		if (r.Method != http.MethodPost && r.Method != http.MethodPatch) || !slices.Equal(r.Header["Idempotency-Key"], []string{named}) ||
			strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") || strings.HasPrefix(r.URL.Path, "/_homeward/") {
			t.Skip() // it is not guarded
		}
		u.say(script)
		sent := func(region string) *reply {
			res, err := spelling{t, w.bases[region], request}.RoundTrip(r)
			require.NoError(t, err)
			got, err := replyOf(res)
			require.NoError(t, err)
			return got
		}
		first, second := sent(us), sent(eu)
		got := u.got()
		said := fmt.Sprintf("%q\n%q\n%v\n%v", request, script, first, second)
		switch first.status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests: // the upstream did nothing
			require.LessOrEqual(t, got, 2, said)
			return
		}
		require.LessOrEqual(t, got, 1, said)
		require.Equal(t, first.status, second.status, said)
		if first.status >= 500 {
			code, _ := first.code()
			require.Equal(t, "outcome_unknown", code, said)
			return
		}
		require.Equal(t, first.body, second.body, said)
		kept := func(h http.Header) http.Header {
			h = h.Clone()
			maps.DeleteFunc(h, func(name string, _ []string) bool {
				return name == "Date" || name == "Traceparent" || strings.HasPrefix(name, "Idempoten") || strings.HasPrefix(name, "Homeward-")
			})
			return h
		}
		require.Equal(t, kept(first.header), kept(second.header), said)
		if got == 1 && first.status < 400 {
			res, err := lastResponse(bufio.NewReader(bytes.NewReader(script)), r)
			require.NoError(t, err)
			meant, err := replyOf(res)
			require.NoError(t, err)
			require.Equal(t, meant.status, first.status, said)
			require.Equal(t, meant.body, first.body, said)
			for _, name := range []string{"Cache-Control", "Content-Type", "Etag", "Link", "Location", "Retry-After", "Vary"} {
				require.Equal(t, meant.header[name], first.header[name], said)
			}
		}
	})
}

// scripted is an upstream that answers what it is told to, and hangs up.
type scripted struct {
	*httptest.Server
	mu   sync.Mutex
	text []byte
	n    int // requests since the last text was set
}

func newScripted(f *testing.F) *scripted {
	u := &scripted{}
	u.Server = httptest.NewServer(u)
	f.Cleanup(u.Close)
	return u
}

func (u *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		panic(http.ErrAbortHandler) // it hangs up
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = conn.Write(u.text)
	_ = conn.Close()
}

func (u *scripted) say(text []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.text, u.n = text, 0
}

func (u *scripted) got() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}
