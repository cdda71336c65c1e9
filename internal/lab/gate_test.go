package lab

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAGateDropsAndPasses: what is sent through a shut gate arrives once it is open, over old
// connections and new ones; other callers notice nothing; no connection is cut before the gate
// closes.
func TestAGateDropsAndPasses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	received := make(chan string)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					_, _ = fmt.Fprintln(conn, lines.Text())
					received <- lines.Text()
				}
			}()
		}
	}()
	g, err := OpenGate("127.0.0.1:0", l.Addr().String())
	require.NoError(t, err)
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", g.Addr())
		require.NoError(t, err)
		return conn, bufio.NewReader(conn)
	}
	says := func(conn net.Conn, text string) {
		_, err := fmt.Fprintln(conn, text)
		require.NoError(t, err)
	}
	reads := func(from *bufio.Reader, text string) {
		require.Equal(t, text, <-received)
		line, err := from.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, text+"\n", line)
	}
	old, fromOld := dial()
	says(old, "before")
	reads(fromOld, "before")

	g.Set(true, []int{1 << 30}) // of no process
	says(old, "not meant")
	reads(fromOld, "not meant")
	for _, against := range [][]int{nil, {os.Getpid()}} {
		if against != nil && canOwn() != nil {
			continue
		}
		g.Set(true, against)
		says(old, "while it is shut")
		fresh, fromFresh := dial()
		select {
		case text := <-received:
			require.FailNow(t, "it let it pass", text)
		case <-time.After(50 * time.Millisecond): // there is no signal for what does not happen
		}
		g.Set(false, nil)
		reads(fromOld, "while it is shut")
		says(fresh, "after")
		reads(fromFresh, "after")
		require.NoError(t, fresh.Close())
	}
	require.NoError(t, g.Close())
	_, err = fromOld.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, old.Close())
	require.NoError(t, l.Close())
}
