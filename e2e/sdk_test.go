package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/sdk"
)

const typescript = "../sdk/typescript"

// npm finds Node.js and what the client is built with, or skips the test. It returns what
// runs a program of it there, and gives its output.
func npm(t *testing.T) func(env []string, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not on PATH: install Node.js 20.19 or later, then npm ci --prefix sdk/typescript")
	}
	if _, err := os.Stat(filepath.Join(typescript, "node_modules", "typescript")); err != nil {
		t.Skip("the tools of the TypeScript client are not installed: npm ci --prefix sdk/typescript")
	}
	return func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = typescript, append(os.Environ(), env...)
		var out, said strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &said
		require.NoError(t, cmd.Run(), "%s %v\n%s%s", name, args, &out, &said)
		return out.String()
	}
}

// tried starts a cluster of three with the harness of clients in front, and returns its URL. The harness
// says whether each answer, request and pause is right, and how often money moved.
func tried(t *testing.T) string {
	t.Helper()
	w := startNoticed(t, nil)
	require.NoError(t, w.judge.SetNotices(simulator.Notices{
		Targets: []simulator.NoticeTarget{{URL: w.base(us) + "/v1/webhooks/simulator", Secret: noticeSecret}}, RetryAfter: 20 * time.Millisecond,
	}))
	h, err := sdk.New(sdk.World{Regions: []string{w.base(us), w.base(eu), w.base(asia)}, Simulator: w.judge.url, APIKey: acme})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		h.Close()
	})
	return "HOMEWARD_SDK=" + server.URL
}

// Each client pays through the scenarios of sdk/scenarios.json, in its language's own test runner: lost
// requests, lost replies, refused connections, 503s, a slow provider and a lost region.
func TestGoClient(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "test", "../client", "-run", "^TestScenarios$", "-count", "1", "-v")
	cmd.Env = append(os.Environ(), tried(t), "CGO_ENABLED=0") // the race detector's tests have it
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestScenarios/A_lost_region")
}

func TestTypeScriptClient(t *testing.T) {
	run := npm(t)
	run(nil, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	out := run([]string{tried(t)}, "node", "--test", "--test-reporter", "tap", "test/")
	require.Contains(t, out, "\n# fail 0\n")
	require.Contains(t, out, "\n# skipped 0\n")
	require.Contains(t, out, "# Subtest: A lost region\n")
}

func TestPythonClient(t *testing.T) {
	t.Parallel()
	run := python(t)
	out := run(pythonClient, []string{tried(t), "PYTHONPATH=src"}, "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".")
	require.Regexp(t, `\nRan \d+ tests in .*\n\nOK\n`, out)
	require.NotContains(t, out, "skipped")
}

const pythonClient = "../sdk/python"

// python finds a Python with httpx, or skips the test. It returns what runs it in a directory, and gives
// its output.
func python(t *testing.T) func(dir string, env []string, args ...string) string {
	t.Helper()
	program := ""
	for _, p := range []string{filepath.Join(pythonClient, ".venv/bin/python"), "python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import httpx, sys; sys.exit(sys.version_info < (3, 10))").Run() == nil {
			program = p
			break
		}
	}
	if program == "" {
		t.Skip("no Python 3.10 or later with httpx was found: apt-get install python3-httpx mypy, or python3 -m venv sdk/python/.venv && sdk/python/.venv/bin/pip install -e sdk/python mypy")
	}
	if strings.Contains(program, "/.venv/") {
		abs, err := filepath.Abs(program)
		require.NoError(t, err)
		program = abs
	}
	return func(dir string, env []string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v\n%s", program, args, out)
		return string(out)
	}
}

// What the page of the Python client has a reader try works as it stands, but for the addresses of the demo.
func TestThePythonReadme(t *testing.T) {
	t.Parallel()
	blocks := marked.Blocks(t, "sdk/python/README.md")
	require.Len(t, blocks, 2, "a charge that is retried in another region, and a receiver of events")
	run := python(t)
	w := startWorld(t, nil, nil)
	demo := strings.NewReplacer("http://127.0.0.1:8081", w.base(us), "http://127.0.0.1:8082", w.base(eu), "http://127.0.0.1:8083", w.base(asia))
	require.Regexp(t, `^ch_\w+ succeeded True True\n$`, run(pythonClient, []string{"PYTHONPATH=src"}, "-c", demo.Replace(blocks[0])))
	w.judge.once(t, 1)

	// The receiver serves one request, and gets a delivery as the relay signs it.
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	signer, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	body, now := []byte(`{"id":"evt_1","type":"charge.succeeded","created":1,"data":{"id":"ch_1","object":"charge","status":"succeeded","order_id":"order-7"}}`), time.Now()
	signature, err := signer.Sign("evt_1", now, body)
	require.NoError(t, err)
	deliveries, answers := make(chan string, 1), make(chan int, 2)
	catcher := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { deliveries <- r.URL.Query().Get("at") }))
	t.Cleanup(catcher.Close)
	go func() {
		at := <-deliveries
		for _, s := range []string{"v1,bm8=", signature} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, bytes.NewReader(body))
			if err != nil {
				answers <- 0
				continue
			}
			req.Header = http.Header{"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {s}}
			if res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err != nil {
				answers <- 0
			} else {
				_ = res.Body.Close()
				answers <- res.StatusCode
			}
		}
	}()
	const serve = `HTTPServer(("127.0.0.1", 9000), Receiver).serve_forever()`
	require.Contains(t, blocks[1], serve)
	once := strings.ReplaceAll(blocks[1], serve, `
import urllib.request
server = HTTPServer(("127.0.0.1", 0), Receiver)
urllib.request.urlopen("`+catcher.URL+`?at=http://127.0.0.1:%d/" % server.server_port)
server.handle_request()
server.handle_request()
`)
	require.Contains(t, run(pythonClient, []string{"PYTHONPATH=src", "WEBHOOK_SECRET=" + secret}, "-c", once), "evt_1 charge.succeeded order-7\n")
	require.Equal(t, []int{http.StatusBadRequest, http.StatusNoContent}, []int{<-answers, <-answers})
}

