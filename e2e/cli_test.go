package e2e

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/build"
)

// demo is a demo that a test starts, stops and kills.
type demo struct {
	*caller
	t    *testing.T
	ctx  context.Context
	args []string
	data string
	j    *judge
	cmd  *command
}

const demoOnly = "homeward demo keeps its rows in the embedded store"

func newDemo(t *testing.T) *demo {
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	port, data, j := ports(t), filepath.Join(t.TempDir(), "data"), newJudge(t)
	return &demo{
		caller: newCaller(t, demoBases(port)), t: t, ctx: ctx, data: data, j: j,
		args: []string{"demo", "--config", quickSettings(t), "--psp", j.url, "--data", data,
			"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--rpc-listen", "127.0.0.1:0", "--wan", stormDistances},
	}
}

func (d *demo) start() {
	d.t.Helper()
	d.cmd = runCommand(d.t, d.args...)
	d.cmd.ready()
}

// interrupt is Ctrl-C.
func (d *demo) interrupt() {
	d.t.Helper()
	require.NoError(d.t, d.cmd.cmd.Process.Signal(syscall.SIGINT))
}

// drained asserts a clean end.
func (d *demo) drained() {
	d.t.Helper()
	require.Zero(d.t, d.cmd.exit(), "%s", d.cmd.stderr)
	require.Contains(d.t, d.cmd.stdout.String(), "drained")
}

// refused asserts that the command ends with code 1 and one line on stderr with all of these.
func refused(t *testing.T, c *command, says ...string) {
	t.Helper()
	require.Equal(t, 1, c.exit(), "%s%s", c.stdout, c.stderr)
	line := strings.TrimSuffix(c.stderr.String(), "\n")
	require.NotContains(t, line, "\n", "more than one line")
	require.True(t, strings.HasPrefix(line, "homeward: "), line)
	for _, s := range says {
		require.Contains(t, line, s)
	}
}

func demoCharge(key string, amount int) request {
	q := charge(key, amount)
	q.tenant = demoAcme
	return q
}

// TestCommandRefuses starts the command wrongly.
func TestCommandRefuses(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "homeward.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for _, tc := range []struct {
		name string
		args []string
		says []string
	}{
		{"unknown region in --wan", []string{"--wan", "us-east1:mars=80ms"}, []string{"--wan", `"mars"`, "us-east1", "europe-west1"}},
		{"distance without a unit", []string{"--wan", "us-east1:europe-west1=80"}, []string{"--wan", "80ms"}},
		{"no such file", []string{"--config", "/nonexistent.yaml"}, []string{"/nonexistent.yaml"}},
		{"unknown setting", []string{"--config", file("colour: red\n")}, []string{"colour"}},
		{"duration without a unit", []string{"--config", file("claim:\n  lease: 30\n")}, []string{"30s"}},
		{"heartbeat slower than the lease", []string{"--config", file("claim:\n  renew_every: 1m\n")}, []string{"renew_every", "lease"}},
		{"not YAML", []string{"--config", file("claim: [\n")}, []string{"homeward.yaml"}},
		{"data is a file", []string{"--data", plain}, []string{plain}},
		{"no such address", []string{"--listen", "nowhere"}, []string{"--listen", "HOST:PORT"}},
		{"latency below 0", []string{"--psp-latency", "-1s"}, []string{"--psp-latency"}},
		{"no such flag", []string{"--colour", "red"}, []string{"--colour", "--help"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"demo", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d")}
			refused(t, runCommand(t, append(args, tc.args...)...), tc.says...)
		})
	}
}

// TestPortInUse: the port's owner goes on, and the store is unchanged.
func TestPortInUse(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	d := newDemo(t)
	l, err := net.Listen("tcp", strings.TrimPrefix(d.base(eu), "http://"))
	require.NoError(t, err)
	refused(t, runCommand(t, d.args...), l.Addr().String(), "in use", "choose another address")
	require.NoError(t, l.Close())
	d.start()
	require.Equal(t, http.StatusCreated, d.send(d.ctx, eu, demoCharge("order-1", 1)).Status)
	d.interrupt()
	d.drained()
}

