package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// fixtureKeys are those of the stores in testdata, by what became of them.
var fixtureKeys = []string{"gone", "paid", "refused", "released", "reclaimed", "deferred", "parked", "flying"}

// fixtureNotices are those of the stores of format 4, by what became of them.
var fixtureNotices = []string{"new", "known", "taken", "unread", "bare"}

// shown is all that a store shows of its rows.
type shown struct {
	Now     time.Time
	Claims  map[string]claim.Record
	Objects map[string]claim.Record
	Pins    map[string]claim.Pin
	Lines   map[string][]claim.AuditEntry
	Calls   map[string]outbox.Message
	Depths  map[outbox.Queue]outbox.Depth
	Parked  []outbox.Message
	Books   []ledger.Transaction
	Unpaid  map[string]claim.Unpaid
	Notice  notice.Notice
	// Notices and Due, their rows in the queue, by id: of formats that wrote them otherwise.
	Notices  map[string]notice.Notice  `json:",omitempty"`
	Due      map[string]outbox.Message `json:",omitempty"`
	InFlight int
}

// TestOlderFormats opens stores that builds of older formats wrote and left, some of it
// in the log and some in a table, and compares with what those builds showed. Then the
// claims go on from where they were.
func TestOlderFormats(t *testing.T) {
	for _, format := range []string{"format2", "format3", "format4"} {
		t.Run(format, func(t *testing.T) { testFormat(t, format) })
	}
}

func testFormat(t *testing.T, format string) {
	var want shown
	text, err := os.ReadFile("testdata/" + format + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/"+format)))
	clock := newClock()
	clock.set(want.Now)
	cfg := embedded.Config{Dir: dir, FS: vfs.Default, Clock: clock.now}
	for range 2 { // the second time it is of this format
		db := open(t, cfg)
		var got shown
		require.NoError(t, got.show(t.Context(), view(t, db, "us-east1")))
		got.Now = want.Now
		require.Equal(t, want.json(t), got.json(t))
		dues, err := db.Rows('d')
		require.NoError(t, err)
		require.Zero(t, dues, "due rows of provider calls went with format 3")
		require.NoError(t, db.Remembered())
		require.NoError(t, db.Close())
	}
	db := open(t, cfg)
	v := view(t, db, "us-east1")
	clock.advance(2 * time.Hour)
	taken, err := v.Queue(outbox.ProviderCalls).Take(t.Context(), "us-east1", 10, time.Hour)
	require.NoError(t, err)
	require.Len(t, taken, want.Depths[outbox.ProviderCalls].Pending)
	for k, rec := range want.Claims {
		if rec.State != claim.InFlight {
			continue
		}
		done, err := v.Settle(t.Context(), rec, crashVerdict(rec, claim.OutcomeDone))
		require.NoError(t, err)
		require.Equal(t, claim.Completed, done.State)
		line, err := v.Timeline(t.Context(), rec.Key, rec.Home, 100)
		require.NoError(t, err)
		require.Len(t, line, len(want.Lines[k])+2)
		require.Equal(t, claim.EventSettled, line[len(line)-1].Event)
		line, err = v.Timeline(t.Context(), rec.Key, rec.Home, 2)
		require.NoError(t, err)
		require.Equal(t, claim.EventAttempt, line[0].Event, "the latest of both sorts")
		_, found, err := v.Queue(outbox.ProviderCalls).Message(t.Context(), rec.Home, rec.Minted.ID)
		require.NoError(t, err)
		require.False(t, found)
		byID, _, found, err := v.Object(t.Context(), "acme", rec.Home, rec.Minted.ID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, done, byID)
	}
	require.NoError(t, db.Remembered())
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), "us-east1")
	require.NoError(t, err)
	require.Zero(t, d)
	finishNotices(t, db, v, clock, want)
}

// finishNotices closes the notices of a store of an older format, and sweeps them.
func finishNotices(t *testing.T, db *embedded.DB, v *embedded.View, clock *virtualClock, want shown) {
	const home = "us-east1"
	q := v.Queue(outbox.Notices)
	for id, m := range want.Due {
		if m.Parked {
			unparked, err := q.Unpark(t.Context(), home, id)
			require.NoError(t, err)
			require.True(t, unparked)
		}
	}
	taken, err := q.Take(t.Context(), home, 100, time.Hour)
	require.NoError(t, err)
	var holds []outbox.Hold
	for _, m := range taken {
		if old, is := want.Due[m.ID]; is {
			require.Equal(t, old.Payload, m.Payload)
			holds = append(holds, outbox.Hold{ID: m.ID, Fence: m.Fence})
		}
	}
	require.Len(t, holds, len(want.Due))
	closed, err := v.CloseAll(t.Context(), home, holds, notice.Ignored, "old")
	require.NoError(t, err)
	require.Equal(t, len(holds), closed)
	for id, old := range want.Notices {
		got, found, err := v.Notice(t.Context(), home, id)
		require.NoError(t, err)
		require.True(t, found)
		if old.Status == notice.Unprocessed {
			require.Equal(t, notice.Ignored, got.Status)
			require.Equal(t, "old", got.Detail)
			got.Status, got.Detail, got.ProcessedAt = old.Status, old.Detail, old.ProcessedAt
		}
		require.Equal(t, old, got)
	}
	for _, pass := range []struct {
		after time.Duration
		left  bool
	}{{notice.KeepBodyFor, true}, {notice.KeepFor, false}} {
		clock.advance(pass.after)
		for removed := 1; removed > 0; {
			removed, err = db.Sweep(t.Context(), 1000)
			require.NoError(t, err)
		}
		for id := range want.Notices {
			got, found, err := v.Notice(t.Context(), home, id)
			require.NoError(t, err)
			require.Equal(t, pass.left, found)
			require.Empty(t, got.Body)
			require.NotEqual(t, notice.Unprocessed, got.Status)
		}
	}
	closings, err := db.Rows('N')
	require.NoError(t, err)
	require.Zero(t, closings)
}

