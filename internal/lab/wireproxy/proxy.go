package wireproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"sync"
)

// Proxy is one listening proxy; see the package comment. Its methods may be
// called from any goroutine.
type Proxy struct {
	upstream string
	listener net.Listener
	running  sync.WaitGroup // the accept loop and every connection

	// life ends with Close, and with it dialling the database.
	life context.Context
	end  context.CancelFunc

	mu       sync.Mutex
	closed   bool
	refusing bool
	conns    map[*conn]bool
	keys     map[string]*conn // by cancel key
	shots    []*Shot          // in the order they were armed
	executed map[string]int
}

// Start listens on a free port of 127.0.0.1 and passes connections on to upstream,
// "host:port". The database need not be running yet.
func Start(upstream string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(upstream); err != nil {
		return nil, fmt.Errorf("wireproxy: give the database as host:port: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wireproxy: listen on loopback: %w", err)
	}
	p := &Proxy{
		upstream: upstream,
		listener: listener,
		conns:    make(map[*conn]bool),
		keys:     make(map[string]*conn),
		executed: make(map[string]int),
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// URL is databaseURL with the proxy's address in place of the database's. It
// panics when databaseURL is not a URL. The URL must allow a connection without
// TLS: sslmode=disable, allow or prefer.
func (p *Proxy) URL(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Host == "" && u.Scheme == "" {
		panic(fmt.Sprintf("wireproxy: give the database as postgres://user@host:port/name (%v)", err))
	}
	u.Host = p.listener.Addr().String()
	// Drivers let these overrule the address in front of them.
	if q := u.Query(); q.Has("host") || q.Has("port") || q.Has("hostaddr") {
		q.Del("host")
		q.Del("port")
		q.Del("hostaddr")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// Arm injects fault into the next times requests that execute statement, on any
// connection. Several shots at one statement follow one another in the order in which
// they were armed. It panics if fault is none of the constants.
func (p *Proxy) Arm(statement string, fault Fault, times int) *Shot {
	if fault < DropBefore || fault > RowsThenError {
		panic(fmt.Sprintf("wireproxy: %s: name one of the package's faults", fault))
	}
	s := newShot(statement, fault, times)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shots = append(p.shots, s)
	return s
}

// Statements returns how often each statement was passed on to the database for
// execution, by name. The caller owns the map. It does not count a request that a fault
// keeps from the database; it counts one that is passed on before the client can see an
// answer.
func (p *Proxy) Statements() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.executed)
}

// CutAll closes every connection, stalled and held ones too, and returns when they have
// ended. Requests held by [LateDone] are then never passed on. With [Proxy.Refuse]
// before it, the database seems down.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	cut := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		cut = append(cut, c)
	}
	p.mu.Unlock()
	for _, c := range cut {
		c.cut()
	}
	for _, c := range cut {
		<-c.done
	}
}

// Refuse closes new connections as soon as they are made, until it is called with
// false. Existing connections stay open.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Close stops listening, cuts every connection and returns when all of it has
// ended. It may be called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	err := p.listener.Close()
	p.CutAll()
	p.running.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("wireproxy: close the listener: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a client that left before it was accepted
		}
		c := newConn(p, client)
		p.mu.Lock()
		welcome := !p.closed && !p.refusing
		if welcome {
			p.conns[c] = true
			p.running.Go(func() {
				c.run()
				p.forget(c)
				close(c.done)
			})
		}
		p.mu.Unlock()
		if !welcome {
			_ = client.Close()
		}
	}
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	if p.keys[c.cancelKey] == c {
		delete(p.keys, c.cancelKey)
	}
}

// aim gives a request to the first shot that wants one of its executions, or
// returns nil.
func (p *Proxy) aim(executes []statement) *Shot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range executes {
		for _, s := range p.shots {
			if s.statement == st.name && s.take() {
				return s
			}
		}
	}
	return nil
}

func (p *Proxy) count(executes []statement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range executes {
		p.executed[st.name]++
	}
}

func (p *Proxy) register(cancelKey string, c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.cancelKey = cancelKey
	p.keys[cancelKey] = c
}

// beyondCancel reports whether the request that a cancel key belongs to is being
// injured.
func (p *Proxy) beyondCancel(cancelKey string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.keys[cancelKey]
	return c != nil && c.injured.Load()
}
