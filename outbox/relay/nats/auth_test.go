package nats_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay/nats"
)

func write(t testing.TB, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestTLSIsVerified(t *testing.T) {
	https := httptest.NewTLSServer(nil) // for its certificate
	defer https.Close()
	srv := start(t, t.TempDir(), -1, func(o *server.Options) {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, &tls.Config{Certificates: https.TLS.Certificates}, patience.Seconds()
	})
	url := "tls://" + srv.Addr().String()
	_, err := nats.Open(t.Context(), nats.Config{URL: url, Create: true})
	require.ErrorContains(t, err, "certificate")

	ca := write(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}))
	s := open(t, nats.Config{URL: url, Create: true, CAFile: ca})
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
}

// account makes one of an operator's accounts, with as much of everything as it
// likes.
func account(t testing.TB, operator nkeys.KeyPair, streams bool) (key nkeys.KeyPair, id, token string) {
	t.Helper()
	key, err := nkeys.CreateAccount()
	require.NoError(t, err)
	id, err = key.PublicKey()
	require.NoError(t, err)
	claims := jwt.NewAccountClaims(id)
	if streams {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	}
	token, err = claims.Encode(operator)
	require.NoError(t, err)
	return key, id, token
}

func TestACredentialsFileOpensTheDoor(t *testing.T) {
	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	operatorID, err := operator.PublicKey()
	require.NoError(t, err)
	claims := jwt.NewOperatorClaims(operatorID)
	_, systemID, systemToken := account(t, operator, false)
	ours, id, token := account(t, operator, true)
	resolver := &server.MemAccResolver{}
	require.NoError(t, resolver.Store(systemID, systemToken))
	require.NoError(t, resolver.Store(id, token))
	srv := start(t, t.TempDir(), -1, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{claims}, resolver, systemID
	})

	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	userID, err := user.PublicKey()
	require.NoError(t, err)
	userToken, err := jwt.NewUserClaims(userID).Encode(ours)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(userToken, seed)
	require.NoError(t, err)

	_, err = nats.Open(t.Context(), nats.Config{URL: srv.ClientURL(), Create: true})
	require.ErrorContains(t, err, "check the URL, the credentials")
	s := open(t, nats.Config{URL: srv.ClientURL(), Create: true, Credentials: write(t, creds)})
	require.Equal(t, outbox.Done(), verdict(t, s, event("evt_1")))
}

// Events, and the credentials that come before them, go to another machine by TLS or not
// at all, unless a setting says otherwise.
func TestEventsLeaveTheMachineByTLSOnly(t *testing.T) {
	refusal := "without TLS"
	nowhere := func(c nats.Config) error { // what it finds wrong before it connects
		c.Stream = "A.B"
		_, err := nats.Open(t.Context(), c)
		return err
	}
	for _, url := range []string{"nats://nats.example:4222", "nats.example", "nats://127.0.0.1:4222,nats://10.0.0.1:4222", "ws://nats.example"} {
		err := nowhere(nats.Config{URL: "nats://me:hunter2@a.example," + url})
		require.ErrorContains(t, err, refusal)
		require.ErrorContains(t, nowhere(nats.Config{URL: url}), refusal)
		require.ErrorContains(t, err, "allow_plaintext")
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, nowhere(nats.Config{URL: url, AllowPlaintext: true}).Error(), refusal)
	}
	for _, c := range []nats.Config{
		{URL: "tls://nats.example"}, {URL: "nats://127.0.0.1:4222, localhost, nats://[::1]:4222"}, {URL: "nats://nats.example", CAFile: "ca.pem"},
	} {
		require.NotContains(t, nowhere(c).Error(), refusal, c.URL)
	}
}
