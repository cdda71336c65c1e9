package audit_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
)

const home = "europe-west1"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newKeys(t *testing.T) (text string, keys *audit.Keys) {
	t.Helper()
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err = audit.ParseKeys(text)
	require.NoError(t, err)
	return text, keys
}

// world is a region with some entries a day.
type world struct {
	*testing.T
	store  *memory
	bucket *audittest.Bucket
	keys   *audit.Keys
	n      int
}

func newWorld(t *testing.T) *world {
	_, keys := newKeys(t)
	return &world{T: t, store: &memory{now: start, kept: map[string]bool{}}, bucket: audittest.NewBucket(), keys: keys}
}

// add writes an entry of a key at a time.
func (w *world) add(key string, at time.Time) audit.Entry {
	w.n++
	e := audit.Entry{
		Tenant: "acme", Key: key, Object: "ch_" + key, ID: fmt.Sprintf("%08d", w.n), At: at, Event: claim.EventSettled,
		Region: home, Node: "node-1", Fence: 1, Generation: 1,
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.entries = append(w.store.entries, e)
	return e
}

// days adds some entries on each of n days, and lets them pass.
func (w *world) days(n, each int) {
	for range n {
		for i := range each {
			w.add(fmt.Sprintf("key-%03d", i), w.store.now.Add(time.Duration(i)*time.Second))
		}
		w.store.now = w.store.now.Add(24 * time.Hour)
	}
}

// deploymentID is the deployment of these tests.
var deploymentID = uuid.MustParse("018f0000-0000-4000-8000-00000000000a")

func (w *world) config() audit.Config {
	return audit.Config{
		Store: w.store, Objects: w.bucket, Keys: w.keys, Deployment: deploymentID, Policy: audit.DefaultPolicy(), Home: home, Node: "node-1", Entries: 10, Page: 4,
	}
}

func (w *world) round() audit.Status {
	w.Helper()
	x, err := audit.NewExporter(w.config())
	require.NoError(w, err)
	s, err := x.Round(w.Context())
	require.NoError(w, err)
	return s
}

func (w *world) verify(bucket audit.Objects) audit.Report {
	w.Helper()
	r, err := audit.Verify(w.Context(), audit.VerifyConfig{Objects: bucket, Trust: w.keys.Trust(), Now: w.store.now, Stale: 48 * time.Hour})
	require.NoError(w, err)
	return r
}

func (w *world) find(wanted audit.Wanted) []audit.Found {
	w.Helper()
	a := audit.Archive{Objects: w.bucket, Trust: w.keys.Trust()}
	found, doubts, err := a.Find(w.Context(), wanted)
	require.NoError(w, err)
	require.Empty(w, doubts)
	return found
}

func TestDaysAreExported(t *testing.T) {
	w := newWorld(t)
	w.days(1, 25)
	w.store.now = w.store.now.Add(24 * time.Hour) // a day without anything
	w.days(1, 3)
	s := w.round()
	require.Equal(t, audit.Status{Exported: start.Truncate(24 * time.Hour).Add(72 * time.Hour), Segments: 4, Entries: 28}, s)
	require.Zero(t, w.round().Segments, "what is exported is not exported again")

	r := w.verify(w.bucket)
	require.Empty(t, r.Failures)
	require.Len(t, r.Regions, 1)
	require.Equal(t, int64(28), r.Regions[0].Entries)
	require.Equal(t, uint64(4), r.Regions[0].Segments)
	require.Equal(t, s.Exported, r.Regions[0].To)
	require.Equal(t, map[string]int{w.keys.ID(): 4}, r.Keys)
	for i, name := range w.bucket.Names() {
		day := []string{"2026-03-01", "2026-03-01", "2026-03-02", "2026-03-03"}[i]
		require.True(t, strings.HasPrefix(name, fmt.Sprintf("%s/%s/%012d-", home, day, i+1)), name)
	}
}

// A window is exported a while after its end, and what is behind is caught up with.
func TestLag(t *testing.T) {
	w := newWorld(t)
	w.add("k", start)
	w.store.now = start.Truncate(24 * time.Hour).Add(24*time.Hour + 14*time.Minute)
	s := w.round()
	require.Zero(t, s.Segments)
	require.Zero(t, s.Lag)
	w.store.now = w.store.now.Add(3 * 24 * time.Hour)
	require.Equal(t, 3, w.round().Segments)
	c, _, _, err := w.store.AuditChain(t.Context(), home)
	require.NoError(t, err)
	require.Equal(t, start.Truncate(24*time.Hour).Add(3*24*time.Hour), c.From)
}

func TestKeysAndObjectsAreFound(t *testing.T) {
	w := newWorld(t)
	w.days(3, 25)
	w.round()
	for _, wanted := range []audit.Wanted{
		{Tenant: "acme", Key: "key-007"}, {Key: "key-007"}, {Key: "key-007", Tenants: []string{"globex", "acme"}}, {Object: "ch_key-007"},
	} {
		found := w.find(wanted)
		require.Len(t, found, 3, wanted)
		for i, f := range found {
			require.Equal(t, "key-007", f.Key)
			require.Equal(t, home, f.Home)
			require.Equal(t, start.Add(time.Duration(i)*24*time.Hour+7*time.Second), f.At)
		}
	}
	require.Len(t, w.find(audit.Wanted{Object: "ch_key-007", Since: start.Add(24 * time.Hour), Until: start.Add(30 * time.Hour)}), 1)
	require.Empty(t, w.find(audit.Wanted{Tenant: "globex", Key: "key-007"}))
	require.Empty(t, w.find(audit.Wanted{Object: "ch_other"}))
	require.Empty(t, w.find(audit.Wanted{Key: "key-007", Regions: []string{"us-east1"}}))
}

// A segment that the store has recorded and the bucket lacks may have had what is searched.
func TestMissingSegmentsAreDoubts(t *testing.T) {
	w := newWorld(t)
	w.days(5, 3)
	w.round()
	for i, name := range w.bucket.Names() {
		if i != 0 && i != 3 {
			w.bucket.Remove(name)
		}
	}
	between, last := "segments 2 to 3 of "+home+": they are not in the bucket", "segment 5 of "+home+": it is not in the bucket"
	for _, c := range []struct {
		recorded map[string]uint64
		doubts   []string
	}{
		{nil, nil},
		{map[string]uint64{home: 1}, nil},
		{map[string]uint64{home: 2}, []string{"segment 2 of " + home + ": it is not in the bucket"}},
		{map[string]uint64{home: 4}, []string{between}},
		{map[string]uint64{home: 5}, []string{last, between}},
		{map[string]uint64{home: 1, "us-east1": 2}, []string{"segments 1 to 2 of us-east1: they are not in the bucket"}},
	} {
		a := audit.Archive{Objects: w.bucket, Trust: w.keys.Trust()}
		found, doubts, err := a.Find(t.Context(), audit.Wanted{Object: "ch_key-001", Recorded: c.recorded})
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Equal(t, c.doubts, doubts)
	}
}

// Whatever is done to a bucket is named by where it was done.
func TestWhatIsWrongIsNamed(t *testing.T) {
	w := newWorld(t)
	w.days(4, 15)
	w.round()
	require.Len(t, w.bucket.Names(), 8)
	_, stranger := newKeys(t)
	names := w.bucket.Names()
	for what, c := range map[string]struct {
		do     func(b *audittest.Bucket)
		class  audit.Class
		number uint64
	}{
		"a byte of a body": {func(b *audittest.Bucket) {
			data := b.Remove(names[2])
			data[len(data)-1] ^= 1
			require.NoError(t, b.Put(t.Context(), names[2], data))
		}, audit.Changed, 3},
		"a signature": {func(b *audittest.Bucket) {
			data := string(b.Remove(names[2]))
			at := strings.Index(data, `"sig":"`) + 10
			data = data[:at] + string(rune(data[at]^1)) + data[at+1:]
			require.NoError(t, b.Put(t.Context(), names[2], []byte(data)))
		}, audit.Changed, 3},
		"cut short":      {func(b *audittest.Bucket) { require.NoError(t, b.Put(t.Context(), names[4], b.Remove(names[4])[:200])) }, audit.Changed, 5},
		"empty":          {func(b *audittest.Bucket) { require.NoError(t, b.Put(t.Context(), names[4], nil)) }, audit.Changed, 5},
		"removed":        {func(b *audittest.Bucket) { b.Remove(names[3]) }, audit.Removed, 4},
		"the first":      {func(b *audittest.Bucket) { b.Remove(names[0]) }, audit.Removed, 1},
		"two exchanged":  {func(b *audittest.Bucket) { exchange(t, b, names[2], names[3]) }, audit.Reordered, 3},
		"another's name": {func(b *audittest.Bucket) { require.NoError(t, b.Put(t.Context(), names[5], b.Remove(names[2]))) }, audit.Reordered, 6},
		"the end": {func(b *audittest.Bucket) {
			for _, name := range names[4:] {
				b.Remove(name)
			}
		}, audit.Ended, 5},
	} {
		t.Run(what, func(t *testing.T) {
			b := w.bucket.Clone()
			c.do(b)
			r := w.verify(b)
			require.False(t, r.OK())
			require.True(t, slices.ContainsFunc(r.Failures, func(f audit.Failure) bool {
				return f.Class == c.class && f.Number == c.number && f.Region == home
			}), "%v", r.Failures)
			require.False(t, r.OnlyUnread())
		})
	}
	t.Run("another's signature", func(t *testing.T) {
		r, err := audit.Verify(t.Context(), audit.VerifyConfig{Objects: w.bucket, Trust: stranger.Trust()})
		require.NoError(t, err)
		require.Equal(t, audit.Foreign, r.Failures[0].Class)
	})
	t.Run("a region that was removed", func(t *testing.T) {
		r, err := audit.Verify(t.Context(), audit.VerifyConfig{Objects: w.bucket, Trust: w.keys.Trust(), Regions: []string{home, "us-east1"}})
		require.NoError(t, err)
		require.Equal(t, []audit.Failure{{Class: audit.Removed, Region: "us-east1", Number: 1, Detail: "the region has no segment at all"}}, r.Failures)
	})
	t.Run("an unreadable object is not reported as wrong", func(t *testing.T) {
		r := w.verify(unreadable{w.bucket, names[3]})
		require.True(t, r.OnlyUnread())
		require.Len(t, r.Failures, 1)
		require.Equal(t, audit.Unread, r.Failures[0].Class)
	})
}

func exchange(t *testing.T, b *audittest.Bucket, one, other string) {
	first, second := b.Remove(one), b.Remove(other)
	require.NoError(t, b.Put(t.Context(), one, second))
	require.NoError(t, b.Put(t.Context(), other, first))
}

type unreadable struct {
	audit.Objects
	name string
}

func (u unreadable) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if name == u.name {
		return nil, errors.New("the bucket is away")
	}
	return u.Objects.Get(ctx, name, limit)
}

