package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/wan"
)

// upstream is an API that somebody has. It dedupes by the header of that name, "" for by none, and
// counts what it did.
type upstream struct {
	*httptest.Server
	dedupe  string
	mu      sync.Mutex
	done    map[string]int64
	effects atomic.Int64
	// on, if set, is called with each effect, before it is answered.
	on atomic.Pointer[func()]
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{done: map[string]int64{}}
	u.Server = httptest.NewUnstartedServer(u)
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	u.Config.Protocols = &both
	u.Start()
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	n, repeat := u.done[r.Header.Get(u.dedupe)]
	if !repeat || u.dedupe == "" {
		n = u.effects.Add(1)
		u.done[r.Header.Get(u.dedupe)] = n
	}
	u.mu.Unlock()
	if on := u.on.Load(); on != nil {
		(*on)()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/orders/%d", n))
	w.Header().Set("Set-Cookie", "session="+strconv.FormatInt(n, 10))
	w.WriteHeader(http.StatusCreated)
	pad := 0
	if r.URL.Query().Has("large") {
		pad = smallRow
	}
	_, _ = fmt.Fprintf(w, `{"n":%d,"got":%q,"pad":%q}`, n, body, strings.Repeat("p", pad))
}

// asGateway makes a cluster a gateway in front of an API that recognises a repeat by the header dedupe,
// "" for by none. Its tenant ends as the cluster's do: an earlier test's answers may still be replayed.
func asGateway(c *node.ClusterConfig, to, dedupe string) {
	s := gateway.DefaultSettings()
	s.Upstream, s.Tenant.Name = to, gateway.DefaultTenant+strings.TrimPrefix(c.Tenants[0].ID, "acme")
	s.Dedupe(dedupe)
	c.Payments = node.Payments{Gateway: &gateway.Config{Settings: s}}
	c.Policy.InlineBody = smallRow
}

// dedupesByKey is for an upstream that recognises a repeat by its caller's key.
func dedupesByKey(c *node.ClusterConfig) {
	asGateway(c, c.Gateway.Settings.Upstream, "Idempotency-Key")
}

// gated is a gateway of three regions in this process.
type gated struct {
	t     testing.TB
	ctx   context.Context
	bases map[string]string
	*node.Cluster
	taken atomic.Bool // a region was taken away, so that not all can drain
}

func startGateway(t testing.TB, to string, change ...func(*node.ClusterConfig)) *gated {
	t.Helper()
	c := clusterConfig(t.TempDir(), nil, newBackend(t))
	asGateway(&c, to, "")
	c.Network = wan.New(nil)
	log := &testLog{}
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	for _, ch := range change {
		ch(&c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	cluster, err := node.StartCluster(ctx, c)
	require.NoError(t, err)
	g := &gated{t: t, ctx: ctx, bases: clusterBases(cluster), Cluster: cluster}
	t.Cleanup(func() {
		if err := cluster.Stop(ctx); !g.taken.Load() {
			require.NoError(t, err)
		}
		cancel()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return g
}

// reply is an answer of a gateway.
type reply struct {
	status int
	header http.Header
	body   string
}

// code is the problem's, "" if the answer is none; retry its advice.
func (r *reply) code() (code, retry string) {
	var p struct{ Error, Retry string }
	if r.header.Get("Content-Type") == "application/problem+json" {
		_ = json.Unmarshal([]byte(r.body), &p)
	}
	return p.Error, p.Retry
}

// gatewayClient keeps nothing from a caller: no redirect is followed, no body unpacked. A body that is
// to be asked for is not sent before: a server that refuses it would cut the connection meanwhile.
var gatewayClient = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true, ExpectContinueTimeout: patience},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func post(ctx context.Context, base, target, key, body string, headers ...string) (*reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return sent(r)
}

func sent(r *http.Request) (*reply, error) {
	resp, err := gatewayClient.Do(r)
	if err != nil {
		return nil, err
	}
	return replyOf(resp)
}

func replyOf(resp *http.Response) (*reply, error) {
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return &reply{resp.StatusCode, resp.Header, string(text)}, err
}

// final sends a request until its answer says that it will not change.
func final(ctx context.Context, t *testing.T, base, target, key, body string) (got *reply) {
	t.Helper()
	until(t, "there is a final answer", func() bool {
		var err error
		got, err = post(ctx, base, target, key, body)
		require.NoError(t, err)
		_, retry := got.code()
		return retry != "same_key"
	})
	return got
}

// fatal sends a request to a process that dies of it. A store that was too slow before may have answered.
func fatal(ctx context.Context, t *testing.T, base, target, key string) {
	t.Helper()
	until(t, "the process has died", func() bool {
		got, err := post(ctx, base, target, key, "{}")
		if err != nil {
			return true
		}
		_, retry := got.code()
		require.Equal(t, "same_key", retry, "answered by a dead process: %s", got.body)
		return false
	})
}

// TestAGatewayOneEffectInThreeRegions sends five copies of a request to three regions at once, and
// again after their answer.
func TestAGatewayOneEffectInThreeRegions(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, u.URL)
	order := orderKey()
	for i, key := range []string{order, stamped(t, asia), stamped(t, eu)} {
		for j, target := range []string{"/orders?a=1", "/orders?large"} {
			key := key
			if j > 0 && i > 0 {
				key = stamped(t, eu)
			} else if j > 0 {
				key = orderKey()
			}
			before := u.effects.Load()
			replies := make([]*reply, 5)
			var all sync.WaitGroup
			for n := range replies {
				all.Go(func() { replies[n] = final(g.ctx, t, g.bases[regions[n%3]], target, key, `{"amount":1}`) })
			}
			all.Wait()
			for n := range 3 {
				replies = append(replies, final(g.ctx, t, g.bases[regions[n]], target, key, `{ "amount": 1.0 }`))
			}
			require.Equal(t, before+1, u.effects.Load(), "%s %s", key, target)
			for _, r := range replies {
				require.Equal(t, []string{"201", replies[0].body}, []string{strconv.Itoa(r.status), r.body})
				require.Equal(t, fmt.Sprintf("/orders/%d", before+1), r.header.Get("Location"))
				require.Equal(t, "application/json", r.header.Get("Content-Type"))
				require.Empty(t, r.header["Set-Cookie"])
			}
			require.Contains(t, replies[0].body, `"got":"{\"amount\":1`)
			require.Equal(t, "true", replies[7].header.Get("Idempotent-Replayed"))
		}
	}
	other, err := post(g.ctx, g.bases[asia], "/orders?a=1", order, `{"amount":2}`)
	require.NoError(t, err)
	code, _ := other.code()
	require.Equal(t, "idempotency_key_fingerprint_mismatch", code, "%d %s", other.status, other.body)

	status, err := sent(must(http.NewRequestWithContext(g.ctx, http.MethodGet, g.bases[eu]+"/_homeward/idempotency-keys/"+order, nil)))
	require.NoError(t, err)
	require.Contains(t, status.body, `"state":"COMPLETED","home_region":"`)
	page, err := sent(must(http.NewRequestWithContext(g.ctx, http.MethodGet, g.bases[eu]+"/_homeward/errors/upstream_unreachable", nil)))
	require.NoError(t, err)
	require.Equal(t, 200, page.status)
}

// TestAGatewayInventsNothingOfAReply: headers need not be UTF-8, and a reply without a type stays one.
func TestAGatewayInventsNothingOfAReply(t *testing.T) {
	t.Parallel()
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Header().Set("Location", "/caf\xe9")
		_, _ = io.WriteString(w, "<html>")
	}))
	t.Cleanup(u.Close)
	g := startGateway(t, u.URL)
	key := orderKey()
	for _, region := range regions {
		got, err := post(g.ctx, g.bases[region], "/orders", key, "{}")
		require.NoError(t, err)
		require.Equal(t, []any{200, "<html>", "/caf\xe9"}, []any{got.status, got.body, got.header.Get("Location")}, region)
		require.NotContains(t, got.header, "Content-Type", region)
	}
}

