package region

import (
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
)

// revoke writes the list of an authority that revokes the certificates in these files.
func revoke(t *testing.T, path string, by *devcerts.Authority, files ...*certFiles) {
	t.Helper()
	var certs [][]byte
	for _, f := range files {
		text, err := os.ReadFile(f.cert)
		require.NoError(t, err)
		certs = append(certs, text)
	}
	list, err := by.Revoke(time.Now().Add(5*time.Hour), certs...)
	require.NoError(t, err)
	newCertFiles(t).write(path, list)
}

// open loads the files, with a list of revoked certificates.
func (f *certFiles) open(list string, log *slog.Logger) (*TLS, error) {
	cfg := f.config()
	cfg.RevokedFile, cfg.Logger = list, log
	return NewTLS(cfg)
}

// newHolder has a certificate, and trusts who made it.
func newHolder(t *testing.T, ca *devcerts.Authority, who Identity) *certFiles {
	t.Helper()
	f := newCertFiles(t)
	f.issue(ca, uri(t, who))
	f.trust(ca)
	return f
}

// TestARevokedCertificateIsRefused at once, on new connections and on those that are open, of
// operators and of nodes, while all others go on. A list that cannot be used pages, and the former
// one stays in use.
func TestARevokedCertificateIsRefused(t *testing.T) {
	ca := authority(t)
	list := filepath.Join(t.TempDir(), "revoked.pem")
	revoke(t, list, ca)
	s := newReloading(t, nodeEU, ca, ca)
	log := newSignalling()
	cfg := s.certs.cfg
	cfg.RevokedFile, cfg.Logger = list, slog.New(log)
	var err error
	s.certs, err = NewTLS(cfg)
	require.NoError(t, err)
	node := startTLSNode(t, answering("ok"), s.certs, nil)

	stolen, kept := newHolder(t, ca, nodeUS), newHolder(t, ca, nodeUS)
	thief, err := stolen.open("", nil)
	require.NoError(t, err)
	other, err := kept.open("", nil)
	require.NoError(t, err)
	open, fine := tlsPeers(t, thief, nil, node), tlsPeers(t, other, nil, node)
	_, err = open.Execute(t.Context(), eu, requestFor(node, node), 1, us)
	require.NoError(t, err)
	goesOn := func() {
		t.Helper()
		_, err := fine.Execute(t.Context(), eu, requestFor(node, node), 1, us)
		require.NoError(t, err)
		_, err = calls(t, other, node)
		require.NoError(t, err)
	}
	goesOn()
	refused := func() {
		t.Helper()
		_, err := open.Execute(t.Context(), eu, requestFor(node, node), 1, us)
		require.ErrorIs(t, err, ErrNoAnswer, "on the open connection")
		_, err = calls(t, thief, node)
		require.Error(t, err, "on a new one")
		goesOn()
	}

	revoke(t, list, ca, stolen)
	s.pass()
	refused()
	log.await(t, "a peer request was refused", "is revoked")
	require.NoError(t, os.WriteFile(list, []byte("nothing"), 0o600))
	s.pass()
	refused()
	s.pass()
	refused()
	log.await(t, "page: the list of revoked certificates has changed and cannot be used")
	require.NoError(t, os.Remove(list))
	s.pass()
	refused()
	revoke(t, list, ca)
	s.pass()
	_, err = calls(t, thief, node)
	require.NoError(t, err, "a list that names it no more")

	// No node calls one with a revoked certificate.
	revoke(t, list, ca, s.certFiles)
	careful, err := kept.open(list, nil)
	require.NoError(t, err)
	_, err = calls(t, careful, node)
	require.ErrorContains(t, err, "is revoked")
}

// TestAListThatCannotBeTrusted keeps a node from starting, and so does none where one is named.
func TestAListThatCannotBeTrusted(t *testing.T) {
	ca, stranger := authority(t), authority(t)
	f := newHolder(t, ca, nodeEU)
	path := filepath.Join(t.TempDir(), "revoked.pem")
	refuses := func(why string) {
		t.Helper()
		_, err := f.open(path, nil)
		require.ErrorContains(t, err, "the list of revoked certificates "+path+" cannot be used: "+why)
		require.NotContains(t, err.Error(), "\n")
	}
	refuses("stat")
	for text, why := range map[string]string{"": "list 1", "hello": "list 1", "-----BEGIN X": "it has no list", string(ca.PEM()): "it has a CERTIFICATE"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		refuses(why)
	}
	revoke(t, path, ca, f)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	forged := append([]byte(nil), block.Bytes...)
	forged[len(forged)-1] ^= 1
	require.NoError(t, os.WriteFile(path, forged, 0o600))
	refuses("list 1, of CN=Homeward throw-away CA")
	require.NoError(t, os.WriteFile(path, block.Bytes, 0o600))
	_, err = f.open(path, nil)
	require.NoError(t, err, "DER")

	// A list of another CA revokes nothing here, whatever serial numbers it has.
	revoke(t, path, stranger, f)
	caller := newHolder(t, ca, nodeUS)
	certs, err := caller.open("", nil)
	require.NoError(t, err)
	log := &recorder{}
	server, err := f.open(path, slog.New(log))
	require.NoError(t, err)
	_, err = calls(t, certs, startTLSNode(t, answering("ok"), server, nil))
	require.NoError(t, err)
	require.NotContains(t, strings.Join(log.said(), "\n"), "revoked")
}