// TestStoreInUseAndDamaged: a second process is sent away, and so is one that
// finds the store damaged; with the damage mended nothing is lost.
func TestStoreInUseAndDamaged(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	d := newDemo(t)
	d.start()
	q := demoCharge("order-1", 1)
	first := d.send(d.ctx, us, q)
	require.NoError(t, first.Err)
	require.Equal(t, http.StatusCreated, first.Status, "%s", first.Body)

	store := filepath.Join(d.data, "store")
	refused(t, runCommand(t, "demo", "--psp", d.j.url, "--listen", "127.0.0.1:0", "--data", d.data), store, "in use", "choose another directory")
	d.interrupt()
	d.drained()

	manifests, err := filepath.Glob(filepath.Join(store, "MANIFEST-*"))
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	sound := map[string][]byte{}
	for _, m := range manifests {
		sound[m], err = os.ReadFile(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(m, []byte(strings.Repeat("damaged ", 100)), 0o600))
	}
	refused(t, runCommand(t, d.args...), store, "damaged", "backup")
	for m, content := range sound {
		require.NoError(t, os.WriteFile(m, content, 0o600))
	}
	d.start()
	again := d.send(d.ctx, asia, q)
	require.NoError(t, again.Err)
	require.Equal(t, first.Remembered(), again.Remembered())
	d.j.once(t, 1)
	d.interrupt()
	d.drained()
}

// TestCtrlCDrains: the request in hand is answered, then the command ends with 0.
func TestCtrlCDrains(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	d := newDemo(t)
	d.start()
	g := d.j.hold(t)
	done := make(chan *answer.Answer, 1)
	go func() { done <- d.send(d.ctx, us, demoCharge("order-1", 1)) }()
	receive(t, "the provider call", g.entered)
	d.interrupt()
	until(t, "no new request is taken", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.base(us), "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	g.release()
	r := receive(t, "the answer to the request in hand", done)
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusCreated, r.Status, "%s", r.Body)
	d.drained()
	d.j.once(t, 1)
}

// TestOthersReadNothingOfADemo: its directory, with store, keys, simulator's books and reports, is
// for its user alone, whatever the umask.
func TestOthersReadNothingOfADemo(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	c := runCommand(t, "demo", "--data", data, "--listen", "127.0.0.1:0", "--psp-latency", "0s")
	c.ready()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGINT))
	require.Zero(t, c.exit(), "%s", c.stderr)
	report := runCommand(t, "ledger", "verify", "--data", data)
	require.Zero(t, report.exit(), "%s", report.stderr)
	files := 0
	require.NoError(t, filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files++
			require.Zero(t, info.Mode().Perm()&0o077, "%s is %v", path, info.Mode())
		}
		return err
	}))
	require.Greater(t, files, 10)
	require.DirExists(t, filepath.Join(data, "runs"))
}

// TestKillNine: kill -9 and a restart on the same directory keep every answer.
func TestKillNine(t *testing.T) {
	embeddedOnly(t, demoOnly)
	t.Parallel()
	d := newDemo(t)
	d.start()
	var sent []request
	var answers []*answer.Answer
	for i, region := range regions {
		for j, key := range []string{fmt.Sprint("order-", i), stamped(t, regions[(i+1)%3])} {
			q := demoCharge(key, 10*i+j+1)
			r := d.send(d.ctx, region, q)
			require.NoError(t, r.Err)
			require.Equal(t, http.StatusCreated, r.Status, "%s", r.Body)
			sent, answers = append(sent, q), append(answers, r)
		}
	}
	d.cmd.kill()
	d.start()
	for i, q := range sent {
		for _, region := range regions {
			r := d.send(d.ctx, region, q)
			require.NoError(t, r.Err)
			require.Equal(t, answers[i].Remembered(), r.Remembered())
			require.Equal(t, "true", r.Header.Get("Idempotent-Replayed"))
		}
		changed := q
		changed.body = demoCharge("", 999).body
		require.Equal(t, http.StatusUnprocessableEntity, d.send(d.ctx, us, changed).Status)
	}
	d.j.once(t, len(sent))
	d.interrupt()
	d.drained()
}

// TestTheProgramHasItsLicences, of each library that Go reports in it.
func TestTheProgramHasItsLicences(t *testing.T) {
	t.Parallel()
	path := buildBinary(t)
	said, err := exec.Command(path, "licenses", "--json").Output()
	require.NoError(t, err)
	var all []build.Library
	require.NoError(t, json.Unmarshal(said, &all))
	info, err := buildinfo.ReadFile(path)
	require.NoError(t, err)
	versions := map[string]string{}
	for _, l := range all {
		require.NotEmpty(t, l.SPDX(), l.Name)
		versions[l.Name] = l.Version
	}
	for _, m := range info.Deps {
		require.Equal(t, m.Version, versions[m.Path], m.Path)
	}
	said, err = exec.Command(path, "licenses", "--text").Output()
	require.NoError(t, err)
	require.Contains(t, string(said), "Mozilla Public License, version 2.0")
}
