package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheGatewaysLines: homeward gateway guards an API, and the lines that it prints show that. What
// it was told it knows after it was started again, in as many regions or more.
func TestTheGatewaysLines(t *testing.T) {
	onlyWith(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this machine has no curl, which the lines call")
	}
	var effects atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %d", r.Method, r.URL.Path, body, effects.Add(1))
	}))
	defer upstream.Close()
	data := t.TempDir()
	var first string
	for i, regions := range []string{"1", "3"} {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r, w := io.Pipe()
		ended := make(chan int, 1)
		var errs strings.Builder
		go func() {
			ended <- run(ctx, []string{"gateway", "--upstream", upstream.URL, "--data", data, "--regions", regions, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"}, streams{w, &errs})
			_ = w.Close()
		}()
		var answers, lines []string
		for said := bufio.NewScanner(r); said.Scan(); {
			if line := said.Text(); strings.HasPrefix(line, "curl ") {
				lines = append(lines, line)
			}
			if strings.Contains(said.Text(), "Ctrl-C drains") {
				for _, line := range lines {
					out, err := exec.CommandContext(ctx, "sh", "-c", line).CombinedOutput()
					require.NoError(t, err, "%s\n%s", line, out)
					answers = append(answers, string(out))
				}
				if first != "" { // by the process before
					out, err := exec.CommandContext(ctx, "sh", "-c", strings.Replace(lines[1], keyIn(lines[1]), first, 1)).CombinedOutput()
					require.NoError(t, err)
					require.Contains(t, string(out), "POST / {} 1\n")
				}
				interrupt()
			}
		}
		require.Zero(t, <-ended, errs.String())
		require.Empty(t, errs.String())
		require.Len(t, answers, 3)
		effect := fmt.Sprintf("POST / {} %d\n", i+1)
		require.Contains(t, answers[0], effect)
		require.Contains(t, answers[1], effect)
		require.Contains(t, answers[1], "Idempotent-Replayed: true")
		require.Contains(t, answers[2], `"state":"COMPLETED"`)
		require.EqualValues(t, i+1, effects.Load())
		first = keyIn(lines[0])
	}
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.NotEmpty(t, entries)

	refuses(t, []string{"--upstream", "http://127.0.0.1:9000"}, "gateway", "--upstream", "localhost:9000")
	refuses(t, []string{"--regions must be from 1 to 3, is 4"}, "gateway", "--upstream", "http://localhost:9000", "--regions", "4")
	refuses(t, []string{"--upstream"}, "gateway")
	refuses(t, []string{"Idempotency-Key"}, "gateway", "--upstream", "http://localhost:9000", "--listen", "127.0.0.1:0", "--console", "off", "--data", t.TempDir(), "--dedupe-header", "a b")
}

// keyIn is the key in a line.
func keyIn(line string) string {
	_, rest, _ := strings.Cut(line, "Idempotency-Key: ")
	key, _, _ := strings.Cut(rest, "'")
	return key
}
