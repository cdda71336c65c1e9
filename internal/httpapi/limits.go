package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Limits bounds what one caller can make a node hold, and for how long. The limits of
// tenants are defaults.
type Limits struct {
	// Body is the longest request body, in bytes. 1 MiB is the public contract.
	Body int64 `koanf:"-"`
	// HeaderBytes is the longest request head, in bytes. The longest sensible one,
	// keys and trace headers included, has about 2 KiB.
	HeaderBytes int `koanf:"-"`
	// HeaderTime and BodyTime are how long a client may take to send each. 10 s
	// moves 1 MiB at 1 Mbit/s; slower clients only hold a connection, as no claim
	// is made before the body is whole.
	HeaderTime, BodyTime time.Duration `koanf:"-"`
	// Request is how long one request may run. It must exceed the provider's time-out
	// plus the wait for a rival and two hops: a shorter one turns healthy answers into
	// unknown ones.
	Request time.Duration `koanf:"-"`
	// AskAgain is how long the node repeats a request of Stripe's clients, from its
	// arrival on, while its outcome is not known, as not all of them retry by
	// themselves. It must be below the 60 s after which load balancers commonly close;
	// 0 repeats none.
	AskAgain time.Duration `koanf:"-"`
	// Reply is how long a client may take to read the answer, on top of Request.
	Reply time.Duration `koanf:"-"`
	// Idle is how long a kept-alive connection may be silent. It exceeds the load
	// balancer's own, 600 s at Google, so that the balancer closes first: otherwise a
	// request that crosses the close gets 502.
	Idle time.Duration `koanf:"-"`
	// Notices bounds the bodies that any client can make a node hold: it reads a provider's
	// notice before it can verify the signature. Bytes are 64 of the largest notices, and
	// 8,000 of the usual 2 KiB: two seconds of 4,000 a second. Copies on their way to the
	// store make it four times that in memory.
	Notices InFlight `koanf:"-"`
	// Tenants bounds the bodies that come with an API key. Bytes are 256 of the largest
	// bodies; of the usual 512 bytes, a provider that does not answer for 8 s leaves 8,000 of
	// a tenant waiting at 1,000 requests a second. One tenant has at most as many bodies and
	// bytes as stay free for the others: TenantRate does not bound what waits.
	Tenants InFlight `koanf:"-"`
	// TenantRate, in requests per second, and TenantBurst, in requests, apply to
	// tenants whose row has none. 0 means no limit.
	TenantRate  float64 `koanf:"tenant_rate"`
	TenantBurst int     `koanf:"tenant_burst"`
}

// InFlight bounds the bodies that a node holds at once, each from its first byte to the
// answer. A request beyond it is answered 503 with Retry-After, and its body is not read.
type InFlight struct {
	// Bodies is how many, Bytes their sum as far as they have arrived: a length that is
	// declared and not sent takes no room.
	Bodies, Bytes int64
}

// DefaultLimits is the published contract.
func DefaultLimits() Limits {
	return Limits{
		Body:        1 << 20,
		HeaderBytes: 16 << 10,
		HeaderTime:  10 * time.Second,
		BodyTime:    10 * time.Second,
		Request:     90 * time.Second,
		AskAgain:    20 * time.Second,
		Reply:       30 * time.Second,
		Idle:        620 * time.Second,
		Notices:     InFlight{Bodies: 4096, Bytes: 16 << 20},
		Tenants:     InFlight{Bodies: 16384, Bytes: 256 << 20},
		TenantRate:  1000,
		TenantBurst: 2000,
	}
}

func (l Limits) validate() error {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"Body", l.Body > 0},
		{"HeaderBytes", l.HeaderBytes > 0},
		{"HeaderTime", l.HeaderTime > 0},
		{"BodyTime", l.BodyTime > 0},
		{"Request", l.Request > 0},
		{"Reply", l.Reply > 0},
		{"Idle", l.Idle > 0},
		{"Notices", l.Notices.Bodies > 0 && l.Notices.Bytes > 0},
		{"Tenants", l.Tenants.Bodies > 0 && l.Tenants.Bytes > 0},
	} {
		if !c.ok {
			return fmt.Errorf("httpapi: limit %s must be above 0; start from DefaultLimits", c.name)
		}
	}
	if l.AskAgain < 0 {
		return fmt.Errorf("httpapi: limit AskAgain must not be below 0, is %v", l.AskAgain)
	}
	if l.TenantRate < 0 || l.TenantBurst < 0 || (l.TenantRate > 0) != (l.TenantBurst > 0) {
		return fmt.Errorf("httpapi: limits TenantRate and TenantBurst must both be above 0 or both be 0, are %g and %d", l.TenantRate, l.TenantBurst)
	}
	return nil
}

// NewServer returns a server for h, ready to Serve, with the time-outs of l against
// slow and silent clients. net/http's own messages are logged at debug level, as any
// client can cause them; nil means slog.Default.
func NewServer(addr string, h http.Handler, l Limits, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.Default()
	}
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: l.HeaderTime,
		// No ReadTimeout: it would keep running while the provider is called. The
		// handler sets a deadline for the body alone.
		WriteTimeout:   l.HeaderTime + l.BodyTime + l.Request + l.Reply,
		IdleTimeout:    l.Idle,
		MaxHeaderBytes: l.HeaderBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
