package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
)

// webhookEvents has events delivered to merchants by plain HTTP on this machine.
func webhookEvents() node.EventsSettings {
	e := node.DefaultEvents()
	e.Webhooks.On, e.Webhooks.AllowHTTP, e.Webhooks.AllowPrivate = true, true, true
	return e
}

// putEndpoints sets url as the endpoint of both tenants, unless it is "".
func putEndpoints(ctx context.Context, cluster *node.Cluster, b backend, url string) error {
	if url == "" {
		return nil
	}
	for _, tenant := range []string{"acme", "globex"} {
		e := relay.Endpoint{Tenant: tenant + b.Tenants, URL: url, Secrets: []string{eventSecret}}
		was, _, err := cluster.DB.Endpoint(ctx, e.Tenant) // of the cluster before it crashed
		if err == nil {
			err = cluster.DB.PutEndpoint(ctx, was, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delivery is one event as a merchant's server got it.
type delivery struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		ID   string `json:"id"`
		Code string `json:"code"`
	} `json:"data"`
	body string
}

// shop is a merchant's server.
type shop struct {
	url     string
	mu      sync.Mutex
	closed  bool
	refused int
	all     []delivery // each delivery that was taken, repeats included
	wrong   []string
}

func newShop(t *testing.T) *shop {
	verify, err := standardwebhooks.NewWebhook(eventSecret)
	require.NoError(t, err)
	s, document := &shop{}, newContract(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			s.refused++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		e := delivery{body: string(body)}
		if err := json.Unmarshal(body, &e); err != nil || verify.Verify(body, r.Header) != nil || r.Header.Get("webhook-id") != e.ID {
			s.wrong = append(s.wrong, string(body))
		}
		if err := document.Event(body); err != nil {
			s.wrong = append(s.wrong, err.Error())
		}
		s.all = append(s.all, e)
	}))
	s.url = server.URL
	t.Cleanup(func() {
		server.Close()
		require.Empty(t, s.wrong, "forged, unreadable, with another id than its header's, or not as the OpenAPI document has events")
	})
	return s
}

func (s *shop) shut(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = closed
}

// about are the events of an object, each once, in the order in which they came
// first. A repeat must have the same bytes.
func (s *shop) about(t testing.TB, object string) (events []delivery) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Data.ID != object {
			continue
		}
		i := slices.IndexFunc(events, func(o delivery) bool { return o.ID == e.ID })
		if i < 0 {
			events = append(events, e)
			continue
		}
		require.Equal(t, events[i].body, e.body, "the same event")
	}
	return events
}

func (s *shop) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// objects are those that any event was about.
func (s *shop) objects() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, e := range s.all {
		all[e.Data.ID] = true
	}
	return all
}

// TestExpiryCrashPoints kills the process around the step that closes a charge which
// was declined for now and then not paid in time.
func TestExpiryCrashPoints(t *testing.T) {
	t.Parallel() // its processes mostly wait for a lease to lapse
	for i, die := range []point{expiryTaken, expiryDecided, expirySettled, expiryFinish, expiryFinished} {
		if testing.Short() && i%2 != 0 {
			continue
		}
		t.Run(string(die), func(t *testing.T) {
			t.Parallel()
			n, s := newNoticed(t), newShop(t)
			dying := n.start(childConfig{Die: die, Arrivals: 1, Notices: true, Sink: s.url})
			expires := time.Now().Add(5 * time.Second).Format(time.RFC3339Nano)
			q := request{acme, "/v1/charges", stamped(t, eu), fmt.Sprintf(`{"amount":5,"currency":"usd","payment_method":"pm_card_insufficient_funds","expires_at":%q}`, expires), ""}
			r := n.send(n.ctx, us, q)
			require.NoError(t, r.Err)
			require.Equal(t, "same_key", r.Problem.Retry, "%s", r.Body)
			dying.died()
			n.revive(s.url, nil)
			until(t, "the claim is closed", func() bool {
				status, err := n.inspect(n.ctx, us, acme, q.key)
				require.NoError(t, err)
				return status.State == "FAILED_TERMINAL"
			})
			n.empty(outbox.Expiries)
			n.empty(outbox.Events)
			again := n.send(n.ctx, asia, q)
			require.NoError(t, again.Err)
			require.Equal(t, http.StatusPaymentRequired, again.Status, "%s", again.Body)
			require.Equal(t, "expired", again.Problem.Code)
			var types []string
			objects := s.objects()
			require.Len(t, objects, 1)
			for object := range objects {
				for _, e := range s.about(t, object) {
					types = append(types, e.Type)
				}
			}
			require.Equal(t, []string{"charge.declined", "charge.expired"}, types)
			n.judge.once(t, 0)
			n.agree()
		})
	}
}

