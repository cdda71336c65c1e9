package relay_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/internal/memory"
)

func failed(d outbox.Disposition) bool { return strings.HasPrefix(d.String(), "Failed") }
func parked(d outbox.Disposition) bool { return strings.HasPrefix(d.String(), "Parked") }
func later(d outbox.Disposition) bool {
	pause, ok := d.Delay()
	return ok && pause > 0
}

func payload(id, eventType string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":%q,"created":1,"data":{"id":"ch_1","amount":4200}}`, id, eventType)
}

func event(id string) relay.Event {
	return relay.Event{ID: id, Type: "charge.succeeded", Object: "ch_1", Tenant: "acme", Payload: payload(id, "charge.succeeded")}
}

// merchant is an HTTPS server at a loopback address, and the endpoint that leads to
// it.
type merchant struct {
	*httptest.Server
	endpoints *memory.Endpoints
	secrets   []string
	calls     atomic.Int32
}

func newMerchant(t testing.TB, answer http.HandlerFunc) *merchant {
	t.Helper()
	m := &merchant{secrets: []string{relay.NewSecret(), relay.NewSecret()}}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		answer(w, r)
	}))
	m.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(m.Close)
	m.endpoints = memory.NewEndpoints(relay.Endpoint{Tenant: "acme", URL: m.URL + "/hooks?token=hush", Secrets: m.secrets})
	return m
}

func (m *merchant) endpoint(t testing.TB) relay.Endpoint {
	t.Helper()
	e, _, err := m.endpoints.Endpoint(t.Context(), "acme")
	require.NoError(t, err)
	return e
}