// A key is retired: the new one signs, and both are believed.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	old, first := newKeys(t)
	w.keys = first
	w.days(2, 3)
	w.round()
	text, _ := newKeys(t)
	public, err := first.Public()
	require.NoError(t, err)
	signed := 0
	for _, both := range []string{text + old, text + public} {
		w.keys, err = audit.ParseKeys(both)
		require.NoError(t, err)
		w.days(1, 3)
		w.round()
		r := w.verify(w.bucket)
		require.Empty(t, r.Failures)
		require.Equal(t, 2, r.Keys[first.ID()], "what the old key has signed is verified for ever")
		signed++
		require.Equal(t, signed, r.Keys[w.keys.ID()], "and the first key of the list signs")
	}
	trust, err := w.keys.Public()
	require.NoError(t, err)
	all, err := audit.ParseTrust(trust)
	require.NoError(t, err)
	require.Equal(t, w.keys.Trust(), all)

	_, err = audit.ParseTrust(text)
	require.ErrorContains(t, err, "is a private key")
	_, err = audit.ParseKeys(public)
	require.ErrorContains(t, err, "no private key")
	_, err = audit.ParseKeys("nothing")
	require.ErrorContains(t, err, "no key in PEM")
	_, err = audit.ParseKeys(old + old)
	require.ErrorContains(t, err, "there twice")
}

