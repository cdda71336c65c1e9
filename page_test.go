package homeward

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/archtest/marked"
)

// The program of docs/EMBEDDING.md is built as it stands, but for its port, and asked by the page's
// lines, before and after it was killed.
func TestThePagesProgram(t *testing.T) {
	page, err := os.ReadFile("docs/EMBEDDING.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```go\n")
	program, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	const port = "127.0.0.1:8080"
	require.Contains(t, program, port)
	dir := t.TempDir()
	main, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "orders")
	require.NoError(t, os.WriteFile(main, []byte(strings.ReplaceAll(program, port, addr)), 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, main)
	build.Env = append(build.Environ(), "CGO_ENABLED=0") // the race detector's tests have it
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(marked.Blocks(t, "docs/EMBEDDING.md")[0]), "\n")
	require.Len(t, lines, 3)
	date := regexp.MustCompile(`(?m)^Date: .*\n`)
	var first string
	for start := range 2 {
		cmd := exec.CommandContext(t.Context(), bin)
		cmd.Dir = dir
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", addr)
			return err == nil && conn.Close() == nil
		}, 20*time.Second, 10*time.Millisecond)
		var answers []string
		for _, line := range lines {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.NewReplacer("curl", "curl -sS --noproxy '*'", port, addr).Replace(line)).Output()
			require.NoError(t, err)
			answers = append(answers, date.ReplaceAllString(strings.ReplaceAll(string(out), "\r", ""), ""))
		}
		require.NoError(t, cmd.Process.Kill())
		var killed *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &killed)
		if start == 0 {
			first = answers[0]
			require.Contains(t, first, "HTTP/1.1 201")
		}
		replay := strings.Replace(answers[1], "Idempotent-Replayed: true\n", "", 1)
		require.NotEqual(t, answers[1], replay)
		require.Equal(t, first, replay)
		require.Contains(t, answers[2], "422")
		require.Contains(t, answers[2], "idempotency_key_fingerprint_mismatch")
	}
}

const (
	// mostModules and mostBytes are what a program with one guarded handler may pull in, with this
	// module, and stripped. Raise them knowingly: each module is in the go.mod of whoever imports
	// this one.
	mostModules = 62
	mostBytes   = 26 << 20
)

func TestWhatAProgramPulls(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}", "./examples/middleware").Output()
	require.NoError(t, err)
	modules := map[string]bool{}
	for line := range bytes.Lines(out) {
		module, path, _ := strings.Cut(strings.TrimRight(string(line), "\n"), " ")
		if module != "" {
			modules[module] = true
		}
		for _, foreign := range []string{
			"github.com/stripe", "github.com/nats-io", "github.com/hashicorp/memberlist", "github.com/spiffe", "gocloud.dev", "github.com/knadh", "github.com/alecthomas",
			"github.com/stretchr", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters",
		} {
			require.NotContains(t, path, foreign)
		}
		for _, room := range []string{"internal/node", "internal/httpapi", "internal/console", "internal/lab", "internal/cli", "router", "region", "gateway", "payment/psp/"} {
			require.False(t, strings.HasPrefix(path, "github.com/homeward-io/homeward/"+room), path)
		}
	}
	require.LessOrEqual(t, len(modules), mostModules)
	bin := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", bin, "./examples/middleware")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(bin)
	require.NoError(t, err)
	t.Logf("%d modules, %d bytes", len(modules), info.Size())
	require.LessOrEqual(t, info.Size(), int64(mostBytes))
}
