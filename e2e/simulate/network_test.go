package simulate

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// host is a machine: a node's, a merchant's, or the provider's.
type host struct {
	net    *network
	name   string
	region string
	ip     string

	// Guarded by net.mu.
	frozen  bool // neither sends nor gets anything, until it goes on
	ports   int
	crashed chan struct{} // closed when the process that runs there dies
}

// rule is a fault of the ways that it matches, in one direction.
type rule struct {
	from, to func(*host) bool
	drop     bool          // nothing arrives; a stream goes on when the rule ends
	slow     time.Duration // up to so much later
	lose     float64       // share of packets of gossip that are lost
	twice    float64       // share of them that arrive twice, the second time late
	late     time.Duration // up to so much later they arrive
}

// network connects hosts in memory. A stream never loses bytes in the middle: it stalls, as TCP does,
// and its writes never block. It is safe for concurrent use.
type network struct {
	delay func(from, to *host) time.Duration // one way

	mu        sync.Mutex
	rng       *rand.Rand
	rules     map[*rule]bool
	changed   chan struct{} // closed, and replaced, when a rule begins or ends, or a host goes on
	listeners map[string]*listener
	gossips   map[string]*gossip
	conns     map[*conn]bool

	hosts map[string]*host // by IP address, all made before the first is used
}

func newNetwork(rng *rand.Rand, delay func(from, to *host) time.Duration) *network {
	return &network{delay: delay, rng: rng, rules: map[*rule]bool{}, changed: make(chan struct{}), listeners: map[string]*listener{}, gossips: map[string]*gossip{}, conns: map[*conn]bool{}, hosts: map[string]*host{}}
}

func (n *network) host(name, region, ip string) *host {
	h := &host{net: n, name: name, region: region, ip: ip, crashed: make(chan struct{})}
	n.hosts[ip] = h
	return h
}

// change makes a change that may let something pass.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *network) begin(r *rule) (end func()) {
	n.change(func() { n.rules[r] = true })
	return func() { n.change(func() { delete(n.rules, r) }) }
}

func (h *host) freeze(frozen bool) { h.net.change(func() { h.frozen = frozen }) }

// awake waits until the host is not frozen. It reports false if the process has died.
func (h *process) awake() bool {
	for {
		h.net.mu.Lock()
		frozen, changed := h.frozen, h.net.changed
		h.net.mu.Unlock()
		if !frozen {
			select {
			case <-h.dead:
				return false
			default:
				return true
			}
		}
		select {
		case <-changed:
		case <-h.dead:
			return false
		}
	}
}

// crash ends the process: its listeners and connections are gone, and who waits at another end finds out
// as soon as a way lets it.
func (h *host) crash() {
	n := h.net
	var own []*conn
	n.change(func() {
		close(h.crashed)
		h.crashed, h.frozen = make(chan struct{}), false
		for addr, l := range n.listeners {
			if l.host == h {
				l.shut()
				delete(n.listeners, addr)
			}
		}
		for c := range n.conns {
			if c.in.to == h {
				own = append(own, c)
			}
		}
	})
	for _, c := range own {
		c.out.end(true)
		_ = c.Close()
	}
}

// reset ends the connections of a host whose one end has a port, as a firewall does that has lost its state.
func (n *network) reset(h *host, port string) {
	var own []*conn
	n.mu.Lock()
	for c := range n.conns {
		if c.in.to == h && (strings.HasSuffix(c.local.String(), ":"+port) || strings.HasSuffix(c.remote.String(), ":"+port)) {
			own = append(own, c)
		}
	}
	n.mu.Unlock()
	for _, c := range own {
		c.out.end(true)
		c.in.end(true)
	}
}

// passes reports whether the way is open, and what the rules add to its delay. changed is closed
// when that may differ.
func (n *network) passes(from, to *host) (open bool, late time.Duration, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open = !from.frozen && !to.frozen
	for r := range n.rules {
		if r.from(from) && r.to(to) {
			open = open && !r.drop
			if r.slow > 0 {
				late = max(late, time.Duration(n.rng.Int64N(int64(r.slow))))
			}
		}
	}
	return open, late, n.changed
}

// half is one direction of a connection.
type half struct {
	net      *network
	from, to *host

	mu    sync.Mutex
	queue []chunk
	last  time.Time // when the latest arrives
	fin   bool      // nothing follows
	reset bool      // the sender is gone
	wake  chan struct{}
}