// orderKey is an opaque key.
func orderKey() string { return "order-" + uuid.NewString() }

func must(r *http.Request, err error) *http.Request {
	if err != nil {
		panic(err)
	}
	return r
}

// TestAGatewaySendsAtMostOnceThroughACrash kills the process at each point of package gateway. The
// upstream dedupes nothing, so that a second send would be a second effect.
func TestAGatewaySendsAtMostOnceThroughACrash(t *testing.T) {
	t.Parallel()
	const arrives point = "the upstream has the request"
	for die, want := range map[point]struct {
		effects int64
		code    string
	}{
		beforeWrite: {1, ""}, // the retry is the first request
		begun:       {0, "outcome_unknown"},
		arrives:     {1, "outcome_unknown"},
		answered:    {1, "outcome_unknown"},
		settled:     {1, ""},
	} {
		t.Run(string(die), func(t *testing.T) {
			t.Parallel()
			u, key := newUpstream(t), orderKey()
			rows, dir := newBackend(t), t.TempDir()
			c := childConfig{Dir: dir, PSP: u.URL, Gateway: u.URL, backend: rows, Arrivals: 1, Die: die}
			p := startChild(t, c)
			if die == arrives {
				kill := p.kill
				u.on.Store(&kill)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
			defer cancel()
			fatal(ctx, t, p.bases[eu], "/orders", key)
			if die != arrives {
				p.died()
			}
			u.on.Store(nil)
			c.Die = ""
			p = startChild(t, c)
			first := final(ctx, t, p.bases[us], "/orders", key, "{}")
			code, _ := first.code()
			require.Equal(t, want.code, code, "%d %s", first.status, first.body)
			again := final(ctx, t, p.bases[asia], "/orders", key, "{}")
			require.Equal(t, []any{first.status, first.body}, []any{again.status, again.body})
			require.Equal(t, want.effects, u.effects.Load())
		})
	}
}

// TestAGatewayRepeatsWhatIsRecognised: where the upstream recognises a repeat, no crash leaves a
// request in doubt.
func TestAGatewayRepeatsWhatIsRecognised(t *testing.T) {
	t.Parallel()
	for _, die := range []point{begun, answered} {
		for _, header := range []string{"Idempotency-Key", "X-Once"} {
			t.Run(fmt.Sprint(die, " ", header), func(t *testing.T) {
				t.Parallel()
				u, key := newUpstream(t), orderKey()
				u.dedupe = header
				c := childConfig{Dir: t.TempDir(), PSP: u.URL, Gateway: u.URL, Dedupe: header, backend: newBackend(t), Arrivals: 1, Die: die}
				p := startChild(t, c)
				ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
				defer cancel()
				fatal(ctx, t, p.bases[eu], "/orders", key)
				p.died()
				c.Die = ""
				p = startChild(t, c)
				first := final(ctx, t, p.bases[us], "/orders", key, "{}")
				require.Equal(t, []any{201, `{"n":1,"got":"{}","pad":""}`}, []any{first.status, first.body})
				require.Equal(t, first.body, final(ctx, t, p.bases[asia], "/orders", key, "{}").body)
				require.EqualValues(t, 1, u.effects.Load())
			})
		}
	}
}

// TestAGatewayGoesOnAfterItsCallerLeft: the caller's retry, in another region, reads the answer.
func TestAGatewayGoesOnAfterItsCallerLeft(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, u.URL, lasting)
	arrived, left := make(chan struct{}), make(chan struct{})
	wait := func() { close(arrived); <-left }
	u.on.Store(&wait)
	ctx, leave := context.WithCancel(g.ctx)
	gone := make(chan error, 1)
	key := stamped(t, asia)
	go func() {
		_, err := post(ctx, g.bases[us], "/orders", key, "{}")
		gone <- err
	}()
	receive(t, "the request at the upstream", arrived)
	leave()
	require.ErrorIs(t, receive(t, "the caller's end", gone), context.Canceled)
	close(left)
	got := final(g.ctx, t, g.bases[eu], "/orders", key, "{}")
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.EqualValues(t, 1, u.effects.Load())
}

