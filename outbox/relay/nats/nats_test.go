package nats_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/internal/memory"
	"github.com/homeward-io/homeward/outbox/relay/nats"
)

// patience bounds every wait for a signal.
const patience = 30 * time.Second

// start runs a server, on any port if port is -1.
func start(t testing.TB, dir string, port int, adjust ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}
	for _, a := range adjust {
		a(o)
	}
	s, err := server.NewServer(o)
	require.NoError(t, err)
	go s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() { stop(s) })
	return s
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func port(s *server.Server) int { return s.Addr().(*net.TCPAddr).Port }

func open(t testing.TB, c nats.Config) *nats.Sink {
	t.Helper()
	s, err := nats.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// stored reads every message of the stream.
func stored(t testing.TB, url string) (all []jetstream.Msg) {
	t.Helper()
	conn, err := natsgo.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := js.Stream(ctx, nats.DefaultStream)
	require.NoError(t, err)
	n := int(stream.CachedInfo().State.Msgs)
	if n == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	for m := range batch.Messages() {
		all = append(all, m)
	}
	require.NoError(t, batch.Error())
	require.Len(t, all, n)
	return all
}

func payload(id, eventType string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":%q,"created":1,"data":{"id":"ch_1"}}`, id, eventType)
}

func event(id string) relay.Event {
	return relay.Event{ID: id, Type: "charge.succeeded", Object: "ch_1", Tenant: "acme", Payload: payload(id, "charge.succeeded")}
}

// verdict is the outcome as the worker would see it.
func verdict(t testing.TB, s *nats.Sink, e relay.Event) outbox.Disposition {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Deliver(ctx, e)
}

func TestAnEventIsPublishedOnceForItsID(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true})
	for range 3 {
		require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
	}
	other := event("evt_2")
	other.Tenant, other.Type = "a.b *>", "transfer.failed"
	require.Equal(t, outbox.Done(), verdict(t, s, other))
	all := stored(t, srv.ClientURL())
	require.Len(t, all, 2)
	require.Equal(t, "homeward.events.acme.charge.succeeded", all[0].Subject())
	require.Equal(t, "evt_1", all[0].Headers().Get("Nats-Msg-Id"))
	require.Equal(t, payload("evt_1", "charge.succeeded"), all[0].Data())
	require.Equal(t, "homeward.events.a%2Eb%20%2A%3E.transfer.failed", all[1].Subject())
}

func TestSubjectsKeepTenantsApart(t *testing.T) {
	seen := map[string]string{}
	for _, tenant := range []string{"", "%", "a", "A", "a.b", "a%2Eb", "a b", "*", ">", "a\x00", "é"} {
		got := nats.Subject("p", tenant, "charge.succeeded")
		require.Len(t, strings.Split(got, "."), 4, tenant)
		require.NotContains(t, seen, got)
		require.NotContains(t, strings.TrimPrefix(got, "p."), "*")
		seen[got] = tenant
	}
}

// proxy stands between the sink and the server and can keep what the server says.
type proxy struct {
	net.Listener
	to    string
	mute  atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close(); p.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(muted{in, p}, out); _ = in.Close() }()
		}
	}()
	return p
}

type muted struct {
	io.Writer
	p *proxy
}

func (m muted) Write(b []byte) (int, error) {
	if m.p.mute.Load() {
		return len(b), nil
	}
	return m.Writer.Write(b)
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// The server has stored the event and its acknowledgement is lost: that is unknown,
// so it is sent again, and the duplicate window makes one message of both.
func TestALostAcknowledgementMakesNoSecondMessage(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	p := newProxy(t, srv.Addr().String())
	s := open(t, nats.Config{URL: "nats://" + p.Addr().String(), Create: true, Timeout: time.Second})
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_0")))

	p.mute.Store(true)
	require.Equal(t, outbox.Failed("no acknowledgement from NATS within 1s: whether it has the event is unknown"), verdict(t, s, event("evt_1")))
	require.Len(t, stored(t, srv.ClientURL()), 2, "it was stored")

	back := s.Status(natsgo.CONNECTED)
	p.mute.Store(false)
	p.cut()
	wait(t, back)
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
	require.Len(t, stored(t, srv.ClientURL()), 2)
}

func wait[T any](t testing.TB, signal <-chan T) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatal("the signal did not come")
	}
}

