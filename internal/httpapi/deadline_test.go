package httpapi

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair returns the served end of a connection with [Deadlines], and the client's.
func pair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	served, err := Deadlines(l).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = served.Close(); _ = client.Close() })
	return served.(*conn), client
}

// counted counts the changes of the connection's own deadline.
func counted(d *deadline) *int {
	sets, set := new(int), d.set
	d.set = func(t time.Time) error { *sets++; return set(t) }
	return sets
}

// TestDeadlinesOfARequest changes deadlines as net/http and this package do in each request.
func TestDeadlinesOfARequest(t *testing.T) {
	c, client := pair(t)
	sets := counted(&c.read)
	request := func() {
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		n, err := c.Read(make([]byte, 8))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	for range 100 {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))    // of the head
		require.NoError(t, c.SetReadDeadline(time.Time{}))                  // of all
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))    // of the body
		require.NoError(t, c.SetReadDeadline(time.Time{}))                  // while it is answered
		require.NoError(t, c.SetReadDeadline(time.Now().Add(2*time.Hour)))  // while it is idle
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(2*time.Hour))) // of the answer
		request()
	}
	require.Equal(t, 1, *sets, "the connection's deadline was changed for later ones, too")

	// The end of a request interrupts the read that notices clients who hang up.
	ended := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	request()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
	request()
	require.Equal(t, 3, *sets)
	require.False(t, c.read.armed.IsZero())
}

func TestDeadlinesPass(t *testing.T) {
	const soon = 20 * time.Millisecond
	read := func(c *conn) error { _, err := c.Read(make([]byte, 1)); return err }
	for name, put := range map[string]func(*conn) error{
		"as it was put": func(c *conn) error { return c.SetReadDeadline(time.Now().Add(soon)) },
		"sooner": func(c *conn) error {
			return errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Now().Add(soon)))
		},
		"later": func(c *conn) error {
			return errors.Join(c.SetReadDeadline(time.Now().Add(soon/4)), c.SetReadDeadline(time.Now().Add(soon)))
		},
		"after none": func(c *conn) error {
			return errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Time{}), c.SetDeadline(time.Now().Add(soon)))
		},
		"after an interruption": func(c *conn) error {
			return errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetReadDeadline(time.Unix(1, 0)), c.SetReadDeadline(time.Now().Add(soon)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := pair(t)
			began := time.Now()
			require.NoError(t, put(c))
			require.ErrorIs(t, read(c), os.ErrDeadlineExceeded)
			require.GreaterOrEqual(t, time.Since(began), soon)
		})
	}
}

// TestDeadlineOfAReadThatWaits is put off after the read has begun.
func TestDeadlineOfAReadThatWaits(t *testing.T) {
	c, client := pair(t)
	extended := make(chan struct{})
	set := c.read.set
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	c.read.set = func(at time.Time) error { defer close(extended); return set(at) }
	ended := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	<-extended
	_, err := client.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, <-ended)
}

// TestDeadlineOfAWriteThatWaits: the bytes that were sent when the earlier one passed are
// not sent again.
func TestDeadlineOfAWriteThatWaits(t *testing.T) {
	c, client := pair(t)
	extended := make(chan struct{})
	set := c.write.set
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
	c.write.set = func(at time.Time) error { defer close(extended); return set(at) }
	sent := make([]byte, 32<<20) // more than the system's buffers hold
	for i := range sent {
		sent[i] = byte(i >> 12)
	}
	ended := make(chan error, 1)
	go func() {
		n, err := c.Write(sent)
		if err == nil && n != len(sent) {
			err = errors.New("a short write")
		}
		ended <- errors.Join(err, c.CloseWrite())
	}()
	<-extended
	got := make([]byte, 0, len(sent)+1)
	for buf := make([]byte, 1<<20); ; {
		n, err := client.Read(buf)
		if got = append(got, buf[:n]...); err != nil {
			break
		}
	}
	require.NoError(t, <-ended)
	if !bytes.Equal(sent, got) { // not shown: they are many
		t.Fatalf("%d bytes arrived of %d, or others", len(got), len(sent))
	}
}
