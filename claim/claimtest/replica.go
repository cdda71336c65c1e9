package claimtest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
)

// everywhere asks each region's replica for rec's key.
func (w *world) everywhere(rec claim.Record, check func(got *claim.Record)) {
	w.Helper()
	for _, r := range w.Regions {
		shown, err := w.at(r).Replica(w.ctx, rec.Key)
		require.NoError(w, err)
		check(shown.Record)
	}
}

func (w *world) hidden(rec claim.Record) {
	w.Helper()
	w.everywhere(rec, func(got *claim.Record) { require.Nil(w, got) })
}

func (w *world) shown(rec claim.Record) {
	w.Helper()
	w.everywhere(rec, func(got *claim.Record) {
		require.NotNil(w, got)
		w.same(rec, *got)
	})
}

// pinned is a claim under an opaque key, which has its home by a pin.
func (w *world) pinned(name, home string) claim.Record {
	w.Helper()
	a := w.arrival(name, "100")
	a.Home, a.Stamped, a.PinnedAt = home, false, w.pin(home, name, home).CreatedAt
	return w.begin(a, claim.Won)
}

// ended is one with its final answer.
func (w *world) ended(name, home string, v claim.Verdict) claim.Record {
	w.Helper()
	return w.settle(w.pinned(name, home), v)
}

