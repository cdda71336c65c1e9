package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// again is how long a merchant waits before it sends the same request once more, and
	// between does so between two payments.
	again   = 100 * time.Millisecond
	between = 20 * time.Millisecond
	// attemptTime bounds one request: longer than the API lets a twin wait (5 s).
	attemptTime = 8 * time.Second
)

// merchant follows DNS alone. It resolves the API's name, keeps the answer for its TTL, and sends a
// request there. Without a final answer it sends the same bytes with the same key once more,
// wherever the API is then.
type merchant struct {
	customer
	front *front
	port  int

	mu      sync.Mutex
	payment []payment
	entered map[string]int // payments that were answered, by region
	slowest time.Duration  // of payments, since it was last read
	repeats int            // requests beyond the first of each payment
}

// payment is a request with its result.
type payment struct {
	key    string
	amount int64
	entry  string // region that answered
	home   string
	body   string
}

// resolved is where the API is, for one worker of the merchant.
type resolved struct {
	addr  netip.Addr
	until time.Time
}

// resolve queries DNS unless the last answer may still be used.
func (m *merchant) resolve(ctx context.Context, r *resolved) error {
	if time.Now().Before(r.until) {
		return nil
	}
	addrs, ttl, err := m.front.dns.lookup(ctx, m.subnet)
	if err != nil {
		return err
	}
	*r = resolved{addrs[0], time.Now().Add(ttl)}
	return nil
}

// work pays until stop is closed, the last payment to its end. amounts hands out amounts.
func (m *merchant) work(ctx context.Context, stop <-chan struct{}, amounts func() int64) error {
	var at resolved
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(between):
		}
		p := payment{key: uuid.NewString(), amount: amounts()}
		begun := time.Now()
		repeats, err := m.pay(ctx, &p, &at)
		if err != nil {
			return fmt.Errorf("%s: key %s: %w", m.name, p.key, err)
		}
		m.mu.Lock()
		m.payment = append(m.payment, p)
		m.entered[p.entry]++
		m.slowest = max(m.slowest, time.Since(begun))
		m.repeats += repeats
		m.mu.Unlock()
	}
}

// pay sends one request until it has its final answer, and returns the number of retries.
func (m *merchant) pay(ctx context.Context, p *payment, at *resolved) (repeats int, err error) {
	for {
		err := m.resolve(ctx, at)
		if err == nil {
			var final bool
			if final, err = m.send(ctx, p, at.addr); final {
				return repeats, err
			}
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return repeats, errors.Join(ctx.Err(), err)
		}
		repeats++
	}
}

// send sends the request once. An answer that says "again with the same key" is not final,
// and neither is none.
func (m *merchant) send(ctx context.Context, p *payment, addr netip.Addr) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	body := fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":"pm_card_visa"}`, p.amount)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+strings.TrimSuffix(name, ".")+":"+strconv.Itoa(m.port)+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return true, err
	}
	req.GetBody = nil // what is sent again is sent by the merchant, and counted
	req.Header.Set("Authorization", "Bearer "+m.front.apiKey)
	req.Header.Set("Idempotency-Key", p.key)
	req.Header.Set("Content-Type", "application/json")
	// A connection of its own each time: one that is kept follows no DNS.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, netip.AddrPortFrom(addr, uint16(m.port)).String())
	}}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return false, err
	}
	var said struct{ Retry string }
	_ = json.Unmarshal(text, &said) // a proxy's page is no answer
	switch {
	case res.StatusCode == http.StatusCreated:
		p.entry, p.home = m.front.regionAt(addr), res.Header.Get("Homeward-Home-Region")
		if p.body != "" && p.body != string(text) {
			return true, fmt.Errorf("was answered %s, and is answered %s", p.body, text)
		}
		p.body = string(text)
		return true, nil
	case said.Retry == "same_key" || res.StatusCode >= http.StatusInternalServerError:
		return false, fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return true, fmt.Errorf("is refused for good: %d %s", res.StatusCode, bytes.TrimSpace(text))
}

// enteredAt is how many of its payments a region has answered.
func (m *merchant) enteredAt(region string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entered[region]
}

// felt is the slowest payment since it was last read.
func (m *merchant) felt() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.slowest
	m.slowest = 0
	return d
}