// Rows are deleted once they are found in a segment, and their claim was deleted. One that came
// after its window was exported gets a segment first.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	w.days(2, 15)
	w.round()
	late := w.add("late", start)
	w.store.kept["key-003"] = true
	w.store.now = start.Add(8 * 24 * time.Hour)
	s := w.round()
	require.Equal(t, 1, s.Late)
	require.Equal(t, 14, s.Swept, "of the first day, but the one with a stored claim, and the late one")
	require.True(t, slices.ContainsFunc(w.store.entries, func(e audit.Entry) bool { return e == late }), "it is deleted when it is found in a segment")
	require.Zero(t, w.round().Swept, "once a day is enough")
	require.Empty(t, w.verify(w.bucket).Failures)
	require.Len(t, w.find(audit.Wanted{Tenant: "acme", Key: "late"}), 1)

	w.store.now = w.store.now.Add(24 * time.Hour)
	require.Equal(t, 15, w.round().Swept)
	require.Len(t, w.store.entries, 2, "those of a claim that is there")
	delete(w.store.kept, "key-003")
	w.store.now = w.store.now.Add(24 * time.Hour)
	require.Equal(t, 2, w.round().Swept)
	require.Empty(t, w.verify(w.bucket).Failures)
}

// A segment that is damaged proves nothing: its rows are exported once more, and stay
// until they are found.
func TestSweepBelievesNoDamagedSegment(t *testing.T) {
	for what, harm := range map[string]func(w *world, name string){
		"body": func(w *world, name string) {
			data := w.bucket.Remove(name)
			data[len(data)-1] ^= 1
			require.NoError(t, w.bucket.Put(t.Context(), name, data))
		},
		"head": func(w *world, name string) { require.NoError(t, w.bucket.Put(t.Context(), name, []byte("{}\n"))) },
		"gone": func(w *world, name string) { w.bucket.Remove(name) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.days(1, 5)
			w.store.now = w.store.now.Add(24 * time.Hour)
			w.round()
			harm(w, w.bucket.Names()[0])
			w.store.now = start.Add(8 * 24 * time.Hour)
			s := w.round()
			require.Zero(t, s.Swept)
			require.Equal(t, 5, s.Late)
			w.store.now = w.store.now.Add(24 * time.Hour)
			require.Equal(t, 5, w.round().Swept)
			found, _, err := (&audit.Archive{Objects: w.bucket, Trust: w.keys.Trust()}).Find(t.Context(), audit.Wanted{Tenant: "acme", Key: "key-001"})
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.NotEmpty(t, w.verify(w.bucket).Failures, "what was done to the bucket is still named")
		})
	}
}

