package httpjson_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/psptest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for name, caps := range map[string]psp.Capabilities{
		"KeyAndParameters": {Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		"Key":              {Dedupe: psp.DedupeKey, Lookup: true},
		"None":             {Dedupe: psp.DedupeNone, Lookup: true, SettleWindow: time.Minute},
		"KeyNoLookup":      {Dedupe: psp.DedupeKey},
		"NoneNoLookup":     {Dedupe: psp.DedupeNone, SettleWindow: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			psptest.Exercise(t, func(t *testing.T) psptest.Harness { return harness(t, caps) })
		})
	}
}

const (
	secret      = "whsec_c2lnbmluZyBzZWNyZXQgb2YgYSB0ZXN0"
	otherSecret = "whsec_c2lnbmluZyBzZWNyZXQgb2YgYW5vdGhlcg=="
)

// harness puts the adapter before a simulator that can do no more than caps.
func harness(t *testing.T, caps psp.Capabilities) psptest.Harness {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{
		IgnoreParameters: caps.Dedupe == psp.DedupeKey,
		IgnoreKeys:       caps.Dedupe == psp.DedupeNone,
		NoLookup:         !caps.Lookup,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	h := psptest.Simulated(t, sim, adapter(t, srv.URL, caps), nil)
	h.Notices = func() <-chan psptest.Delivery {
		return psptest.SimulatedNotices(t, sim, simulator.NoticeTarget{Secret: secret})
	}
	h.Stranger, h.RefundsDisputed = notifier(t, otherSecret), true
	return h
}

func notifier(t testing.TB, secret string) *httpjson.Provider {
	t.Helper()
	p, err := httpjson.New(httpjson.Config{Name: "simulator", BaseURL: "http://127.0.0.1:1", Notices: httpjson.Notices{Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func adapter(t testing.TB, url string, caps psp.Capabilities) *httpjson.Provider {
	t.Helper()
	p, err := httpjson.New(httpjson.Config{Name: "simulator", BaseURL: url, Capabilities: caps, Notices: httpjson.Notices{Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

var call = psp.Call{Key: "k", Reference: "ch_1", Amount: 1250, Currency: "usd", Source: "pm_card_visa"}

// Without dedupe no key goes out, and two calls are two movements.
func TestNoneSendsNoKey(t *testing.T) {
	h := harness(t, psp.Capabilities{Dedupe: psp.DedupeNone})
	for range 2 {
		if r := h.Provider.Charge(t.Context(), call); r.Outcome != psp.Approved {
			t.Fatalf("got %+v", r)
		}
	}
	if n := h.Effects(psp.KindCharge, call.Reference); n != 2 {
		t.Errorf("money moved %d times, want 2", n)
	}
}

func TestKeyIsRequiredWhereItProtects(t *testing.T) {
	h := harness(t, psp.Capabilities{Dedupe: psp.DedupeKey})
	keyless := call
	keyless.Key = ""
	if r := h.Provider.Charge(t.Context(), keyless); r.Outcome != psp.Unknown || r.Err == nil {
		t.Errorf("got %+v, want unknown", r)
	}
	if n := h.Effects(psp.KindCharge, call.Reference); n != 0 {
		t.Errorf("money moved %d times, want 0", n)
	}
}

func TestReplies(t *testing.T) {
	const approval = `{"id":"psp_ch_1","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1}`
	refusal := func(class string) string {
		return `{"error":{"class":"` + class + `","code":"some_code","message":"Some words."}}`
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   psp.Outcome
		class  psp.Class
	}{
		"approval":                    {200, approval, psp.Approved, 0},
		"approval with more members":  {200, strings.Replace(approval, "{", `{"fee":3,`, 1), psp.Approved, 0},
		"approval of another amount":  {200, strings.Replace(approval, "1250", "1251", 1), psp.Unknown, 0},
		"approval in other money":     {200, strings.Replace(approval, "usd", "eur", 1), psp.Unknown, 0},
		"approval of another object":  {200, strings.Replace(approval, "ch_1\",\"amount", "ch_2\",\"amount", 1), psp.Unknown, 0},
		"approval without id":         {200, strings.Replace(approval, "psp_ch_1", "", 1), psp.Unknown, 0},
		"still pending":               {200, strings.Replace(approval, "succeeded", "pending", 1), psp.Unknown, 0},
		"cut short":                   {200, approval[:40], psp.Unknown, 0},
		"empty":                       {200, "", psp.Unknown, 0},
		"oversized":                   {200, strings.Replace(approval, "{", `{"pad":"`+strings.Repeat("x", 64<<10)+`",`, 1), psp.Unknown, 0},
		"created, not requested":      {201, approval, psp.Unknown, 0},
		"redirect":                    {307, "", psp.Unknown, 0},
		"soft":                        {402, refusal("soft"), psp.Declined, psp.Soft},
		"hard":                        {402, refusal("hard"), psp.Declined, psp.Hard},
		"invalid":                     {402, refusal("invalid"), psp.Declined, psp.Invalid},
		"decline of an unknown class": {402, refusal("lunar"), psp.Unknown, 0},
		"decline without error":       {402, `{}`, psp.Unknown, 0},
		"decline that is not JSON":    {402, `no`, psp.Unknown, 0},
		"key reuse":                   {409, refusal("key_reuse"), psp.Unknown, 0},
		"conflict":                    {409, refusal("invalid"), psp.Unknown, 0},
		"key reuse by another status": {400, refusal("key_reuse"), psp.Unknown, 0},
		"bad request":                 {400, refusal("invalid"), psp.Declined, psp.Invalid},
		"not found":                   {404, refusal("invalid"), psp.Declined, psp.Invalid},
		"unprocessable":               {422, refusal("invalid"), psp.Declined, psp.Invalid},
		"bad request, class unknown":  {400, refusal("lunar"), psp.Unknown, 0},
		"bad request, no class":       {400, refusal(""), psp.Unknown, 0},
		"not found, soft":             {404, refusal("soft"), psp.Unknown, 0},
		"not found, class of a miss":  {404, refusal("not_found"), psp.Unknown, 0},
		"unprocessable, hard":         {422, refusal("hard"), psp.Unknown, 0},
		"unprocessable, server":       {422, refusal("server"), psp.Unknown, 0},
		"not found by a proxy":        {404, `<html>`, psp.Unknown, 0},
		"not found without error":     {404, `{}`, psp.Unknown, 0},
		"unauthorized":                {401, refusal("invalid"), psp.Unknown, 0},
		"too many":                    {429, refusal("invalid"), psp.Unknown, 0},
		"server error":                {500, approval, psp.Unknown, 0},
		"unavailable":                 {503, refusal("server"), psp.Unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.Path != "/pay/v1/charges" {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			r := adapter(t, srv.URL+"/pay/", psp.Capabilities{Dedupe: psp.DedupeKey}).Charge(t.Context(), call)
			if r.Outcome != c.want {
				t.Fatalf("got %+v, want %s", r, c.want)
			}
			if reused := errors.Is(r.Err, psp.ErrKeyReused); reused != (name == "key reuse") {
				t.Errorf("the key is reused: %t, of %v", reused, r.Err)
			}
			switch r.Outcome {
			case psp.Approved:
				if r.ProviderRef != "psp_ch_1" {
					t.Errorf("got %+v", r)
				}
			case psp.Declined:
				if want := (psp.Decline{Class: c.class, Code: "some_code", Message: "Some words."}); *r.Decline != want {
					t.Errorf("got %+v, want %+v", *r.Decline, want)
				}
			case psp.Unknown:
				if r.Err == nil || strings.ContainsRune(r.Err.Error(), '\n') {
					t.Errorf("want one line of reason, got %v", r.Err)
				}
			}
		})
	}
}

func TestLookupReplies(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   psp.Found
	}{
		"approved":            {200, `{"id":"p","status":"succeeded","reference":"ch_1"}`, psp.FoundYes},
		"declined":            {200, `{"status":"declined","reference":"ch_1","error":{"class":"soft","code":"c"}}`, psp.FoundYes},
		"as it was asked for": {200, `{"id":"p","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd"}`, psp.FoundYes},
		"a part of it":        {200, `{"id":"p","status":"succeeded","reference":"ch_1","amount":500,"currency":"usd"}`, psp.FoundUnknown},
		"in another coin":     {200, `{"id":"p","status":"succeeded","reference":"ch_1","amount":1250,"currency":"jpy"}`, psp.FoundUnknown},
		"a part, declined":    {200, `{"status":"declined","reference":"ch_1","amount":500,"currency":"usd","error":{"class":"soft","code":"c"}}`, psp.FoundYes},
		"about another":       {200, `{"id":"p","status":"succeeded","reference":"ch_2"}`, psp.FoundUnknown},
		"pending":             {200, `{"id":"p","status":"pending","reference":"ch_1"}`, psp.FoundUnknown},
		"declined, no class":  {200, `{"status":"declined","reference":"ch_1"}`, psp.FoundUnknown},
		"provider's no":       {404, `{"error":{"class":"not_found","code":"not_found"}}`, psp.FoundNo},
		"proxy's no":          {404, `404 page not found`, psp.FoundUnknown},
		"other JSON no":       {404, `{"message":"no route"}`, psp.FoundUnknown},
		"unavailable":         {503, `{"error":{"class":"not_found"}}`, psp.FoundUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.String(); got != "/v1/lookup?kind=charge&reference=ch_1" {
					t.Errorf("asked %s", got)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer srv.Close()
			found, r := adapter(t, srv.URL, psp.Capabilities{Lookup: true}).Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: "ch_1", Amount: 1250, Currency: "usd"})
			if found != c.want {
				t.Fatalf("found %d, %+v; want %d", found, r, c.want)
			}
			if (found == psp.FoundYes) != (r.Outcome != psp.Unknown) {
				t.Errorf("found %d with outcome %s", found, r.Outcome)
			}
		})
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	gate := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gate }))
	defer srv.Close()
	defer close(gate)
	p := adapter(t, srv.URL, psp.Capabilities{Dedupe: psp.DedupeKey, Timeout: time.Millisecond})
	if r := p.Charge(t.Context(), call); r.Outcome != psp.Unknown || r.Err == nil {
		t.Errorf("got %+v, want unknown", r)
	}
}

// A kept-alive connection that dies under the second request is where net/http
// would send it again by itself.
func TestNeverSendsTwice(t *testing.T) {
	for name, dedupe := range map[string]psp.Dedupe{"with key": psp.DedupeKey, "without key": psp.DedupeNone} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var served sync.WaitGroup
			seen := make(chan int, 16) // the request's number on its connection
			served.Go(func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					served.Go(func() { answerOnce(conn, seen) })
				}
			})
			p := adapter(t, "http://"+ln.Addr().String(), psp.Capabilities{Dedupe: dedupe})
			if r := p.Charge(t.Context(), call); r.Outcome != psp.Approved {
				t.Fatalf("first call: %+v", r)
			}
			if r := p.Charge(t.Context(), call); r.Outcome != psp.Unknown {
				t.Errorf("second call: %+v, want unknown", r)
			}
			_ = p.Close()
			_ = ln.Close()
			served.Wait()
			close(seen)
			var got []int
			for n := range seen {
				got = append(got, n)
			}
			if len(got) != 2 || got[0] != 1 || got[1] != 2 {
				t.Errorf("requests by number on their connection: %v, want [1 2]", got)
			}
		})
	}
}

