package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/internal/memory"
)

func row(id, key string, kind outbox.Kind, at int) outbox.Message {
	return outbox.Message{
		ID: id + "/x", Region: "r", Kind: kind, Tenant: "acme", Key: key,
		Payload: payload(id, "charge.succeeded"), CreatedAt: time.Unix(int64(at), 0),
	}
}

func worker(t testing.TB, q *memory.Queue, sinks map[outbox.Kind]relay.Sink) *outbox.Worker {
	t.Helper()
	// Days pass in these tests; looking twice a second would make them long.
	w, err := relay.NewWorker(relay.Config{Store: q, Regions: func() []string { return []string{"r"} }, Sinks: sinks, Poll: time.Minute})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// sink is a Sink that is a function.
type sink func(e relay.Event) outbox.Disposition

func (s sink) Deliver(_ context.Context, e relay.Event) outbox.Disposition { return s(e) }

func TestTheLogSaysWhatHappenedAndNoMore(t *testing.T) {
	var log bytes.Buffer
	q := memory.NewQueue()
	q.Put(row("evt_1", "k", outbox.KindLog, 1))
	w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindLog: relay.Log{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	require.Equal(t, 1, w.Round(t.Context()))
	require.Zero(t, q.Len())
	require.Contains(t, log.String(), "level=INFO msg=event id=evt_1 type=charge.succeeded object=ch_1 tenant=acme\n")
	require.NotContains(t, log.String(), "4200")
}

func TestARowThatHoldsNoEventIsParked(t *testing.T) {
	q := memory.NewQueue()
	for i, payload := range []string{"", "{", "[]", "{}", `{"id":"evt_other","type":"a","data":{"id":"b"}}`, `{"id":"evt_5","data":{"id":"b"}}`, `{"id":"evt_6","type":"a"}`} {
		m := row(fmt.Sprint("evt_", i), "k", outbox.KindLog, i)
		m.Payload = []byte(payload)
		q.Put(m)
	}
	w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindLog: relay.Log{Logger: slog.New(slog.DiscardHandler)}})
	for w.Round(t.Context()) > 0 { // each lets the next of its key through
	}
	for i := range 7 {
		m := q.Row(fmt.Sprint("evt_", i, "/x"))
		require.True(t, m.Parked)
		require.Contains(t, m.LastError, "holds no event")
	}
}

// A crash after the delivery and before the finish: the same event is told again
// under the same id, and that is what consumers are told to expect.
func TestADeliveryThatIsNotFinishedIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.NewQueue()
		q.Put(row("evt_1", "k", outbox.KindNATS, 1))
		var told []string
		w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindNATS: sink(func(e relay.Event) outbox.Disposition {
			told = append(told, e.ID+string(e.Payload))
			return outbox.Done()
		})})
		crashed, err := q.Take(t.Context(), "r", 1, time.Minute) // delivers, and dies
		require.NoError(t, err)
		told = append(told, "evt_1"+string(crashed[0].Payload))
		require.Zero(t, w.Round(t.Context()))
		time.Sleep(time.Minute)
		require.Equal(t, 1, w.Round(t.Context()))
		require.Len(t, told, 2)
		require.Equal(t, told[0], told[1])
		require.Zero(t, q.Len())
	})
}

func TestAKindWithoutASinkWaits(t *testing.T) {
	q := memory.NewQueue()
	q.Put(row("evt_1", "k", outbox.KindNATS, 1))
	w := worker(t, q, nil)
	require.Equal(t, 1, w.Round(t.Context()))
	require.False(t, q.Row("evt_1/x").Parked, "another node may have it")
	require.Contains(t, q.Row("evt_1/x").LastError, "event_nats")
}

