package region

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Times and limits of the connections between nodes.
const (
	// connectTimeout bounds a dial to a node, and the handshake after it, for which the next
	// request may wait. It is above one lost packet (a SYN is repeated after 1 s) and two
	// round trips on the longest way between two regions.
	connectTimeout = 2 * time.Second
	// tripTimeout bounds each round trip on the way to a node: the dial, the handshake, and a ping.
	// It is the same for every region, as a bound that follows measurements takes a region that has
	// just become slow for dead: it is above the longest round trip between two regions (0.3 s) that
	// has become 0.4 s longer at once.
	tripTimeout = 750 * time.Millisecond
	// A caller pings a connection without a frame for pingAfter, and drops it if the answer
	// takes longer than tripTimeout: a node that lost power, or was stopped, is noticed within
	// deadAfter, and its requests go on elsewhere. A packet lost there may cost a dial. A quiet
	// connection costs some fifteen small packets a second.
	pingAfter = 150 * time.Millisecond
	deadAfter = pingAfter + tripTimeout
	// The called node pings less often: for a caller that is gone it keeps only the connection. So
	// does an operator.
	calledPingAfter   = 5 * time.Second
	calledPingTimeout = 5 * time.Second
	// idleTimeout closes connections that no request used. It is longer than the lulls
	// of a quiet night, since opening one costs one to three round trips.
	idleTimeout = 5 * time.Minute
	// maxStreams is how many requests a peer may have running on one connection;
	// more open another. 1000 is above a busy node's forwards to one peer.
	maxStreams = 1000
	// readHeaderTimeout and readTimeout bound how long a peer may take to send a
	// request's head and all of it: 4 MiB at 1 Mbit/s.
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 40 * time.Second
	// maxHeaderBytes: a forward has a dozen short headers.
	maxHeaderBytes = 16 << 10
	// maxConnAge is the age at which the server closes a TLS connection, after the
	// requests on it: only a handshake checks replaced certificates and CAs. A
	// handshake an hour costs nothing.
	maxConnAge = time.Hour
)

// Transport is the HTTP/2 transport of [Peers], over TLS or in clear text. Each
// has its own connections. It is safe for concurrent use.
type Transport struct {
	tls     *TLS // nil: clear text
	patient bool
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)

	mu sync.Mutex
	// to holds the connections by region, "" for any. A connection whose other end
	// proved to be of one region must not serve requests for another, whatever gossip
	// reports of its address.
	to map[string]*http.Transport
}

// NewTransport makes a transport. With TLS every request must name its target
// region, see [Towards]; nil is clear text.
func NewTransport(t *TLS) *Transport {
	return &Transport{tls: t, dial: (&net.Dialer{Timeout: connectTimeout}).DialContext, to: make(map[string]*http.Transport)}
}

// Through returns t, which dials through s from now on; nil leaves it. It is called before t is used.
func (t *Transport) Through(s Sockets) *Transport {
	if s != nil {
		t.dial = s.DialContext
	}
	return t
}

// Patient returns t for callers who have nobody else to ask, as operators: a node may take
// some seconds for a ping, as on a busy machine. It is called before t is used.
func (t *Transport) Patient() *Transport {
	t.patient = true
	return t
}

type towardsKey struct{}

// Towards returns a context for requests to a node of region, "" for any: the server must prove to
// be one.
func Towards(ctx context.Context, region string) context.Context {
	return context.WithValue(ctx, towardsKey{}, region)
}

var errNowhere = errors.New("region: the request names no target region, so the server's identity cannot be checked")

// RoundTrip is http.RoundTripper's.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	region := ""
	if t.tls != nil {
		var said bool
		if region, said = req.Context().Value(towardsKey{}).(string); !said {
			if req.Body != nil {
				_ = req.Body.Close() // a RoundTripper owns it also when it fails
			}
			return nil, errNowhere
		}
	}
	return t.of(region).RoundTrip(req)
}

// CloseIdleConnections implements http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.to {
		one.CloseIdleConnections()
	}
}

// of returns the connections to a region. There are at most MaxRegions, and none is
// ever removed.
func (t *Transport) of(region string) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.to[region]
	if ok {
		return one
	}
	one = &http.Transport{
		DialContext:         t.dial,
		TLSHandshakeTimeout: connectTimeout,
		IdleConnTimeout:     idleTimeout,
		Protocols:           new(http.Protocols),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: tripTimeout},
		DisableCompression:  true,
	}
	if t.patient {
		one.HTTP2 = &http.HTTP2Config{SendPingTimeout: calledPingAfter, PingTimeout: calledPingTimeout}
	}
	if t.tls == nil {
		one.Protocols.SetUnencryptedHTTP2(true)
	} else {
		one.Protocols.SetHTTP2(true)
		one.TLSClientConfig = t.tls.Client(region)
	}
	t.to[region] = one
	return one
}

// NewServer returns a server for a mux with a [Handler] mounted. With TLS it
// speaks HTTP/2, must be started with ServeTLS (without file names), and passes
// the caller's identity to the handler, see [CallerOf]. If t is nil, it serves
// clear text, also over HTTP/1.1 for curl, and checks no identity; it only refuses
// pages in browsers. There is no write time-out: an answer takes as long as its
// provider, and the request carries the caller's deadline.
func NewServer(handler http.Handler, t *TLS) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout, // including the handshake
		ReadTimeout:       readTimeout,
		IdleTimeout:       2 * idleTimeout, // the client's end closes first
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      calledPingAfter,
			PingTimeout:          calledPingTimeout,
		},
	}
	if t == nil {
		s.Handler = noPages(handler)
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
		return s
	}
	s.Protocols.SetHTTP2(true)
	s.TLSConfig = t.Server()
	s.ErrorLog = log.New(handshakeLog{t.log}, "", 0)
	s.Handler = &identified{next: handler, certs: t, clock: t.cfg.clock, log: t.log}
	s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, openedKey{}, t.cfg.clock())
	}
	return s
}

// noPages refuses requests of a page in a browser. The browser runs on this machine,
// too, and DNS rebinding makes its requests same-origin. No node and no tool sends
// Origin, and every browser does with anything but a plain GET.
func noPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			http.Error(w, "this listener is for nodes and operators' tools, and not for pages in browsers", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type openedKey struct{}

// identified passes the caller's identity to the handlers behind it.
type identified struct {
	next  http.Handler
	certs *TLS
	clock func() time.Time
	log   *slog.Logger
}

func (h *identified) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.clock()
	opened, _ := r.Context().Value(openedKey{}).(time.Time)
	who, err := callerOf(r.TLS, now)
	if err == nil {
		err = h.certs.checkRevoked(r.TLS.PeerCertificates)
	}
	if err != nil || now.Sub(opened) > maxConnAge {
		// In HTTP/2, too, this asks for no new request on the connection.
		w.Header().Set("Connection", "close")
	}
	if err != nil {
		h.log.Warn("a peer request was refused", "remote", r.RemoteAddr, "error", err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	h.next.ServeHTTP(w, r.WithContext(withCaller(r.Context(), who)))
}
