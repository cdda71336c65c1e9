package httpapi

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Deadlines returns l with connections on which a change of a deadline usually costs
// nothing. net/http and this package change a connection's deadlines eight times in each
// request, almost always to a later time or to none; each change moves one of the
// runtime's timers. Here a later deadline is only noted: when the earlier one passes, the
// read or write that waits goes on until the later one.
func Deadlines(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, read: deadline{set: c.SetReadDeadline}, write: deadline{set: c.SetWriteDeadline}}, nil
}

// conn does not pass on the io.ReaderFrom of a TCP connection: it would not see its
// deadlines pass.
type conn struct {
	net.Conn
	read, write deadline
}

func (c *conn) Read(p []byte) (n int, err error) {
	for c.read.resume(); ; {
		n, err = c.Conn.Read(p)
		if n > 0 || err == nil || !c.read.extended(err) {
			return n, err
		}
	}
}

func (c *conn) Write(p []byte) (n int, err error) {
	for c.write.resume(); ; {
		wrote, err := c.Conn.Write(p[n:])
		if n += wrote; err == nil || !c.write.extended(err) {
			return n, err
		}
	}
}

// CloseWrite makes net/http close a connection in both steps, as it does without conn.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.read.put(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.write.put(t) }
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.read.put(t), c.write.put(t))
}

// deadline is that of a connection's reads, or of its writes. Zero times mean none.
type deadline struct {
	set func(time.Time) error // of the connection

	mu sync.Mutex
	// want is the deadline as it was put, armed the connection's: never a later one.
	want, armed time.Time
	// kept is armed while an interruption replaces it.
	kept time.Time
}

// interruption is later than what net/http sets to end a read that waits
// (server.go, aLongTimeAgo), and earlier than any deadline.
var interruption = time.Unix(1_000_000_000, 0)

func interrupts(t time.Time) bool { return !t.IsZero() && t.Before(interruption) }

func (d *deadline) put(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	switch {
	case interrupts(t):
		if !interrupts(d.armed) {
			d.kept = d.armed
		}
	case interrupts(d.armed), t.IsZero(), !d.armed.IsZero() && !t.Before(d.armed):
		return nil
	}
	d.armed = t
	return d.set(t)
}

// resume ends an interruption, before a read or write that is not to be interrupted.
func (d *deadline) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !interrupts(d.armed) || interrupts(d.want) {
		return
	}
	d.armed = d.kept
	if !d.want.IsZero() && (d.armed.IsZero() || d.want.Before(d.armed)) {
		d.armed = d.want
	}
	_ = d.set(d.armed) // of a connection that is closed the read or write says so
}

// extended reports whether err is of the connection's deadline, and that of its user is
// later, or none. The connection has it then.
func (d *deadline) extended(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.want.IsZero() && !time.Now().Before(d.want) {
		return false
	}
	d.armed = d.want
	return d.set(d.armed) == nil
}
