package notice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/payment/psp"
)

// shelf is a Store that keeps notices in memory, a batch at a time.
type shelf struct {
	Store
	mu      sync.Mutex
	kept    map[string]Notice
	batches []int
	fail    error
	// refuse are the ids of notices that are not taken.
	refuse map[string]bool
	// panics are those of notices that the code of the store cannot bear.
	panics map[string]bool
	// hold, where it is not nil, makes steps wait for it to be closed.
	hold chan struct{}
}

func (s *shelf) Keep(ctx context.Context, region string, notices []Notice) (fresh int, err error) {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, s.fail
	}
	s.batches = append(s.batches, len(notices))
	for _, n := range notices {
		if s.panics[n.ID] {
			panic("no notice is like this")
		}
		if s.refuse[n.ID] {
			return 0, fmt.Errorf("%w: no", ErrRefused)
		}
	}
	for _, n := range notices {
		if _, ok := s.kept[n.ID]; !ok {
			n.Region = region
			s.kept[n.ID] = n
			fresh++
		}
	}
	return fresh, nil
}

// echo is a Notifier whose event id is the body and whose signature a header.
type echo struct{}

func (echo) Signed(h http.Header) bool { return h.Get("Signature") != "" }

func (echo) Verify(h http.Header, body []byte, _ time.Time) (string, error) {
	if h.Get("Signature") != "good" {
		return "", psp.ErrForged
	}
	return string(body), nil
}
func (echo) Read([]byte) (psp.Notice, error) { return psp.Notice{}, errors.New("not read here") }

var good = http.Header{"Signature": {"good"}}

func newReceiver(t *testing.T, s *shelf) *Receiver {
	t.Helper()
	s.kept = map[string]Notice{}
	r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	return r
}

func TestReceiveKeepsOnceAndRefuses(t *testing.T) {
	s := &shelf{}
	r := newReceiver(t, s)
	require.NoError(t, r.Receive(t.Context(), "echo", good, []byte("one")))
	require.NoError(t, r.Receive(t.Context(), "echo", good, []byte("one")), "a repeat is as good as the first")
	require.ErrorIs(t, r.Receive(t.Context(), "echo", nil, []byte("two")), psp.ErrForged)
	require.ErrorIs(t, r.Receive(t.Context(), "other", good, []byte("two")), ErrUnknownProvider)
	require.NoError(t, r.Expects("echo", good))
	require.ErrorIs(t, r.Expects("echo", nil), psp.ErrForged)
	require.ErrorIs(t, r.Expects("other", good), ErrUnknownProvider)
	require.Len(t, s.kept, 1)
	n := s.kept["echo:one"]
	require.Equal(t, "echo", n.Provider)
	require.Equal(t, []byte("one"), n.Body)
	s.mu.Lock()
	s.fail = errors.New("the disk failed")
	s.mu.Unlock()
	require.ErrorContains(t, r.Receive(t.Context(), "echo", good, []byte("three")), "the disk failed")
}

// Notices that arrive during a step share the next one. Beyond the bound they are refused with
// Retry-After: memory is bounded.
func TestNoticesShareStepsAndTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hold: make(chan struct{}), kept: map[string]Notice{}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
		require.NoError(t, err)
		results := make(chan error, 2*maxWaiting)
		sent := 0
		send := func(n int) {
			for range n {
				body := fmt.Append(nil, sent)
				sent++
				go func() { results <- r.Receive(t.Context(), "echo", good, body) }()
			}
			synctest.Wait()
		}
		for range keepers {
			send(1) // each has a step of its own under way, as it meets no other
			time.Sleep(keepPause)
			synctest.Wait()
		}
		send(maxWaiting)
		require.Empty(t, results, "all of them wait")
		require.ErrorIs(t, r.Receive(t.Context(), "echo", good, []byte("one too many")), ErrBusy)
		close(s.hold)
		time.Sleep(keepPause)
		synctest.Wait()
		require.Len(t, results, keepers+maxWaiting)
		for range keepers + maxWaiting {
			require.NoError(t, <-results)
		}
		require.Len(t, s.kept, keepers+maxWaiting)
		require.LessOrEqual(t, len(s.batches), keepers+maxWaiting/maxBatch+keepers, "sizes %v", s.batches)
		r.Stop()
		require.ErrorIs(t, r.Receive(t.Context(), "echo", good, []byte("late")), ErrBusy)
	})
}

// The callers of a step are answered a few at a time, those of a full one at once; and all
// at once when the receiver stops.
func TestAnswersOfAStepAreSpread(t *testing.T) {
	for _, tc := range []struct {
		name       string
		size, most int // callers, and answers at a time
		stop       bool
	}{
		{"one", 1, 1, false}, {"few", answers - 1, 1, false}, {"many", 95, 10, false}, {"full", maxBatch, maxBatch, false}, {"stopped", 95, 85, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := &Receiver{ctx: ctx}
				batch, kept := make([]delivery, tc.size), make(chan error, tc.size)
				for i := range batch {
					batch[i].kept = kept
				}
				go r.answer(batch, errors.New("for each"))
				got := 0
				for turn := 0; got < tc.size; turn++ {
					require.Less(t, turn, answers)
					synctest.Wait()
					n := len(kept)
					require.Positive(t, n)
					require.LessOrEqual(t, n, tc.most)
					for range n {
						require.EqualError(t, <-kept, "for each")
					}
					got += n
					if tc.stop {
						cancel()
					}
					time.Sleep(answerPause)
				}
				require.Equal(t, tc.size, got)
				cancel()
			})
		})
	}
}

