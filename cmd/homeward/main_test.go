package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asMain makes the test binary the command.
const asMain = "HOMEWARD_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestALostTerminal ends a demo as Ctrl-C does, and not one that was started to outlive its terminal.
func TestALostTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		start string
		ends  syscall.Signal
	}{
		"ends a demo":                  {"", syscall.SIGHUP},
		"is ignored where nohup is so": {"trap '' HUP; ", syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			demo := exec.CommandContext(t.Context(), "sh", "-c", c.start+`exec "$0" "$@"`, os.Args[0], "demo", "--listen", "127.0.0.1:0")
			demo.Env = append(os.Environ(), asMain+"=1", "TMPDIR="+tmp)
			out, err := demo.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, demo.Start())
			lines, last := bufio.NewScanner(out), ""
			for lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C drains") {
				last = lines.Text()
			}
			if runtime.GOOS == "linux" {
				require.Equal(t, c.ends != syscall.SIGHUP, ignoresHangups(t, demo.Process.Pid))
			}
			require.NoError(t, demo.Process.Signal(c.ends))
			for lines.Scan() {
				last = lines.Text()
			}
			require.NoError(t, demo.Wait())
			require.Equal(t, "drained", last)
			left, err := os.ReadDir(tmp)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// ignoresHangups reads proc(5): the first bit is of the first signal, SIGHUP.
func ignoresHangups(t *testing.T, pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "SigIgn:")
	require.True(t, found)
	var mask uint64
	_, err = fmt.Sscanf(rest, "%x", &mask)
	require.NoError(t, err)
	return mask&1 == 1
}
