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

// canOwn: /proc says whose a connection is.
func canOwn() error { return nil }

// ownedBy reports whether one of these processes, of this user, has the connection whose
// own address is addr. What /proc does not tell is nobody's.
func ownedBy(addr net.Addr, pids []int) bool {
	inode, ok := inodeOf(addr)
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

// inodeOf returns the socket whose own address is addr.
func inodeOf(addr net.Addr) (string, bool) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return "", false
	}
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", false
	}
	want := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port) // as proc(5) has it
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == want {
			return f[9], true
		}
	}
	return "", false
}
