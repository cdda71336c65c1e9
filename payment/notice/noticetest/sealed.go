package noticetest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp"
)

// payer is personal data as a provider sends it.
const payer = `{"id":"evt_1","email":"erika.mustermann@example.org"}`

// postbox accepts every signature.
type postbox struct{}

func (postbox) Signed(http.Header) bool { return true }

func (postbox) Verify(h http.Header, _ []byte, _ time.Time) (string, error) {
	return h.Get("id"), nil
}

func (postbox) Read([]byte) (psp.Notice, error) {
	return psp.Notice{}, errors.New("no test reads a notice")
}

// receive receives a notice as a node does.
func (w *world) receive(r *seal.Ring, event, body string) (id string) {
	w.Helper()
	receiver, err := notice.NewReceiver(notice.ReceiverConfig{
		Region: w.home, Store: w.Store(w.home), Notifiers: map[string]psp.Notifier{"sim": postbox{}}, Seal: r,
	})
	require.NoError(w, err)
	defer receiver.Stop()
	require.NoError(w, receiver.Receive(w.ctx, "sim", http.Header{"Id": {event}}, []byte(body)))
	return notice.ID("sim", event)
}

// opens checks the content of a stored body.
func (w *world) opens(r *seal.Ring, id string, stored []byte, want string) {
	w.Helper()
	plain, err := r.Open(w.ctx, seal.Row{Table: "notice", Region: w.home, ID: id}, stored)
	require.NoError(w, err)
	require.Equal(w, want, string(plain))
}

// closeNow processes the only due notice.
func (w *world) closeNow() {
	w.Helper()
	m := w.takeOne()
	require.NoError(w, w.close(m, m.Fence, notice.ProcessedOK))
}

