package runs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bucket is one in memory.
type bucket struct {
	mu   sync.Mutex
	all  map[string][]byte
	puts int
	fail int // from this put on; 0: never
	gets int
}

func (b *bucket) Put(_ context.Context, name string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.puts++; b.fail > 0 && b.puts >= b.fail {
		return errors.New("the bucket does not answer")
	}
	if b.all == nil {
		b.all = map[string][]byte{}
	}
	b.all[name] = slices.Clone(data)
	return nil
}

func (b *bucket) Get(_ context.Context, name string, limit int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gets++
	data, ok := b.all[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNone, name)
	}
	return data[:min(int64(len(data)), limit)], nil
}

func (b *bucket) List(_ context.Context, prefix string, each func(string) error) error {
	b.mu.Lock()
	names := slices.Sorted(maps.Keys(b.all))
	b.mu.Unlock()
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := each(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// at is a book with a clock that a test moves.
func at(b *bucket) (*Book, *time.Time) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	book := New(b, nil)
	book.now = func() time.Time { return now }
	return book, &now
}

func TestARunIsKeptFromItsBeginningToItsEnd(t *testing.T) {
	b := &bucket{}
	book, now := at(b)
	ctx := t.Context()
	k, err := book.Begin(ctx, Run{Kind: Drill, Of: "region-loss us-east1", Region: "us-east1"})
	require.NoError(t, err)
	open, err := book.List(ctx, Drill, 5)
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, Open, open[0].Verdict, "it died here, or is still running")
	require.NotEmpty(t, open[0].By)

	*now = now.Add(time.Second)
	k.Step(ctx, "during: region-loss begins")
	open, err = book.List(ctx, Drill, 5)
	require.NoError(t, err)
	require.Equal(t, []Step{{*now, "during: region-loss begins"}}, open[0].Steps)

	*now = now.Add(time.Minute)
	done, cancel := context.WithCancel(ctx)
	cancel() // Ctrl-C
	require.NoError(t, k.End(done, func(r *Run) {
		r.Verdict, r.Sentence = Bad, "one card was charged twice"
		r.Figures = []Figure{{"duplicates", "1", true}}
		r.Findings = []string{"key k: money moved 2 times"}
	}))
	all, err := book.List(ctx, Drill, 5)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, Bad, all[0].Verdict)
	require.Equal(t, 61*time.Second, all[0].Took())
	one, err := book.Get(ctx, Drill, all[0].ID)
	require.NoError(t, err)
	require.Equal(t, all[0], one)
}

func TestTheNewestAreListedAndNoMoreIsRead(t *testing.T) {
	b := &bucket{}
	book, now := at(b)
	for i := range 30 {
		k, err := book.Begin(t.Context(), Run{Kind: Verify, Of: fmt.Sprint(i)})
		require.NoError(t, err)
		require.NoError(t, k.End(t.Context(), func(r *Run) { r.Verdict = Good }))
		*now = now.Add(time.Hour)
	}
	b.gets = 0
	all, err := book.List(t.Context(), Verify, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"29", "28", "27"}, []string{all[0].Of, all[1].Of, all[2].Of})
	require.Equal(t, 3, b.gets)
	again, err := book.List(t.Context(), Verify, 3)
	require.NoError(t, err)
	require.Equal(t, all, again)
	require.Equal(t, 3, b.gets, "what has ended changes no more")
	none, err := book.List(t.Context(), Drill, 3)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestWhatIsNoReportHidesNoOther(t *testing.T) {
	b := &bucket{}
	book, now := at(b)
	k, err := book.Begin(t.Context(), Run{Kind: Drain, Of: "us-east1"})
	require.NoError(t, err)
	require.NoError(t, k.End(t.Context(), func(r *Run) { r.Verdict = Good }))
	later := func() string { *now = now.Add(time.Second); return nameOf(Drain, newID(*now)) }
	torn, empty, future, moved := later(), later(), later(), later()
	b.all[torn], b.all[empty] = []byte(`{"version":1,"kind":"dr`), nil
	b.all[future] = []byte(`{"version":9}`)
	b.all[moved] = b.all[nameOf(Drain, k.run.ID)]
	b.all["drain/fileblob123"], b.all["drain/note.txt"], b.all["drain/../../x.json"] = []byte("x"), []byte("x"), []byte("x")
	all, err := book.List(t.Context(), Drain, 10)
	require.NoError(t, err)
	require.Len(t, all, 5)
	for i, say := range []string{"another run", "version 9", "not a complete report", "not a complete report"} {
		require.Equal(t, Unknown, all[i].Verdict)
		require.Contains(t, all[i].Sentence, say)
		require.WithinDuration(t, *now, all[i].Began, time.Minute)
	}
	require.Equal(t, Good, all[4].Verdict)
}

func TestNothingRunsIfItsReportCannotBeStored(t *testing.T) {
	book, _ := at(&bucket{fail: 1})
	_, err := book.Begin(t.Context(), Run{Kind: Drill})
	require.ErrorContains(t, err, "nothing was done")
	b := &bucket{fail: 2}
	book, _ = at(b)
	k, err := book.Begin(t.Context(), Run{Kind: Drill})
	require.NoError(t, err)
	k.Step(t.Context(), "is not in the way of the run")
	require.ErrorContains(t, k.Fail(t.Context(), errors.New("interrupted")), "could not be stored")
	b.fail = 0
	all, err := book.List(t.Context(), Drill, 1)
	require.NoError(t, err)
	require.Equal(t, Open, all[0].Verdict)
}

func TestAReportIsBounded(t *testing.T) {
	b := &bucket{}
	book := New(b, func(text string) string { return strings.ReplaceAll(text, "4242424242424242", "(masked)") })
	k, err := book.Begin(t.Context(), Run{Kind: Reconcile, Of: "simulator"})
	require.NoError(t, err)
	for range 3 * maxSteps {
		k.Step(t.Context(), "a step")
	}
	require.NoError(t, k.End(t.Context(), func(r *Run) {
		r.Verdict, r.Sentence = Bad, "a line\nand\x1b[2J another"
		for range 1000 {
			r.Findings = append(r.Findings, "card 4242424242424242 "+strings.Repeat("ü", 10_000))
			r.Figures = append(r.Figures, Figure{Name: strings.Repeat("n", 10_000)})
		}
	}))
	all, err := book.List(t.Context(), Reconcile, 1)
	require.NoError(t, err)
	r := all[0]
	require.Equal(t, "a line and [2J another", r.Sentence)
	require.Len(t, r.Findings, MaxFindings)
	require.Equal(t, 1000-MaxFindings, r.More)
	require.Contains(t, r.Findings[0], "(masked)")
	require.NotContains(t, r.Findings[0], "4242")
	for _, data := range b.all {
		require.Less(t, len(data), 64<<10)
	}
}

func TestWhoKeepsNothingMayStillSaySo(t *testing.T) {
	var book *Book
	k, err := book.Begin(t.Context(), Run{Kind: Drill})
	require.NoError(t, err)
	k.Step(t.Context(), "x")
	require.NoError(t, k.End(t.Context(), func(*Run) { t.Error("a run without a book was changed") }))
	all, err := book.List(t.Context(), Drill, 1)
	require.NoError(t, err)
	require.Empty(t, all)
	_, err = book.Get(t.Context(), Drill, "x")
	require.ErrorIs(t, err, ErrNone)
	_, err = New(&bucket{}, nil).Get(t.Context(), Drill, "../../etc/passwd")
	require.ErrorIs(t, err, ErrNone)
}
