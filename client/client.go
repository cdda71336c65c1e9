package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
)

// Defaults and bounds of a [Config].
const (
	// DefaultMaxAttempts, with the back-off below, is about half a minute of trying if
	// every attempt fails at once: longer than a region takes to be replaced by a deputy.
	// It is longer if attempts hang, if the server waits for an outcome before it answers
	// (some seconds each), and by every Retry-After. Bound a call by its context.
	DefaultMaxAttempts = 10
	// DefaultTimeout bounds one attempt. It is longer than the server works on a
	// request, so that an answer is not thrown away.
	DefaultTimeout = 100 * time.Second
	// DefaultBackoffMin and DefaultBackoffMax bound the pause before a retry: full
	// jitter below a ceiling that doubles from one to the other.
	DefaultBackoffMin = 100 * time.Millisecond
	DefaultBackoffMax = 10 * time.Second
	// While an attempt has no answer for listenAfter, and each listenEvery after that, its region is asked
	// whether it is there, and is left for the next one after listenTime. The sum of the first and the last,
	// and a payment elsewhere, is less than a second. An answer within it takes a new connection's three
	// round trips at most; who is further away asks each region once more than needed.
	listenAfter = 200 * time.Millisecond
	listenTime  = 500 * time.Millisecond
	listenEvery = time.Second
	// listenAnswer is how much of it is read, in bytes, so that its connection can be used again.
	listenAnswer = 4 << 10
	// maxServerWait bounds the Retry-After that the client obeys. If it is longer, the
	// call fails, and the caller gets the time in the error.
	maxServerWait = time.Minute
	// maxAnswer is the longest body that is read, in bytes: the request (1 MiB at most,
	// six times that once canonical) and the object around it.
	maxAnswer = 8 << 20
)

// Config configures a [Client]. BaseURLs and APIKey must be set.
type Config struct {
	// BaseURLs of the regions, the preferred one first: https://eu.example.com.
	// The client moves on to the next when one cannot be reached, without a pause where
	// there was no connection. Name each region: one name for all leaves that to DNS.
	BaseURLs []string
	APIKey   string
	// HTTPClient sends the requests; nil means a new one. Its Timeout should be
	// zero; Timeout below bounds each attempt. It follows no redirect, whatever its CheckRedirect is.
	HTTPClient *http.Client
	// RegionCode, if not 0, is the home region of new keys, which saves a look-up: use the code of
	// the region of the first base URL, which Homeward's operator has. Keys with an unknown code
	// are answered home_unavailable. If it is 0, keys are random UUIDs, with their home at the
	// region of their first use; MintKeys requests stamped keys from a region.
	RegionCode claim.RegionCode
	// MaxAttempts bounds the requests of one call, the first included.
	MaxAttempts int
	// Timeout bounds one attempt; a call is bounded by its context.
	Timeout time.Duration
	// BackoffMin and BackoffMax bound the pauses between attempts.
	BackoffMin, BackoffMax time.Duration
	// Sleep waits for d or until ctx is done and then returns its error; nil
	// means the real clock. For tests.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client calls Homeward. It is safe for concurrent use.
type Client struct {
	c     Config
	bases []string
	// base is the index of the region that the next call starts with: the one that answered last, or the
	// one after a region that did not.
	base atomic.Uint32
}

// New checks the configuration. It opens no connection.
func New(c Config) (*Client, error) {
	if len(c.BaseURLs) == 0 {
		return nil, errors.New("client: BaseURLs is empty; name at least one region")
	}
	if c.APIKey == "" {
		return nil, errors.New("client: APIKey is missing")
	}
	if c.MaxAttempts < 0 || c.Timeout < 0 || c.BackoffMin < 0 || c.BackoffMax < 0 {
		return nil, errors.New("client: MaxAttempts, Timeout, BackoffMin and BackoffMax must not be negative")
	}
	cl := &Client{}
	for _, base := range c.BaseURLs {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("client: base URL %q must look like https://host", base)
		}
		cl.bases = append(cl.bases, strings.TrimRight(base, "/"))
	}
	var once http.Client
	if c.HTTPClient != nil {
		once = *c.HTTPClient
	}
	// A redirected POST is another request, most often a GET.
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTPClient = &once
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.BackoffMin, DefaultBackoffMin)
	setDefault(&c.BackoffMax, DefaultBackoffMax)
	if c.BackoffMax < c.BackoffMin {
		return nil, fmt.Errorf("client: BackoffMax %v is below BackoffMin %v", c.BackoffMax, c.BackoffMin)
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	cl.c = c
	return cl, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// NewKey makes an idempotency key without a request: stamped with
// Config.RegionCode, or a random UUID. Store it before you use it in a call.
func (cl *Client) NewKey() (string, error) {
	if cl.c.RegionCode != 0 {
		return claim.Stamp(cl.c.RegionCode, nil)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("client: make an idempotency key: %w", err)
	}
	return id.String(), nil
}

// pause returns the wait before attempt n+1, n ≥ 1: the server's Retry-After plus a
// back-off with full jitter, so that clients that failed together do not retry
// together. The back-off grows even if the server asks for the same time again.
func (cl *Client) pause(n int, retryAfter time.Duration) time.Duration {
	ceiling := cl.c.BackoffMax
	if shift := n - 1; shift < 32 && cl.c.BackoffMin<<shift < ceiling && cl.c.BackoffMin<<shift > 0 {
		ceiling = cl.c.BackoffMin << shift
	}
	jitter := time.Duration(rand.Int64N(int64(ceiling) + 1))
	return retryAfter + jitter
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