// TestAGatewaysDeputy: where the home is gone another region sends for it, and replays what it had
// answered.
func TestAGatewaysDeputy(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, u.URL)
	old, fresh := stamped(t, asia), stamped(t, asia)
	first := final(g.ctx, t, g.bases[asia], "/orders", old, "{}")
	now, cancel := context.WithCancel(g.ctx)
	cancel()
	g.taken.Store(true)
	_ = g.Region(asia).Stop(now) // it reports what it left open
	require.Equal(t, first.body, final(g.ctx, t, g.bases[us], "/orders", old, "{}").body)
	second := final(g.ctx, t, g.bases[us], "/orders", fresh, "{}")
	require.Equal(t, []any{201, asia}, []any{second.status, second.header.Get("Homeward-Home-Region")}, second.body)
	require.Equal(t, second.body, final(g.ctx, t, g.bases[eu], "/orders", fresh, "{}").body)
	require.EqualValues(t, 2, u.effects.Load())
}

// TestAGatewayRefusesWhatItCannotGuard: what would need more than is kept is refused, never passed.
func TestAGatewayRefusesWhatItCannotGuard(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	g := startGateway(t, u.URL)
	for code, send := range map[string]func() (*reply, error){
		"body_too_large": func() (*reply, error) {
			return post(g.ctx, g.bases[us], "/orders", "k-1", strings.Repeat("x", 1<<20+1), "Expect", "100-continue")
		},
		"idempotency_key_missing": func() (*reply, error) {
			return post(g.ctx, g.bases[us], "/orders", " ", "{}")
		},
		"idempotency_key_invalid": func() (*reply, error) {
			return post(g.ctx, g.bases[us], "/orders", "a b", "{}")
		},
	} {
		got, err := send()
		require.NoError(t, err)
		said, _ := got.code()
		require.Equal(t, code, said, "%d %s", got.status, got.body)
		require.Contains(t, got.body, `"type":"/_homeward/errors/`+code)
	}
	for _, method := range []string{"POST", "GET"} { // neither a path nor an address
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.bases[us], "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "%s x:orders?token=t HTTP/1.1\r\nHost: g\r\nIdempotency-Key: k-2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method)
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Contains(t, string(got), "HTTP/1.1 400 ")
	}
	require.Zero(t, u.effects.Load())
}

