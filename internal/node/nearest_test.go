package node

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASlipIsCorrected: the error for a name that is almost a setting names the setting, and for
// another word it does not.
func TestASlipIsCorrected(t *testing.T) {
	for written, means := range map[string]string{
		"claim: {leese: 20s}":                      "no setting named claim.leese; did you mean claim.lease?",
		"databse: {max_conns: 3}":                  "no setting named databse.max_conns; did you mean database.max_conns?",
		"console: {tls: {cert: a}}":                "no setting named console.tls.cert; did you mean console.cert?",
		"rpc_listen: 127.0.0.1:1":                  "no setting named rpc_listen; did you mean rpc.listen?",
		"providers: {a: {kind: stripe, naem: b}}":  "no setting named providers.a.naem; did you mean providers.a.name?",
		"HOMEWARD_CLAIM__LEESE=20s":                "no setting named claim.leese (from the variable HOMEWARD_CLAIM__LEESE); did you mean HOMEWARD_CLAIM__LEASE?",
		"HOMEWARD_RPC_LISTEN=127.0.0.1:1":          "no setting named rpc_listen (from the variable HOMEWARD_RPC_LISTEN); did you mean HOMEWARD_RPC__LISTEN?",
		"HOMEWARD_DATABASEURL=x":                   "no setting named databaseurl (from the variable HOMEWARD_DATABASEURL); did you mean HOMEWARD_DATABASE_URL?",
		"lease: 20s":                               "no setting named lease; did you mean claim.lease?",
		"HOMEWARD_SOMETHING_ELSE_ALTOGETHER=quite": "no setting named something_else_altogether (from the variable HOMEWARD_SOMETHING_ELSE_ALTOGETHER)",
		"something_else_altogether: quite":         "no setting named something_else_altogether",
	} {
		text, environ := written, []string(nil)
		if len(written) > 9 && written[:9] == envPrefix {
			text, environ = "", []string{written}
		}
		_, _, err := LoadServeSettings(write(t, text), environ)
		require.ErrorContains(t, err, means)
		if !strings.Contains(means, "did you mean") {
			require.NotContains(t, err.Error(), "did you mean")
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		is   int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"lease", "leese", 1}, {"ab", "ba", 2}} {
		require.Equal(t, c.is, distance(c.a, c.b), c)
		require.Equal(t, c.is, distance(c.b, c.a), c)
	}
}

// TestCertificatesThatCannotBeReadSayWhatTheyAre: the node's own, and the console's.
func TestCertificatesThatCannotBeReadSayWhatTheyAre(t *testing.T) {
	gone, other := filepath.Join(t.TempDir(), "gone.pem"), write(t, "no certificate")
	_, err := TLSSettings{Cert: gone, Key: gone, CA: gone, TrustDomain: defaultTrustDomain}.open("us-east1", slog.Default())
	require.ErrorContains(t, err, "settings: tls.cert: there is no file "+gone)
	require.ErrorContains(t, err, "Rotate certificates")
	for path, says := range map[string]string{gone: "settings: console.cert: there is no file " + gone, other: "settings: console.cert " + other} {
		console := ConsoleSettings{Listen: "127.0.0.1:0", Cert: path, Key: path}
		_, err = console.open(nil, "", slog.Default())
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "names the console's host")
		err = CheckFiles(ServeSettings{Console: console, TLS: TLSSettings{CA: gone}}, slog.Default())
		require.ErrorContains(t, err, says, "homeward config check prints it, too")
	}
}
