package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
)

// onlyWith hides every setting and secret in the environment of the tests but these.
func onlyWith(t testing.TB, environ ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "HOMEWARD_") {
			t.Setenv(name, "") // brings it back in the end
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

func settingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// migrated is an own database with these regions.
func migrated(t testing.TB, regions string) (url string) {
	t.Helper()
	url = emptyDatabase(t)
	does(t, "migrate", "up", "--regions", regions)
	return url
}

// inClear is for nodes that store no secret.
const inClear = "\nseal: false\n"

// freePorts lets a node take any.
const freePorts = "\napi: {listen: '127.0.0.1:0'}\nrpc: {listen: '127.0.0.1:0'}\ngossip: {listen: '127.0.0.1:0'}\nmetrics: {listen: '127.0.0.1:0'}\n" + inClear

// serving is homeward serve in this process.
type serving struct {
	t    *testing.T
	end  context.CancelFunc
	code chan int
	out  *bufio.Reader
	line string
	api  string
	errs *strings.Builder // to be read once it has ended
}

func serveHere(t *testing.T, settings string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	s := &serving{t: t, end: cancel, code: make(chan int, 1), out: bufio.NewReader(r)}
	var errs strings.Builder
	s.errs = &errs
	go func() {
		code := run(ctx, []string{"serve", "--config", settingsFile(t, settings)}, streams{w, &errs})
		_ = w.CloseWithError(fmt.Errorf("serve ended with %d: %s", code, &errs))
		s.code <- code
	}()
	var err error
	s.line, err = s.out.ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(`^homeward (\S+) in (\S+): API (http://\S+), RPC (\S+), gossip (\S+), database (PostgreSQL|CockroachDB) `).FindStringSubmatch(s.line)
	require.NotNil(t, found, s.line)
	s.api = found[3]
	return s
}

// stop is SIGTERM.
func (s *serving) stop() {
	s.t.Helper()
	s.end()
	rest, err := io.ReadAll(s.out)
	require.ErrorContains(s.t, err, "serve ended with 0")
	require.Contains(s.t, string(rest), "drained")
	require.Zero(s.t, <-s.code)
}

func TestServe(t *testing.T) {
	url := migrated(t, "us-east1,europe-west1")
	secret := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(secret, []byte(url+"\n"), 0o600))
	onlyWith(t, node.DatabaseURL+"_FILE="+secret, "HOMEWARD_NODE__REGION=europe-west1")
	s := serveHere(t, "node: {name: till}"+strings.Replace(freePorts, "rpc: {", "rpc: {advertise: '[127.0.0.1]:7081', ", 1))
	require.Regexp(t, `^homeward till-[0-9a-f]{8} in europe-west1: .* RPC 127\.0\.0\.1:7081,`, s.line, "no URL has brackets around IPv4")
	res, err := http.Get(s.api + "/readyz")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)

	taken := strings.TrimPrefix(s.api, "http://")
	for _, what := range []string{"api", "rpc", "gossip"} {
		refuses(t, []string{what, taken, "in use", "another"}, "serve", "--config",
			settingsFile(t, strings.Replace(freePorts, what+": {listen: '127.0.0.1:0'}", what+": {listen: '"+taken+"'}", 1)))
	}
	s.stop()
	// It was the owner of the tables.
	require.Contains(t, s.errs.String(), `"level":"WARN","msg":"user`)
	require.Contains(t, s.errs.String(), "may UPDATE, DELETE")
}