var replicaTests = []test{
	{"replica: it shows a final row after the lag", func(w *world) {
		rec := w.ended("k", w.home, approved("paid"))
		if w.Advance != nil && w.ReplicaLag > 0 {
			w.hidden(rec)
			w.until(rec.SettledAt.Add(w.ReplicaLag - time.Microsecond))
			w.hidden(rec)
		}
		w.until(rec.SettledAt.Add(w.ReplicaLag))
		w.shown(rec)
	}},
	{"replica: it shows no unfinished row", func(w *world) {
		rec := w.pinned("k", w.home)
		w.until(rec.FirstUse.Add(w.ReplicaLag))
		w.hidden(rec)
		rec = w.settle(rec, unknown(false))
		w.until(rec.FirstUse.Add(2 * w.ReplicaLag))
		w.hidden(rec)
		w.lapse(rec)
		rec = w.begin(w.arrival("k", "100"), claim.WonUnknown)
		rec = w.settle(rec, declinedSoft("no funds"))
		w.until(rec.FirstUse.Add(4 * w.ReplicaLag))
		w.hidden(rec)
	}},
	{"replica: it shows no row past the replay window", func(w *world) {
		rec := w.ended("k", w.home, declinedHard("stolen"))
		if w.Advance != nil {
			w.until(rec.SettledAt.Add(w.Policy.ReplayFor - time.Microsecond))
			w.shown(rec)
		}
		w.expire(rec)
		w.hidden(rec)
	}},
	{"replica: it searches every home", func(w *world) {
		for i, r := range w.Regions {
			rec := w.ended(fmt.Sprint("k", i), r, approved("paid"))
			w.until(rec.SettledAt.Add(w.ReplicaLag))
			w.shown(rec)
		}
	}},
	{"replica: a stamped key needs no pin", func(w *world) {
		for i, r := range w.Regions {
			stamped, err := claim.Stamp(claim.RegionCode(i+1), nil)
			require.NoError(w, err)
			a := w.arrival(stamped, "100")
			a.Home = r
			rec := w.settle(w.begin(a, claim.Won), approved("paid"))
			w.until(rec.SettledAt.Add(w.ReplicaLag))
			w.shown(rec)
		}
	}},
	{"replica: it shows what the registrar before has pinned", func(w *world) {
		rec := w.ended("k", w.Regions[1], approved("paid"))
		w.MoveRegistrar(w, w.tenant, w.Regions[2])
		moved := w.ended("l", w.Regions[1], approved("paid"))
		w.until(moved.SettledAt.Add(w.ReplicaLag))
		w.shown(rec)
		w.shown(moved)
	}},
	{"replica: another tenant sees nothing", func(w *world) {
		w.PutTenant(w, claim.Tenant{ID: "globex", Registrar: w.home})
		rec := w.ended("k", w.home, approved("paid"))
		w.until(rec.SettledAt.Add(w.ReplicaLag))
		stranger := rec
		stranger.Key.Tenant = "globex"
		w.hidden(stranger)
	}},
	{"replica: concurrent reads each get their own row", func(w *world) {
		const keys = 24
		want := make([]claim.Record, keys)
		for i := range want {
			want[i] = w.ended(fmt.Sprint("k", i), w.home, approved(fmt.Sprint("paid ", i)))
		}
		w.until(want[keys-1].SettledAt.Add(w.ReplicaLag))
		var g errgroup.Group
		for i := range 4 * keys { // several of each key, and as many of unknown keys
			g.Go(func() error {
				key := w.key(fmt.Sprint("none", i))
				if i%2 == 0 {
					key = want[i%keys].Key
				}
				shown, err := w.at(w.Regions[2]).Replica(w.ctx, key)
				switch {
				case err != nil:
					return err
				case i%2 != 0 && (shown.Record != nil || shown.Pin != nil):
					return fmt.Errorf("%v is shown, as %+v", key, shown)
				case i%2 == 0 && shown.Record == nil:
					return fmt.Errorf("%v is not shown", key)
				case i%2 == 0 && (shown.Record.Key != key || string(shown.Record.Response.Body) != fmt.Sprint("paid ", i%keys)):
					return fmt.Errorf("%v is shown as %+v", key, shown.Record)
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
	}},
	{"replica: a pin is shown while it is settled", func(w *world) {
		look := func() *claim.Pin {
			shown, err := w.at(w.Regions[2]).Replica(w.ctx, w.key("k"))
			require.NoError(w, err)
			return shown.Pin
		}
		require.Nil(w, look())
		p := w.pin(w.Regions[1], "k", w.Regions[1])
		if w.Advance != nil && w.ReplicaLag > 0 {
			require.Nil(w, look())
		}
		w.until(p.CreatedAt.Add(w.ReplicaLag))
		got := look()
		require.NotNil(w, got)
		require.Equal(w, p.Key, got.Key)
		require.Equal(w, p.Home, got.Home)
		require.True(w, got.CreatedAt.Equal(p.CreatedAt))
		w.until(p.CreatedAt.Add(w.Policy.ReplayFor + w.Policy.TombstoneFor - w.Policy.ClockOffset))
		require.Nil(w, look())
	}},
}

var historyTests = []test{
	{"object: a row is found by its minted id, with authority", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		find := func(region, id string) (claim.Record, bool) {
			got, now, found, err := w.at(region).Object(w.ctx, w.tenant, w.home, id)
			require.NoError(w, err)
			require.False(w, now.IsZero())
			return got, found
		}
		got, found := find(w.Regions[1], rec.Minted.ID)
		require.True(w, found)
		w.same(rec, got)
		rec = w.settle(rec, approved("paid"))
		got, found = find(w.home, rec.Minted.ID)
		require.True(w, found)
		w.same(rec, got)
		_, found = find(w.home, rec.Minted.ID+"x")
		require.False(w, found)
		_, found = find(w.home, "k")
		require.False(w, found)
	}},
	{"get: a row past its tombstone is still returned", func(w *world) {
		rec := w.settle(w.begin(w.arrival("k", "100"), claim.Won), approved("paid"))
		w.free(rec)
		w.same(rec, w.get(rec))
	}},
	{"timeline: notes keep their order among the steps", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		say := func(detail string) {
			// No time is given: the store's clock decides.
			w.at(w.home).Note(w.ctx, rec.Key, rec.Home, claim.AuditEntry{
				Event: claim.EventReplied, Region: w.Regions[1], Node: "n7",
				Fence: rec.Fence, Generation: rec.Generation, Detail: detail,
			})
			if w.Advance == nil {
				// The time of a note is off by as long as writing it takes.
				w.until(w.now().Add(time.Second))
			}
		}
		say("busy")
		rec = w.settle(rec, approved("paid"))
		say("201")
		line, err := w.at(w.home).Timeline(w.ctx, rec.Key, rec.Home, 100)
		require.NoError(w, err)
		var got []string
		for _, e := range line {
			got = append(got, string(e.Event)+" "+e.Detail)
		}
		require.Equal(w, []string{"claimed charge", "replied busy", "attempt done", "settled ", "replied 201"}, got)
		last := line[len(line)-1]
		require.Equal(w, w.Regions[1], last.Region)
		require.Equal(w, "n7", last.Node)
		require.Equal(w, rec.Fence, last.Fence)
		require.Equal(w, rec.Generation, last.Generation)
		require.False(w, last.At.IsZero())
	}},
	{"timeline: the latest entries, in order, and only of the key", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.begin(w.arrival("k!", "100"), claim.Won)
		for i := range 10 {
			w.at(w.home).Note(w.ctx, rec.Key, rec.Home, claim.AuditEntry{At: w.now(), Event: claim.EventReplied, Detail: fmt.Sprint(i)})
		}
		line, err := w.at(w.Regions[1]).Timeline(w.ctx, rec.Key, rec.Home, 3)
		require.NoError(w, err)
		require.Len(w, line, 3)
		for i, e := range line {
			require.Equal(w, fmt.Sprint(7+i), e.Detail)
		}
		none, err := w.at(w.home).Timeline(w.ctx, w.key("none"), w.home, 3)
		require.NoError(w, err)
		require.Empty(w, none)
		none, err = w.at(w.home).Timeline(w.ctx, rec.Key, rec.Home, 0)
		require.NoError(w, err)
		require.Empty(w, none)
	}},
}

var raceTests = []test{
	{"race: of 64 arrivals with one key exactly one wins", func(w *world) {
		const racers = 64
		arrivals := make([]claim.Arrival, racers)
		for i := range arrivals {
			arrivals[i] = w.arrival("k", "100")
		}
		var won atomic.Int32
		var winner atomic.Value
		var g errgroup.Group
		for i, a := range arrivals {
			g.Go(func() error {
				got, err := w.at(w.Regions[i%3]).Begin(w.ctx, a)
				switch {
				case err != nil:
					return err
				case got.Decision == claim.Won:
					won.Add(1)
					winner.Store(a.Node)
				case got.Decision != claim.Busy:
					return fmt.Errorf("decision %v", got.Decision)
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
		require.Equal(w, int32(1), won.Load())
		rec := w.get(claim.Record{Key: w.key("k"), Home: w.home})
		require.Equal(w, winner.Load(), rec.Holder)
		require.Equal(w, 1, w.pending(w.home))
		require.Len(w, w.events(rec), 1)
	}},
	{"race: of many take-overs exactly one succeeds", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		w.lapse(rec)
		var won atomic.Int32
		var g errgroup.Group
		for i := range 32 {
			g.Go(func() error {
				_, err := w.at(w.Regions[i%3]).TakeOver(w.ctx, rec.Key, rec.Home, rec.Minted.ID, fmt.Sprint("heir", i), w.home, claim.News{})
				if err == nil {
					won.Add(1)
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
		require.Equal(w, int32(1), won.Load())
		require.Equal(w, rec.Fence+1, w.get(rec).Fence)
	}},
	{"race: a claim is settled once", func(w *world) {
		rec := w.begin(w.arrival("k", "100"), claim.Won)
		var won atomic.Int32
		var body atomic.Value
		var g errgroup.Group
		for i := range 32 {
			g.Go(func() error {
				got, err := w.at(w.Regions[i%3]).Settle(w.ctx, rec, approved(fmt.Sprint("paid", i)))
				if err == nil {
					won.Add(1)
					body.Store(string(got.Response.Body))
				}
				return nil
			})
		}
		require.NoError(w, g.Wait())
		require.Equal(w, int32(1), won.Load())
		require.Equal(w, body.Load(), string(w.get(rec).Response.Body))
	}},
	{"race: concurrent requests under different keys all succeed", func(w *world) {
		const keys = 64
		var g errgroup.Group
		for i := range keys {
			a := w.arrival(fmt.Sprint("k", i), "100")
			a.Home = w.Regions[i%3]
			g.Go(func() error {
				s := w.at(a.Home)
				got, err := s.Begin(w.ctx, a)
				if err != nil {
					return err
				}
				_, err = s.Settle(w.ctx, got.Record, approved(a.Key.Value))
				return err
			})
		}
		require.NoError(w, g.Wait())
		for i := range keys {
			rec := w.get(claim.Record{Key: w.key(fmt.Sprint("k", i)), Home: w.Regions[i%3]})
			require.Equal(w, fmt.Sprint("k", i), string(rec.Response.Body))
		}
		for _, r := range w.Regions {
			require.Zero(w, w.pending(r))
		}
	}},
}
