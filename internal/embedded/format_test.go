package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
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

// shown is all that a store shows of its rows.
type shown struct {
	Now      time.Time
	Claims   map[string]claim.Record
	Objects  map[string]claim.Record
	Pins     map[string]claim.Pin
	Lines    map[string][]claim.AuditEntry
	Calls    map[string]outbox.Message
	Depths   map[outbox.Queue]outbox.Depth
	Parked   []outbox.Message
	Books    []ledger.Transaction
	Unpaid   map[string]claim.Unpaid
	Notice   notice.Notice
	InFlight int
}

// TestFormat2 opens a store that a build of format 2 wrote and left, some of it in the
// log and some in a table, and compares with what that build showed. Then the claims
// go on from where they were.
func TestFormat2(t *testing.T) {
	var want shown
	text, err := os.ReadFile("testdata/format2.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/format2")))
	clock := newClock()
	clock.set(want.Now)
	cfg := embedded.Config{Dir: dir, FS: vfs.Default, Clock: clock.now}
	for range 2 { // the second time it is of this format
		db := open(t, cfg)
		var got shown
		require.NoError(t, got.show(t.Context(), view(t, db, "us-east1")))
		got.Now = want.Now
		require.Equal(t, want.json(t), got.json(t))
		require.NoError(t, db.Close())
	}
	v := view(t, open(t, cfg), "us-east1")
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
	}
	d, err := v.Queue(outbox.ProviderCalls).Depth(t.Context(), "us-east1")
	require.NoError(t, err)
	require.Zero(t, d)
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
	s.InFlight, err = v.InFlight(ctx, home)
	return err
}
