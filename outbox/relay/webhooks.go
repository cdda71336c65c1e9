package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay/internal/pace"
)

// Defaults of [WebhooksConfig].
const (
	// DefaultTimeout is the lower end of what Standard Webhooks advises, 15 to 30 s: a
	// consumer has little to do before it answers, and a slow one holds its slot.
	DefaultTimeout = 15 * time.Second
	// DefaultPerEndpoint lets 16 endpoints be slow at once before others wait.
	DefaultPerEndpoint = 4
	// DisableAfter is longer than a long weekend with the day before and the day after
	// it, so that somebody has had the time to notice.
	DisableAfter = 5 * 24 * time.Hour
)

const (
	// webhookSlots leaves a quarter of the worker's slots to the other sinks, however
	// slow all endpoints together are.
	webhookSlots = batch * 3 / 4
	// maxDiscard is how much of an answer's body is read so that the connection can be
	// reused. A longer body costs a new connection.
	maxDiscard = 16 << 10
	// maxAnswerHead bounds an answer's head.
	maxAnswerHead = 16 << 10
	// idleFor keeps connections through a burst but not overnight.
	idleFor = 30 * time.Second
	// storePause is how long a row waits if the store does not return its endpoint.
	storePause = 5 * time.Second
)

// WebhooksConfig assembles a [Webhooks]. Endpoints is required; zero values take the
// defaults.
type WebhooksConfig struct {
	Endpoints Endpoints
	// Timeout bounds one delivery, from the look-up of the host's name to the end of
	// the answer. It must be under the worker's lease of a minute.
	Timeout time.Duration
	// PerEndpoint is the most concurrent deliveries to one endpoint from this
	// node.
	PerEndpoint int
	// DisableAfter is how long an endpoint may fail without a success in between.
	DisableAfter time.Duration
	// AllowPrivate allows deliveries to addresses that are not public: loopback,
	// private and such, but for a cloud's metadata. A merchant could then make this node call services
	// in its own network. For development.
	AllowPrivate bool
	// AllowHTTP allows unencrypted deliveries. For development.
	AllowHTTP bool
	// RootCAs are trusted instead of the system's.
	RootCAs *x509.CertPool
	Logger  *slog.Logger
}

// Webhooks is the sink that POSTs events to the merchant's endpoint, signed as
// Standard Webhooks says (https://www.standardwebhooks.com): webhook-id is the event
// id, webhook-timestamp the time of the try, webhook-signature has one signature for
// each of the endpoint's secrets.
//
// An answer 2xx is success, 410 disables the endpoint at once, anything else is a
// failure; redirects are not followed. An endpoint that has failed for DisableAfter is
// disabled. The events of a disabled endpoint are parked; those of a tenant without an
// endpoint are done. Webhooks uses no proxy, since only a direct connection shows the
// address that it connects to.
type Webhooks struct {
	c      WebhooksConfig
	client *http.Client
	gates  *pace.Gates
	slots  chan struct{}
	busy   *pace.Gate // appointments of events for which there was no slot
}

// Validate returns a one-line error for settings that cannot work.
func (c WebhooksConfig) Validate() error { return c.complete() }

func (c *WebhooksConfig) complete() error {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.PerEndpoint == 0 {
		c.PerEndpoint = DefaultPerEndpoint
	}
	if c.DisableAfter == 0 {
		c.DisableAfter = DisableAfter
	}
	const lease = time.Minute // the worker's default
	if c.Timeout < 0 || c.Timeout > lease/2 {
		return fmt.Errorf("relay: the time-out of a webhook must be above 0 and at most %v, is %v", lease/2, c.Timeout)
	}
	if c.PerEndpoint < 0 || c.PerEndpoint > webhookSlots {
		return fmt.Errorf("relay: deliveries to one endpoint at once must be from 1 to %d, are %d", webhookSlots, c.PerEndpoint)
	}
	if c.DisableAfter < 0 {
		return fmt.Errorf("relay: the time after which an endpoint is disabled must be above 0, is %v", c.DisableAfter)
	}
	return nil
}