// A rival's segment that did not get into the chain is no failure, and proves no row.
func TestTwoExporters(t *testing.T) {
	w := newWorld(t)
	w.days(1, 5)
	x, err := audit.NewExporter(w.config())
	require.NoError(t, err)
	rival := w.config()
	rival.Node = "node-2"
	rival.Objects = &meanwhile{Objects: w.bucket, do: func() {
		_, err := x.Round(t.Context())
		require.NoError(t, err)
	}}
	other, err := audit.NewExporter(rival)
	require.NoError(t, err)
	s, err := other.Round(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.Segments)
	require.Len(t, w.bucket.Names(), 2)
	w.days(1, 5)
	w.round()
	r := w.verify(w.bucket)
	require.Empty(t, r.Failures)
	require.Equal(t, 1, r.Regions[0].Spare)
	require.Equal(t, uint64(2), r.Regions[0].Segments)
	w.store.now = start.Add(9 * 24 * time.Hour)
	require.Equal(t, 10, w.round().Swept)
	require.Empty(t, w.verify(w.bucket).Failures)
}

// meanwhile lets another exporter act before the first object is written.
type meanwhile struct {
	audit.Objects
	do func()
}

func (m *meanwhile) Put(ctx context.Context, name string, data []byte) error {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Objects.Put(ctx, name, data)
}

// The segment has the number of replies that nodes have lost.
func TestRepliesLost(t *testing.T) {
	w := newWorld(t)
	w.store.entries = append(w.store.entries,
		audit.Entry{ID: "1", At: start, Event: claim.EventRepliesLost, Node: "node-1", Region: home, Detail: "512"},
		audit.Entry{ID: "2", At: start, Event: claim.EventRepliesLost, Node: "node-2", Region: home, Detail: "3"})
	w.store.now = w.store.now.Add(24 * time.Hour)
	w.round()
	require.Equal(t, uint64(515), w.verify(w.bucket).Regions[0].RepliesLost)
}

func TestCardNumbersAreMasked(t *testing.T) {
	w := newWorld(t)
	w.add("k", start)
	w.store.entries[0].Detail = "4242424242424242"
	w.store.now = w.store.now.Add(24 * time.Hour)
	c := w.config()
	c.Mask = func(s string) string { return strings.ReplaceAll(s, "4242424242424242", "****") }
	x, err := audit.NewExporter(c)
	require.NoError(t, err)
	_, err = x.Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, "****", w.find(audit.Wanted{Key: "k"})[0].Detail)
}