// TestAGatewayPassesTheRest: what is not guarded streams both ways, of any size, as an upgrade or as
// HTTP/2, and not one byte of it is the gateway's.
func TestAGatewayPassesTheRest(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "7"+r.Trailer.Get("X-In"))
	})
	mux.HandleFunc("POST /stream", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, strings.ToUpper(line))
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("GET /upgrade", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, strings.ToUpper(line))
	})
	mux.HandleFunc("/package.Service/Method", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = fmt.Fprint(w, r.ProtoMajor, string(body))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	u := httptest.NewUnstartedServer(mux)
	u.Config.Protocols = &both
	u.Start()
	t.Cleanup(u.Close)
	g := startGateway(t, u.URL)

	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	r := must(http.NewRequestWithContext(g.ctx, http.MethodPost, g.bases[us]+"/echo", io.NopCloser(strings.NewReader(large))))
	r.Trailer = http.Header{"X-In": {"in"}}
	resp, err := gatewayClient.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, bytes.Equal([]byte(large), body))
	require.Equal(t, []any{409, "a=b", "7in"}, []any{resp.StatusCode, resp.Header.Get("Set-Cookie"), resp.Trailer.Get("X-Sum")})
	require.Empty(t, resp.Header.Get("Homeward-Served-By"))

	out, in := io.Pipe()
	answers := make(chan *http.Response, 1)
	go func() {
		resp, err := gatewayClient.Do(must(http.NewRequestWithContext(g.ctx, http.MethodPost, g.bases[us]+"/stream", out)))
		if err == nil {
			answers <- resp
		}
	}()
	_, err = io.WriteString(in, "one\n")
	require.NoError(t, err)
	stream := receive(t, "the head of a stream", answers)
	lines := bufio.NewReader(stream.Body)
	for i, want := range []string{"ONE\n", "TWO\n"} {
		if i > 0 {
			_, err = io.WriteString(in, "two\n")
			require.NoError(t, err)
		}
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	require.NoError(t, in.Close())
	require.NoError(t, stream.Body.Close())

	up := must(http.NewRequestWithContext(g.ctx, http.MethodGet, g.bases[us]+"/upgrade", nil))
	up.Header.Set("Connection", "Upgrade")
	up.Header.Set("Upgrade", "x")
	resp, err = gatewayClient.Do(up)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn := resp.Body.(io.ReadWriteCloser)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HELLO\n", line)
	require.NoError(t, conn.Close())

	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: only}
	defer h2.CloseIdleConnections()
	call := must(http.NewRequestWithContext(g.ctx, http.MethodPost, g.bases[us]+"/package.Service/Method", strings.NewReader("m")))
	call.Header.Set("Content-Type", "application/grpc")
	call.Header.Set("Idempotency-Key", "k") // metadata of its own
	call.Header.Set("Te", "trailers")
	resp, err = h2.RoundTrip(call)
	require.NoError(t, err)
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []any{2, "2m", "0"}, []any{resp.ProtoMajor, string(body), resp.Trailer.Get("Grpc-Status")})
}

// TestAGatewayWhoseUpstreamIsAway releases keys, and sends once it is back.
func TestAGatewayWhoseUpstreamIsAway(t *testing.T) {
	t.Parallel()
	u := newUpstream(t)
	at, err := url.Parse(u.URL)
	require.NoError(t, err)
	u.Listener.Close()
	g := startGateway(t, at.String())
	got, err := post(g.ctx, g.bases[us], "/orders", orderKey(), "{}")
	require.NoError(t, err)
	code, retry := got.code()
	require.Equal(t, []string{"upstream_unreachable", "same_key"}, []string{code, retry}, "%d %s", got.status, got.body)
	got, err = post(g.ctx, g.bases[us], "/orders", "", "{}")
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Zero(t, u.effects.Load())
}