// NewWebhooks applies the defaults of cfg. The caller closes it once its worker
// is drained.
func NewWebhooks(c WebhooksConfig) (*Webhooks, error) {
	if c.Endpoints == nil {
		return nil, errors.New("relay: webhooks need Endpoints")
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	// Check the address when it is dialled: a name checked earlier may resolve to another
	// address by then.
	dialer := &net.Dialer{Timeout: c.Timeout, Control: deliverable(c.AllowPrivate)}
	return &Webhooks{
		c: c, gates: pace.NewGates(c.PerEndpoint), slots: make(chan struct{}, webhookSlots), busy: pace.NewGate(webhookSlots),
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
				TLSClientConfig:        &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12},
				MaxResponseHeaderBytes: maxAnswerHead,
				MaxIdleConns:           batch, MaxIdleConnsPerHost: c.PerEndpoint, IdleConnTimeout: idleFor,
			},
		},
	}, nil
}

// Close closes idle connections.
func (w *Webhooks) Close() { w.client.CloseIdleConnections() }

// Deliver implements [Sink].
func (w *Webhooks) Deliver(ctx context.Context, e Event) outbox.Disposition {
	to, found, err := w.c.Endpoints.Endpoint(ctx, e.Tenant)
	switch {
	case errors.Is(err, seal.ErrLost):
		// Another node may have the key. If none has, the worker parks the row in the
		// end. The endpoint is not at fault, so no failure is recorded.
		return outbox.Failed(fmt.Sprintf("%v; or give the tenant a new secret with homeward endpoint secret %s --only", err, e.Tenant))
	case err != nil:
		w.c.Logger.Warn("could not read a webhook endpoint; its event waits", "id", e.ID, "tenant", e.Tenant, "error", err)
		return outbox.Later(storePause + rand.N(storePause))
	case !found:
		return outbox.Done() // no endpoint to notify
	case !to.DisabledAt.IsZero():
		return outbox.Parked(disabled(to))
	}
	gate := w.gates.To(to.Tenant + " " + to.URL)
	if wait, ok := gate.Enter(); !ok {
		return outbox.Later(wait)
	}
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	default:
		gate.Cancel()
		return outbox.Later(w.busy.Postpone())
	}
	var a answer
	var ok bool
	gate.Try(func() bool {
		a, err = w.post(ctx, to, e)
		ok = err == nil && a.status >= 200 && a.status < 300
		return ok
	})
	if ok {
		return w.delivered(ctx, to, e)
	}
	if a.retryAfter > 0 {
		gate.Hold(a.retryAfter)
	}
	return w.failed(ctx, to, e, a, w.why(a.status, err))
}

func (w *Webhooks) delivered(ctx context.Context, to Endpoint, e Event) outbox.Disposition {
	// A success changes nothing while the endpoint is not failing. If it began to fail
	// at this moment, the failed row is retried and corrects that.
	if !to.FailingSince.IsZero() {
		if _, err := w.c.Endpoints.NoteDelivery(ctx, to.Tenant, to.URL, true, w.c.DisableAfter); err != nil && !errors.Is(err, ErrNoEndpoint) {
			w.c.Logger.Warn("webhook delivered, but the store could not record it; its endpoint still counts as failing", "id", e.ID, "tenant", e.Tenant, "error", err)
		}
	}
	return outbox.Done()
}

