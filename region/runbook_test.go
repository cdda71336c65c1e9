package region

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
	run := func(lines string) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("y\ny\n")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	page, err := os.ReadFile("../docs/DEPLOYING.md")
	require.NoError(t, err)
	authority := regexp.MustCompile(`(?m)^openssl req -x509 .*-out ca\.pem$`).FindString(string(page))
	require.NotEmpty(t, authority, "docs/DEPLOYING.md makes no CA")
	blocks := marked.Blocks(t, "docs/RUNBOOK.md")
	require.Len(t, blocks, 2)
	run(authority)
	run(blocks[0])

	file := func(name string) string { return filepath.Join(dir, name) }
	certs, err := NewTLS(TLSConfig{CertFile: file("operator.pem"), KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), TrustDomain: domain})
	require.NoError(t, err)
	require.Equal(t, Identity{Operator: "alice", Role: RoleOperator}, certs.Identity())
	text, err := os.ReadFile(file("operator.pem"))
	require.NoError(t, err)
	leaf, _ := pem.Decode(text)
	require.NoError(t, certs.Server().VerifyPeerCertificate([][]byte{leaf.Bytes}, nil))

	run(blocks[1])
	revoking, err := NewTLS(TLSConfig{CertFile: file("operator.pem"), KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), RevokedFile: file("revoked.pem"), TrustDomain: domain})
	require.NoError(t, err)
	require.ErrorContains(t, revoking.Server().VerifyPeerCertificate([][]byte{leaf.Bytes}, nil), "is revoked")
}
