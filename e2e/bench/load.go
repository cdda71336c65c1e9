package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/homeward-io/homeward/claim"
)

// The request that every case sends, but for its key. The body is what a shop sends: some
// 200 bytes.
const (
	bodyAmount   = 1250
	bodyCurrency = "usd"
	bodySource   = "pm_card_visa"
	requestBody  = `{"amount":1250,"currency":"usd","payment_method":"pm_card_visa","description":"Two rocket engines","order_id":"order-20260101-000017","metadata":{"cart":"c0ffee","channel":"web","customer":"cus_18"}}`

	replayedHeader = "Idempotent-Replayed"
)

const (
	// replyTime bounds one exchange: above the slowest healthy one, a commit behind a
	// stalled disk included.
	replyTime = 30 * time.Second
	// maxWindow bounds how long a window grows while no reply comes: no healthy side is
	// silent for a minute.
	maxWindow = time.Minute
	// latencyMin, latencyMax (nanoseconds) and latencyDigits bound a recorded latency.
	latencyMin, latencyMax, latencyDigits = 1_000, 60_000_000_000, 3
)

// load is what the generator sends in one run.
type load struct {
	conns int
	// rate is in requests a second; 0 means that every connection sends its next
	// request as soon as it has its reply.
	rate float64
	// stamped keys instead of UUIDv4 ones.
	stamped bool
	// unguarded: the key is in a header that means nothing.
	unguarded bool
	// replay makes this many keys first, waits settle, and then only sends those; each
	// reply must have the first one's bytes. 0: new keys.
	replay int
	settle time.Duration
	// warm is sent unmeasured, then window is measured.
	warm, window time.Duration
}

// result is what came of it.
type result struct {
	requests int64
	elapsed  time.Duration
	latency  *hdrhistogram.Histogram // nanoseconds
	used     reading                 // in the window
	made     int                     // charges, those included that were primed or not measured
}

// generator sends over one kept-alive HTTP/1.1 connection for each of conns. It writes
// prepared bytes: on two cores every cycle that a client spends is taken from what is
// measured, and net/http's, and with it vegeta, would spend more than a replay's floor.
type generator struct {
	load
	// addrs are loaded in equal shares; stamped keys are at home where they arrive.
	addrs []string
	prime string // where keys are made that are replayed
	// watch reads what the loaded processes have used.
	watch func(context.Context) (reading, error)

	keys   []string
	bodies [][]byte // of keys, once primed
	begun  time.Time
	from   time.Time // the measured window
	until  time.Time
	ticket atomic.Int64 // arrivals at a fixed rate
	made   atomic.Int64
}

func (g *generator) run(ctx context.Context) (result, error) {
	if g.replay > 0 {
		if err := g.primeKeys(ctx); err != nil {
			return result{}, fmt.Errorf("prime: %w", err)
		}
	}
	wires := make([]*wire, g.conns)
	for i := range wires {
		w, err := dial(g.addrs[i%len(g.addrs)], g.unguarded)
		if err != nil {
			return result{}, err
		}
		defer w.close()
		w.region = i % len(g.addrs)
		wires[i] = w
	}
	for {
		r, err := g.measure(ctx, wires)
		r.made = int(g.made.Load())
		if err != nil || r.requests > 0 {
			return r, err
		}
		// A machine busy with other work gave no answer: measure for longer.
		if g.window *= 2; g.window > maxWindow {
			return r, fmt.Errorf("no reply came within %v", maxWindow)
		}
	}
}

// measure loads the wires for one warm-up and one window.
func (g *generator) measure(ctx context.Context, wires []*wire) (r result, err error) {
	g.begun = time.Now()
	g.from = g.begun.Add(g.warm)
	g.until = g.from.Add(g.window)
	g.ticket.Store(0)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		r.used, err = between(ctx, g.watch, g.from, g.until)
		return err
	})
	histograms := make([]*hdrhistogram.Histogram, len(wires))
	for i, w := range wires {
		histograms[i] = hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
		all.Go(func() error { return g.drive(ctx, w, histograms[i]) })
	}
	if err := all.Wait(); err != nil {
		return r, err
	}
	r.latency = histograms[0]
	for _, h := range histograms[1:] {
		r.latency.Merge(h)
	}
	r.requests, r.elapsed = r.latency.TotalCount(), g.window
	return r, nil
}

