package region

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/gen/homeward/peer/v1/peerv1connect"
)

// pipes is a listener of connections that are in memory, so that their time can
// be a bubble's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// piped serves local over pipes until the function it returns is called.
func piped(t *testing.T, local Local, certs *TLS) (*pipes, func()) {
	t.Helper()
	h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Mount(mux)
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := NewServer(mux, certs)
	done := make(chan error, 1)
	go func() {
		if certs != nil {
			done <- server.ServeTLS(p, "", "")
		} else {
			done <- server.Serve(p)
		}
	}()
	return p, func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

const executePath = peerv1connect.PeerServiceExecuteProcedure

// TestSlowCallersAreCutOff: a caller that holds a connection and sends next to nothing on it holds
// it for seconds.
func TestSlowCallersAreCutOff(t *testing.T) {
	ca := authority(t)
	certs := tlsOf(t, ca, nodeEU, nil)
	for name, tc := range map[string]struct {
		tls   bool
		sends string
		every time.Duration // between its bytes
		body  string        // then one of these every second
		bound time.Duration
	}{
		"says nothing":              {bound: readHeaderTimeout},
		"sends nothing, with TLS":   {tls: true, bound: readHeaderTimeout},
		"stalls in its handshake":   {tls: true, sends: "\x16\x03\x01\x02\x00\x01", every: time.Second, bound: readHeaderTimeout},
		"sends a head byte by byte": {sends: "POST " + executePath + " HTTP/1.1\r\nHost: a\r\n", every: time.Second, bound: readHeaderTimeout},
		"sends a body byte by byte": {
			sends: "POST " + executePath + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
			body:  strings.Repeat(" ", 1000), bound: readTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := answering("ok")
				use := certs
				if !tc.tls {
					use = nil
				}
				p, stop := piped(t, local, use)
				defer stop()
				conn, err := p.dial(t.Context(), "", "")
				require.NoError(t, err)
				defer func() { _ = conn.Close() }()
				began := time.Now()
				var writing sync.WaitGroup
				defer writing.Wait()
				writing.Go(func() {
					for i, text := range []string{tc.sends, tc.body} {
						for j := range len(text) {
							if _, err := conn.Write([]byte{text[j]}); err != nil {
								return
							}
							time.Sleep([]time.Duration{tc.every, time.Second}[i])
						}
					}
				})
				_, _ = io.Copy(io.Discard, conn) // until it is cut off
				require.Equal(t, tc.bound, time.Since(began))
				require.Zero(t, local.calls.Load())
			})
		})
	}
}

// TestABodyThatStallsIsCutOff is the same over HTTP/2, where the connection is
// shared and stays.
func TestABodyThatStallsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := answering("ok")
		p, stop := piped(t, local, nil)
		defer stop()
		transport := NewTransport(nil)
		defer transport.CloseIdleConnections()
		transport.of("").DialContext = p.dial
		body, never := io.Pipe()
		defer func() { _ = never.Close() }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node"+executePath, body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/proto")
		req.Header.Set(deploymentHeader, deploymentID.String())
		began := time.Now()
		res, err := transport.RoundTrip(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.NotEqual(t, http.StatusOK, res.StatusCode)
		require.Equal(t, readTimeout, time.Since(began))
		require.Zero(t, local.calls.Load())
	})
}

func TestALongHeadIsRefused(t *testing.T) {
	local := answering("ok")
	node := startNode(t, "n", local)
	conn, err := net.Dial("tcp", node.RPCAddr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n\r\n", executePath, strings.Repeat("x", 2*maxHeaderBytes))
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, res.StatusCode)

	req := requestFor(node, node)
	req.TraceParent = strings.Repeat("x", 2*maxHeaderBytes)
	_, err = peersOf(t, nil, node).Execute(t.Context(), eu, req, 1, us)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.Zero(t, local.calls.Load())
}

