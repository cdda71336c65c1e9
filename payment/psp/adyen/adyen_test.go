package adyen_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/adyen"
	"github.com/homeward-io/homeward/payment/psp/psptest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	apiKey  = "AQE_test"
	account = "HomewardSimulator"
	hmacKey = "d3b07384d113edec49eaa6238ad5ff00c86c1b2b0f0f8f5a6b7f1b0a4c6d7e8f"
	another = "0000000000000000000000000000000000000000000000000000000000000000"
)

func TestConformance(t *testing.T) {
	psptest.Exercise(t, harness)
}

// opened is a simulator that serves Adyen's API below url.
func opened(t testing.TB) (sim *simulator.Simulator, url string) {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	return sim, srv.URL + "/adyen/"
}

func effects(sim *simulator.Simulator, kind psp.Kind, reference string) (n int) {
	for _, e := range sim.Effects() {
		if e.Kind == kind && e.Reference == reference {
			n++
		}
	}
	return n
}

// harness puts the adapter before the simulator's Adyen-shaped API.
func harness(t *testing.T) psptest.Harness { return harnessOver(t, nil) }

// harnessOver is harness with the requests sent through wire.
func harnessOver(t *testing.T, wire http.RoundTripper) psptest.Harness {
	t.Helper()
	sim, url := opened(t)
	cfg := config(url, hmacKey)
	cfg.Transport = wire
	h := psptest.Simulated(t, sim, made(t, cfg), adyenSpelling.Replace)
	h.Terms = &psp.Terms{Customer: "shopper_1"}
	h.Notices = func() <-chan psptest.Delivery { return notices(t, sim) }
	h.Stranger, h.SignsValues = adapter(t, "http://127.0.0.1:1", another), true
	return h
}

// adyenSpelling turns the simulator's ids of what it does by itself into Adyen's.
var adyenSpelling = strings.NewReplacer("psp_dp_", "HWD0", "psp_re_", "HWB0", "a", "A", "b", "B", "c", "C", "d", "D", "e", "E", "f", "F")

func notices(t *testing.T, sim *simulator.Simulator) <-chan psptest.Delivery {
	t.Helper()
	return psptest.SimulatedNotices(t, sim, simulator.NoticeTarget{Secret: hmacKey, Adyen: true})
}

func config(url, hmacKey string) adyen.Config {
	return adyen.Config{
		Key: apiKey, HMACKey: hmacKey, MerchantAccount: account, BaseURL: url, ReturnURL: "https://shop.example/return",
	}
}

func adapter(t testing.TB, url, hmacKey string) *adyen.Provider {
	t.Helper()
	return made(t, config(url, hmacKey))
}

func made(t testing.TB, cfg adyen.Config) *adyen.Provider {
	t.Helper()
	p, err := adyen.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