func (m *merchant) sink(t testing.TB, adjust ...func(*relay.WebhooksConfig)) *relay.Webhooks {
	t.Helper()
	c := relay.WebhooksConfig{Endpoints: m.endpoints, AllowPrivate: true, RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(m.Certificate())
	for _, a := range adjust {
		a(&c)
	}
	w, err := relay.NewWebhooks(c)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestADeliveryIsSignedWithEachSecret(t *testing.T) {
	var got http.Header
	var body []byte
	m := newMerchant(t, func(w http.ResponseWriter, r *http.Request) {
		got, body = r.Header, nil
		body, _ = io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/hooks" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	w := m.sink(t)
	for range 2 { // repeated, it has the same id and the same bytes
		require.Equal(t, outbox.Done(), w.Deliver(t.Context(), event("evt_1")))
		require.Equal(t, payload("evt_1", "charge.succeeded"), body)
		require.Equal(t, "evt_1", got.Get("webhook-id"))
		require.Equal(t, "application/json", got.Get("Content-Type"))
		for _, secret := range m.secrets {
			verifier, err := standardwebhooks.NewWebhook(secret)
			require.NoError(t, err)
			require.NoError(t, verifier.Verify(body, got))
			require.Error(t, verifier.Verify(append(body, ' '), got))
		}
		stranger, err := standardwebhooks.NewWebhook(relay.NewSecret())
		require.NoError(t, err)
		require.Error(t, stranger.Verify(body, got))
	}
	require.Zero(t, m.endpoints.Notes, "a success that changes nothing is not written")
}

// What the clients verify in sdk/vectors.json is what a delivery has.
func TestDeliveriesAreSignedAsTheClientsVerify(t *testing.T) {
	raw, err := os.ReadFile("../../sdk/vectors.json")
	require.NoError(t, err)
	var vectors struct {
		Webhooks []struct {
			Name, Body, Refused string
			Headers             map[string]string
			Secrets             []string
		}
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	compared := 0
	for _, v := range vectors.Webhooks {
		at, err := strconv.ParseInt(v.Headers["webhook-timestamp"], 10, 64)
		if v.Refused != "" || err != nil || len(v.Secrets) != 1 || strings.Contains(v.Headers["webhook-signature"], " ") {
			continue
		}
		signature, err := relay.Sign(v.Secrets[0], relay.Event{ID: v.Headers["webhook-id"], Payload: []byte(v.Body)}, time.Unix(at, 0))
		require.NoError(t, err)
		require.Equal(t, v.Headers["webhook-signature"], signature, v.Name)
		compared++
	}
	require.NotZero(t, compared)
}

func TestATenantWithoutAnEndpointIsDone(t *testing.T) {
	w, err := relay.NewWebhooks(relay.WebhooksConfig{Endpoints: memory.NewEndpoints()})
	require.NoError(t, err)
	require.Equal(t, outbox.Done(), w.Deliver(t.Context(), event("evt_1")))
}

func TestAStoreThatDoesNotAnswerCostsNoTry(t *testing.T) {
	m := newMerchant(t, answer(200))
	m.endpoints.Err = errors.New("away")
	var log bytes.Buffer
	w := m.sink(t, func(c *relay.WebhooksConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	o := w.Deliver(t.Context(), event("evt_1"))
	require.True(t, later(o))
	require.Contains(t, log.String(), "away")
	require.Zero(t, m.calls.Load())
}

func TestWhatIsNoSuccessIsTriedAgain(t *testing.T) {
	for status, says := range map[int]string{
		http.StatusInternalServerError: "answered 500 Internal Server Error",
		http.StatusBadRequest:          "answered 400 Bad Request",
		http.StatusTemporaryRedirect:   "redirects are not followed",
		299 + 1:                        "redirects",
		599:                            "answered 599",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			m := newMerchant(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			})
			o := m.sink(t).Deliver(t.Context(), event("evt_1"))
			require.True(t, failed(o))
			require.Contains(t, o.String(), says)
			require.EqualValues(t, 1, m.calls.Load())
			require.NotZero(t, m.endpoint(t).FailingSince)
			require.Zero(t, m.endpoint(t).DisabledAt)
		})
	}
}

func TestASuccessEndsTheFailing(t *testing.T) {
	status := http.StatusServiceUnavailable
	m := newMerchant(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	w := m.sink(t)
	require.True(t, failed(w.Deliver(t.Context(), event("evt_1"))))
	status = http.StatusNoContent
	require.Equal(t, outbox.Done(), w.Deliver(t.Context(), event("evt_1")))
	require.Zero(t, m.endpoint(t).FailingSince)
}

// 410 is the merchant's own word that nobody is there any more.
func TestGoneDisablesAtOnce(t *testing.T) {
	m := newMerchant(t, answer(http.StatusGone))
	var log bytes.Buffer
	w := m.sink(t, func(c *relay.WebhooksConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	o := w.Deliver(t.Context(), event("evt_1"))
	require.True(t, parked(o))
	for _, says := range []string{"410 Gone", "homeward endpoint set acme", "homeward outbox retry"} {
		require.Contains(t, o.String(), says)
	}
	require.NotZero(t, m.endpoint(t).DisabledAt)
	require.Contains(t, log.String(), "level=ERROR")

	o = w.Deliver(t.Context(), event("evt_2"))
	require.True(t, parked(o))
	require.EqualValues(t, 1, m.calls.Load(), "nothing is sent to a disabled endpoint")

	require.NoError(t, m.endpoints.PutEndpoint(t.Context(), m.endpoint(t), m.endpoint(t)))
	w.Deliver(t.Context(), event("evt_2"))
	require.EqualValues(t, 2, m.calls.Load(), "set again, it is used again")
}

func TestAnEndpointThatFailsTooLongIsDisabled(t *testing.T) {
	m := newMerchant(t, answer(http.StatusBadGateway))
	w := m.sink(t, func(c *relay.WebhooksConfig) { c.DisableAfter = time.Nanosecond })
	require.True(t, failed(w.Deliver(t.Context(), event("evt_1"))))
	o := w.Deliver(t.Context(), event("evt_1"))
	require.True(t, parked(o))
	require.Contains(t, o.String(), "502 Bad Gateway")
}

func TestAnEndpointThatChangesUnderADelivery(t *testing.T) {
	var m *merchant
	m = newMerchant(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = m.endpoints.RemoveEndpoint(context.Background(), "acme")
		w.WriteHeader(http.StatusInternalServerError)
	})
	w := m.sink(t)
	o := w.Deliver(t.Context(), event("evt_1"))
	require.True(t, failed(o))
	require.Contains(t, o.String(), "changed or removed")
	require.Equal(t, outbox.Done(), w.Deliver(t.Context(), event("evt_1")))
}

// held is a handler that keeps its callers until release.
func held(t testing.TB) (h http.HandlerFunc, arrived chan struct{}, release func()) {
	arrived = make(chan struct{}, 1000)
	free := make(chan struct{})
	var once atomic.Bool
	release = func() {
		if once.CompareAndSwap(false, true) {
			close(free)
		}
	}
	t.Cleanup(release)
	return func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-free:
		case <-r.Context().Done():
		}
	}, arrived, release
}

func TestAnAnswerIsNotWaitedForForever(t *testing.T) {
	h, _, release := held(t)
	m := newMerchant(t, h)
	defer release()
	o := m.sink(t, func(c *relay.WebhooksConfig) { c.Timeout = 50 * time.Millisecond }).Deliver(t.Context(), event("evt_1"))
	require.True(t, failed(o))
	require.Contains(t, o.String(), "did not answer within 50ms")
}

// A body without end is cut off, and does not turn a success into a failure.
func TestAnAnswersBodyIsBounded(t *testing.T) {
	written := make(chan int64, 1)
	m := newMerchant(t, func(w http.ResponseWriter, r *http.Request) {
		var n int64
		for chunk := make([]byte, 64<<10); r.Context().Err() == nil; {
			k, err := w.Write(chunk)
			n += int64(k)
			if err != nil {
				break
			}
		}
		written <- n
	})
	require.Equal(t, outbox.Done(), m.sink(t).Deliver(t.Context(), event("evt_1")))
	require.Less(t, <-written, int64(64<<20))
}

// One slow endpoint has its few deliveries in hand; its other events wait outside
// the worker, and other tenants' go on.
func TestASlowEndpointKeepsFewSlots(t *testing.T) {
	h, arrived, release := held(t)
	slow := newMerchant(t, h)
	defer release()
	quick := newMerchant(t, answer(http.StatusOK))
	require.NoError(t, slow.endpoints.PutEndpoint(t.Context(), relay.Endpoint{}, relay.Endpoint{Tenant: "globex", URL: quick.URL, Secrets: quick.secrets}))
	w := slow.sink(t, func(c *relay.WebhooksConfig) { c.PerEndpoint = 2; c.RootCAs.AddCert(quick.Certificate()) })
	outcomes := make(chan outbox.Disposition, 2)
	for i := range 2 {
		go func() { outcomes <- w.Deliver(context.Background(), event(fmt.Sprint("evt_", i))) }()
	}
	<-arrived
	<-arrived
	for i := range 20 {
		require.True(t, later(w.Deliver(t.Context(), event(fmt.Sprint("evt_more_", i)))))
	}
	other := event("evt_other")
	other.Tenant = "globex"
	require.Equal(t, outbox.Done(), w.Deliver(t.Context(), other))
	release()
	require.Equal(t, outbox.Done(), <-outcomes)
	require.Equal(t, outbox.Done(), <-outcomes)
	require.EqualValues(t, 2, slow.calls.Load())
}

// A merchant must not make this node call what only this node can reach.
func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	m := newMerchant(t, answer(http.StatusOK))
	w := m.sink(t, func(c *relay.WebhooksConfig) { c.AllowPrivate = false })
	_, port, err := net.SplitHostPort(m.Listener.Addr().String())
	require.NoError(t, err)
	for i, host := range []string{
		"127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "0.0.0.0", "[::]", "10.0.0.1", "172.16.0.1",
		"192.168.1.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255", "198.18.0.1",
	} {
		tenant := fmt.Sprint("t", i) // each with a gate of its own
		require.NoError(t, m.endpoints.PutEndpoint(t.Context(), relay.Endpoint{}, relay.Endpoint{Tenant: tenant, URL: "https://" + host + ":" + port + "/x", Secrets: m.secrets}))
		e := event("evt_1")
		e.Tenant = tenant
		o := w.Deliver(t.Context(), e)
		require.True(t, failed(o), host)
		require.Contains(t, o.String(), "not public", host)
	}
	require.Zero(t, m.calls.Load())
}

// Where clouds hand out credentials nobody delivers, whatever the settings allow.
func TestMetadataIsRefusedAlways(t *testing.T) {
	m := newMerchant(t, answer(http.StatusOK))
	for _, private := range []bool{false, true} {
		w := m.sink(t, func(c *relay.WebhooksConfig) { c.AllowPrivate, c.Timeout = private, 2*time.Second })
		for i, host := range []string{"169.254.169.254", "168.63.129.16", "[::ffff:168.63.129.16]", "[fd00:ec2::254]", "100.100.100.200", "[fe80::a9fe:a9fe]"} {
			e := event("evt_1")
			e.Tenant = fmt.Sprint("t", private, i)
			require.NoError(t, m.endpoints.PutEndpoint(t.Context(), relay.Endpoint{}, relay.Endpoint{Tenant: e.Tenant, URL: "https://" + host + "/x", Secrets: m.secrets}))
			o := w.Deliver(t.Context(), e)
			require.True(t, failed(o), host)
			require.Contains(t, o.String(), "not public", host)
		}
	}
}

func TestHTTPIsRefusedUnlessAllowed(t *testing.T) {
	m := newMerchant(t, answer(http.StatusOK))
	open := httptest.NewServer(answer(http.StatusOK))
	defer open.Close()
	require.NoError(t, m.endpoints.PutEndpoint(t.Context(), m.endpoint(t), relay.Endpoint{Tenant: "acme", URL: open.URL, Secrets: m.secrets}))
	o := m.sink(t).Deliver(t.Context(), event("evt_1"))
	require.True(t, failed(o))
	require.Contains(t, o.String(), "write https://")
	require.Equal(t, outbox.Done(), m.sink(t, func(c *relay.WebhooksConfig) { c.AllowHTTP = true }).Deliver(t.Context(), event("evt_1")))
}

// What is stored about a failure holds neither the URL, whose query may be a
// secret, nor the signing secrets.
func TestReasonsHoldNoSecrets(t *testing.T) {
	m := newMerchant(t, answer(http.StatusOK))
	url := m.URL
	m.Close()
	for _, e := range []relay.Endpoint{
		{URL: url + "/hooks?token=hush", Secrets: m.secrets},
		{URL: "https://user:hush@shop.example/", Secrets: m.secrets},
		{URL: "https://no such host/hush", Secrets: m.secrets},
		{URL: "https://shop.example/", Secrets: []string{"whsec_hush!"}},
	} {
		e.Tenant = "acme"
		require.NoError(t, m.endpoints.PutEndpoint(t.Context(), m.endpoint(t), e))
		o := m.sink(t).Deliver(t.Context(), event("evt_1"))
		require.True(t, failed(o))
		require.NotEqual(t, "Failed", o.String())
		require.NotContains(t, o.String(), "hush")
		require.NotContains(t, o.String(), "\n")
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	good := relay.Endpoint{URL: "https://shop.example/hooks", Secrets: []string{relay.NewSecret()}}
	require.NoError(t, good.Check(false))
	for url, says := range map[string]string{
		"":                                       "not a URL",
		"shop.example":                           "not a URL",
		"https://":                               "not a URL",
		"https://:443/":                          "not a URL",
		"ftp://shop.example":                     "scheme",
		"http://shop.example":                    "https://",
		"https://a:b@shop.example":               "password",
		"https://shop.example/#a":                "fragment",
		"https://[fe80::1%25eth0]/":              "of one machine",
		"https://shop.example/\n":                "not a URL",
		"https://a/" + strings.Repeat("x", 3000): "not a URL",
	} {
		e := good
		e.URL = url
		require.ErrorContains(t, e.Check(false), says, url)
	}
	for _, secrets := range [][]string{nil, {"x"}, {"whsec_"}, {"whsec_AAAA"}, {good.Secrets[0], good.Secrets[0], good.Secrets[0]}, {strings.TrimPrefix(good.Secrets[0], "whsec_")}} {
		e := good
		e.Secrets = secrets
		require.Error(t, e.Check(false))
	}
	one, other := relay.NewSecret(), relay.NewSecret()
	require.NotEqual(t, one, other)
}

func TestWebhooksRefuseSettingsThatCannotWork(t *testing.T) {
	for _, c := range []relay.WebhooksConfig{
		{},
		{Endpoints: memory.NewEndpoints(), Timeout: time.Hour},
		{Endpoints: memory.NewEndpoints(), Timeout: -1},
		{Endpoints: memory.NewEndpoints(), PerEndpoint: 1000},
		{Endpoints: memory.NewEndpoints(), DisableAfter: -1},
	} {
		_, err := relay.NewWebhooks(c)
		require.Error(t, err)
	}
}
