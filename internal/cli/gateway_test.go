package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/archtest/marked"
	"github.com/homeward-io/homeward/internal/lab/devcerts"
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
		guard := starts(t, "gateway", "--upstream", upstream.URL, "--data", data, "--regions", regions, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")
		lines, answers := guard.curls()
		if first != "" { // by the process before
			require.Contains(t, pasted(t, strings.Replace(lines[1], keyIn(lines[1]), first, 1)), "POST / {} 1\n")
		}
		require.Empty(t, guard.stop())
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
	refuses(t, []string{"--upstream", "gateway.upstream", "--config"}, "gateway")
	refuses(t, []string{"--dedupe-header", "Host", "Idempotency-Key"}, "gateway", "--upstream", "http://localhost:9000", "--dedupe-header", "host")
	refuses(t, []string{"--dedupe-header", "Transfer-Encoding"}, "gateway", "--upstream", "http://localhost:9000", "--dedupe-header", "transfer-encoding")
	refuses(t, []string{"Idempotency-Key"}, "gateway", "--upstream", "http://localhost:9000", "--listen", "127.0.0.1:0", "--console", "off", "--data", t.TempDir(), "--dedupe-header", "a b")
}

// TestAGatewaysRulesInAFile: homeward gateway reads the file of the page, and a listener with TLS beside
// it, by whose certificates tenants are told apart.
func TestAGatewaysRulesInAFile(t *testing.T) {
	onlyWith(t)
	var effects atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"failed","path":%q,"n":%d}`, r.URL.Path, effects.Add(1))
	}))
	defer upstream.Close()
	dir := t.TempDir()
	ca, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	issue := func(name string) (cert, key []byte) {
		cert, key, err := ca.Issue(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), &url.URL{Scheme: "spiffe", Host: "shop", Path: "/" + name})
		require.NoError(t, err)
		return cert, key
	}
	put := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	cert, secret := issue("gateway")
	text := strings.Replace(marked.Blocks(t, "docs/GATEWAY.md")[0], "http://127.0.0.1:9000", upstream.URL, 1) + fmt.Sprintf(`
  tls: {cert: %q, key: %q, client_ca: %q}
  tenant: {from: certificate, name: uri}
`, put("cert.pem", cert), put("key.pem", secret), put("ca.pem", ca.PEM()))
	guard := starts(t, "gateway", "--config", put("gateway.yaml", []byte(text)), "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--console", "off")
	base := "https://" + guard.after("https://")
	as := func(name string) *http.Client {
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it names no host, and is ours
		if name != "" {
			pair, err := tls.X509KeyPair(issue(name))
			require.NoError(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	send := func(client *http.Client, method, path, key, body string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(got), resp.Header
	}
	till, other := as("till"), as("other")
	status, first, _ := send(till, "POST", "/v1/orders", "", `{"reference":"r-1","sent_at":1}`)
	require.Equal(t, 200, status, first)
	status, again, header := send(till, "POST", "/v1/orders", "", `{"sent_at":2,"reference":"r-1"}`)
	require.Equal(t, []any{200, first, "true"}, []any{status, again, header.Get("Idempotent-Replayed")})
	_, its, _ := send(other, "POST", "/v1/orders", "", `{"reference":"r-1","sent_at":1}`)
	require.NotEqual(t, first, its, "another tenant's")
	status, none, _ := send(till, "POST", "/v1/orders", "", `{}`)
	require.Equal(t, 400, status)
	require.Contains(t, none, "idempotency_key_missing")
	status, anybody, _ := send(as(""), "POST", "/v1/orders", "", `{"reference":"r-1"}`)
	require.Equal(t, 401, status, anybody)
	status, _, _ = send(till, "POST", "/v1/payments", "p-1", `{}`)
	require.Equal(t, 200, status, "refused for good, with the API's own words")
	status, mismatch, _ := send(till, "POST", "/v1/payments", "p-1", `{"a":1}`)
	require.Equal(t, 400, status)
	require.Contains(t, mismatch, "idempotency_error")
	_, history, _ := send(till, "GET", "/_homeward/idempotency-keys/p-1", "", "")
	require.Contains(t, history, `"state":"FAILED_TERMINAL"`)
	status, _, _ = send(till, "PUT", "/v1/mails/7", "m-1", `{}`)
	require.Equal(t, 200, status)
	require.EqualValues(t, 4, effects.Load())
	guard.stop()
}

// TestTheGatewaysLinesWithTenants: the lines name a tenant, and the request of the key, where the settings
// want that.
func TestTheGatewaysLinesWithTenants(t *testing.T) {
	onlyWith(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("this machine has no curl, which the lines call")
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }))
	defer upstream.Close()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	require.NoError(t, os.WriteFile(file, []byte("gateway:\n  upstream: "+upstream.URL+`
  trusted_proxies: [127.0.0.1/32]
  tenant: {from: header, name: X-Tenant}
  routes:
    - {match: POST /, profile: acp}
