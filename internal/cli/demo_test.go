package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/operator"
)

// TestADemoLeavesNothing: the demo deletes its directory, however it ended. While it runs its nodes
// answer at the printed addresses.
func TestADemoLeavesNothing(t *testing.T) {
	onlyWith(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	listed := func() []os.DirEntry {
		t.Helper()
		entries, err := os.ReadDir(tmp)
		require.NoError(t, err)
		return entries
	}
	demo := starts(t, "demo", "--listen", "127.0.0.1:0")
	require.Len(t, listed(), 1)
	require.Contains(t, does(t, "regions", "--node", demo.after(" regions --node ")), "As us-east1-1-")
	demo.stop()
	require.Empty(t, listed())

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	addr := taken.Addr().String()
	refuses(t, []string{"the simulator cannot listen on " + addr, "in use", "--psp-listen"}, "demo", "--listen", "127.0.0.1:0", "--psp-listen", addr)
	// The other listeners take free ports: those beside addr may be anybody's.
	refuses(t, []string{"a region's API cannot listen on " + addr, "in use", "--listen"},
		"demo", "--listen", addr, "--psp-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--rpc-listen", "127.0.0.1:0", "--console", "off")
	refuses(t, []string{"the simulator cannot listen on " + addr, "in use", "--listen"}, "simulator", "--listen", addr)
	refuses(t, []string{"a region's RPC cannot listen on " + addr, "in use", "--rpc-listen"}, "demo", "--listen", "127.0.0.1:0", "--rpc-listen", addr)
	refuses(t, []string{"--rpc-listen", "of this machine alone"}, "demo", "--listen", "127.0.0.1:0", "--rpc-listen", "0.0.0.0:7081")
	require.Empty(t, listed())
}

// TestADemoSealsWhatProvidersSay: secrets and persons' data at rest. Without any setting a demo
// acts on a webhook, and its store's directory does not have the body in clear text.
func TestADemoSealsWhatProvidersSay(t *testing.T) {
	onlyWith(t)
	data := t.TempDir()
	demo := starts(t, "demo", "--listen", "127.0.0.1:0", "--psp-latency", "0s", "--data", data)
	chargeAndWait(t, demo.after("us-east1 "), demo.after("simulator (PSP) "))
	demo.stop()
	require.Regexp(t, `[0-9a-f]{16} +1 +seals\n$`, does(t, "secrets", "show", "--data", data))

	var raw []byte
	require.NoError(t, filepath.WalkDir(filepath.Join(data, "store"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		raw = append(raw, content...)
		return err
	}))
	require.Contains(t, string(raw), "simulator:evt_", "the notice is there")
	require.NotContains(t, string(raw), `"charge.succeeded"`, "and not its contents")
}

// chargeAndWait makes a charge and returns when its webhook has been taken.
func chargeAndWait(t *testing.T, api, psp string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+"/v1/charges", strings.NewReader(`{"amount":4200,"currency":"usd","payment_method":"pm_card_visa"}`))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + lab.DemoKeys()["acme"]}, "Idempotency-Key": {"order-1"}, "Content-Type": {"application/json"}}
	reply, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, reply.StatusCode)
	require.NoError(t, reply.Body.Close())
	for giveUp := time.Now().Add(time.Minute); ; {
		reply, err := http.Get(psp + "/_sim/webhooks")
		require.NoError(t, err)
		var stats struct{ Sent int }
		require.NoError(t, json.NewDecoder(reply.Body).Decode(&stats))
		require.NoError(t, reply.Body.Close())
		if stats.Sent > 0 {
			return
		}
		require.True(t, time.Now().Before(giveUp), "the webhook of a charge comes within a minute")
	}
}

// TestPrintedCommandsAreOneWordEach: a person pastes them, whatever the directory is called.
func TestPrintedCommandsAreOneWordEach(t *testing.T) {
	needsShell(t)
	const data = "/data/it's our $HOME; 100 %"
	var printed strings.Builder
	require.NoError(t, clusterTemplate.Execute(&printed, map[string]any{
		"Command": "/my tools/homeward", "Data": data, "Regions": []place{{}}, "Nodes": []*lab.Node{{}}, "Entry": place{Name: "us-east1"}, "Other": place{}, "Third": place{},
		"Keys": map[string]string{}, "Operator": &operator.Certificate{Cert: data + "/o.pem", Key: data + "/o-key.pem"}, "State": "", "Database": "", "PSP": "", "Temporary": false,
	}))
	for of, want := range map[string]string{
		" regions --cluster ": "[/my tools/homeward][regions][--cluster][" + data + "]",
		" drill region-loss ": "[/my tools/homeward][drill][region-loss][--cluster][" + data + "][--region][us-east1]",
		"openssl pkcs12 ":     "[openssl][pkcs12][-export][-in][" + data + "/o.pem][-inkey][" + data + "/o-key.pem][-out][operator.p12]",
	} {
		for line := range strings.Lines(printed.String()) {
			if strings.Contains(line, of) {
				require.Equal(t, want, pasted(t, "printf '[%s]' "+line))
				want = ""
			}
		}
		require.Empty(t, want, of)
	}
}
