package region

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Times and limits of the connections between nodes.
const (
	// dialTimeout is above one lost SYN (repeated after 1 s) on the longest way
	// between two regions (0.4 s).
	dialTimeout = 3 * time.Second
	// pingAfter without a frame a connection is pinged, and it is dropped when the
	// answer takes longer than pingTimeout: a peer that lost its power is noticed
	// in 10 s, not after the kernel's 15 minutes.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// idleTimeout closes connections that no request used. Longer than the lulls
	// of a quiet night, since opening one costs a round trip or three.
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
)

// NewTransport returns what [Peers] sends its requests with: HTTP/2 over TLS
// with tlsConfig, which carries the client's certificate for mutual TLS, or in
// clear text where it is nil. Each transport has connections of its own.
func NewTransport(tlsConfig *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	if tlsConfig == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     idleTimeout,
		Protocols:           protocols,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:  true,
	}
}

// NewServer returns a server for a mux with a [Handler] mounted, HTTP/2 as in
// [NewTransport] and HTTP/1.1 for curl. There is no write time-out: an answer
// takes as long as its provider, and the caller's deadline comes along.
func NewServer(handler http.Handler, tlsConfig *tls.Config) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if tlsConfig == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	return &http.Server{
		Handler:           handler,
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       2 * idleTimeout, // the client's end closes first
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
		},
	}
}