func TestServeRefusesToStart(t *testing.T) {
	empty := emptyDatabase(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	file := settingsFile(t, freePorts)

	onlyWith(t)
	refuses(t, []string{"HOMEWARD_DATABASE_URL"}, "serve", "--config", file)
	refuses(t, []string{"no file", "nowhere.yaml"}, "serve", "--config", "nowhere.yaml")
	refuses(t, []string{"regions", "homeward demo"}, "serve", "--config", settingsFile(t, "regions: []"))
	onlyWith(t, "HOMEWARD_DATABASE_URL=postgres://me:hunter2@"+nobody+"/homeward")
	refuses(t, []string{nobody, "cannot be reached", "check HOMEWARD_DATABASE_URL"}, "config", "check", "--database", "--config", file)
	_, _, said := homeward(t, "config", "check", "--database", "--config", file)
	require.NotContains(t, said, "hunter2")
	refuses(t, []string{"gossip", "HOMEWARD_GOSSIP_KEY"}, "serve", "--config", settingsFile(t, "gossip: {listen: '0.0.0.0:0', advertise: '10.0.0.1:7946'}"+inClear))
	refuses(t, []string{"gossip.listen 0.0.0.0:7946", "gossip.advertise"}, "serve", "--config", settingsFile(t, "gossip: {listen: '0.0.0.0:7946'}"+inClear))
	refuses(t, []string{"there is no sealing key", "HOMEWARD_SEAL_KEYS", "seal: false"}, "serve", "--config", settingsFile(t, "node: {region: us-east1}"))
	onlyWith(t, "HOMEWARD_DATABASE_URL=a", "HOMEWARD_DATABASE_URL_FILE=b")
	refuses(t, []string{"HOMEWARD_DATABASE_URL_FILE", "both"}, "serve", "--config", file)
	onlyWith(t, "HOMEWARD_DATABASE_URL="+empty)
	refuses(t, []string{"schema version 0", "homeward migrate up --regions"}, "serve", "--config", file)
	does(t, "migrate", "up", "--regions", "europe-west1")
	refuses(t, []string{`"us-east1"`, "homeward migrate up --regions"}, "serve", "--config", file)
}

// A database that takes no writes is refused by serve and by config check.
func TestNoNodeOnADatabaseThatTakesNoWrites(t *testing.T) {
	url := migrated(t, "us-east1")
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{conn.Config().Database}.Sanitize()+" SET default_transaction_read_only = on")
	if conn.PgConn().ParameterStatus("crdb_version") != "" { // whose root does not get a database's defaults
		_, failed := conn.Exec(t.Context(), "CREATE USER IF NOT EXISTS tester; GRANT admin TO tester")
		err, url = errors.Join(err, failed), strings.Replace(url, "//root@", "//tester@", 1)
	}
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
	onlyWith(t, "HOMEWARD_DATABASE_URL="+url)
	refuses(t, []string{"takes no writes", "default_transaction_read_only", "target_session_attrs=read-write"}, "serve", "--config", settingsFile(t, freePorts))
	refuses(t, []string{"takes no writes", "target_session_attrs=read-write"}, "config", "check", "--database", "--config", settingsFile(t, freePorts))
}

