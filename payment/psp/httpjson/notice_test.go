package httpjson_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/psptest"
)

const succeeded = `{"id":"evt_1","type":"charge.succeeded","created":1772366400,"data":{"id":"psp_ch_1","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1}}`
const declined = `{"id":"evt_1","type":"refund.declined","created":1772366400,"data":{"status":"declined","reference":"re_1","amount":1250,"currency":"usd","error":{"class":"hard","code":"c","message":"m"}}}`

func FuzzNotices(f *testing.F) {
	psptest.FuzzNotifier(f, notifier(f, secret), "Webhook-Signature", succeeded, declined,
		`{"id":"evt_1","type":"payout.paid","created":1,"data":[]}`, `{}`, `[]`, ``, `{"id":"e","type":"charge.succeeded","data":null}`)
}

func TestRead(t *testing.T) {
	n := notifier(t, secret)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	got, err := n.Read([]byte(declined))
	if err != nil || got.Decline == nil || *got.Decline != (psp.Decline{Class: psp.Hard, Code: "c", Message: "m"}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	got.Decline = nil
	if want := (psp.Notice{ID: "evt_1", Movement: true, Kind: psp.KindRefund, Reference: "re_1", Outcome: psp.Declined, Amount: 1250, Currency: "usd", At: at}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, kind := range []string{"payout.made", "charge.disputed", "charge", ""} {
		got, err := n.Read([]byte(`{"id":"evt_1","type":"` + kind + `","created":1772366400,"data":["anything"]}`))
		if want := (psp.Notice{ID: "evt_1", At: at}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v; want an event without a movement", kind, got, err)
		}
	}
	for name, body := range map[string]string{
		"no id":         strings.Replace(succeeded, "evt_1", "", 1),
		"id with space": strings.Replace(succeeded, "evt_1", "evt 1", 1),
		"no reference":  strings.Replace(succeeded, `"ch_1"`, `""`, 1),
		"no amount":     strings.Replace(succeeded, "1250", "0", 1),
		"fraction":      strings.Replace(succeeded, "1250", "12.5", 1),
		"currency":      strings.Replace(succeeded, "usd", "dollar", 1),
		"no ref":        strings.Replace(succeeded, "psp_ch_1", "", 1),
		"other status":  strings.Replace(succeeded, `"status":"succeeded"`, `"status":"declined"`, 1),
		"no class":      strings.Replace(declined, "hard", "lunar", 1),
		"cut short":     succeeded[:100],
		"two":           succeeded + succeeded,
		"oversized":     strings.Replace(succeeded, "{", `{"pad":"`+strings.Repeat("x", psp.MaxNotice)+`",`, 1),
	} {
		if got, err := n.Read([]byte(body)); !errors.Is(err, psp.ErrMalformed) || !reflect.DeepEqual(got, psp.Notice{}) {
			t.Errorf("%s: got %+v, %v; want %v", name, got, err, psp.ErrMalformed)
		}
	}
}

func signedBy(t *testing.T, id, body string, at time.Time, names [3]string) http.Header {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := wh.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(names[0], id)
	h.Set(names[1], strconv.FormatInt(at.Unix(), 10))
	h.Set(names[2], signature)
	return h
}

func TestVerifyKeepsToTheTolerance(t *testing.T) {
	names := [3]string{"X-Event", "X-Time", "X-Sign"}
	p, err := httpjson.New(httpjson.Config{Name: "bank", BaseURL: "http://127.0.0.1:1", Notices: httpjson.Notices{
		Secret: secret, IDHeader: names[0], TimestampHeader: names[1], SignatureHeader: names[2], Tolerance: time.Minute,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]error{
		0: nil, time.Minute: nil, -time.Minute: nil,
		time.Minute + time.Second: psp.ErrStale, -time.Minute - time.Second: psp.ErrStale,
	} {
		if _, err := p.Verify(signedBy(t, "evt_1", succeeded, now.Add(-age), names), []byte(succeeded), now); !errors.Is(err, want) {
			t.Errorf("signed %s ago: got %v, want %v", age, err, want)
		}
	}
	if id, err := p.Verify(signedBy(t, "evt_1", succeeded, now, names), []byte(succeeded), now); id != "evt_1" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
	if _, err := p.Verify(signedBy(t, "evt\t1", succeeded, now, names), []byte(succeeded), now); !errors.Is(err, psp.ErrMalformed) {
		t.Errorf("an id with a tab: got %v, want %v", err, psp.ErrMalformed)
	}
	if _, err := notifier(t, "").Verify(signedBy(t, "evt_1", succeeded, now, names), []byte(succeeded), now); !errors.Is(err, psp.ErrUnchecked) {
		t.Errorf("without a secret: got %v, want %v", err, psp.ErrUnchecked)
	}
}

// Everything that can be configured is used, and nothing else is sent.
func TestConfigurationIsUsed(t *testing.T) {
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Dedupe")+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	p, err := httpjson.New(httpjson.Config{
		Name: "bank", BaseURL: srv.URL + "/api", KeyHeader: "X-Dedupe", Header: http.Header{"Authorization": {"Bearer b"}},
		Paths:        httpjson.Paths{Charges: "pay", Transfers: "/send", Refunds: "give/back", Lookup: "ask"},
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Charge(t.Context(), call)
	p.Transfer(t.Context(), call)
	p.Refund(t.Context(), call)
	p.Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
	want := "POST /api/pay k Bearer b,POST /api/send k Bearer b,POST /api/give/back k Bearer b,GET /api/ask  Bearer b"
	if got := strings.Join(requests, ","); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzAnswers(f *testing.F) {
	open := func(t testing.TB, url string) psp.Provider {
		return adapter(t, url, psp.Capabilities{Dedupe: psp.DedupeKey, Lookup: true, Captures: true})
	}
	psptest.FuzzAnswers(f, open, `{"id":"px_1","reference":"ch_1","status":"succeeded","amount":1250,"currency":"usd"}`,
		`{"id":"px_1","reference":"ch_1","status":"declined","decline":{"class":"hard","code":"stolen_card","message":"No."}}`, `{}`, `[]`, ``)
}
