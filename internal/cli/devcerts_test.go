package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/region"
)

func TestDevCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	out := does(t, "dev-certs", "--dir", dir, "--regions", "us-east1,europe-west1", "--nodes", "1", "--days", "3")
	names := map[string]os.FileMode{
		"ca.pem": 0o644, "us-east1-1.pem": 0o644, "us-east1-1-key.pem": 0o600, "europe-west1-1.pem": 0o644,
		"europe-west1-1-key.pem": 0o600, "operator.pem": 0o644, "operator-key.pem": 0o600,
		"reader.pem": 0o644, "reader-key.pem": 0o600, "treasurer.pem": 0o644, "treasurer-key.pem": 0o600,
	}
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, made, len(names))
	for name, mode := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
		require.Contains(t, out, filepath.Join(dir, name))
	}
	require.Contains(t, out, "spiffe://homeward/region/europe-west1/node/europe-west1-1")
	require.Contains(t, out, "spiffe://homeward/operator/dev/role/treasurer")

	load := func(who region.Identity) (*region.TLS, error) {
		files := lab.Certs{Dir: dir}.Files(who)
		return region.NewTLS(region.TLSConfig{
			CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA, TrustDomain: "homeward", Region: who.Region,
		})
	}
	for _, who := range []region.Identity{{Region: "us-east1", Node: "us-east1-1"}, {Region: "europe-west1", Node: "europe-west1-1"}, {Operator: "dev"}, {Operator: "dev", Role: region.RoleOperator}, {Operator: "dev", Role: region.RoleTreasurer}} {
		certs, err := load(who)
		require.NoError(t, err)
		require.Equal(t, who, certs.Identity())
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "operator.pem"), filepath.Join(dir, "operator-key.pem"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(3*24*time.Hour), pair.Leaf.NotAfter, time.Hour)
	require.Equal(t, x509.KeyUsageDigitalSignature, pair.Leaf.KeyUsage)

	// The command overwrites nothing without a flag, and makes nothing in part.
	before, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "us-east1-1.pem")))
	refuses(t, []string{"ca.pem", "exists", "--force"}, "dev-certs", "--dir", dir, "--regions", "us-east1")
	after, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, filepath.Join(dir, "us-east1-1.pem"))
	does(t, "dev-certs", "--dir", dir, "--regions", "us-east1", "--nodes", "1", "--force")
	_, err = load(region.Identity{Region: "us-east1", Node: "us-east1-1"})
	require.NoError(t, err)
	_, err = load(region.Identity{Region: "europe-west1", Node: "europe-west1-1"})
	require.ErrorContains(t, err, "not valid by CA file", "it is of the CA before")
}

func TestDevCertsRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	for says, args := range map[string][]string{
		"--regions":           {"--regions", "US East"},
		"named twice":         {"--regions", "a,a"},
		"--nodes must":        {"--regions", "a", "--nodes", "0"},
		"--days must":         {"--regions", "a", "--days", "366"},
		"not a trust domain":  {"--regions", "a", "--trust-domain", "My Bank"},
		"missing flags: --re": {},
	} {
		refuses(t, []string{says}, append([]string{"dev-certs", "--dir", dir}, args...)...)
		require.NoDirExists(t, dir)
	}
}