// work runs a worker on q with the NATS sink alone.
func work(t testing.TB, q *memory.Queue, s relay.Sink) {
	t.Helper()
	w, err := relay.NewWorker(relay.Config{
		Store: q, Regions: func() []string { return []string{"r"} }, Poll: 10 * time.Millisecond,
		Sinks: map[outbox.Kind]relay.Sink{outbox.KindNATS: s},
	})
	require.NoError(t, err)
	w.Start()
	t.Cleanup(w.Stop)
	p, err := outbox.NewPoller(outbox.PollerConfig{
		Queues: q, Regions: func() []string { return []string{"r"} }, Workers: map[outbox.Queue]*outbox.Worker{outbox.Events: w}, Poll: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	p.Start()
	t.Cleanup(p.Stop)
}

func row(id, key string, at int) outbox.Message {
	return outbox.Message{
		ID: id + "/nats", Region: "r", Kind: outbox.KindNATS, Tenant: "acme", Key: key,
		Payload: payload(id, "charge.succeeded"), CreatedAt: time.Unix(int64(at), 0),
	}
}

// done waits until no row is left that is not parked.
func done(t testing.TB, q *memory.Queue) {
	t.Helper()
	for limit := time.After(patience); q.Len() > 0; {
		select {
		case <-q.Changed:
		case <-limit:
			t.Fatalf("%d rows are left", q.Len())
		}
	}
}

func TestAServerThatIsDownCostsNoTries(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, dir, -1)
	url, at := srv.ClientURL(), port(srv)
	s := open(t, nats.Config{URL: url, Create: true})
	q := memory.NewQueue()

	down := s.Status(natsgo.RECONNECTING)
	stop(srv)
	wait(t, down)
	for i := range 20 {
		q.Put(row(fmt.Sprint("evt_", i), fmt.Sprint("k", i), i))
	}
	for i := range 20 {
		began := time.Now()
		require.NotEqual(t, outbox.Done(), verdict(t, s, event(fmt.Sprint("evt_", i))))
		require.Less(t, time.Since(began), patience/2, "no slot is kept")
	}
	work(t, q, s)
	<-q.Changed // rows are being postponed
	require.Equal(t, 20, q.Len())

	back := s.Status(natsgo.CONNECTED)
	srv = start(t, dir, at)
	wait(t, back)
	done(t, q)
	require.Len(t, stored(t, srv.ClientURL()), 20)
}

// attempts remembers the most failures that a row ever had.
type attempts struct {
	relay.Sink
	q    *memory.Queue
	most atomic.Uint32
}

func (a *attempts) Deliver(ctx context.Context, e relay.Event) outbox.Disposition {
	a.most.Store(max(a.most.Load(), a.q.Row(e.ID+"/nats").Attempts))
	return a.Sink.Deliver(ctx, e)
}

// A node starts without a server; events wait for one, and no attempt is counted.
func TestTheServerMayComeLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	var log bytes.Buffer
	s := open(t, nats.Config{URL: fmt.Sprintf("nats://127.0.0.1:%d", at), Create: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "cannot be reached")
	q := memory.NewQueue()
	counted := &attempts{Sink: s, q: q}
	q.Put(row("evt_1", "k", 1))
	back := s.Status(natsgo.CONNECTED)
	work(t, q, counted)
	srv := start(t, t.TempDir(), at)
	wait(t, back)
	done(t, q)
	require.Len(t, stored(t, srv.ClientURL()), 1)
	require.Zero(t, counted.most.Load())
}

func TestTheEventsOfAKeyStayInOrder(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true})
	q := memory.NewQueue()
	const keys, each = 20, 10
	for k := range keys {
		for i := range each {
			q.Put(row(fmt.Sprintf("evt_%d_%d", k, i), fmt.Sprint("k", k), i))
		}
	}
	work(t, q, s)
	done(t, q)
	next := map[int]int{}
	for _, m := range stored(t, srv.ClientURL()) {
		var e struct{ ID string }
		require.NoError(t, json.Unmarshal(m.Data(), &e))
		var k, i int
		_, err := fmt.Sscanf(e.ID, "evt_%d_%d", &k, &i)
		require.NoError(t, err)
		require.Equal(t, next[k], i, "key %d", k)
		next[k]++
	}
	require.Len(t, next, keys)
}

