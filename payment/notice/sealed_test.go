package notice

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/psp"
)

// away is a sealing key that no node reaches.
type away struct{}

func (away) Encrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }
func (away) Decrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }

// TestASealedNoticeIsActedOn, and so is one that was stored before there were keys. The processor
// closes a notice by its body, sealed or not.
func TestASealedNoticeIsActedOn(t *testing.T) {
	keys := sealtest.Ring(1)
	for name, ring := range map[string]*seal.Ring{"sealed": keys, "in clear text": seal.Clear(nil, nil)} {
		w := newWorld(t)
		id := objectID(t, "ch", 1)
		w.have(id, claim.Completed, "p1")
		booked := w.books[id]
		booked.Provider = "echo"
		w.books[id] = booked
		body, err := json.Marshal(charged(id, "p1"))
		require.NoError(t, err)
		s := &shelf{kept: map[string]Notice{}}
		r, err := NewReceiver(ReceiverConfig{Region: "eu", Store: s, Notifiers: map[string]psp.Notifier{"echo": echo{}}, Seal: ring})
		require.NoError(t, err)
		require.NoError(t, r.Receive(t.Context(), "echo", good, body))
		r.Stop()
		require.Len(t, s.kept, 1)
		for key, n := range s.kept {
			p := w.processor()
			p.c.Notifiers["echo"], p.c.Seal = reader{}, keys
			v := p.Handle(t.Context(), outbox.Message{ID: key, Region: "eu", Kind: outbox.KindNotice, Operation: "echo", Payload: n.Body, Fence: 1, CreatedAt: time.Now()})
			require.Equal(t, outbox.Gone(), v, name)
			require.Equal(t, ProcessedOK, w.closed[key], name)
		}
	}
}

// TestANoticeThatDoesNotOpen waits for a node that has its key, and is parked after an hour, with a
// line that names the key. While the sealing key does not answer, the notice waits. The processor
// closes nothing, and asks no provider.
func TestANoticeThatDoesNotOpen(t *testing.T) {
	body, err := json.Marshal(charged(objectID(t, "ch", 1), "p1"))
	require.NoError(t, err)
	sealed, err := sealtest.Ring(1).Seal(t.Context(), rowOf("eu", "sim:e"), body)
	require.NoError(t, err)
	m := outbox.Message{ID: "sim:e", Region: "eu", Kind: outbox.KindNotice, Operation: "sim", Payload: sealed, Fence: 1, CreatedAt: time.Now()}
	old := m
	old.CreatedAt = m.CreatedAt.Add(-sealedPatience)
	moved := m
	moved.ID = "sim:other"
	key := sealtest.Ring(1).Names()[0]
	unreachable := seal.New([]seal.Key{{Name: key, Keeper: away{}}}, nil)
	for name, c := range map[string]struct {
		ring *seal.Ring
		m    outbox.Message
		want string
	}{
		"no keys":                       {nil, m, "Failed: .*" + key.String()},
		"another key":                   {sealtest.Ring(2), m, "Failed: .*" + key.String()},
		"another key, an hour later":    {sealtest.Ring(2), old, "Parked: .*" + key.String()},
		"the body of another":           {sealtest.Ring(1), moved, "Failed: .*sealed for another row"},
		"its key is out of reach":       {unreachable, m, "Later"},
		"its key is out of reach, long": {unreachable, old, "Later"},
	} {
		w := newWorld(t)
		p := w.processor()
		p.c.Seal = c.ring
		require.Regexp(t, "^"+c.want, p.Handle(t.Context(), c.m).String(), name)
		require.Empty(t, w.closed, name)
		require.Zero(t, w.steps, name)
	}
}

// TestANoticeThatCannotBeSealedIsNotKept: its provider sends it again, and it is never
// stored as it is instead.
func TestANoticeThatCannotBeSealedIsNotKept(t *testing.T) {
	s := &shelf{kept: map[string]Notice{}}
	r, err := NewReceiver(ReceiverConfig{
		Region: "us", Store: s, Notifiers: map[string]psp.Notifier{"echo": echo{}},
		Seal: seal.New([]seal.Key{{Keeper: away{}}}, nil),
	})
	require.NoError(t, err)
	defer r.Stop()
	err = r.Receive(t.Context(), "echo", good, []byte("one"))
	require.ErrorIs(t, err, claim.ErrUnavailable)
	require.ErrorIs(t, err, seal.ErrNoAnswer)
	require.Empty(t, s.kept)
}
