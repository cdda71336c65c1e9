// Package wire holds what the adapters' connections to their providers have in common.
package wire

import (
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxIdlePerHost keeps a connection for every call of a busy node: with
	// net/http's default of 2 each burst would open and close hundreds.
	maxIdlePerHost = 512
	// idleTimeout is below the 60 s after which common servers and load balancers
	// close, so that this side closes first and never writes to a dead connection.
	idleTimeout = 30 * time.Second
	dialTimeout = 5 * time.Second
	keepAlive   = 15 * time.Second
	tlsTimeout  = 5 * time.Second
)

// IsBase reports whether a provider's paths can be joined to u: an absolute http or https
// URL without query and fragment.
func IsBase(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

// NewTransport returns a transport tuned for a single busy host. maxHeader bounds
// the header of a reply, in bytes.
func NewTransport(maxHeader int64) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxIdlePerHost,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    tlsTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
}
