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
	authority := regexp.MustCompile(`(?ms)^openssl req -x509 .*?^done$`).FindString(string(page))
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

	// A CA that takes its place has its name, if the same page makes it. The former one's list stays.
	former, next := dir, t.TempDir()
	dir = next
	run(authority)
	run(blocks[0])
	renewed, err := NewTLS(TLSConfig{CertFile: file("operator.pem"), KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), RevokedFile: filepath.Join(former, "revoked.pem"), TrustDomain: domain})
	require.NoError(t, err)
	text, err = os.ReadFile(file("operator.pem"))
	require.NoError(t, err)
	leaf, _ = pem.Decode(text)
	require.NoError(t, renewed.Server().VerifyPeerCertificate([][]byte{leaf.Bytes}, nil))
	dir = former

	// The CA of a region's cluster makes its own nodes, and nobody else.
	for name, want := range map[string]bool{"region/us-east1/node/n": true, "region/europe-west1/node/n": false, "operator/eve/role/treasurer": false, "operator/eve": false} {
		signed := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".pem")
		sign := exec.CommandContext(t.Context(), "sh", "-ec", `openssl x509 -req -in operator.csr -CA us-east1-ca.pem -CAkey us-east1-ca-key.pem -CAcreateserial -days 1 -extfile /dev/stdin -out "$1" <<EOF
subjectAltName = URI:spiffe://homeward/$2
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
EOF
cat us-east1-ca.pem >> "$1"`, "sh", signed, name)
		sign.Dir = dir
		out, err := sign.CombinedOutput()
		require.NoError(t, err, string(out))
		text, err := os.ReadFile(signed)
		require.NoError(t, err)
		var chain [][]byte
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			chain = append(chain, block.Bytes)
		}
		err = certs.Server().VerifyPeerCertificate(chain, nil)
		own, ownErr := NewTLS(TLSConfig{CertFile: signed, KeyFile: file("operator-key.pem"), CAFile: file("ca.pem"), TrustDomain: domain})
		if want {
			require.NoError(t, err, name)
			require.NoError(t, ownErr)
			require.Equal(t, us, own.Identity().Region)
			continue
		}
		require.ErrorContains(t, err, "signs for nodes of its region alone", name)
		require.ErrorContains(t, ownErr, "signs for nodes of its region alone", name)
	}
}
