package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

// Every case runs once, briefly. A side that leaves other rows than a charge's
// fails the run; no figure is judged.
func TestEveryStoreCaseMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("measures four cases")
	}
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	dir := t.TempDir()
	o := options{
		runs: 2, window: 100 * time.Millisecond, slice: 50 * time.Millisecond, warm: 20 * time.Millisecond,
		conns: []int{1, 4}, small: 50, large: 500, out: filepath.Join(dir, "bench.txt"), profile: dir,
	}
	var out bytes.Buffer
	require.NoError(t, measureStore(t.Context(), o, s, &out), out.String())
	require.Contains(t, out.String(), "on "+s.Version())
	lines, err := os.ReadFile(o.out)
	require.NoError(t, err)
	for _, want := range []string{
		"store_raw/conns=1/side=raw", "store_raw/conns=1/side=store", "store_raw/conns=4/side=raw", "store_raw/conns=4/side=store",
		"store_stored/conns=64/side=few", "store_stored/conns=64/side=many",
	} {
		require.Equal(t, o.runs, strings.Count(string(lines), "Benchmark"+want+" "), "lines for %s in:\n%s", want, lines)
	}
	for _, want := range []string{"store/raw, 1 connections: rate", "store/raw, 4 connections: rate", "many to few"} {
		require.Contains(t, out.String(), want)
	}
	profile, err := os.Stat(filepath.Join(dir, "store-raw-4-store.pprof"))
	require.NoError(t, err)
	require.Positive(t, profile.Size())
}

// What is measured must be a charge, and what is stored must look like one.
func TestStoreSidesMakeWholeCharges(t *testing.T) {
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	l, err := newLedger(t.Context(), s, "bench")
	require.NoError(t, err)
	require.NoError(t, l.fill(t.Context(), 30))
	got, err := l.count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 30, got)
	require.NoError(t, l.refill(t.Context(), 20))
	got, err = l.count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20, got)

	// A copy is found by its key and read with its response.
	db, store, err := l.open(t.Context(), l.url, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	view, err := db.Region(regionNames[0])
	require.NoError(t, err)
	a := l.charges.arrival
	a.Key.Value = "c81e728d-9d4c-2f63-6f06-7f89cc14862c" // md5 of "2", the first copy
	rec, now, found, err := view.Get(t.Context(), a.Key, regionNames[0])
	require.NoError(t, err)
	require.True(t, found)
	require.NotEmpty(t, rec.Response.Body)
	require.Less(t, now.Sub(rec.FirstUse), filledSpan)
	require.NoError(t, wholeCharge(t.Context(), view, a.Key))
	require.ErrorContains(t, wholeCharge(t.Context(), view, claim.Key{Tenant: tenantID, Value: "nobody's"}), "no answer")
	a.PinnedAt, a.Mint.ID = now, sampleID
	_, err = begin(t.Context(), view, a)
	require.ErrorContains(t, err, "was replay")

	pool, raw, err := l.raw(t.Context(), 1)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	brief := callRun{conns: 1, window: 20 * time.Millisecond}
	nothing := func(ctx context.Context) error { return query(ctx, pool, "SELECT 1", nil) }
	for name, side := range map[string]func(context.Context) error{"store": store, "raw": raw, "nothing": nothing} {
		before, err := l.count(t.Context())
		require.NoError(t, err)
		_, calls, err := brief.measure(t.Context(), side)
		require.NoError(t, err, name)
		after, err := l.count(t.Context())
		require.NoError(t, err)
		if name == "nothing" {
			calls = 0
		}
		require.Equal(t, calls, after-before, name)
	}
	// A run whose calls leave nothing fails.
	_, err = takeTurns(t.Context(), newReport(options{runs: 1, window: 20 * time.Millisecond, slice: 20 * time.Millisecond}, io.Discard),
		&comparison{conns: 1}, []storeSide{{name: "nothing", tally: l, call: nothing}}, nil)
	require.ErrorContains(t, err, "charges left 0")
	err = query(t.Context(), pool, "SELECT 1 WHERE false", nil)
	require.ErrorContains(t, err, "0 rows")
}

