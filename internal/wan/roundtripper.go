package wan

import (
	"fmt"
	"net/http"
)

// RoundTripper charges one [Network.Travel] for every HTTP request that a node in from sends
// through base (nil: [http.DefaultTransport]). regionOf returns the region of a request's
// host:port; "" means that it is unknown and is free.
//
// The whole distance is paid before the request is sent. A cut link then loses the
// request and never the reply: a store or a provider has its own faults for that. With
// a nil network base is returned as it is.
func (n *Network) RoundTripper(base http.RoundTripper, from string, regionOf func(host string) string) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if n == nil {
		return base
	}
	return &roundTripper{network: n, base: base, from: from, regionOf: regionOf}
}

type roundTripper struct {
	network  *Network
	base     http.RoundTripper
	from     string
	regionOf func(host string) string
}

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	to := t.regionOf(req.URL.Host)
	if to == "" {
		to = t.from
	}
	if err := t.network.Travel(req.Context(), t.from, to); err != nil {
		// A RoundTripper owns the body also when it fails.
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, fmt.Errorf("travel to %s: %w", req.URL.Host, err)
	}
	return t.base.RoundTrip(req)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections reach base.
func (t *roundTripper) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