// web answers deliveries without a network, by the event's id.
type web struct {
	mu     sync.Mutex
	status func(id string) int
	told   []string
	tries  map[string]int
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := r.Header.Get("webhook-id")
	w.tries[id]++
	status := w.status(id)
	if status < 300 {
		w.told = append(w.told, id)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

func webhooks(t testing.TB, status func(id string) int) (*relay.Webhooks, *web, *memory.Endpoints) {
	t.Helper()
	endpoints := memory.NewEndpoints(relay.Endpoint{Tenant: "acme", URL: "https://shop.example/hooks", Secrets: []string{relay.NewSecret()}})
	s, err := relay.NewWebhooks(relay.WebhooksConfig{Endpoints: endpoints})
	require.NoError(t, err)
	w := &web{status: status, tries: map[string]int{}}
	relay.Through(s, w)
	return s, w, endpoints
}

// A merchant is away for days: the endpoint is disabled, and everything that waits
// is parked with what to do, rather than running out of tries one by one.
func TestAnEndpointThatIsDownForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web, endpoints := webhooks(t, func(string) int { return http.StatusServiceUnavailable })
		q := memory.NewQueue()
		for i := range 50 {
			q.Put(row(fmt.Sprint("evt_", i), fmt.Sprint("k", i/2), outbox.KindWebhook, i))
		}
		w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindWebhook: s})
		w.Start()
		began := time.Now()
		time.Sleep(4 * 24 * time.Hour)
		require.Equal(t, 50, q.Len(), "after four days nothing is given up")
		for q.Len() > 0 {
			time.Sleep(time.Hour)
			require.Less(t, time.Since(began), 6*24*time.Hour)
		}
		w.Stop()
		e, _, err := endpoints.Endpoint(t.Context(), "acme")
		require.NoError(t, err)
		require.GreaterOrEqual(t, e.DisabledAt.Sub(e.FailingSince), relay.DisableAfter)
		tries := 0
		for i := range 50 {
			m := q.Row(fmt.Sprint("evt_", i, "/x"))
			require.True(t, m.Parked)
			require.Less(t, m.Attempts, uint32(relay.MaxAttempts))
			require.Contains(t, m.LastError, "homeward endpoint set acme")
			tries += web.tries[fmt.Sprint("evt_", i)]
		}
		require.Empty(t, web.told)
		require.Less(t, tries, 5*24*60+100, "about one probe a minute, however many events wait")
		require.Greater(t, tries, 24)
	})
}

// One event that the merchant always refuses waits and is parked in the end; only
// its own key waits with it, and the endpoint stays enabled.
func TestAnEventThatIsAlwaysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, web, endpoints := webhooks(t, func(id string) int {
			if id == "evt_poison" {
				return http.StatusUnprocessableEntity
			}
			return http.StatusOK
		})
		q := memory.NewQueue()
		q.Put(row("evt_poison", "poisoned", outbox.KindWebhook, 1))
		q.Put(row("evt_behind", "poisoned", outbox.KindWebhook, 2))
		w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindWebhook: s})
		w.Start()
		began := time.Now()
		for i := 0; !q.Row("evt_poison/x").Parked; i++ {
			id := fmt.Sprint("evt_", i)
			q.Put(row(id, id, outbox.KindWebhook, i))
			put := time.Now()
			for time.Sleep(5 * time.Minute); q.Row(id+"/x").ID != ""; time.Sleep(time.Minute) {
				// The one that is refused makes others wait for a probe now and then.
				require.Less(t, time.Since(put), time.Hour, "events of other keys are told")
			}
			require.Less(t, time.Since(began), 10*24*time.Hour)
		}
		require.Greater(t, time.Since(began), relay.DisableAfter)
		time.Sleep(5 * time.Minute)
		require.Zero(t, q.Len(), "what waited behind it goes on")
		w.Stop()
		require.Equal(t, relay.MaxAttempts, web.tries["evt_poison"])
		require.Equal(t, 1, web.tries["evt_behind"])
		e, _, err := endpoints.Endpoint(t.Context(), "acme")
		require.NoError(t, err)
		require.Zero(t, e.DisabledAt)
	})
}

// The test vector of the Standard Webhooks libraries.
func TestSignaturesAreThoseOfTheStandard(t *testing.T) {
	got, err := relay.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		relay.Event{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Payload: []byte(`{"test": 2432232314}`)}, time.Unix(1614265330, 0))
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
}

// A sink that says nothing of an event has not told it: that counts as a try, and the
// event comes again.
func TestASinkThatSaysNothingHasFailed(t *testing.T) {
	q := memory.NewQueue()
	q.Put(row("evt_1", "k", outbox.KindNATS, 1))
	w := worker(t, q, map[outbox.Kind]relay.Sink{outbox.KindNATS: sink(func(relay.Event) outbox.Disposition { return outbox.Disposition{} })})
	require.Equal(t, 1, w.Round(t.Context()))
	require.EqualValues(t, 1, q.Row("evt_1/x").Attempts)
	require.Contains(t, q.Row("evt_1/x").LastError, "does not say")
}
