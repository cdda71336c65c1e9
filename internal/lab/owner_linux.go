package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// canOwn: /proc shows the owner of a connection.
func canOwn() error { return nil }

// ownedBy reports whether one of these processes, of this user, has the other end of conn. What
// /proc does not show has no owner.
func ownedBy(conn net.Conn, pids []int) bool {
	inode, ok := inodeOf(conn.RemoteAddr(), conn.LocalAddr())
	if !ok {
		return false
	}
	for _, pid := range pids {
		open, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*")) // the pattern is well formed
		for _, fd := range open {
			if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
				return true
			}
		}
	}
	return false
}

// inodeOf returns the socket that is connected from one address to another. Its own address
// does not name it: connections to other addresses may share it.
func inodeOf(from, to net.Addr) (string, bool) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", false
	}
	wantFrom, wantTo := hexed(from), hexed(to)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == wantFrom && f[2] == wantTo {
			return f[9], true
		}
	}
	return "", false
}

// hexed is an address of IPv4 as proc(5) has it; "" for others.
func hexed(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port)
}
