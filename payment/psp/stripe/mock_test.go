package stripe_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// TestShapes sends every request to stripe-mock, which holds it against Stripe's
// own OpenAPI description and refuses what does not fit, and reads what it
// answers. It has no memory, so what the replies say is its own.
func TestShapes(t *testing.T) {
	binary := os.Getenv("STRIPE_MOCK_BINARY")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("stripe-mock"); err != nil {
			t.Skip("stripe-mock is not on PATH: go install github.com/stripe/stripe-mock@latest, or name it in STRIPE_MOCK_BINARY")
		}
	}
	wire := &recorder{next: startMock(t, binary)}
	p, err := stripe.New(stripe.Config{Key: apiKey, BaseURL: "http://stripe-mock", Transport: wire})
	if err != nil {
		t.Fatal(err)
	}
	transfer, refund := call, call
	transfer.Source, refund.Source = "acct_1032D82eZvKYlo2C", "pi_1"
	p.Charge(t.Context(), call)
	wire.wantTaken(t, "a charge")
	p.Transfer(t.Context(), transfer)
	wire.wantTaken(t, "a transfer")
	p.Refund(t.Context(), refund)
	wire.wantTaken(t, "a refund")
	terms := call
	terms.Terms = &psp.Terms{
		OnSession: true, Manual: true, Customer: "cus_1", SetupFutureUsage: "off_session", StatementSuffix: "ORDER 7", ReturnURL: "https://shop.example/back",
		OnBehalfOf: "acct_1", TransferTo: "acct_2", TransferAmount: 10, OrderID: []byte(`"7"`), Metadata: []byte(`{"color":"red"}`),
	}
	p.Charge(t.Context(), terms)
	wire.wantTaken(t, "a charge with all that a merchant may ask for")
	terms.Again = "pi_1"
	p.Charge(t.Context(), terms)
	wire.wantTaken(t, "a charge that is tried again")
	p.Capture(t.Context(), psp.Call{Key: "k", Reference: "cap_1", Amount: 5, Currency: "usd", Source: "pi_1"})
	wire.wantTaken(t, "a capture")
	p.Cancel(t.Context(), psp.Call{Key: "k", Reference: "can_1", Source: "pi_1"})
	wire.wantTaken(t, "a cancellation")
	for _, kind := range []psp.Kind{psp.KindCharge, psp.KindTransfer, psp.KindRefund} {
		if found, r := p.Lookup(t.Context(), psp.Call{Kind: kind, Reference: call.Reference, Source: "pi_1"}); found == psp.FoundYes && r.Outcome == psp.Unknown {
			t.Errorf("look-up of a %s: found %d, %+v", kind, found, r)
		}
		wire.wantTaken(t, "a look-up of a "+string(kind))
	}
	// The mock does refuse: else all of the above would prove nothing.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://stripe-mock/v1/payment_intents",
		strings.NewReader("amount=5&currency=usd&unheard_of=1"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := wire.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("a parameter that Stripe does not have: %s", res.Status)
	}
}

// recorder notes the statuses.
type recorder struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen []string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.next.RoundTrip(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.seen = append(r.seen, err.Error())
	} else {
		r.seen = append(r.seen, req.Method+" "+req.URL.Path+" "+res.Status)
	}
	return res, err
}

// wantTaken wants every request since it last looked to have been taken.
func (r *recorder) wantTaken(t *testing.T, what string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		t.Errorf("%s sent nothing", what)
	}
	for _, s := range r.seen {
		if !strings.HasSuffix(s, " 200 OK") {
			t.Errorf("%s: %s", what, s)
		}
	}
	r.seen = nil
}

// startMock runs stripe-mock on a socket of its own until the test ends.
func startMock(t *testing.T, binary string) http.RoundTripper {
	t.Helper()
	dir, err := os.MkdirTemp("", "mock") // short: a socket's path has some 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(binary, "-http-unix", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s does not start: %v", binary, err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for ready := false; !ready; {
		if !lines.Scan() {
			t.Fatalf("%s ended before it listened", binary)
		}
		ready = strings.HasPrefix(lines.Text(), "Listening")
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() { // or the mock would block on a full pipe
		}
	})
	t.Cleanup(func() { _ = cmd.Process.Kill(); reading.Wait() })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