// A segment can be read without our code: its first line is an envelope of DSSE, which others'
// software verifies, and the rest is JSON lines in a zstd frame.
func TestSegmentsAreReadByOthers(t *testing.T) {
	w := newWorld(t)
	w.days(1, 3)
	w.round()
	data, err := w.bucket.Get(t.Context(), w.bucket.Names()[0], 0)
	require.NoError(t, err)
	line, body, found := strings.Cut(string(data), "\n")
	require.True(t, found)
	var e dsse.Envelope
	require.NoError(t, json.Unmarshal([]byte(line), &e))
	v, err := dsse.NewEnvelopeVerifier(verifier{w.keys.ID(), w.keys.Trust()[w.keys.ID()]})
	require.NoError(t, err)
	accepted, payload, err := v.VerifyAndDecode(t.Context(), &e)
	require.NoError(t, err)
	require.Len(t, accepted, 1)
	var m map[string]any
	require.NoError(t, json.Unmarshal(payload, &m))
	require.Equal(t, home, m["region"])
	require.Equal(t, float64(3), m["entries"])
	d, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer d.Close()
	lines, err := d.DecodeAll([]byte(body), nil)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(lines), "\n"))
	require.Contains(t, string(lines), `{"tenant":"acme","key":"key-000","object":"ch_key-000","id":"00000001","at":"2026-03-01T12:00:00Z","event":"settled"`)
}

type verifier struct {
	id  string
	key ed25519.PublicKey
}

func (v verifier) KeyID() (string, error)   { return v.id, nil }
func (v verifier) Public() crypto.PublicKey { return v.key }
func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(v.key, data, sig) {
		return errors.New("wrong")
	}
	return nil
}

func TestPolicy(t *testing.T) {
	require.NoError(t, audit.DefaultPolicy().Validate())
	require.ErrorContains(t, audit.Policy{Window: 7 * time.Hour, Settle: -1, KeepRows: time.Hour}.Validate(), "window must be 24h or divide it evenly, is 7h0m0s\naudit policy: settle must be from 0 to 24h, is -1ns\naudit policy: keep_rows")
}

// TestWhatReplicasDoNotHaveYetIsExported: pages come from replicas, which are late. The exporter
// exports a window as whole once they have all of it.
func TestWhatReplicasDoNotHaveYetIsExported(t *testing.T) {
	for name, export := range map[string]func(*audit.Exporter, context.Context) (audit.Status, error){
		"Finish": (*audit.Exporter).Finish, "Round": (*audit.Exporter).Round,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store.age = 20 * time.Millisecond
			w.add("first", w.store.now)
			w.store.now = w.store.now.Add(24 * time.Hour).Truncate(24 * time.Hour).Add(-time.Nanosecond)
			w.add("last", w.store.now)
			c := w.config()
			c.Policy.Settle = 0
			x, err := audit.NewExporter(c)
			require.NoError(t, err)
			for exported := 0; exported == 0; { // Round exports nothing while it is too early
				s, err := export(x, t.Context())
				require.NoError(t, err)
				exported = s.Entries
			}
			for _, key := range []string{"first", "last"} {
				require.Len(t, w.find(audit.Wanted{Tenant: "acme", Key: key}), 1, key)
			}
		})
	}
}

// TestTheFirstWindowHasWhatReplicasLack: a chain begins where no page shows anything yet.
func TestTheFirstWindowHasWhatReplicasLack(t *testing.T) {
	for name, export := range map[string]func(*audit.Exporter, context.Context) (audit.Status, error){
		"Finish": (*audit.Exporter).Finish, "Round": (*audit.Exporter).Round,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store.age = 20 * time.Millisecond
			w.add("fresh", w.store.now.Add(-time.Millisecond)) // the last window's
			c := w.config()
			c.Policy.Window, c.Policy.Settle = time.Second, 0
			x, err := audit.NewExporter(c)
			require.NoError(t, err)
			for range 2 {
				_, err = export(x, t.Context())
				require.NoError(t, err)
				w.store.now = w.store.now.Add(2 * time.Second)
			}
			require.Len(t, w.find(audit.Wanted{Tenant: "acme", Key: "fresh"}), 1)
		})
	}
}

// errDied ends an exporter.
var errDied = errors.New("died")

// dying is a store at which the exporter dies instead of the advance after some.
type dying struct {
	audit.Store
	left int
}