// TestEventsCrashPoints kills the process between a settlement, the take of its event, the delivery
// and the finish. Each settled claim has one event, however often that is sent.
func TestEventsCrashPoints(t *testing.T) {
	t.Parallel() // its processes mostly wait for a lease to lapse
	for i, die := range []point{settled, eventTaken, eventDelivered, eventFinished} {
		if testing.Short() && i%2 != 0 {
			continue
		}
		t.Run(string(die), func(t *testing.T) {
			t.Parallel()
			n, s := newNoticed(t), newShop(t)
			n.ways = ways(t, "")
			c := childConfig{Die: die, Arrivals: 1, Notices: true, Sink: s.url}
			if die == settled || die == eventTaken {
				c.Die, c.Arrivals = settled, int32(len(n.ways))
			} else {
				// The first event's death meets the other requests anywhere.
				for i := range n.ways {
					n.ways[i].home = ""
				}
			}
			dying := n.start(c)
			replies := n.sendAll(n.ctx)
			dying.died()
			for range n.ways {
				receive(t, "the end of a request", replies)
			}
			if die == eventTaken { // a worker takes the first events of a holder that died
				n.start(childConfig{Die: die, Arrivals: 1, Notices: true, Sink: s.url}).died()
			}
			n.revive(s.url, nil)
			n.recover()
			n.empty(outbox.Events)
			for _, w := range n.ways {
				status, err := n.inspect(n.ctx, us, w.q.tenant, w.q.key)
				require.NoError(t, err)
				events := s.about(t, status.Object)
				require.Len(t, events, 1, "%s: %v", w.name, events)
				kind, _, _ := strings.Cut(w.name, ",")
				require.Equal(t, kind+".succeeded", events[0].Type)
				require.True(t, strings.HasPrefix(events[0].ID, "evt_"+status.Object+"_"), events[0].ID)
			}
			require.Len(t, s.objects(), len(n.ways))
			n.agree()
		})
	}
}

// TestOnlySettledClaimsEmitEvents: a begun claim with moved money emits its event once it is
// settled, and not before.
func TestOnlySettledClaimsEmitEvents(t *testing.T) {
	t.Parallel()
	n, s := newNoticed(t), newShop(t)
	n.ways = ways(t, "")
	dying := n.start(childConfig{Die: answered, Arrivals: int32(len(n.ways)), Notices: true, Sink: s.url})
	replies := n.sendAll(n.ctx)
	dying.died()
	n.unanswered(replies)
	n.judge.once(t, len(n.ways))

	// The events' worker runs, that of provider calls finds nothing.
	asleep := n.start(childConfig{Notices: true, Sink: s.url, NoWorker: true})
	other := n.settle(n.ctx, us, charge("another-order", 3), nil)
	require.Equal(t, http.StatusCreated, other.Status, "%v", other)
	until(t, "the other charge's event is delivered", func() bool { return len(s.about(t, objectID(t, other))) > 0 })
	require.Equal(t, map[string]bool{objectID(t, other): true}, s.objects())
	asleep.kill()

	n.revive(s.url, nil)
	n.ways = append(n.ways, way{"charge, another", charge("another-order", 3), us, us, [2]string{us, asia}})
	n.recover()
	n.empty(outbox.Events)
	require.Len(t, s.objects(), len(n.ways))
	n.agree()
}

// TestEventsOfAKeyKeepTheirOrder: a merchant's server that is down refuses the first
// event of a key; the second waits behind it, also when the process dies.
func TestEventsOfAKeyKeepTheirOrder(t *testing.T) {
	t.Parallel()
	n, s := newNoticed(t), newShop(t)
	s.shut(true)
	dying := n.start(childConfig{Die: settled, Arrivals: 1, Notices: true, Sink: s.url})
	q := charge(stamped(t, asia), 9)
	q.body = strings.ReplaceAll(q.body, "pm_card_visa", "pm_card_insufficient_funds_once")
	r := n.send(n.ctx, us, q)
	require.NoError(t, r.Err)
	require.Equal(t, "same_key", r.Problem.Retry, "%s", r.Body)
	until(t, "the decline's event has been refused", func() bool { return s.refusals() > 0 })
	require.NoError(t, wait(n.ctx, pauseAfter(r)))
	require.Error(t, n.send(n.ctx, us, q).Err, "the process dies with the charge settled")
	dying.died()
	n.revive(s.url, nil)
	paid := n.settle(n.ctx, eu, q, nil)
	require.Equal(t, http.StatusCreated, paid.Status, "%v", paid)
	before := s.refusals()
	until(t, "the merchant has been tried again", func() bool { return s.refusals() > before })
	s.shut(false)
	n.empty(outbox.Events)
	var types []string
	for _, e := range s.about(t, objectID(t, paid)) {
		types = append(types, e.Type)
	}
	require.Equal(t, []string{"charge.declined", "charge.succeeded"}, types)
	n.judge.once(t, 1)
	n.agree()
}