type chunk struct {
	at   time.Time
	data []byte
}

func (h *half) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *half) send(data []byte) error {
	_, late, _ := h.net.passes(h.from, h.to)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fin {
		return syscall.EPIPE
	}
	at := time.Now().Add(h.net.delay(h.from, h.to) + late)
	if at.Before(h.last) {
		at = h.last // in order
	}
	h.last = at
	h.queue = append(h.queue, chunk{at, append([]byte(nil), data...)})
	h.signal()
	return nil
}

func (h *half) end(reset bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fin, h.reset = true, h.reset || reset
	if at := time.Now().Add(h.net.delay(h.from, h.to)); at.After(h.last) {
		h.last = at
	}
	h.signal()
}

// read returns what has arrived, or for how long to wait: 0 is until a signal.
func (h *half) read(p []byte, open bool) (n int, err error, in time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case !open:
		return 0, nil, 0
	case h.reset && !now.Before(h.last):
		return 0, syscall.ECONNRESET, 0
	case len(h.queue) > 0 && !now.Before(h.queue[0].at):
		c := &h.queue[0]
		n = copy(p, c.data)
		if c.data = c.data[n:]; len(c.data) == 0 {
			h.queue = h.queue[1:]
		}
		return n, nil, 0
	case len(h.queue) > 0:
		return 0, nil, h.queue[0].at.Sub(now)
	case h.fin && !now.Before(h.last):
		return 0, io.EOF, 0
	case h.fin:
		return 0, nil, h.last.Sub(now)
	}
	return 0, nil, 0
}

// conn is one end of a connection. It implements [net.Conn].
type conn struct {
	in, out       *half
	local, remote net.Addr

	mu       sync.Mutex
	closed   bool
	deadline time.Time
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) fail(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		open, _, changed := c.in.net.passes(c.in.from, c.in.to)
		c.mu.Lock()
		closed, deadline := c.closed, c.deadline
		c.mu.Unlock()
		var in time.Duration
		if !deadline.IsZero() {
			if in = time.Until(deadline); in <= 0 {
				return 0, c.fail("read", os.ErrDeadlineExceeded)
			}
		}
		if closed {
			return 0, c.fail("read", net.ErrClosed)
		}
		n, err, arrives := c.in.read(p, open)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, c.fail("read", err)
		}
		if arrives > 0 && (in == 0 || arrives < in) {
			in = arrives
		}
		var timer <-chan time.Time
		if in > 0 {
			timer = time.After(in)
		}
		select {
		case <-c.in.wake:
		case <-changed:
		case <-timer:
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return 0, c.fail("write", net.ErrClosed)
	}
	if err := c.out.send(p); err != nil {
		return 0, c.fail("write", err)
	}
	return len(p), nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	c.mu.Unlock()
	if was {
		return nil
	}
	c.out.end(false)
	c.in.mu.Lock()
	c.in.fin = true // what the other end writes from now on is refused
	c.in.mu.Unlock()
	c.in.signal()
	c.in.net.mu.Lock()
	defer c.in.net.mu.Unlock()
	delete(c.in.net.conns, c)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	c.in.signal()
	return nil
}

func (c *conn) SetWriteDeadline(time.Time) error { return nil } // writes never block

// listener implements [net.Listener].
type listener struct {
	host *host
	addr net.Addr
	in   chan net.Conn
	once sync.Once
	done chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.in:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
}

func (l *listener) shut() { l.once.Do(func() { close(l.done) }) }

