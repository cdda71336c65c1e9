package region

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheRunbooksCertificate runs the runbook's lines of openssl under the CA that
// docs/DEPLOYING.md makes: nodes and tools take the certificate for an operator's.
func TestTheRunbooksCertificate(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not on PATH")
	}
	dir := t.TempDir()
	run := func(page, pattern string) {
		text, err := os.ReadFile(filepath.Join("../docs", page))
		require.NoError(t, err)
		lines := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		require.NotNil(t, lines, "docs/%s has no such lines", page)
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run("DEPLOYING.md", `(?m)^(openssl req -x509 .*-out ca\.pem)$`)
	run("RUNBOOK.md", "(?s)<!-- run by TestTheRunbooksCertificate -->\n```sh\n(.*?)```")

	file := func(name string) string { return filepath.Join(dir, name) }
	certs, err := NewTLS(TLSConfig{CertFile: file("operator.pem"), KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), TrustDomain: domain})
	require.NoError(t, err)
	require.Equal(t, Identity{Operator: "alice"}, certs.Identity())
	text, err := os.ReadFile(file("operator.pem"))
	require.NoError(t, err)
	leaf, _ := pem.Decode(text)
	require.NoError(t, certs.Server().VerifyPeerCertificate([][]byte{leaf.Bytes}, nil))
}
