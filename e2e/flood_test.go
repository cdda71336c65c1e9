package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
)

// startNoticed starts a cluster that takes the simulator's notices in.
func startNoticed(t testing.TB, change func(*node.ClusterConfig)) *world {
	t.Helper()
	j := newJudge(t)
	provider, err := noticing(j.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = provider.Close() })
	return startWorld(t, j, func(c *node.ClusterConfig) {
		c.Providers, c.Notifiers = psp.Providers{provider}, map[string]psp.Notifier{provider.Name(): provider}
		if change != nil {
			change(c)
		}
	})
}

// signedNotice is a notice as the simulator would send it at a time.
func signedNotice(t testing.TB, id, body string, at time.Time) http.Header {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(noticeSecret)
	require.NoError(t, err)
	signature, err := signer.Sign(id, at, []byte(body))
	require.NoError(t, err)
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(at.Unix()))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return h
}

// notice posts a notice to a region.
func (c *caller) notice(ctx context.Context, region, provider string, h http.Header, body io.Reader) *answer.Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base(region)+"/v1/webhooks/"+provider, body)
	if err != nil {
		return &answer.Answer{Err: err}
	}
	req.Header = h
	return c.do(req)
}

// TestNoticesThatAreRefused: a notice without a fresh valid signature, or an unreadable one, is
// refused in one line with the reason, and stores nothing.
func TestNoticesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := startNoticed(t, nil)
	const body = `{"id":"evt_1","type":"charge.succeeded","created":1,"data":{}}`
	now := time.Now()
	large := strings.Repeat(" ", notice.MaxNotice+1)
	header := func(change func(http.Header)) http.Header {
		h := signedNotice(t, "evt_1", body, now)
		change(h)
		return h
	}
	asIs := func(http.Header) {}
	for _, tc := range []struct {
		name     string
		provider string // simulator unless set
		header   http.Header
		body     io.Reader
		status   int
		says     string
	}{
		{name: "forged body", header: header(asIs), body: strings.NewReader(strings.Replace(body, "1", "2", 1)), status: 400, says: "signature does not match"},
		{name: "forged signature", header: header(func(h http.Header) { h.Set("webhook-signature", "v1,Zm9yZ2Vk") }), body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "another id", header: header(func(h http.Header) { h.Set("webhook-id", "evt_2") }), body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "another time", header: header(func(h http.Header) { h.Set("webhook-timestamp", fmt.Sprint(now.Unix()+1)) }), body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "no signature", header: header(func(h http.Header) { h.Del("webhook-signature") }), body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "no header", header: http.Header{}, body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "time that is none", header: header(func(h http.Header) { h.Set("webhook-timestamp", "soon") }), body: strings.NewReader(body), status: 400, says: "signature does not match"},
		{name: "stale", header: signedNotice(t, "evt_1", body, now.Add(-psp.NoticeTolerance-time.Minute)), body: strings.NewReader(body), status: 400, says: "tolerance window"},
		{name: "from the future", header: signedNotice(t, "evt_1", body, now.Add(psp.NoticeTolerance+time.Minute)), body: strings.NewReader(body), status: 400, says: "tolerance window"},
		{name: "id that no key can have", header: signedNotice(t, strings.Repeat("x", 256), body, now), body: strings.NewReader(body), status: 400, says: "malformed"},
		{name: "oversized", header: signedNotice(t, "evt_1", large, now), body: strings.NewReader(large), status: 413, says: fmt.Sprint(notice.MaxNotice)},
		{name: "oversized, of no stated length", header: signedNotice(t, "evt_1", large, now), body: io.MultiReader(strings.NewReader(large)), status: 413, says: fmt.Sprint(notice.MaxNotice)},
		{name: "unknown provider", provider: "nobody", header: header(asIs), body: strings.NewReader(body), status: 404, says: "No provider of this name"},
	} {
		if tc.provider == "" {
			tc.provider = "simulator"
		}
		r := w.notice(w.ctx, us, tc.provider, tc.header, tc.body)
		require.NoError(t, r.Err, tc.name)
		require.Equal(t, tc.status, r.Status, "%s: %s", tc.name, r.Body)
		require.Contains(t, string(r.Body), tc.says, tc.name)
		require.Equal(t, 1, strings.Count(strings.TrimSpace(string(r.Body)), "\n")+1, "%s: one line", tc.name)
	}
	s, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	for _, id := range []string{"evt_1", "evt_2", strings.Repeat("x", 256)} {
		_, found, err := s.Notice(w.ctx, us, notice.ID("simulator", id))
		require.NoError(t, err)
		require.False(t, found, id)
	}
	d, err := s.Queue(outbox.Notices).Depth(w.ctx, us)
	require.NoError(t, err)
	require.Zero(t, d)

	// Signed, and yet unreadable: stored for a person. The raw body, which is sealed, shows what
	// the provider sent.
	r := w.notice(w.ctx, us, "simulator", signedNotice(t, "evt_3", "{\xff", now), strings.NewReader("{\xff"))
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusOK, r.Status, "%s", r.Body)
	until(t, "the unreadable notice is parked", func() bool {
		parked, err := s.Queue(outbox.Notices).Parked(w.ctx, us, "", 10)
		require.NoError(t, err)
		if len(parked) == 0 {
			return false
		}
		require.Len(t, parked, 1)
		require.Contains(t, parked[0].LastError, "cannot be read")
		body, err := sealtest.Ring(1).Open(w.ctx, seal.Row{Table: "notice", Region: us, ID: parked[0].ID}, parked[0].Payload)
		require.NoError(t, err)
		require.Equal(t, "{\xff", string(body))
		return true
	})
	w.judge.once(t, 0)
}