// drive sends on one connection until the window ends.
func (g *generator) drive(ctx context.Context, w *wire, h *hdrhistogram.Histogram) error {
	for ctx.Err() == nil {
		sent, more, err := g.due(ctx)
		if err != nil || !more {
			return err
		}
		if err := g.exchange(w); err != nil {
			return err
		}
		// A reply belongs to the window in which it arrived.
		if now := time.Now(); !now.Before(g.from) && now.Before(g.until) {
			if err := h.RecordValue(int64(now.Sub(sent))); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// due waits for this connection's next turn and returns from when its latency counts. At a fixed
// rate that is the time at which the request should have gone when every connection was busy then,
// so that a stall counts for every request that it delays; a late timer is the generator's fault
// and not counted.
func (g *generator) due(ctx context.Context) (from time.Time, more bool, err error) {
	if g.rate == 0 {
		now := time.Now()
		return now, now.Before(g.until), nil
	}
	n := g.ticket.Add(1) - 1
	at := g.begun.Add(time.Duration(float64(n) / g.rate * float64(time.Second)))
	if !at.Before(g.until) {
		return at, false, nil
	}
	if time.Until(at) <= 0 {
		return at, true, nil
	}
	err = sleepUntil(ctx, at)
	return time.Now(), err == nil, err
}

// exchange sends one request and checks the reply.
func (g *generator) exchange(w *wire) error {
	if g.replay == 0 {
		_, err := g.charge(w)
		return err
	}
	i := rand.IntN(len(g.keys))
	body, err := w.post(g.keys[i], true)
	if err == nil && !bytes.Equal(body, g.bodies[i]) {
		err = fmt.Errorf("the replay of %s differs: %q, at first %q", g.keys[i], body, g.bodies[i])
	}
	return err
}

// charge makes a new charge, counts it, and returns its key.
func (g *generator) charge(w *wire) (key string, err error) {
	if g.stamped {
		key, err = claim.Stamp(claim.RegionCode(w.region+1), nil)
	} else {
		key = uuid.NewString()
	}
	if err == nil {
		_, err = w.post(key, false)
	}
	if err == nil {
		g.made.Add(1)
	}
	return key, err
}

// primeKeys makes the keys that are replayed, and keeps their first replies.
func (g *generator) primeKeys(ctx context.Context) error {
	g.keys, g.bodies = make([]string, g.replay), make([][]byte, g.replay)
	var next atomic.Int64
	all, group := errgroup.WithContext(ctx)
	for range min(g.conns, g.replay) {
		all.Go(func() error {
			w, err := dial(g.prime, false)
			if err != nil {
				return err
			}
			defer w.close()
			for i := int(next.Add(1) - 1); i < g.replay && group.Err() == nil; i = int(next.Add(1) - 1) {
				if g.keys[i], err = g.charge(w); err != nil {
					return err
				}
				g.bodies[i] = bytes.Clone(w.body)
			}
			return group.Err()
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	// Replicas show nothing younger than their lag, so only waiting helps.
	return sleepUntil(ctx, time.Now().Add(g.settle))
}

// wire is one connection. It is not safe for concurrent use.
type wire struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
	key     []byte // the part of request that holds the key
	body    []byte // of the last reply; valid until the next
	region  int    // that it leads to, by its index
}

// keyLength is that of a UUID as text.
const keyLength = 36

func dial(addr string, unguarded bool) (*wire, error) {
	keyHeader := "Idempotency-Key"
	if unguarded {
		keyHeader = "X-Request-Id"
	}
	conn, err := net.DialTimeout("tcp", addr, replyTime)
	if err != nil {
		return nil, err
	}
	head := "POST /v1/charges HTTP/1.1\r\nHost: " + addr +
		"\r\nAuthorization: Bearer " + apiKey +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(requestBody)) +
		"\r\nUser-Agent: homeward-bench\r\n" + keyHeader + ": "
	w := &wire{conn: conn, r: bufio.NewReader(conn)}
	w.request = slices.Concat([]byte(head), make([]byte, keyLength), []byte("\r\n\r\n"+requestBody))
	w.key = w.request[len(head) : len(head)+keyLength]
	return w, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// post sends one charge under key and returns the body of its reply, which must be a
// success and say whether it is a replay.
func (w *wire) post(key string, replayed bool) ([]byte, error) {
	copy(w.key, key)
	if err := w.conn.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return nil, err
	}
	if _, err := w.conn.Write(w.request); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", key, err)
	}
	into := bytes.NewBuffer(w.body[:0])
	_, err = io.Copy(into, res.Body)
	_ = res.Body.Close() // it was read whole
	w.body = into.Bytes()
	switch again := res.Header.Get(replayedHeader) == "true"; {
	case err != nil:
		return nil, fmt.Errorf("key %s: %w", key, err)
	case res.StatusCode != http.StatusCreated:
		return nil, fmt.Errorf("key %s: status %d: %s", key, res.StatusCode, w.body)
	case again != replayed:
		return nil, fmt.Errorf("key %s: replayed is %v, want %v", key, again, replayed)
	}
	return w.body, nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
