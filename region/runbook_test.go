package region

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/archtest/marked"
)

// TestTheRunbooksCertificate runs the runbook's lines of openssl under the CA that
// docs/DEPLOYING.md makes: nodes and tools take the certificate for an operator's.
func TestTheRunbooksCertificate(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not on PATH")
	}
	dir := t.TempDir()
	page, err := os.ReadFile("../docs/DEPLOYING.md")
	require.NoError(t, err)
	authority := regexp.MustCompile(`(?m)^openssl req -x509 .*-out ca\.pem$`).FindString(string(page))
	require.NotEmpty(t, authority, "docs/DEPLOYING.md makes no CA")
	for _, lines := range append([]string{authority}, marked.Blocks(t, "docs/RUNBOOK.md")...) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}

	file := func(name string) string { return filepath.Join(dir, name) }
	certs, err := NewTLS(TLSConfig{CertFile: file("operator.pem"), KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), TrustDomain: domain})
	require.NoError(t, err)
	require.Equal(t, Identity{Operator: "alice"}, certs.Identity())
	text, err := os.ReadFile(file("operator.pem"))
	require.NoError(t, err)
	leaf, _ := pem.Decode(text)
	require.NoError(t, certs.Server().VerifyPeerCertificate([][]byte{leaf.Bytes}, nil))
}