func (w *Webhooks) failed(ctx context.Context, to Endpoint, e Event, a answer, reason string) outbox.Disposition {
	now, err := w.c.Endpoints.NoteDelivery(ctx, to.Tenant, to.URL, false, w.c.DisableAfter)
	if a.status == http.StatusGone && err == nil && now.DisabledAt.IsZero() {
		// Record at once. The first failure only sets since when; the second is judged
		// by it.
		now, err = w.c.Endpoints.NoteDelivery(ctx, to.Tenant, to.URL, false, 0)
	}
	switch {
	case errors.Is(err, ErrNoEndpoint):
		return outbox.Failed(reason + "; the endpoint has been changed or removed since")
	case err != nil:
		w.c.Logger.Warn("webhook failed, and the store could not record it", "id", e.ID, "tenant", e.Tenant, "error", err)
		return outbox.Failed(reason)
	case now.DisabledAt.IsZero():
		return outbox.FailedFor(reason, a.retryAfter)
	}
	w.c.Logger.Error("webhook endpoint disabled; its events are parked until it is set again", "tenant", e.Tenant, "failing_since", now.FailingSince, "reason", reason)
	return outbox.Parked(reason + "; " + disabled(now))
}

// disabled describes how to enable an endpoint and requeue its events.
func disabled(e Endpoint) string {
	return fmt.Sprintf("the endpoint of %s was disabled at %s; enable it with homeward endpoint set %s URL, then send what was parked with homeward outbox retry --all --queue events --tenant %s",
		e.Tenant, e.DisabledAt.UTC().Format(time.RFC3339), e.Tenant, e.Tenant)
}

// answer is a receiver's response to an event.
type answer struct {
	// status is 0 if there was no response.
	status int
	// retryAfter is the pause that the receiver asks for; 0 if none.
	retryAfter time.Duration
}

// maxRetryAfter bounds what a receiver may ask for, as its events grow old meanwhile.
const maxRetryAfter = 30 * time.Minute

// retryAfter parses the header of that name, seconds or a date (RFC 9110, 10.2.3), of
// the responses that may carry it here: 429 and 503.
func retryAfter(r *http.Response, now time.Time) (wait time.Duration) {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := strings.TrimSpace(r.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// post sends e once.
func (w *Webhooks) post(ctx context.Context, to Endpoint, e Event) (a answer, err error) {
	if err := to.Check(w.c.AllowHTTP); err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(e.Payload))
	if err != nil {
		return a, errors.New("the endpoint's URL cannot be used; set it again")
	}
	signatures, at, err := sign(to.Secrets, e, time.Now())
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Homeward-Webhooks/1")
	r.Header.Set(standardwebhooks.HeaderWebhookID, e.ID)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, at)
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	res, err := w.client.Do(r)
	if err != nil {
		return a, err
	}
	// The body is not used.
	_, _ = io.CopyN(io.Discard, res.Body, maxDiscard)
	_ = res.Body.Close()
	return answer{res.StatusCode, retryAfter(res, time.Now())}, nil
}

// sign signs e with each secret.
func sign(secrets []string, e Event, now time.Time) (signatures, timestamp string, err error) {
	all := make([]string, 0, len(secrets))
	for _, s := range secrets {
		key, err := secretKey(s)
		if err != nil {
			return "", "", err
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return "", "", err
		}
		signature, err := signer.Sign(e.ID, now, e.Payload)
		if err != nil {
			return "", "", err
		}
		all = append(all, signature)
	}
	return strings.Join(all, " "), strconv.FormatInt(now.Unix(), 10), nil
}

// why is one line for people. It leaves out the URL, whose query may contain a secret
// of the merchant's.
func (w *Webhooks) why(status int, err error) string {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	switch {
	case err == nil && status >= 300 && status < 400:
		return fmt.Sprintf("the endpoint answered %d, and redirects are not followed; set the URL that it leads to", status)
	case err == nil:
		return strings.TrimSpace(fmt.Sprintf("the endpoint answered %d %s", status, http.StatusText(status)))
	case errors.Is(err, ssrf.ErrProhibitedIP):
		return "the endpoint's host has an address that is not public, which is refused"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the endpoint did not answer within %v", w.c.Timeout)
	}
	return oneLine(err.Error())
}

// maxReason bounds the stored text of an error.
const maxReason = 300

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}