func (d *dying) AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (bool, error) {
	if d.left--; d.left < 0 {
		return false, errDied
	}
	return d.Store.AdvanceAudit(ctx, home, was, next)
}

// exporter returns one with windows of an hour, and small segments.
func (w *world) exporter(change func(*audit.Config)) *audit.Exporter {
	w.Helper()
	c := w.config()
	c.Policy.Window, c.Policy.Settle, c.Entries, c.Page = time.Hour, 0, 2, 1
	change(&c)
	x, err := audit.NewExporter(c)
	require.NoError(w, err)
	return x
}

// daily is the policy of homeward audit export, whatever the nodes' is.
func daily(c *audit.Config) { c.Policy = audit.DefaultPolicy() }

// diesAfter lets an exporter advance the chain so often, and then die.
func diesAfter(advances int) func(*audit.Config) {
	return func(c *audit.Config) { c.Store = &dying{c.Store, advances} }
}

// fiveKeys adds an entry of each of five keys.
func (w *world) fiveKeys(at time.Time) {
	for i := range 5 {
		w.add(fmt.Sprintf("key-%d", i), at)
	}
}

// whole asserts that the chain has every entry once.
func (w *world) whole() {
	w.Helper()
	r := w.verify(w.bucket)
	require.Empty(w, r.Failures)
	require.Zero(w, r.Regions[0].Spare)
	require.Equal(w, int64(len(w.store.entries)), r.Regions[0].Entries)
	require.Equal(w, w.store.chain.From, r.Regions[0].To)
}

// TestAnExportIsTakenOver: wherever an exporter dies, one with another policy goes on with
// what it left, and the chain has everything once.
func TestAnExportIsTakenOver(t *testing.T) {
	type export = func(*audit.Exporter, context.Context) (audit.Status, error)
	round, finish := (*audit.Exporter).Round, (*audit.Exporter).Finish
	none := func(*audit.Config) {}
	for name, c := range map[string]struct {
		first         export
		change, after func(*audit.Config)
		then          export
	}{
		"a node's, by Finish":  {round, none, daily, finish},
		"Finish's, by a node":  {finish, daily, none, round},
		"a node's, by another": {round, none, daily, round},
	} {
		t.Run(name, func(t *testing.T) {
			for advances := 1; ; advances++ { // the first begins the chain
				w := newWorld(t)
				w.fiveKeys(start)
				w.fiveKeys(start.Add(time.Hour))
				w.store.now = start.Add(90 * time.Minute) // in the second window
				_, err := c.first(w.exporter(func(x *audit.Config) { c.change(x); diesAfter(advances)(x) }), t.Context())
				if err == nil {
					require.Greater(t, advances, 3, "some parts were taken over")
					break
				}
				require.ErrorIs(t, err, errDied)
				w.fiveKeys(w.store.now.Add(time.Minute)) // it was not the end
				w.store.now = w.store.now.Add(24 * time.Hour)
				_, err = c.then(w.exporter(c.after), t.Context())
				require.NoError(t, err)
				w.whole()
			}
		})
	}
}

// prolonging is a store with chains that end the windows with parts a day later.
type prolonging struct{ audit.Store }

func (p prolonging) AuditChain(ctx context.Context, home string) (audit.Chain, time.Time, bool, error) {
	c, now, found, err := p.Store.AuditChain(ctx, home)
	if c.Part > 0 {
		c.To = c.From.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return c, now, found, err
}

// TestAWindowThatIsProlongedIsAGap: the parts of a window end where the first one does. If a
// later one ends later, what the first parts' keys have after that is in none of them: it is
// named, and does not count as read.
func TestAWindowThatIsProlongedIsAGap(t *testing.T) {
	w := newWorld(t)
	w.fiveKeys(start)
	w.fiveKeys(start.Add(time.Hour))
	w.store.now = start.Add(90 * time.Minute)
	_, err := w.exporter(func(c *audit.Config) { c.Store = &dying{c.Store, 2} }).Round(t.Context())
	require.ErrorIs(t, err, errDied)
	left := w.bucket.Names()
	require.Len(t, left, 2)
	w.bucket.Remove(left[1]) // it died before that, too
	_, err = w.exporter(func(c *audit.Config) { daily(c); c.Store = prolonging{c.Store} }).Finish(t.Context())
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(w.verify(w.bucket).Failures, func(f audit.Failure) bool { return f.Class == audit.Gap }))
	f, err := (&audit.Lost{Objects: w.bucket, Trust: w.keys.Trust(), Home: home, Before: w.store.now.Add(time.Minute)}).Follow(t.Context(), audit.Chain{From: start})
	require.NoError(t, err)
	require.Contains(t, f.Broken, "ends later")
	require.Equal(t, start, f.Covered)
}