// answerOnce answers the first request on the connection and cuts it after
// reading the second.
func answerOnce(conn net.Conn, seen chan<- int) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := 1; n <= 2; n++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := in.Discard(int(req.ContentLength)); err != nil {
			return
		}
		seen <- n
		if n == 1 {
			const body = `{"id":"p","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd"}`
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]httpjson.Config{
		"no name":         {BaseURL: "http://127.0.0.1"},
		"upper case name": {Name: "Sim", BaseURL: "http://127.0.0.1"},
		"no URL":          {Name: "sim"},
		"relative URL":    {Name: "sim", BaseURL: "/v1"},
		"other scheme":    {Name: "sim", BaseURL: "ftp://host"},
		"query":           {Name: "sim", BaseURL: "http://host?a=b"},
		"time-out":        {Name: "sim", BaseURL: "http://host", Capabilities: psp.Capabilities{Timeout: -1}},
		"secret":          {Name: "sim", BaseURL: "http://host", Notices: httpjson.Notices{Secret: "whsec_%"}},
		"empty secret":    {Name: "sim", BaseURL: "http://host", Notices: httpjson.Notices{Secret: "whsec_"}},
		"tolerance":       {Name: "sim", BaseURL: "http://host", Notices: httpjson.Notices{Tolerance: -1}},
		"key header":      {Name: "sim", BaseURL: "http://host", KeyHeader: "X-Key", Header: http.Header{"X-Key": {"k"}}},
	} {
		if _, err := httpjson.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