func TestConfigCheck(t *testing.T) {
	url := migrated(t, "us-east1,europe-west1=7")
	onlyWith(t)
	code, out, errs := homeward(t, "config", "check", "--config",
		settingsFile(t, "node: {region: A B}\nlog: loud\nlease: 3s\nclaim: {lease: 1s}\ndatabase: {url: hunter2}"))
	require.Equal(t, 1, code)
	require.Empty(t, out)
	require.NotContains(t, errs, "hunter2")
	for _, say := range []string{"node.region", `log "loud"`, "lease", "renew_every", "lease_margin", "database.url", "no database is set"} {
		require.Contains(t, errs, say)
	}
	require.Contains(t, errs, "set HOMEWARD_SEAL_KEYS as all nodes have it")
	require.Equal(t, 8, strings.Count(errs, "\n"), errs)

	file := settingsFile(t, "node: {region: europe-west1}"+inClear)
	refuses(t, []string{"no database is set", "HOMEWARD_DATABASE_URL"}, "config", "check", "--config", file)
	refuses(t, []string{"HOMEWARD_DATABASE_URL"}, "config", "check", "--config", file, "--database")
	refuses(t, []string{"--settings-only"}, "config", "check", "--config", file, "--database", "--settings-only")
	out = does(t, "config", "check", "--config", file, "--settings-only")
	require.Contains(t, out, "# HOMEWARD_DATABASE_URL: not set")
	require.Contains(t, out, "region: europe-west1")

	onlyWith(t, "HOMEWARD_DATABASE_URL="+url, "HOMEWARD_PROVIDER_KEY=hunter2", "HOMEWARD_PROVIDER_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	out = does(t, "config", "check", "--config", file)
	require.Contains(t, out, "# HOMEWARD_PROVIDER_KEY: set\n# HOMEWARD_PROVIDER_WEBHOOK_SECRET: set\n")
	require.NotContains(t, out, "hunter2")
	require.NotContains(t, out, "answered 503")

	onlyWith(t, "HOMEWARD_DATABASE_URL="+url)
	out = does(t, "config", "check", "--config", file, "--database")
	require.Contains(t, out, "# HOMEWARD_PROVIDER_KEY: not set\n# HOMEWARD_PROVIDER_WEBHOOK_SECRET: not set\n")
	require.Contains(t, out, "# HOMEWARD_PROVIDER_WEBHOOK_SECRET is not set: every webhook of simulator is answered 503")
	require.Contains(t, out, "# HOMEWARD_DATABASE_URL: set\n# HOMEWARD_GOSSIP_KEY: not set\n")
	require.NotContains(t, out, url)
	require.Regexp(t, `# database: (PostgreSQL|CockroachDB) \S+, schema version \d+\n`, out)
	require.Contains(t, out, "# region: europe-west1, code 7, active\n")
	require.Regexp(t, `# user "\w+" of the database may UPDATE, DELETE\b.*homeward migrate roles`, out)
	again := does(t, "config", "check", "--config", settingsFile(t, out))
	require.Contains(t, out, again, "what is printed can be used")
	refuses(t, []string{`"us-east2"`, "homeward migrate up --regions"}, "config", "check", "--config", settingsFile(t, "node: {region: us-east2}"+inClear), "--database")
}

// config check refuses the settings that serve refuses at its start: a CA of NATS that is no file,
// traces in clear to another machine, a malformed secret of the provider.
func TestConfigCheckRefusesWhatServeDoes(t *testing.T) {
	url := migrated(t, "us-east1")
	const stripe = "provider: {kind: stripe, name: stripe, base_url: ''}"
	const adyen = "provider: {kind: adyen, name: adyen, base_url: '', adyen: {merchant_account: Shop, return_url: 'https://shop.example'}}"
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("nothing"), 0o600))
	for name, c := range map[string]struct {
		text    string
		environ []string
		says    string
	}{
		"no CA":                                 {"events: {nats: {url: 'tls://10.0.0.1:4222', ca: /nowhere/ca.pem}}", nil, "/nowhere/ca.pem"},
		"a CA that is none":                     {"events: {nats: {url: 'tls://10.0.0.1:4222', ca: " + garbage + "}}", nil, garbage},
		"no credentials":                        {"events: {nats: {url: 'tls://10.0.0.1:4222', credentials: /nowhere/creds}}", nil, "/nowhere/creds"},
		"no certificate":                        {"events: {nats: {url: 'tls://10.0.0.1:4222', cert: /nowhere/c.pem, key: /nowhere/k.pem}}", nil, "/nowhere/c.pem"},
		"NATS in clear":                         {"events: {nats: {url: 'nats://10.0.0.1:4222'}}", nil, "without TLS"},
		"traces in clear":                       {"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://10.0.0.1:4318"}, "traces.allow_plaintext"},
		"no exporter":                           {"", []string{"OTEL_TRACES_EXPORTER=pigeon"}, "pigeon"},
		"a secret in no form":                   {"", []string{"HOMEWARD_PROVIDER_WEBHOOK_SECRET=hunter2!"}, "base64"},
		"Stripe's API key for a webhook secret": {stripe, []string{"HOMEWARD_PROVIDER_KEY=sk_test_1", "HOMEWARD_PROVIDER_WEBHOOK_SECRET=sk_test_1"}, "whsec_"},
		"a second webhook secret that is none of Stripe's": {stripe, []string{"HOMEWARD_PROVIDER_KEY=sk_test_1", "HOMEWARD_PROVIDER_WEBHOOK_SECRET=whsec_1,hunter2"}, "whsec_"},
		"Adyen's HMAC key in no hexadecimal":               {adyen, []string{"HOMEWARD_PROVIDER_KEY=AQE_1", "HOMEWARD_PROVIDER_WEBHOOK_SECRET=whsec_1"}, "hexadecimal"},
	} {
		t.Run(name, func(t *testing.T) {
			onlyWith(t, append(c.environ, "HOMEWARD_DATABASE_URL="+url)...)
			file := settingsFile(t, freePorts+c.text)
			refuses(t, []string{c.says}, "config", "check", "--config", file)
		})
	}
}

