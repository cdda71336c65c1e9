package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/payment/psp"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(victim(dir))
	}
	goleak.VerifyTestMain(m)
}

var birth = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

func open(t testing.TB, cfg Config) *Simulator {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return birth }
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func closeNow(t testing.TB, s *Simulator) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// reply is a status and a body.
type reply struct {
	status int
	body   string
}

// do sends a request straight to the handler.
func do(s *Simulator, method, path, key, body string) reply {
	return doContext(context.Background(), s, method, path, key, body)
}

func doContext(ctx context.Context, s *Simulator, method, path, key, body string) reply {
	req := httptest.NewRequestWithContext(ctx, method, path, bytes.NewBufferString(body))
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, req)
	return reply{rec.Code, rec.Body.String()}
}

func charge(s *Simulator, key, reference, source string) reply {
	return do(s, "POST", "/v1/charges", key, body(reference, 1250, source))
}

func body(reference string, amount int64, source string) string {
	return fmt.Sprintf(`{"reference":%q,"amount":%d,"currency":"usd","source":%q}`, reference, amount, source)
}

func (r reply) want(t *testing.T, status int, code string) {
	t.Helper()
	var got struct {
		Status string
		Error  struct{ Code string }
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	if r.status != status || (got.Error.Code != code && got.Status != code) {
		t.Fatalf("got %d %s; want %d with %q", r.status, r.body, status, code)
	}
}

// wantSummary compares all but Calls, which does not outlive the process.
func wantSummary(t *testing.T, s *Simulator, want Summary) {
	t.Helper()
	got := s.Summary()
	got.Calls, want.Calls = 0, 0
	if got != want {
		t.Errorf("summary %+v, want %+v", got, want)
	}
}

// serve runs the real server on a loopback port, with read set as its read
// time-out, and returns its URL.
func serve(t *testing.T, s *Simulator, read time.Duration) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = s.NewServer("")
	srv.Config.ReadTimeout = read
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// post sends a charge over the network.
func post(t *testing.T, client *http.Client, url, key, body string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil // or the client would send it again by itself
	req.Header.Set("Idempotency-Key", key)
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(b)}, err
}

func call(key, reference string) psp.Call {
	return psp.Call{Kind: psp.KindCharge, Key: key, Reference: reference, Amount: 1250, Currency: "usd", Source: "pm_card_visa"}
}