// A notice that comes alone waits for nothing. Under a flood steps begin no more often
// than that a step has many.
func TestStepsOfAFloodAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{kept: map[string]Notice{}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, r.Receive(t.Context(), "echo", good, []byte("alone")))
		require.Equal(t, began, time.Now())
		const n = 200
		results := make(chan error, n)
		for i := range n {
			time.Sleep(time.Millisecond)
			go func() { results <- r.Receive(t.Context(), "echo", good, fmt.Append(nil, i)) }()
		}
		for range n {
			require.NoError(t, <-results)
		}
		require.LessOrEqual(t, time.Since(began), n*time.Millisecond+keepPause+answers*answerPause)
		require.LessOrEqual(t, len(s.batches), 2+int(n*time.Millisecond/keepPause), "sizes %v", s.batches)
		r.Stop()
	})
}

func TestACallerThatDisconnectsGetsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hold: make(chan struct{}), kept: map[string]Notice{}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Receive(ctx, "echo", good, []byte("one")), context.DeadlineExceeded)
		close(s.hold)
		synctest.Wait()
		require.Len(t, s.kept, 1, "a step that was begun is finished")
		r.Stop()
	})
}

// What no store could keep is refused before it meets others.
func TestTextsThatCannotBeStoredAreMalformed(t *testing.T) {
	s := &shelf{}
	r := newReceiver(t, s)
	for _, id := range []string{"a\x00b", "\xff", strings.Repeat("x", maxID)} {
		err := r.Receive(t.Context(), "echo", good, []byte(id))
		require.ErrorIs(t, err, ErrMalformed)
		require.NotContains(t, err.Error(), "\n")
	}
	require.Empty(t, s.batches, "nothing got as far as the store")
	fits := Notice{ID: ID("p", "e"), Provider: "p", TraceParent: "00-1", Detail: "ü", Body: []byte("\xff\x00")}
	require.NoError(t, fits.storable(), "a body may be any bytes")
	for _, spoil := range []func(n *Notice, bad string){
		func(n *Notice, bad string) { n.ID = bad }, func(n *Notice, bad string) { n.Provider = bad },
		func(n *Notice, bad string) { n.TraceParent = bad }, func(n *Notice, bad string) { n.Detail = bad },
	} {
		for _, bad := range []string{"\x00", "cut \xe2\x82"} {
			n := fits
			spoil(&n, bad)
			require.ErrorIs(t, n.storable(), ErrMalformed)
		}
	}
}

// One that the store refuses costs the others of its step nothing.
func TestOneThatIsRefusedFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hold: make(chan struct{}), kept: map[string]Notice{}, refuse: map[string]bool{"echo:bad": true}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
		require.NoError(t, err)
		answers := map[string]chan error{}
		send := func(ids ...string) {
			for _, id := range ids {
				answer := make(chan error, 1)
				answers[id] = answer
				go func() { answer <- r.Receive(t.Context(), "echo", good, []byte(id)) }()
				synctest.Wait()
			}
		}
		send("first")
		time.Sleep(keepPause)
		send("second") // each keeper has one
		time.Sleep(keepPause)
		send("a", "bad", "b", "c")
		close(s.hold)
		for id, answer := range answers {
			if id == "bad" {
				require.ErrorIs(t, <-answer, ErrRefused)
				continue
			}
			require.NoError(t, <-answer, id)
		}
		require.Contains(t, s.batches, 4, "they shared a step first")
		require.Len(t, s.kept, 5)
		r.Stop()
	})
}

// A notice that makes the store panic is refused with Retry-After, and costs the others of its step
// nothing.
func TestAPanicFailsNoOtherNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hold: make(chan struct{}), kept: map[string]Notice{}, panics: map[string]bool{"echo:bad": true}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"echo": echo{}}})
		require.NoError(t, err)
		answers := map[string]chan error{}
		for _, id := range []string{"first", "second", "a", "bad", "b"} { // each keeper has one, the rest share a step
			answer := make(chan error, 1)
			answers[id] = answer
			go func() { answer <- r.Receive(t.Context(), "echo", good, []byte(id)) }()
			time.Sleep(keepPause)
		}
		close(s.hold)
		require.ErrorContains(t, <-answers["bad"], "no notice is like this")
		for _, id := range []string{"first", "second", "a", "b"} {
			require.NoError(t, <-answers[id], id)
		}
		for range 2 * keepers {
			require.Error(t, r.Receive(t.Context(), "echo", good, []byte("bad")))
		}
		require.NoError(t, r.Receive(t.Context(), "echo", good, []byte("last")))
		require.Len(t, s.kept, 5)
		r.Stop()
	})
}

// A step has a bounded size, so that it fits into one message to the database.
func TestAStepHasABoundedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{hold: make(chan struct{}), kept: map[string]Notice{}}
		r, err := NewReceiver(ReceiverConfig{Region: "us", Store: s, Seal: seal.Clear(nil, nil), Notifiers: map[string]psp.Notifier{"big": big{}}})
		require.NoError(t, err)
		const n = 4 * maxBatchBytes / MaxNotice
		answers := make(chan error, keepers+n)
		send := func(from, to int) {
			for i := from; i < to; i++ {
				body := make([]byte, MaxNotice)
				copy(body, fmt.Sprint(i, ";"))
				go func() { answers <- r.Receive(t.Context(), "big", good, body) }()
			}
			synctest.Wait()
		}
		send(0, keepers)
		send(keepers, keepers+n)
		close(s.hold)
		synctest.Wait()
		for range keepers + n {
			require.NoError(t, <-answers)
		}
		for _, size := range s.batches {
			require.LessOrEqual(t, size*MaxNotice, maxBatchBytes)
		}
		r.Stop()
	})
}

// big is a Notifier whose event id is what the body begins with.
type big struct{ echo }

func (big) Verify(_ http.Header, body []byte, _ time.Time) (string, error) {
	id, _, _ := bytes.Cut(body, []byte(";"))
	return string(id), nil
}