var sealedTests = []struct {
	name string
	run  func(w *world)
}{
	{"sealed: the stored bytes do not reveal the body, and its row opens", func(w *world) {
		keys := sealtest.Ring(7)
		id := w.receive(keys, "evt_1", payer)
		require.NotContains(w, string(w.Raw(w)), "erika.mustermann")
		require.Contains(w, string(w.Raw(w)), id, "it has been looked for where it is")
		m := w.takeOne()
		w.opens(keys, id, m.Payload, payer)
		w.opens(keys, id, w.get(id).Body, payer)
		_, err := keys.Open(w.ctx, seal.Row{Table: "notice", Region: w.home, ID: "sim:evt_2"}, m.Payload)
		require.ErrorIs(w, err, seal.ErrLost)

		w.receive(seal.Clear(nil, nil), "evt_2", `{"email":"max.mustermann@example.org"}`)
		require.Contains(w, string(w.Raw(w)), "max.mustermann", "without a key it is there to be found")
	}},
	{"sealed: bodies are resealed from no key to one, and from key to key", func(w *world) {
		old, both, last := sealtest.Ring(1), sealtest.Ring(2, 1), sealtest.Ring(2)
		var ids []string
		for i := range 150 { // more than one page
			r := old
			if i%2 == 0 {
				r = seal.Clear(nil, nil)
			}
			ids = append(ids, w.receive(r, fmt.Sprintf("evt_%03d", i), payer))
		}
		taken := w.take()
		require.NotEmpty(w, taken)
		require.NoError(w, w.close(taken[0], taken[0].Fence, notice.Ignored))
		require.NoError(w, w.Queue(w.home).Park(w.ctx, w.home, taken[1].Hold(), "unknown charge"))
		bodies := w.Store(w.home).(notice.Bodies)

		c := seal.Census{Ring: both}
		require.NoError(w, notice.Reseal(w.ctx, bodies, w.home, &c))
		require.Equal(w, []int{150, 0}, []int{c.Again, c.Lost})
		require.Equal(w, map[string]int{"": 75, old.Names()[0].String(): 75}, c.Under)
		for _, id := range ids {
			w.opens(last, id, w.get(id).Body, payer)
			m, found, err := w.Queue(w.home).Message(w.ctx, w.home, id)
			require.NoError(w, err)
			require.Equal(w, id != taken[0].ID, found)
			if found {
				w.opens(last, id, m.Payload, payer)
			}
		}
		parked, found, err := w.Queue(w.home).Message(w.ctx, w.home, taken[1].ID)
		require.NoError(w, err)
		require.True(w, found && parked.Parked, "and nothing else of a row has changed")

		c = seal.Census{Ring: both}
		require.NoError(w, notice.Reseal(w.ctx, bodies, w.home, &c))
		require.Zero(w, c.Again, "a second time finds nothing to do")
		require.Equal(w, map[string]int{last.Names()[0].String(): 150}, c.Under)
		require.NoError(w, w.close(taken[2], taken[2].Fence, notice.ProcessedOK), "whoever had a row has it still")
	}},
	{"rewrite: a body that changed meanwhile is left alone", func(w *world) {
		bodies := w.Store(w.home).(notice.Bodies)
		w.keep(newNotice("evt_1", "one"), newNotice("evt_2", "two"))
		again := func(to string) {
			_, err := bodies.Rewrite(w.ctx, w.home, "", 10, func(id string, body []byte) ([]byte, error) {
				if id != "sim:evt_1" {
					return nil, nil
				}
				if to == "late" {
					_, err := bodies.Rewrite(w.ctx, w.home, "", 1, func(string, []byte) ([]byte, error) { return []byte("first"), nil })
					require.NoError(w, err)
				}
				return []byte(to), nil
			})
			require.NoError(w, err)
		}
		again("late")
		require.Equal(w, "first", string(w.get("sim:evt_1").Body))
		again("last")
		require.Equal(w, "last", string(w.get("sim:evt_1").Body))
		require.Equal(w, "two", string(w.get("sim:evt_2").Body))
		_, err := bodies.Rewrite(w.ctx, w.home, "", 10, func(string, []byte) ([]byte, error) { return nil, seal.ErrNoAnswer })
		require.ErrorIs(w, err, seal.ErrNoAnswer)
		last, err := bodies.Rewrite(w.ctx, w.Regions[1], "", 10, func(string, []byte) ([]byte, error) { return []byte("theirs"), nil })
		require.NoError(w, err)
		require.Empty(w, last)
	}},
	{"bodies: dropped KeepBodyFor after processing; waiting and parked notices keep theirs", func(w *world) {
		if !w.Exact {
			w.Skip("its clock cannot be set, and the test needs a week")
		}
		w.keep(newNotice("evt_1", payer))
		w.Pass(w, time.Hour) // it is processed later
		w.closeNow()
		w.keep(newNotice("evt_parked", payer))
		m := w.takeOne()
		require.NoError(w, w.Queue(w.home).Park(w.ctx, w.home, m.Hold(), "LIMBO"))
		w.keep(newNotice("evt_waits", payer))
		w.keep(notice.Notice{ID: "sim:evt_empty", Provider: "sim"})

		w.Pass(w, notice.KeepBodyFor-time.Microsecond)
		w.Sweep(w, w.home)
		require.Equal(w, payer, string(w.get("sim:evt_1").Body))
		closed := w.get("sim:evt_1")
		w.Pass(w, time.Microsecond)
		w.Sweep(w, w.Regions[1])
		w.Sweep(w, w.home)
		require.Empty(w, w.get("sim:evt_1").Body)
		closed.Body = nil
		now := w.get("sim:evt_1")
		now.Body = nil
		require.Equal(w, closed, now, "what became of it stays")
		require.Zero(w, w.keep(newNotice("evt_1", payer)), "and so does that it came")

		w.Pass(w, notice.KeepFor)
		w.Sweep(w, w.home)
		_, found, err := w.Store(w.home).Notice(w.ctx, w.home, "sim:evt_1")
		require.NoError(w, err)
		require.False(w, found)
		for _, id := range []string{"sim:evt_parked", "sim:evt_waits"} {
			require.Equal(w, payer, string(w.get(id).Body))
			m, found, err := w.Queue(w.home).Message(w.ctx, w.home, id)
			require.NoError(w, err)
			require.True(w, found)
			require.Equal(w, payer, string(m.Payload))
		}
		ok, err := w.Queue(w.home).Unpark(w.ctx, w.home, "sim:evt_parked")
		require.NoError(w, err)
		require.True(w, ok)
		var due []outbox.Message
		for deadline := time.Now().Add(patience); len(due) == 0 && time.Now().Before(deadline); {
			for _, m := range w.take() {
				if m.ID == "sim:evt_parked" {
					due = append(due, m)
				}
			}
		}
		require.Len(w, due, 1)
		require.Equal(w, payer, string(due[0].Payload))
	}},
}