// TestSegmentsOfAnotherChainAreNotFollowed: their number alone does not make them those that
// the backup's chain goes on with.
func TestSegmentsOfAnotherChainAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.days(2, 3)
	w.round()
	lost := audit.Lost{Objects: w.bucket, Trust: w.keys.Trust(), Home: home, Before: w.store.now.Add(time.Minute)}
	f, err := lost.Follow(t.Context(), audit.Chain{From: start})
	require.NoError(t, err)
	require.Empty(t, f.Broken)
	require.Positive(t, f.Segments)
	f, err = lost.Follow(t.Context(), audit.Chain{From: start, Number: 1, Digest: "another"})
	require.NoError(t, err)
	require.Contains(t, f.Broken, "names another one before it")
	require.Zero(t, f.Segments)
}

// TestChainsThatAreJoinedAreNamed: two chains of the same windows, and one with a segment of
// the other's.
func TestChainsThatAreJoinedAreNamed(t *testing.T) {
	one := newWorld(t)
	one.days(3, 3)
	one.round()
	other := newWorld(t)
	other.keys = one.keys
	other.days(3, 3)
	other.store.chain = &audit.Chain{Version: 1, From: start.Truncate(audit.DefaultPolicy().Window), Digest: "of before"}
	other.round()
	reordered := func(b *audittest.Bucket) (numbers []uint64) {
		for _, f := range one.verify(b).Failures {
			require.Equal(t, audit.Reordered, f.Class, "%v", f)
			numbers = append(numbers, f.Number)
		}
		return numbers
	}
	require.Empty(t, reordered(one.bucket))
	require.Equal(t, []uint64{1}, reordered(other.bucket), "its first segment names one before it")
	give := func(to *audittest.Bucket, n int) {
		name := other.bucket.Names()[n]
		data, err := other.bucket.Get(t.Context(), name, 0)
		require.NoError(t, err)
		require.NoError(t, to.Put(t.Context(), name, data))
	}
	joined := one.bucket.Clone()
	joined.Remove(one.bucket.Names()[2])
	give(joined, 2)
	require.Equal(t, []uint64{3}, reordered(joined))

	forked := one.bucket.Clone()
	for n := range other.bucket.Names() {
		give(forked, n)
	}
	require.True(t, slices.ContainsFunc(one.verify(forked).Failures, func(f audit.Failure) bool { return f.Class == audit.Forked && f.Number == 1 }))

	// An exporter that finds a segment of another chain goes on with its own.
	anew := newWorld(t)
	anew.keys = one.keys
	anew.days(3, 3)
	give(anew.bucket, 0)
	anew.round()
	require.Empty(t, anew.verify(anew.bucket).Failures)
}

// TestWhatWitnessesSay: each life of a key has its own, and one is final if its attempt made
// the movement or its last generation was answered.
func TestWhatWitnessesSay(t *testing.T) {
	type step struct {
		event      claim.Event
		detail     string
		generation uint32
		ref        string
	}
	began := step{event: claim.EventClaimed, detail: "charge", generation: 1}
	for name, c := range map[string]struct {
		steps          []step
		done, answered bool
		generation     uint32
		ref            string
	}{
		"in flight":                   {steps: []step{began}, generation: 1},
		"unknown":                     {steps: []step{began, {claim.EventAttempt, claim.OutcomeUnknown, 1, ""}}, generation: 1},
		"done":                        {steps: []step{began, {claim.EventAttempt, claim.OutcomeDone, 1, "psp_1"}}, done: true, generation: 1, ref: "psp_1"},
		"answered":                    {steps: []step{began, {claim.EventAttempt, claim.OutcomeRefused, 1, ""}, {claim.EventSettled, "stolen", 1, ""}}, answered: true, generation: 1},
		"the next generation":         {steps: []step{began, {claim.EventReleased, "", 1, "psp_1"}, {claim.EventReclaimed, "", 2, ""}}, generation: 2, ref: "psp_1"},
		"another life, of no attempt": {steps: []step{began, {claim.EventAttempt, claim.OutcomeDone, 1, "psp_1"}, {claim.EventSettled, "", 1, "psp_1"}, {claim.EventReplaced, "charge", 1, ""}}, generation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			rec := claim.Record{Minted: claim.Minted{ID: "ch_k"}, Generation: c.generation, FirstUse: start}
			for i, s := range c.steps {
				w.add("k", start.Add(time.Duration(i)*time.Second))
				e := &w.store.entries[i]
				e.Event, e.Detail, e.Generation, e.Fence, e.ProviderRef, e.Claim = s.event, s.detail, s.generation, uint64(i+1), s.ref, &rec
			}
			w.store.now = start.Add(48 * time.Hour)
			w.round()
			f, err := (&audit.Lost{Objects: w.bucket, Trust: w.keys.Trust(), Home: home, Before: w.store.now.Add(time.Minute)}).Follow(t.Context(), audit.Chain{From: start})
			require.NoError(t, err)
			require.Len(t, f.Witnesses, 1)
			is := f.Witnesses[0]
			require.Equal(t, "ch_k", is.Object)
			require.Equal(t, []any{c.done, c.answered, c.generation, c.ref, uint64(len(c.steps))}, []any{is.Done, is.Answered, is.Generation, is.ProviderRef, is.Fence})
		})
	}
}