// Whatever else is wrong, the database and the files are looked at, too.
func TestConfigCheckReportsEverything(t *testing.T) {
	url := migrated(t, "us-east1,europe-west1")
	certs := t.TempDir()
	does(t, "dev-certs", "--dir", certs, "--regions", "us-east1", "--nodes", "1")
	onlyWith(t, "HOMEWARD_DATABASE_URL="+url)
	files := func(node string) string {
		return fmt.Sprintf("tls: {cert: %[1]s/%[2]s.pem, key: %[1]s/%[2]s-key.pem, ca: %[1]s/ca.pem}\n", certs, node)
	}
	code, out, errs := homeward(t, "config", "check", "--database", "--config", settingsFile(t,
		"node: {region: us-east2}\nlog: loud\nclaim: {lease: 1s}\ndatabase: {max_conns: 0, min_conns: 0}\ngossip: {listen: '0.0.0.0:7946'}\n"+files("nowhere")))
	require.Equal(t, 1, code)
	require.Empty(t, out)
	for _, say := range []string{
		`log "loud"`, "renew_every", "max_conns", "HOMEWARD_GOSSIP_KEY", `there is no region "us-east2"`, "homeward migrate up --regions", "nowhere.pem",
	} {
		require.Equal(t, 1, strings.Count(errs, say), "%s in %s", say, errs)
	}
	refuses(t, []string{"us-east1", "this node is of europe-west1"}, "config", "check", "--config", settingsFile(t, "node: {region: europe-west1}\n"+files("us-east1-1")+inClear))
	does(t, "config", "check", "--config", settingsFile(t, "node: {region: europe-west1}\n"+files("us-east1-1")+inClear), "--settings-only")
	does(t, "config", "check", "--database", "--config", settingsFile(t, files("us-east1-1")+inClear))
}

// TestToolsPromiseNothing: neither a look nor a change of tenants decides on the
// windows that nodes may have.
func TestToolsPromiseNothing(t *testing.T) {
	url := migrated(t, "us-east1")
	does(t, "tenant", "create", "acme", "--name", "Acme", "--registrar", "us-east1")
	onlyWith(t, "HOMEWARD_DATABASE_URL="+url)
	long, short := settingsFile(t, "claim: {replay_for: 72h}"+freePorts), settingsFile(t, "claim: {replay_for: 1h}"+freePorts)
	does(t, "config", "check", "--database", "--config", long)
	does(t, "config", "check", "--database", "--config", short)
	s := serveHere(t, "claim: {replay_for: 72h}"+freePorts)
	refuses(t, []string{"claim.replay_for is 1h", "72h"}, "config", "check", "--database", "--config", short)
	does(t, "config", "check", "--database", "--config", long)
	require.Contains(t, does(t, "tenant", "list"), "acme")
	s.stop()
}

// TestAFileThatIsNoSettings: it may be the secret's own.
func TestAFileThatIsNoSettings(t *testing.T) {
	onlyWith(t, "HOMEWARD_DATABASE_URL=postgresql://127.0.0.1:1/homeward", node.SealKeys+"="+strings.TrimSpace(does(t, "secrets", "key")))
	file := settingsFile(t, "postgresql://hw:s3cret@127.0.0.1/homeward\n")
	for _, command := range [][]string{{"config", "check"}, {"serve"}, {"demo"}} {
		refuses(t, []string{file, "line 1", "not a YAML mapping of settings"}, append(command, "--config", file)...)
		_, _, said := homeward(t, append(command, "--config", file)...)
		require.NotContains(t, said, "s3cret")
	}
}

func TestTheDocumentedFileIsRight(t *testing.T) {
	onlyWith(t)
	require.Equal(t, does(t, "config", "check", "--settings-only"), does(t, "config", "check", "--settings-only", "--config", "../../docs/node.yaml"))
}