// slowShelf holds back what is kept while it is shut.
type slowShelf struct {
	deployment.Store
	open chan struct{}
}

func (s *slowShelf) Keep(ctx context.Context, region string, notices []notice.Notice) (int, error) {
	select {
	case <-s.open:
		return s.Store.Keep(ctx, region, notices)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// TestFloodOfNotices: while no notice can be stored the queue of a node fills up to its bound, and
// later notices are refused with Retry-After. Charges go on. Afterwards each acknowledged notice is
// stored. It runs alone: thousands of connections at once would starve the clusters of other tests.
func TestFloodOfNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("5,000 connections; package notice floods its receiver")
	}
	shelf := make(chan struct{})
	w := startNoticed(t, func(c *node.ClusterConfig) {
		c.WrapStore = func(_ string, s deployment.Store) deployment.Store { return &slowShelf{s, shelf} }
	})
	first := w.at(us, charge("order-1", 1), http.StatusCreated)

	// More than can be under way and wait: two steps of 256, and 4,096.
	const flood = 5000
	full := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	errs := make(chan error, flood)
	// As many connections as there are notices, none of which is kept.
	transport := &http.Transport{MaxIdleConnsPerHost: -1}
	t.Cleanup(transport.CloseIdleConnections)
	provider := &caller{http: &http.Client{Transport: transport}, at: map[string]string{us: w.base(us)}}
	send := func(id string) error {
		body := fmt.Sprintf(`{"id":%q,"type":"charge.opened","created":1,"data":{}}`, id)
		h := signedNotice(t, id, body, time.Now())
		for {
			r := provider.notice(w.ctx, us, "simulator", h.Clone(), strings.NewReader(body))
			switch {
			case r.Err == nil && r.Status == http.StatusServiceUnavailable:
				once.Do(func() { close(full) })
			case r.Err != nil || r.Status != http.StatusOK:
				return fmt.Errorf("%s: %v", id, r)
			default:
				return nil
			}
			if err := wait(w.ctx, pauseAfter(r)); err != nil {
				return err
			}
		}
	}
	for i := range flood {
		wg.Go(func() { errs <- send(fmt.Sprint("evt_", i)) })
	}
	receive(t, "a notice to be refused", full)
	for i := range 20 {
		r := w.settle(w.ctx, us, charge(fmt.Sprint("during-", i), 1), nil)
		require.Equal(t, http.StatusCreated, r.Status, "%v", r)
	}
	close(shelf)
	wg.Wait()
	for range flood {
		require.NoError(t, <-errs)
	}
	s, err := w.cluster.DB.Region(us)
	require.NoError(t, err)
	for i := range flood {
		n, found, err := s.Notice(w.ctx, us, notice.ID("simulator", fmt.Sprint("evt_", i)))
		require.NoError(t, err)
		require.True(t, found, "acknowledged and lost: evt_%d", i)
		require.Contains(t, []notice.Status{notice.Unprocessed, notice.Ignored}, n.Status)
	}
	d, err := s.Queue(outbox.Notices).Depth(w.ctx, us)
	require.NoError(t, err)
	require.Zero(t, d.Parked)
	require.Equal(t, first.Remembered(), w.settle(w.ctx, us, charge("order-1", 1), nil).Remembered())
	w.judge.once(t, 21)
}