// The types of the Python client are those of the document, its code is typed, and what is published is
// the client and nothing else.
func TestPythonPackage(t *testing.T) {
	t.Parallel()
	run := python(t)
	made := filepath.Join(t.TempDir(), "_api.py")
	run(pythonClient, nil, "generate.py", made)
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(pythonClient, "src/homeward/_api.py"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "sdk/python/src/homeward/_api.py does not match the OpenAPI document; python3 sdk/python/generate.py")

	t.Run("types", func(t *testing.T) {
		if exec.CommandContext(t.Context(), "mypy", "--version").Run() != nil {
			t.Skip("mypy is not on PATH: apt-get install mypy")
		}
		cmd := exec.CommandContext(t.Context(), "mypy", "--cache-dir", t.TempDir())
		cmd.Dir = pythonClient
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	t.Run("lint", func(t *testing.T) {
		if exec.CommandContext(t.Context(), "ruff", "--version").Run() != nil {
			t.Skip("ruff is not on PATH: pip install ruff")
		}
		for _, args := range [][]string{{"check", "--no-cache"}, {"format", "--no-cache", "--check"}} {
			cmd := exec.CommandContext(t.Context(), "ruff", args...)
			cmd.Dir = pythonClient
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	})
	t.Run("wheel", func(t *testing.T) {
		// Copied, as setuptools writes beside its sources.
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(filepath.Join(dir, "src"), os.DirFS(filepath.Join(pythonClient, "src"))))
		for _, name := range []string{"pyproject.toml", "README.md", "LICENSE"} {
			text, err := os.ReadFile(filepath.Join(pythonClient, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		if exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import setuptools, wheel").Run() != nil {
			t.Skip("setuptools and wheel were not found: apt-get install python3-setuptools python3-wheel")
		}
		build := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "from setuptools import build_meta; build_meta.build_wheel('out')")
		build.Dir = dir
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
		wheels, err := filepath.Glob(filepath.Join(dir, "out", "*.whl"))
		require.NoError(t, err)
		require.Len(t, wheels, 1)
		wheel, err := zip.OpenReader(wheels[0])
		require.NoError(t, err)
		defer wheel.Close()
		var files []string
		for _, f := range wheel.File {
			files = append(files, f.Name)
			if strings.HasSuffix(f.Name, "/METADATA") {
				r, err := f.Open()
				require.NoError(t, err)
				text, err := io.ReadAll(r)
				require.NoError(t, err)
				require.Equal(t, []string{"Requires-Dist: httpx (<1,>=0.23)"}, regexp.MustCompile("(?m)^Requires-Dist: .*$").FindAllString(string(text), -1), "it needs httpx and nothing else")
			}
		}
		slices.Sort(files)
		const info = "homeward_client-0.1.0.dist-info/"
		require.Equal(t, []string{
			"homeward/__init__.py", "homeward/_api.py", "homeward/_client.py", "homeward/_core.py", "homeward/_keys.py",
			"homeward/_outcome.py", "homeward/_webhook.py", "homeward/py.typed",
			info + "LICENSE", info + "METADATA", info + "RECORD", info + "WHEEL", info + "top_level.txt",
		}, files)
	})
}

// What is published is the client and nothing else, its types are those of the document,
// and nothing comes with it at run time.
func TestTypeScriptPackage(t *testing.T) {
	run := npm(t)
	made := filepath.Join(t.TempDir(), "api.ts")
	run(nil, "node", "generate.mjs", made)
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(typescript, "src", "api.ts"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "sdk/typescript/src/api.ts does not match the OpenAPI document; npm run generate --prefix sdk/typescript")

	run(nil, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	var packed []struct {
		Files []struct{ Path string }
	}
	require.NoError(t, json.Unmarshal([]byte(run(nil, "npm", "pack", "--dry-run", "--json", "--ignore-scripts")), &packed))
	require.Len(t, packed, 1)
	var files []string
	for _, f := range packed[0].Files {
		files = append(files, f.Path)
	}
	slices.Sort(files)
	var all []string
	for _, name := range []string{"api", "attempt", "client", "error", "index", "key", "types", "webhook"} {
		all = append(all, "dist/"+name+".d.ts", "dist/"+name+".js")
	}
	require.Equal(t, append([]string{"LICENSE", "README.md"}, append(all, "package.json")...), files)

	var manifest map[string]any
	text, err := os.ReadFile(filepath.Join(typescript, "package.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &manifest))
	for _, kind := range []string{"dependencies", "peerDependencies", "optionalDependencies", "bundleDependencies"} {
		require.NotContains(t, manifest, kind)
	}
	lock, err := os.ReadFile(filepath.Join(typescript, "package-lock.json"))
	require.NoError(t, err)
	require.NotContains(t, string(lock), `"resolved"`, "the lock file names who served it: take those lines out")
}

// Redocly's strictest rules find nothing in the document.
func TestTheDocumentIsLinted(t *testing.T) {
	run := npm(t)
	run([]string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"}, "npm", "run", "--silent", "lint")
}
