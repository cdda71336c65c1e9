package gateway

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync/atomic"
	"time"
)

const (
	// idleFor is how long a connection may be idle before a guarded request gets another one.
	// Servers close idle ones, after two seconds or later as they are commonly set. A request that
	// meets the end of its connection has an unknown outcome.
	idleFor = time.Second
	// idleConns are kept for the next requests. More at once get connections of their own.
	idleConns = 256
	// dialFor bounds what precedes a request. Nothing is sent by then.
	dialFor = 10 * time.Second
)

// callTransport makes the transport of guarded requests: one request at a time on a connection, no
// proxy of the environment, and the reply's bytes as they come. It dials by dial, nil for the machine's network.
func callTransport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	var only http.Protocols
	only.SetHTTP1(true)
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialFor}).DialContext
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		Protocols: &only, DisableCompression: true, TLSHandshakeTimeout: dialFor,
		IdleConnTimeout: idleFor, MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns,
	}
}

// countedConn counts writes.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// counted is the countedConn below conn, which may be TLS.
func counted(conn net.Conn) *countedConn {
	for {
		switch c := conn.(type) {
		case *countedConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// send sends r once. sent is false if certainly no byte of r was sent.
func (g *Gateway) send(r *http.Request) (resp *http.Response, sent bool, err error) {
	var used atomic.Pointer[countedConn]
	var before atomic.Int64
	resp, err = g.call.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if c := counted(info.Conn); c != nil {
				before.Store(c.writes.Load())
				used.Store(c)
			}
		},
	})))
	c := used.Load()
	return resp, err == nil || c != nil && c.writes.Load() != before.Load(), err
}

// newPass makes the handler of what is not guarded.
func (g *Gateway) newPass() http.Handler {
	plain := http.DefaultTransport.(*http.Transport).Clone()
	plain.Proxy, plain.DisableCompression, plain.MaxIdleConnsPerHost = nil, true, idleConns
	if g.c.Dial != nil {
		plain.DialContext = g.c.Dial
	}
	grpc := plain.Clone()
	grpc.Protocols = new(http.Protocols) // also without TLS, where nothing is negotiated
	grpc.Protocols.SetHTTP2(true)
	grpc.Protocols.SetUnencryptedHTTP2(true)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // also what cannot be parsed
			pr.SetURL(g.at(g.c.Region))
			forward(pr)
			hide(pr.Out.Header)
			pr.Out.Trailer = pr.In.Trailer // the map, whose values arrive behind the body
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(g.log.Handler(), slog.LevelDebug), // any caller can cause them
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if isGRPC(r) {
				return grpc.RoundTrip(r)
			}
			resp, err := plain.RoundTrip(r)
			watching(r, resp, err)
			return resp, err
		}),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.log.WarnContext(r.Context(), "the upstream did not answer a request that is not guarded", "error", err)
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			w = &expected{ResponseWriter: w}
		}
		proxy.ServeHTTP(w, r)
	})
}

// expected answers a request with Expect. net/http writes 100 by itself once the body is read, which it is
// while the upstream answers, and it does not keep that apart from another interim answer, as 103: the bytes of
// the two could mix. After a 100 that we write, net/http writes none. So one comes before the first other.
type expected struct {
	http.ResponseWriter
	continued bool
}

func (w *expected) WriteHeader(status int) {
	if status > http.StatusSwitchingProtocols && status < http.StatusOK && !w.continued {
		header := w.Header()
		kept := header.Clone()
		clear(header)
		w.ResponseWriter.WriteHeader(http.StatusContinue)
		maps.Copy(header, kept)
	}
	w.continued = true
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *expected) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