// TestCrashInUpgrade takes the power away right after a store of format 3 was opened, and
// what that wrote is lost, or there in part.
func TestCrashInUpgrade(t *testing.T) {
	var want shown
	text, err := os.ReadFile("testdata/format3.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	disk := vfs.NewCrashableMem()
	_, err = vfs.Clone(vfs.Default, disk, "testdata/format3", "store", vfs.CloneSync)
	require.NoError(t, err)
	clock := newClock()
	clock.set(want.Now)
	open(t, embedded.Config{Dir: "store", FS: disk, Clock: clock.now})
	for seed := range uint64(crashes) {
		after := disk.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: int(seed * 100 / (crashes - 1)), RNG: rand.New(rand.NewPCG(seed, 9)),
		})
		db := open(t, embedded.Config{Dir: "store", FS: after, Clock: clock.now})
		var got shown
		require.NoError(t, got.show(t.Context(), view(t, db, "us-east1")))
		got.Now = want.Now
		require.Equal(t, want.json(t), got.json(t))
		require.NoError(t, db.Remembered())
	}
}

func (s shown) json(t *testing.T) string {
	text, err := json.MarshalIndent(s, "", " ")
	require.NoError(t, err)
	return string(text)
}

func (s *shown) show(ctx context.Context, v *embedded.View) error {
	const home = "us-east1"
	s.Claims, s.Objects, s.Pins = map[string]claim.Record{}, map[string]claim.Record{}, map[string]claim.Pin{}
	s.Lines, s.Calls, s.Depths = map[string][]claim.AuditEntry{}, map[string]outbox.Message{}, map[outbox.Queue]outbox.Depth{}
	s.Unpaid = map[string]claim.Unpaid{}
	for _, k := range fixtureKeys {
		key := claim.Key{Tenant: "acme", Value: k}
		rec, _, found, err := v.Get(ctx, key, home)
		if err != nil || !found {
			return err
		}
		s.Claims[k] = rec
		if s.Objects[k], _, _, err = v.Object(ctx, "acme", home, rec.Minted.ID); err != nil {
			return err
		}
		if s.Pins[k], err = v.Pin(ctx, key, ""); err != nil && !errors.Is(err, claim.ErrNoNewHomes) {
			return err
		}
		if s.Lines[k], err = v.Timeline(ctx, key, home, 100); err != nil {
			return err
		}
		if s.Unpaid[k], _, err = v.Unpaid(ctx, home, rec.Minted.ID); err != nil {
			return err
		}
		m, found, err := v.Queue(outbox.ProviderCalls).Message(ctx, home, rec.Minted.ID)
		if err != nil {
			return err
		}
		if found {
			s.Calls[k] = m
		}
	}
	var err error
	for _, q := range outbox.AllQueues() {
		if s.Depths[q], err = v.Queue(q).Depth(ctx, home); err != nil {
			return err
		}
	}
	if s.Parked, err = v.Queue(outbox.ProviderCalls).Parked(ctx, home, "", 10); err != nil {
		return err
	}
	if s.Books, err = v.Transactions(ctx, home, ledger.Position{}, time.Time{}, 100); err != nil {
		return err
	}
	if s.Notice, _, err = v.Notice(ctx, home, notice.ID("sim", "a")); err != nil {
		return err
	}
	s.Notices, s.Due = map[string]notice.Notice{}, map[string]outbox.Message{}
	for _, e := range fixtureNotices {
		id := notice.ID("sim", e)
		n, found, err := v.Notice(ctx, home, id)
		if err != nil {
			return err
		}
		if found {
			s.Notices[id] = n
		}
		m, found, err := v.Queue(outbox.Notices).Message(ctx, home, id)
		if err != nil {
			return err
		}
		if found {
			s.Due[id] = m
		}
	}
	s.InFlight, err = v.InFlight(ctx, home)
	return err
}
