package adyen_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// libraryVariable names a folder that @adyen/api-library is installed in.
const libraryVariable = "ADYEN_NODE_LIBRARY"

// Adyen's own library, unmodified but for the URL, reads the simulator's answers as its types and
// errors, and accepts the simulator's signature: the simulator speaks as Adyen does.
func TestAdyensLibraryReadsTheSimulator(t *testing.T) {
	library := os.Getenv(libraryVariable)
	node, err := exec.LookPath("node")
	if library == "" || err != nil {
		t.Skipf("node is not on PATH, or %s names no folder that npm has installed @adyen/api-library in", libraryVariable)
	}
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewTLSServer(sim.Handler())
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	authority := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "official.cjs"), library, srv.URL+"/adyen/v71", hmacKey, signedNotice(t))
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority)
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	const want = `{"result":"Authorised","amount":"1250 EUR","repeated":true,"refused":"Refused 12 Not enough balance",` +
		`"error":"HttpClientException 422 800","refund":"received re_1 true","signed":true,"forged":false}`
	if strings.TrimSpace(string(got)) != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if n := effects(sim, psp.KindCharge, "ch_1") + effects(sim, psp.KindRefund, "re_1"); n != 2 {
		t.Errorf("money moved %d times", n)
	}
}

// signedNotice is an event of a simulator.
func signedNotice(t *testing.T) string {
	t.Helper()
	sim, url := opened(t)
	in := notices(t, sim)
	charge := call
	charge.Source = "pm_card_visa"
	if r := adapter(t, url, hmacKey).Charge(t.Context(), charge); r.Outcome != psp.Approved {
		t.Fatalf("%+v", r)
	}
	return string((<-in).Body)
}