`), 0o600))
	guard := starts(t, "gateway", "--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--console", "off")
	_, answers := guard.curls()
	guard.stop()
	require.Len(t, answers, 3)
	require.Contains(t, answers[0], "200 OK")
	require.Contains(t, answers[1], "Idempotent-Replayed: true")
	require.Contains(t, answers[2], `"state":"COMPLETED"`)

	for from, want := range map[string]string{"": "", "fixed": "", "claim": "Authorization: Bearer ", "certificate": "--cert "} {
		s := gateway.Settings{Tenant: gateway.Tenant{From: from, Name: "n"}}
		as, yours := naming(&s)
		require.Contains(t, as, want)
		require.Equal(t, want == "", as+yours == "", from)
		s = gateway.Settings{Routes: []gateway.Route{{Match: "POST /", Tenant: s.Tenant}}}
		its, _ := naming(&s)
		require.Equal(t, as, its)
	}
}

// TestTheGatewaysShadow: in shadow mode nothing is held back, and the report says what guarding would
// have come to, while the gateway runs and after it.
func TestTheGatewaysShadow(t *testing.T) {
	onlyWith(t)
	var effects atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, effects.Add(1))
	}))
	defer upstream.Close()
	data := t.TempDir()
	report := func() string {
		var out, errs strings.Builder
		require.Zero(t, run(t.Context(), []string{"gateway", "report", "--data", data}, streams{&out, &errs}), errs.String())
		return out.String()
	}
	refuses(t, []string{"--data"}, "gateway", "report", "--data", filepath.Join(data, "nowhere"))
	watch := starts(t, "gateway", "--upstream", upstream.URL, "--mode", "shadow", "--data", data, "--listen", "127.0.0.1:0", "--console", "off")
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, watch.after("us-east1 ")+"/orders", strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "order-17")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Contains(t, report(), "DONE AGAIN")
	watch.stop()
	require.EqualValues(t, 2, effects.Load())
	said := report()
	require.Regexp(t, `\s2\s+1\s+[01]\s+[01]\s+0\s+0\s+1\s+0\n`, said)
	require.Contains(t, said, "POST /orders, key order-17: came again ")

	// A report that cannot be read is no report of zeros.
	dir := strings.TrimPrefix(runsOf(data), "file://")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shadow", fmt.Sprintf("%013d-%s-00000000.json", 9_999_999_999_999-time.Now().UnixMilli(), time.Now().UTC().Format("20060102T150405Z"))), []byte("{"), 0o600))
	code, said, errs := homeward(t, "gateway", "report", "--data", data)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "The report cannot be read: ")
	require.NotRegexp(t, `\s0\s+0\s+0\s+0\s+0\s+0\s+0\s+0\n`, said)
	require.NotContains(t, said, "all ", "a sum of what was read")
}

// curls pastes the lines that call curl, and returns them with their answers.
func (s *started) curls() (lines, answers []string) {
	for _, line := range s.printed {
		if strings.HasPrefix(line, "curl ") {
			lines, answers = append(lines, line), append(answers, pasted(s.T, line))
		}
	}
	return lines, answers
}

func pasted(t *testing.T, line string) string {
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
	return string(out)
}

// keyIn is the key in a line.
func keyIn(line string) string {
	_, rest, _ := strings.Cut(line, "Idempotency-Key: ")
	key, _, _ := strings.Cut(rest, "'")
	return key
}