// TestTheServerAnnouncesItsLimits: what HTTP/2 has a setting for is enforced by both ends, once the
// server has sent it.
func TestTheServerAnnouncesItsLimits(t *testing.T) {
	node := startNode(t, "n", answering("ok"))
	conn, err := net.Dial("tcp", node.RPCAddr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	// RFC 9113: the preface, and SETTINGS (type 4) without any.
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	require.NoError(t, err)
	var head [9]byte // 24 bits of length, type, flags, stream
	_, err = io.ReadFull(conn, head[:])
	require.NoError(t, err)
	require.EqualValues(t, 4, head[3], "SETTINGS come first")
	payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(conn, payload)
	require.NoError(t, err)
	said := map[uint16]uint32{}
	for ; len(payload) >= 6; payload = payload[6:] {
		said[binary.BigEndian.Uint16(payload)] = binary.BigEndian.Uint32(payload[2:])
	}
	require.EqualValues(t, maxStreams, said[3], "MAX_CONCURRENT_STREAMS")
	require.Contains(t, said, uint16(6), "MAX_HEADER_LIST_SIZE")
	require.Less(t, said[6], uint32(maxHeaderBytes+1024), "with net/http's room for framing")
}

// TestMoreRequestsThanOneConnectionCarriesOpenAnother: the limit bounds what one
// connection may ask of a node and refuses no forward.
func TestMoreRequestsThanOneConnectionCarriesOpenAnother(t *testing.T) {
	const n = maxStreams + 1
	var running atomic.Int32
	all := make(chan struct{})
	local := answering("ok")
	answer := local.execute
	local.execute = func(ctx context.Context, home string, req claim.Request) (claim.Reply, error) {
		if running.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return claim.Reply{}, ctx.Err()
		}
		return answer(ctx, home, req)
	}
	h, err := NewHandler(HandlerConfig{Local: local, Deputy: failing(errDeputy), Tenant: noTenants, Self: eu, Deployment: deploymentID, Topology: threeRegions(t)})
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Mount(mux)
	var mu sync.Mutex
	open, most := map[string]int{}, 0
	addr, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		open[r.RemoteAddr]++
		most = max(most, open[r.RemoteAddr])
		mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	node := Node{Name: "n", Region: eu, RPCAddr: addr}
	p := peersOf(t, func(c *PeersConfig) { c.Transport = NewTransport(nil).Patient() }, node) // a busy machine takes its time
	p.tripTimeout = time.Minute
	req := requestFor(node, node)
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := p.Execute(t.Context(), eu, req, 1, us)
			errs <- err
		}()
	}
	for range n {
		require.NoError(t, <-errs)
	}
	require.LessOrEqual(t, most, maxStreams)
	require.Greater(t, len(open), 1)
}

// TestPagesInBrowsersAreRefused: without TLS this machine's callers are believed, and a
// page in a browser on it is not one of them.
func TestPagesInBrowsersAreRefused(t *testing.T) {
	requests := 0
	addr, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	for _, c := range []struct {
		origin string
		status int
	}{{"", http.StatusOK}, {"http://rebound.example:7081", http.StatusForbidden}, {"null", http.StatusForbidden}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/any", strings.NewReader("{}"))
		require.NoError(t, err)
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.status, res.StatusCode, c.origin)
	}
	require.Equal(t, 1, requests)
	http.DefaultClient.CloseIdleConnections()
}

// TestHTTP1IsForClearTextOnly: with TLS there is one protocol, and curl speaks it.
func TestHTTP1IsForClearTextOnly(t *testing.T) {
	ca := authority(t)
	log := newSignalling()
	local := answering("ok")
	node := startTLSNode(t, local, tlsOf(t, ca, nodeEU, slog.New(log)), nil)
	for _, offered := range [][]string{{"http/1.1"}, nil} {
		c := tlsOf(t, ca, nodeUS, nil).Client(eu)
		c.NextProtos = offered
		conn, err := tls.Dial("tcp", node.RPCAddr, c)
		if err != nil {
			continue // no protocol in common
		}
		_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, _ := io.ReadAll(conn)
		require.Empty(t, answer)
		_ = conn.Close() // the server has
	}
	require.Zero(t, local.calls.Load())

	// A peer in clear text gets no answer, and is logged.
	_, err := peersOf(t, nil, node).Execute(t.Context(), eu, requestFor(node, node), 1, us)
	require.ErrorIs(t, err, ErrNoAnswer)
	log.await(t, "refused", "remote=127.0.0.1:")
}