// An event that NATS cannot take is parked at once, with what to do, and the events
// behind it, of its own key too, go on.
func TestAnEventThatIsTooLargeIsParked(t *testing.T) {
	srv := start(t, t.TempDir(), -1, func(o *server.Options) { o.MaxPayload = 4096 })
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true})
	q := memory.NewQueue()
	large := row("evt_large", "k", 1)
	large.Payload = append(large.Payload[:len(large.Payload)-1], `,"more":"`+strings.Repeat("x", 5000)+`"}`...)
	q.Put(large)
	garbage := row("evt_garbage", "k", 2)
	garbage.Payload = []byte("{")
	q.Put(garbage)
	q.Put(row("evt_good", "k", 3))
	work(t, q, s)
	done(t, q)
	require.Len(t, stored(t, srv.ClientURL()), 1)
	require.Contains(t, q.Row("evt_large/nats").LastError, "max_payload")
	require.Contains(t, q.Row("evt_garbage/nats").LastError, "not JSON")
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	locked := start(t, t.TempDir(), -1, func(o *server.Options) { o.Username, o.Password = "homeward", "right" })
	noCreds := filepath.Join(t.TempDir(), "none.creds")

	for name, tc := range map[string]struct {
		c    nats.Config
		says string
	}{
		"no URL":            {nats.Config{}, "tls://host:4222"},
		"not a URL":         {nats.Config{URL: "nats://me:hunter2@b b:4222"}, "the URL cannot be read"},
		"name":              {nats.Config{URL: srv.ClientURL(), Stream: "A.B"}, "cannot be the name"},
		"prefix":            {nats.Config{URL: srv.ClientURL(), Prefix: "a.>"}, "a prefix of subjects"},
		"window":            {nats.Config{URL: srv.ClientURL(), Duplicates: 9 * 24 * time.Hour}, "duplicate window"},
		"half a pair":       {nats.Config{URL: srv.ClientURL(), CertFile: "x"}, "needs its key"},
		"no password":       {nats.Config{URL: locked.ClientURL(), Create: true}, "check the URL, the credentials"},
		"no such creds":     {nats.Config{URL: srv.ClientURL(), Credentials: noCreds}, "none.creds"},
		"no such CA":        {nats.Config{URL: srv.ClientURL(), CAFile: noCreds}, "none.creds"},
		"TLS where none is": {nats.Config{URL: strings.Replace(srv.ClientURL(), "nats:", "tls:", 1)}, "check the URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := nats.Open(t.Context(), tc.c)
			if err == nil {
				s.Close()
			}
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	open(t, nats.Config{URL: strings.Replace(locked.ClientURL(), "//", "//homeward:right@", 1), Create: true})
}

// A stream that is missing, or lost its subjects, keeps no node from starting: payments go
// on, and events wait, without using up their tries, for whoever mends it. The sink says
// why, and notices the mending where no event waits.
func TestAStreamMayComeLater(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	conn, err := natsgo.Connect(srv.ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		stream, says string
		mend         func() error
	}{
		"missing": {"LATE", "there is no stream LATE; create it", func() error {
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LATE", Subjects: []string{"late.>"}})
			return err
		}},
		"other subjects": {"OTHER", "do not belong to stream OTHER", func() error {
			_, err := js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>", "homeward.events.>"}})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c := nats.Config{URL: srv.ClientURL(), Stream: tc.stream, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if tc.stream == "LATE" {
				c.Prefix = "late"
			}
			s := open(t, c)
			require.Contains(t, s.Waiting(), tc.says)
			require.Contains(t, log.String(), "events wait until it can")
			_, later := verdict(t, s, event("evt_1")).Delay()
			require.True(t, later, "it waits, and no try is counted")
			require.Equal(t, 1, strings.Count(log.String(), "events wait until it can"))
			require.NoError(t, tc.mend())
			s.Recheck()
			require.Empty(t, s.Waiting())
			require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
			if tc.stream != "LATE" {
				return
			}
			require.NoError(t, js.DeleteStream(t.Context(), "LATE"))
			for range 2 { // under us, too
				_, later = verdict(t, s, event("evt_2")).Delay()
				require.True(t, later)
			}
			require.Contains(t, s.Waiting(), tc.says)
		})
	}
}

// A cluster without a leader looks the same as one without JetStream, so neither
// keeps a node from starting.
func TestJetStreamMayComeLater(t *testing.T) {
	srv := start(t, t.TempDir(), -1, func(o *server.Options) { o.JetStream = false })
	var log bytes.Buffer
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "events wait until it can")
	require.NotEqual(t, outbox.Done(), verdict(t, s, event("evt_1")))
	require.NoError(t, srv.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir()}))
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
	require.Len(t, stored(t, srv.ClientURL()), 1)
}

// What an operator has set on a stream stays.
func TestAStreamThatIsThereIsNotChanged(t *testing.T) {
	srv := start(t, t.TempDir(), -1)
	conn, err := natsgo.Connect(srv.ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: nats.DefaultStream, Subjects: []string{"homeward.>"}, Duplicates: time.Minute})
	require.NoError(t, err)
	var log bytes.Buffer
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "duplicate window is short")
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Minute, info.Config.Duplicates)
	require.EqualValues(t, 1, info.State.Msgs)

	// Deleted under us, it is made again. The server may still be removing the directory of
	// its last stream, and then refuses to make one.
	require.NoError(t, js.DeleteStream(t.Context(), nats.DefaultStream))
	require.NotEqual(t, outbox.Done(), verdict(t, s, event("evt_2")))
	require.Eventually(t, func() bool { return verdict(t, s, event("evt_2")) == outbox.Done() }, patience, 10*time.Millisecond)
	require.Len(t, stored(t, srv.ClientURL()), 1)
}