// blind is a bucket that lists none of some objects, as one with late listings.
type blind struct {
	audit.Objects
	hides func(name string) bool
}

func (b blind) List(ctx context.Context, prefix string, each func(name string) error) error {
	return b.Objects.List(ctx, prefix, func(name string) error {
		if b.hides(name) {
			return nil
		}
		return each(name)
	})
}

// TestTheFurthestOfWhatIsLostCounts: the lost store wrote two segments of one number, and the
// restored one goes on from that which ends earlier. The other one was written, too: what is lost
// has witnesses until its end.
func TestTheFurthestOfWhatIsLostCounts(t *testing.T) {
	w := newWorld(t)
	w.add("before", start)
	w.store.now = start.Add(time.Hour)
	wide := func(c *audit.Config) { c.Entries = 10 }
	_, err := w.exporter(wide).Round(t.Context())
	require.NoError(t, err)
	backup := *w.store.chain
	first := w.bucket.Names()

	w.add("lost", w.store.now.Add(time.Minute))
	w.store.now = w.store.now.Add(time.Hour)
	_, err = w.exporter(func(c *audit.Config) { wide(c); diesAfter(0)(c) }).Round(t.Context())
	require.ErrorIs(t, err, errDied)
	spare := w.bucket.Names()
	require.Len(t, spare, len(first)+1)
	w.add("last", w.store.now.Add(time.Minute))
	lost := w.store.now.Add(10 * time.Minute)
	w.store.now = lost
	_, err = w.exporter(func(c *audit.Config) {
		daily(c)
		c.Entries, c.Objects = 10, blind{w.bucket, func(name string) bool { return slices.Contains(spare, name) }}
	}).Finish(t.Context())
	require.NoError(t, err)
	require.Len(t, w.bucket.Names(), len(spare)+1)

	opened := lost.Add(time.Minute)
	w.store.chain, w.store.now, w.store.entries = &backup, opened.Add(2*time.Hour), w.store.entries[:1]
	all := w.bucket.Clone()
	_, err = w.exporter(func(c *audit.Config) {
		wide(c)
		c.Objects = blind{w.bucket, func(name string) bool { return !slices.Contains(spare, name) }}
	}).Round(t.Context())
	require.NoError(t, err)
	require.Empty(t, w.verify(w.bucket).Failures)
	f, err := (&audit.Lost{Objects: w.bucket, Trust: w.keys.Trust(), Home: home, Before: opened}).Follow(t.Context(), backup)
	require.NoError(t, err)
	require.Equal(t, lost, f.Covered)

	// A restored store that lists both adopts the one that ends later.
	w.store.chain, w.bucket = &backup, all
	_, err = w.exporter(wide).Round(t.Context())
	require.NoError(t, err)
	f, err = (&audit.Lost{Objects: all, Trust: w.keys.Trust(), Home: home, Before: opened}).Follow(t.Context(), backup)
	require.NoError(t, err)
	require.Equal(t, lost, f.Covered)
	require.Empty(t, f.Broken)
	require.Equal(t, w.store.chain.From, f.Chain.From)
}