// The overheard arguments are the store's own but for what must differ.
func TestOverheardStatements(t *testing.T) {
	s := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL})
	l, err := newLedger(t.Context(), s, "bench")
	require.NoError(t, err)
	pool, err := l.rawPool(t.Context(), poolOf(1))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	statements, err := l.overhear(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, statements, 2)
	for i, name := range []string{"begin", "settle"} {
		st := statements[i]
		require.Contains(t, st.sql, "-- name: "+name+"\n")
		one, two := st.fill("key-1", "ch_1"), st.fill("key-1", "ch_1")
		for _, want := range []any{"key-1", "ch_1", regionNames[0]} {
			require.Contains(t, fmt.Sprint(one), want) // alone or in an array
		}
		require.NotContains(t, fmt.Sprint(one), strings.Trim(fmt.Sprint(st.args[st.keys[0]]), "[]"))
		for j := range one {
			if slices.Contains(st.steps, j) {
				require.NotEqual(t, one[j], two[j])
			} else {
				require.Equal(t, one[j], two[j])
			}
		}
	}
	// Another charge's key is in none of the arguments.
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	// Statements that many share carry theirs in arrays.
	shared := bound{sql: "SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::uuid[])", params: [][]byte{
		[]byte("{key-1}"), []byte("{ch_1}"), []byte("{00000000-0000-4000-8000-000000000000,00000000-0000-4000-8000-000000000001}"),
	}}
	st, err := newRawStatement(t.Context(), conn.Conn(), shared, "key-1", "ch_1")
	require.NoError(t, err)
	filled := st.fill("key-2", "ch_2")
	require.Equal(t, []any{[]string{"key-2"}, []string{"ch_2"}}, filled[:2])
	require.Len(t, filled[2], 2)
	require.NotEqual(t, st.args[2], filled[2])
	_, err = newRawStatement(t.Context(), conn.Conn(), bound{sql: "SELECT $1::text", params: [][]byte{[]byte("key-2")}}, "key-1", "ch_1")
	require.ErrorContains(t, err, "does not carry the key")
}

// Slices count as one run.
func TestCallTotal(t *testing.T) {
	var total callTotal
	for _, millis := range []int64{10, 30} {
		h := newHistogram()
		require.NoError(t, h.RecordValue(millis*1_000_000))
		require.NoError(t, total.add(loadResult{Requests: 1, Elapsed: time.Second, CPU: 4, Mallocs: 2, PeakKiB: millis, Latency: h.Export()}, 3, nil))
	}
	got := newFigures(total.result())
	require.Equal(t, 6, total.calls)
	require.Equal(t, figures{requests: 2, rate: 1, p50: got.p50, p99: got.p99, p999: got.p999, cpu: 4, mallocs: 2, peak: 30. / 1024}, got)
	require.InEpsilon(t, 10_000_000, int64(got.p50), 0.01)
	require.InEpsilon(t, 30_000_000, int64(got.p99), 0.01)
	require.ErrorIs(t, total.add(loadResult{}, 1, context.Canceled), context.Canceled)
}

func TestMessage(t *testing.T) {
	stream := []byte("\x00\x00\x00\x06ab" + "P\x00\x00\x00\x05c" + "B\x00\x00\x00\x09d")
	body, rest, ok := message(stream, 0)
	require.True(t, ok)
	require.Equal(t, "ab", string(body))
	body, rest, ok = message(rest, 1)
	require.True(t, ok)
	require.Equal(t, "c", string(body))
	_, _, ok = message(rest, 1)
	require.False(t, ok, "half of it is still to come")
	_, _, ok = message([]byte("P\x00\x00\x00\x03"), 1)
	require.False(t, ok, "shorter than its own length")
}

func TestStoreOptions(t *testing.T) {
	o, err := parseOptions([]string{"-store"})
	require.NoError(t, err)
	require.Equal(t, []int{1, 16, 64}, o.conns)
	require.Equal(t, "homeward-bench-store.txt", filepath.Base(o.out))
	o, err = parseOptions([]string{"-store", "-conns=2", "-out="})
	require.NoError(t, err)
	require.Equal(t, []int{2}, o.conns)
	require.Empty(t, o.out)
	o, err = parseOptions(nil)
	require.NoError(t, err)
	require.Equal(t, []int{16, 64, 256}, o.conns)
	require.Equal(t, "homeward-bench.txt", filepath.Base(o.out))
}
