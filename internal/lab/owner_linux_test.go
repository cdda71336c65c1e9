package lab

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOneAddressOfTwoConnections: two connections to different addresses have the same
// address of their own, as the system may choose it; each is found.
func TestOneAddressOfTwoConnections(t *testing.T) {
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			if e := c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
			}); e != nil {
				return e
			}
			return err
		},
	}
	var own, accepted []net.Conn
	inodes := map[string]bool{}
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		conn, err := dialer.DialContext(context.Background(), "tcp", l.Addr().String())
		require.NoError(t, err)
		dialer.LocalAddr = conn.LocalAddr()
		far, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		own, accepted = append(own, conn), append(accepted, far)
	}
	for i, far := range accepted {
		require.True(t, ownedBy(far, []int{os.Getpid()}))
		inode, ok := inodeOf(far.RemoteAddr(), far.LocalAddr())
		require.True(t, ok)
		inodes[inode] = true
		require.NoError(t, own[i].Close())
		require.NoError(t, far.Close())
	}
	require.Len(t, inodes, 2, "the second is not taken for the first")
}
