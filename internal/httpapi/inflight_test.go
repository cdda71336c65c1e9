package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// keeper counts the bytes of the notices that it receives, and keeps each until release is closed.
type keeper struct {
	release chan struct{}

	mu         sync.Mutex
	held, most int
}

func (k *keeper) Expects(_ string, h http.Header) error {
	if h.Get("Stripe-Signature") == "" {
		return notice.ErrForged
	}
	return nil
}

func (k *keeper) Receive(_ context.Context, _ string, _ http.Header, body []byte) error {
	k.mu.Lock()
	k.held += len(body)
	k.most = max(k.most, k.held)
	k.mu.Unlock()
	<-k.release
	k.mu.Lock()
	k.held -= len(body)
	k.mu.Unlock()
	return nil
}

// partial sends a request but for the last byte of its body, and reports the status of the
// answer; finish sends the last byte.
func partial(t *testing.T, addr, head string, length int, status chan<- int) (finish func()) {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	sent := make(chan struct{})
	go func() {
		fmt.Fprintf(conn, "%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", head, length, strings.Repeat(" ", length-1))
		close(sent)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			status <- 0
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode == 503 && res.Header.Get("Retry-After") == "" {
			status <- -1
			return
		}
		status <- res.StatusCode
	}()
	return func() {
		<-sent
		_, _ = conn.Write([]byte(" ")) // fails if the node closed the connection
	}
}

const signedHead = "POST /v1/webhooks/stripe HTTP/1.1\r\nStripe-Signature: t=1,v1=ab"

// Any client can send bodies that are almost whole, with a header that looks signed. The node
// bounds the bytes of them that it holds, and refuses more for now while the others are still
// sending.
func TestUnverifiedBytesAreBounded(t *testing.T) {
	k := &keeper{release: make(chan struct{})}
	limits := DefaultLimits()
	addr := listen(t, newAPI(t, newFake(), func(c *Config) { c.Notices, c.Limits = k, limits }), limits)
	const fit, over = 64, 36 // 16 MiB of the largest notices, and more
	status := make(chan int, fit+over)
	var finish []func()
	for range fit + over {
		finish = append(finish, partial(t, addr, signedHead, notice.MaxNotice, status))
	}
	for range over {
		require.Equal(t, 503, <-status, "a request was answered before its body was whole")
	}
	for _, f := range finish {
		f()
	}
	close(k.release)
	for range fit {
		require.Contains(t, []int{200, 503}, <-status)
	}
	require.LessOrEqual(t, k.most, fit*notice.MaxNotice)
	// All of the room is free again.
	finished := make(chan int, 1)
	partial(t, addr, signedHead, notice.MaxNotice, finished)()
	require.Equal(t, 200, <-finished)
}

// The node bounds a merchant's bodies, too, until it has answered them. A request without room
// claims nothing and may be sent again.
func TestTenantsBytesAreBounded(t *testing.T) {
	f := newFake()
	waits, release := make(chan struct{}), make(chan struct{})
	do := f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		waits <- struct{}{}
		<-release
		return do(ctx, r)
	}
	for name, limit := range map[string]InFlight{"bodies": {Bodies: 5, Bytes: 1 << 20}, "bytes": {Bodies: 10, Bytes: int64(4*len(okBody) + 1)}} {
		h := newAPI(t, f, func(c *Config) {
			c.Limits = DefaultLimits()
			c.Limits.Tenants = limit
		})
		done := make(chan int)
		for range 2 {
			go func() { done <- serve(h, charge()).Code }()
			<-waits
		}
		w := serve(h, charge())
		p := problemIn(t, w)
		require.Equal(t, []any{503, "store_unavailable", "same_key", "1"}, []any{w.Code, p.Error, p.Retry, w.Header().Get("Retry-After")}, name)
		require.Equal(t, 200, serve(h, request("GET", "/livez", "")).Code)
		for range 2 {
			release <- struct{}{}
			require.Equal(t, 201, <-done)
		}
		go func() { <-waits; release <- struct{}{} }()
		require.Equal(t, 201, serve(h, charge()).Code, "the room is free again")
	}
}

// One tenant's bodies, or those of several, leave room for another's.
func TestTenantsLeaveEachOtherRoom(t *testing.T) {
	f := newFake()
	waits, release, answer := make(chan struct{}), make(chan struct{}), f.do
	f.do = func(ctx context.Context, r claim.Request) (claim.Reply, error) {
		waits <- struct{}{}
		<-release
		return answer(ctx, r)
	}
	for name, limit := range map[string]InFlight{"bodies": {Bodies: 9, Bytes: 1 << 20}, "bytes": {Bodies: 100, Bytes: int64(9 * len(okBody))}} {
		h := newAPI(t, f, func(c *Config) {
			c.Limits = DefaultLimits()
			c.Limits.Tenants = limit
		})
		done := make(chan int)
		// fill has a tenant send bodies until there is no room, and returns how many there was for.
		fill := func(key string) (fit int) {
			for {
				go func() {
					r := charge()
					r.Header.Set("Authorization", "Bearer "+key)
					done <- serve(h, r).Code
				}()
				select {
				case <-waits:
					fit++
				case code := <-done:
					require.Equal(t, 503, code)
					return fit
				}
			}
		}
		fits := []int{fill("sk_acme"), fill("sk_globex"), fill("sk_slow")}
		require.Equal(t, []int{4, 2, 1}, fits, "of the nine %s that fit in all", name)
		for range 7 {
			release <- struct{}{}
			require.Equal(t, 201, <-done)
		}
		require.Equal(t, 4, fill("sk_acme"), "all of the room is free again")
		for range 4 {
			release <- struct{}{}
			require.Equal(t, 201, <-done)
		}
	}
}
