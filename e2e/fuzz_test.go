package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
// of its test tenant, and a charge of whichever of the two the input is.
const (
	fuzzedLive   = "sk_live"
	fuzzedTest   = "sk_test"
	fuzzedCharge = "ch_made"
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
		{"GET /v1/refunds?charge=" + fuzzedCharge + headers + "json", ``},
		{"HEAD /v1/charges/" + fuzzedCharge + headers + "json", ``},
		{"GET /v1/idempotency-keys/k%2F" + headers + "json", ``},
		{"GET /errors/card_declined\nAccept: text/html\nAccept-Language: de", ``},
		{"OPTIONS *", ``},
	} {
		f.Add(seed.head, []byte(seed.body))
	}
	w := startWorld(f, nil, func(c *node.ClusterConfig) {
		if c.Databases == nil {
			c.FS = vfs.NewMem()
		}
	})
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
		made := z.settled(us, spelled("POST /v1/charges\nAuthorization: Bearer "+names[1]+"\nIdempotency-Key: made\nContent-Type: application/json",
			[]byte(`{"amount":9,"currency":"usd","payment_method":"pm_card_visa"`+how+`}`)))
		names = append(names, fuzzedCharge, objectID(z.t, made))
	}
	in := strings.NewReplacer(names...)
	raw := spelled(in.Replace(head), []byte(in.Replace(string(body))))
	read := bytes.NewReader(raw)
	buffered := bufio.NewReader(read)
	r, err := http.ReadRequest(buffered)
	if err != nil || r.Proto != "HTTP/1.1" || r.Host != "a" || !sendable(r) {
		z.t.Skip()
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		z.t.Skip()
	}
	return raw[:len(raw)-read.Len()-buffered.Buffered()] // another request may follow
}

// sendable is false of what net/http itself answers.
func sendable(r *http.Request) bool {
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return r.Header.Get("Expect") == ""
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
	conn, err := net.Dial("tcp", strings.TrimPrefix(z.base(region), "http://"))
	require.NoError(z.t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(z.t, conn.SetDeadline(time.Now().Add(patience)))
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	require.NoError(z.t, err)
	through := z.document.Transport(socket{conn, raw}, func(r *http.Request) bool {
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

// socket sends a request as it is spelled.
type socket struct {
	net.Conn
	raw []byte
}

func (s socket) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := s.Write(s.raw); err != nil {
		return nil, err
	}
	from := bufio.NewReader(s)
	for {
		res, err := http.ReadResponse(from, r)
		if err != nil || res.StatusCode >= 200 {
			return res, err
		}
	}
}
