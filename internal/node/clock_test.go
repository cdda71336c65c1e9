package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/region"
)

// judged reports what becomes of a notice.
type judged struct {
	deployment.Store
	fate chan string
}

func (s judged) Close(ctx context.Context, region, id string, fence uint64, status notice.Status, detail string) error {
	s.fate <- string(status) + ": " + detail
	return s.Store.Close(ctx, region, id, fence, status, detail)
}

func (s judged) CloseAll(ctx context.Context, region string, rows []outbox.Hold, status notice.Status, detail string) (int, error) {
	s.fate <- string(status) + ": " + detail
	return s.Store.CloseAll(ctx, region, rows, status, detail)
}

func (s judged) Queue(q outbox.Queue) outbox.Store {
	if q != outbox.Notices {
		return s.Store.Queue(q)
	}
	return retried{s.Store.Queue(q), s.fate}
}

type retried struct {
	outbox.Store
	fate chan string
}

func (q retried) Retry(ctx context.Context, region string, row outbox.Hold, after time.Duration, reason string) error {
	q.fate <- "again: " + reason
	return q.Store.Retry(ctx, region, row, after, reason)
}

func (q retried) RetryAll(ctx context.Context, region string, rows []outbox.Delay) error {
	q.fate <- "again: " + rows[0].Reason
	return q.Store.RetryAll(ctx, region, rows)
}

// TestAClockThatIsAheadJudgesNoNotice: a charge of a region that was just added has failed, and the
// first node that reads so does not know that region yet. Its clock is hours ahead, which makes the
// notice no older: it waits for a node that knows the region.
func TestAClockThatIsAheadJudgesNoNotice(t *testing.T) {
	const here, ahead = "us-east1", 5 * time.Hour
	regions := []region.Region{{Name: here, Code: 1}}
	db, err := embedded.Open(embedded.Config{
		Dir: t.TempDir(), Policy: claim.DefaultPolicy(), Regions: regions, Clock: func() time.Time { return time.Now().Add(-ahead) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	blobs, err := OpenBlobs(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	rows, err := deployment.Embedded(db).Region(here)
	require.NoError(t, err)
	topology, err := region.NewTopology(regions)
	require.NoError(t, err)
	bank, err := httpjson.New(httpjson.Config{Name: "bank", BaseURL: "http://127.0.0.1:1", Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bank.Close()) })
	store := judged{rows, make(chan string, 100)}
	n, err := Start(t.Context(), Config{
		Tuning: DefaultTuning(), Name: here + "-1", Region: here, APIListen: "127.0.0.1:0", Peering: Peering{RPCListen: "127.0.0.1:0", GossipListen: "127.0.0.1:0", LocalGossip: true},
		Topology: topology, Store: store, Blobs: blobs, Payments: Payments{Providers: psp.Providers{bank}, Notifiers: map[string]psp.Notifier{"bank": bank}},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Stop(context.WithoutCancel(t.Context()))) }()

	charge, err := claim.NewObjectID("ch", 2, rand.Reader)
	require.NoError(t, err)
	body := fmt.Appendf(nil, `{"id":"evt_1","type":"charge.failed","created":%d,"data":{"id":"p_1","status":"failed","reference":%q,"amount":100,"currency":"usd","error":{"class":"hard","code":"debit_returned"}}}`, time.Now().Unix(), charge)
	_, err = store.Keep(t.Context(), here, []notice.Notice{{ID: notice.ID("bank", "evt_1"), Region: here, Provider: "bank", Body: body}})
	require.NoError(t, err)
	require.Contains(t, <-store.fate, "again: ", "the node's clock has decided")
}

// TestTheStoresClockDoesNotFollowTheMachines: between two measurements a machine's clock may be set by hours. What
// the node takes for the store's time goes on regardless, and only what it reports is how far the machine's is off.
func TestTheStoresClockDoesNotFollowTheMachines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c storeClock
		sentAt := time.Now()
		stored := sentAt.Add(-5 * time.Hour).Round(0)
		time.Sleep(2 * time.Second) // the read
		c.measure(sentAt, sentAt.Add(3*time.Hour), stored)
		ahead, ok := c.offset()
		require.True(t, ok)
		require.Equal(t, 8*time.Hour+time.Second, ahead)
		time.Sleep(time.Minute)
		require.Equal(t, stored.Add(time.Minute+time.Second), c.now())
	})
}