func (l *listener) Close() error {
	l.shut()
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[l.addr.String()] == l {
		delete(n.listeners, l.addr.String())
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

func tcpAddr(addr string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
}

// process is what runs at a host until that crashes. It implements [region.Sockets].
type process struct {
	*host
	dead <-chan struct{}
}

// process is what runs at the host now.
func (h *host) process() *process {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return &process{h, h.crashed}
}

// Listen implements region.Sockets.
func (h *process) Listen(_, addr string) (net.Listener, error) {
	l := &listener{host: h.host, addr: tcpAddr(addr), in: make(chan net.Conn, 1024), done: make(chan struct{})}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.net.listeners[addr] != nil || h.crashed != h.dead {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: l.addr, Err: syscall.EADDRINUSE}
	}
	h.net.listeners[addr] = l
	return l, nil
}

// dialTimeout is the machine's: two SYNs.
const dialTimeout = 3 * time.Second

// DialContext implements region.Sockets. Both directions must be open, for as long as it takes.
func (h *process) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	n := h.net
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: tcpAddr(addr), Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	to := n.at(addr)
	if to == nil {
		return fail(syscall.EHOSTUNREACH)
	}
	for {
		there, a, changed := n.passes(h.host, to)
		back, b, _ := n.passes(to, h.host)
		var arrives <-chan time.Time
		if there && back {
			arrives = time.After(n.delay(h.host, to) + n.delay(to, h.host) + a + b)
		}
		select {
		case <-arrives:
			c, err := n.connect(h, to, addr)
			if err != nil {
				return fail(err)
			}
			return c, nil
		case <-changed:
		case <-h.dead:
			return fail(net.ErrClosed)
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
}

func (n *network) connect(by *process, to *host, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, from := n.listeners[addr], by.host
	if from.crashed != by.dead {
		return nil, net.ErrClosed
	}
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	from.ports++
	local := tcpAddr(net.JoinHostPort(from.ip, strconv.Itoa(20000+from.ports%40000)))
	there := &half{net: n, from: from, to: to, wake: make(chan struct{}, 1)}
	back := &half{net: n, from: to, to: from, wake: make(chan struct{}, 1)}
	here, other := &conn{in: back, out: there, local: local, remote: l.addr}, &conn{in: there, out: back, local: l.addr, remote: local}
	select {
	case l.in <- other:
	default:
		return nil, syscall.ECONNREFUSED
	}
	n.conns[here], n.conns[other] = true, true
	return here, nil
}

func (n *network) at(addr string) *host {
	ip, _, _ := net.SplitHostPort(addr)
	return n.hosts[ip]
}

// gossip is the transport of one member. It implements [memberlist.Transport].
type gossip struct {
	*process
	addr    string
	streams *listener
	in      chan *memberlist.Packet
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
}

// Gossip implements region.Sockets.
func (h *process) Gossip(ip string, port int) (memberlist.Transport, error) {
	addr := net.JoinHostPort(ip, strconv.Itoa(port))
	l, err := h.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g := &gossip{process: h, addr: addr, streams: l.(*listener), in: make(chan *memberlist.Packet, 256), conns: make(chan net.Conn), done: make(chan struct{})}
	h.net.mu.Lock()
	h.net.gossips[addr] = g
	h.net.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case g.conns <- c:
			case <-g.done:
				_ = c.Close()
			}
		}
	}()
	return g, nil
}

func (g *gossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a := netip.MustParseAddrPort(g.addr)
	return a.Addr().AsSlice(), int(a.Port()), nil
}

// WriteTo sends a packet, which may be lost, late, and there twice.
func (g *gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	n, now := g.net, time.Now()
	to := n.at(addr)
	if to == nil {
		return now, syscall.EHOSTUNREACH
	}
	_, late, _ := n.passes(g.host, to)
	n.mu.Lock()
	times := 1
	for r := range n.rules {
		matches := r.from(g.host) && r.to(to)
		if matches && r.late > 0 {
			late += between(n.rng, r.late)
		}
		switch {
		case !matches:
		case n.rng.Float64() < r.lose:
			times = 0
		case n.rng.Float64() < r.twice:
			times++
		}
	}
	again := time.Duration(n.rng.Int64N(int64(20 * time.Second)))
	n.mu.Unlock()
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: tcpAddr(g.addr)}
	for i := range times {
		time.AfterFunc(n.delay(g.host, to)+late+time.Duration(i)*again, func() {
			if open, _, _ := n.passes(g.host, to); !open {
				return
			}
			n.mu.Lock()
			at := n.gossips[addr]
			n.mu.Unlock()
			if at != nil {
				select {
				case at.in <- &memberlist.Packet{Buf: p.Buf, From: p.From, Timestamp: time.Now()}:
				default: // as a full buffer does
				}
			}
		})
	}
	return now, nil
}

func (g *gossip) PacketCh() <-chan *memberlist.Packet { return g.in }
func (g *gossip) StreamCh() <-chan net.Conn           { return g.conns }

func (g *gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return g.DialContext(ctx, "tcp", addr)
}

func (g *gossip) Shutdown() error {
	g.once.Do(func() {
		close(g.done)
		g.net.mu.Lock()
		if g.net.gossips[g.addr] == g {
			delete(g.net.gossips, g.addr)
		}
		g.net.mu.Unlock()
	})
	return g.streams.Close()
}
