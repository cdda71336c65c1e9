package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
)

// restorable is a deployment of two regions or more that is backed up and put back, with
// what an operator has for it, and nothing else.
type restorable interface {
	// start starts every node, end ends them as SIGTERM does.
	start()
	end()
	// back makes a backup, and forward puts it back beside what is in use, and uses it.
	back()
	forward()
	// command runs homeward, on the store that is in use.
	command(args ...string) *command
	final(region string, q request, status int) *answer.Answer
	send(region string, q request) *answer.Answer
	once(moved int)
	// paid sends a request that was declined for now until it is paid.
	paid(region string, q request) *answer.Answer
}

// restoreAudit are the settings of an export that keeps up with a test.
func restoreAudit(bucket string) string {
	return fmt.Sprintf("\naudit: {bucket: \"file://%s\", every: 100ms, window: 1s, settle: 200ms}\n", bucket)
}

// TestRestore puts a deployment back to a backup, and sends every request again that it has
// lost: money moves once for each, and its answer is the one that was given before.
func TestRestore(t *testing.T) {
	t.Parallel()
	bucket := filepath.Join(t.TempDir(), "audit")
	if onSQL() {
		restoreStory(t, newRestoredDatabase(t, bucket), bucket)
	} else {
		restoreStory(t, newRestoredDemo(t, bucket), bucket)
	}
}

func restoreStory(t *testing.T, d restorable, bucket string) {
	ok := func(args ...string) string {
		t.Helper()
		c := d.command(args...)
		require.Zero(t, c.exit(), "%s", c.stderr)
		return c.stdout.String()
	}
	declined := charge("refused", 130)
	declined.body = `{"amount":130,"currency":"usd","payment_method":"pm_card_stolen"}`
	requests := []request{
		charge("before", 100), charge("opaque-us", 110), charge("opaque-eu", 120), declined, charge(stamped(t, us), 140), transfer(stamped(t, eu), 150),
	}
	entry := []string{us, us, eu, eu, eu, us}
	status := []int{201, 201, 201, 402, 201, 201}
	first := make([]*answer.Answer, len(requests))

	d.start()
	first[0] = d.final(entry[0], requests[0], status[0])
	soft := charge("soft", 125)
	soft.body = `{"amount":125,"currency":"usd","payment_method":"pm_card_insufficient_funds_once"}`
	require.Equal(t, http.StatusPaymentRequired, d.send(us, soft).Status)
	d.back()
	made := time.Now()
	for i := 1; i < len(requests); i++ {
		first[i] = d.final(entry[i], requests[i], status[i])
	}
	// A card that was declined before the backup, and paid after it.
	paid := d.paid(us, soft)
	requests, status, first = append(requests, soft), append(status, 201), append(first, paid)
	// What the bucket has when the store is lost; the last charge is not among it.
	exported(t, bucket, requests[1:])
	witnesses := filepath.Join(t.TempDir(), "known")
	require.NoError(t, os.CopyFS(witnesses, os.DirFS(bucket)))
	tail := charge("tail", 160)
	last := d.final(eu, tail, http.StatusCreated)
	moved := 7
	d.once(moved)
	began := []string{"restore", "begin", "--backup-time", made.Format(time.RFC3339Nano), "--by", "ops", "--why", "a lost disk"}
	require.NotZero(t, d.command(began...).exit(), "nodes run")
	d.end()
	stopped := time.Now()
	ok("audit", "export", "--bucket", "file://"+bucket) // the old store can be read still

	d.forward()
	require.Contains(t, d.command("restore", "end").failed()+ok("restore", "show"), "no restore is in effect")
	began = append(began, "--stopped-at", stopped.Format(time.RFC3339Nano))
	ok(began...)
	require.Contains(t, ok("restore", "audit", "--bucket", "file://"+witnesses), "withheld")
	d.start()

	// All that the bucket has is answered as it was; by a request that is changed, not.
	again := func() {
		t.Helper()
		for i, q := range requests {
			for _, region := range []string{us, eu} {
				require.Equal(t, first[i].Remembered(), d.final(region, q, status[i]).Remembered(), q.key)
			}
		}
		d.once(moved)
	}
	other := charge("opaque-us", 111)
	d.final(eu, other, http.StatusUnprocessableEntity)
	again()
	// The others have no witness, neither those that were sent before nor new ones.
	for _, q := range []request{tail, charge("new", 170), charge(stamped(t, us), 180)} {
		for _, region := range []string{us, eu} {
			r := d.send(region, q)
			require.NoError(t, r.Err)
			require.Equal(t, "idempotency_key_withheld", r.Problem.Error, "%s", r.Body)
			require.Equal(t, "same_key", r.Problem.Retry)
			require.NotZero(t, r.Problem.RetryAfterMS)
		}
	}
	d.once(moved)
	// But keys that were handed out since, in any region.
	minted := d.send(eu, request{tenant: acme, path: "/v1/idempotency-keys", body: `{"count":1}`})
	require.Equal(t, http.StatusOK, minted.Status)
	d.final(us, charge(mintedKey(t, minted), 190), http.StatusCreated)
	moved++
	d.once(moved)

	// The whole audit shows every lost claim. A key that it lacks was not used.
	d.end()
	require.Contains(t, ok("restore", "audit", "--bucket", "file://"+bucket), "every lost claim that matters")
	d.start()
	require.Equal(t, last.Remembered(), d.final(us, tail, http.StatusCreated).Remembered())
	d.once(moved)
	d.final(us, charge("new", 170), http.StatusCreated)
	moved++
	again()
	d.end()
	require.Contains(t, d.command("restore", "end").failed(), "count as used until")
	require.Contains(t, ok("audit", "verify", "--bucket", "file://"+bucket, "--stale", "0"), us)
}

// TestRestoreForgotten restores a deployment from a backup, and starts its nodes without restore
// begin. They find it by the audit's bucket, which was not restored: nothing is charged again.
func TestRestoreForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRestore restores a database")
	}
	t.Parallel()
	bucket := filepath.Join(t.TempDir(), "audit")
	if onSQL() {
		forgottenStory(t, newRestoredDatabase(t, bucket), bucket)
	} else {
		forgottenStory(t, newRestoredDemo(t, bucket), bucket)
	}
}

func forgottenStory(t *testing.T, d restorable, bucket string) {
	ok := func(args ...string) string {
		t.Helper()
		c := d.command(args...)
		require.Zero(t, c.exit(), "%s", c.stderr)
		return c.stdout.String()
	}
	before, lost := charge("before", 100), charge("lost", 110)
	d.start()
	kept := d.final(us, before, http.StatusCreated)
	d.back()
	made := time.Now()
	first := d.final(us, lost, http.StatusCreated)
	exported(t, bucket, []request{lost})
	segments := func() int {
		all, err := filepath.Glob(filepath.Join(bucket, us, "*", "*.audit"))
		require.NoError(t, err)
		return len(all)
	}
	enough := segments() + 2
	until(t, "two windows pass", func() bool { return segments() >= enough })
	d.end()
	stopped := time.Now()

	d.forward()
	d.start() // without homeward restore begin
	require.Equal(t, kept.Remembered(), d.final(eu, before, http.StatusCreated).Remembered())
	for _, region := range []string{us, eu} {
		for _, q := range []request{lost, charge("new", 170)} {
			r := d.send(region, q)
			require.NoError(t, r.Err)
			require.Equal(t, "idempotency_key_withheld", r.Problem.Error, "%s", r.Body)
		}
	}
	d.once(2)
	d.end()
	require.Contains(t, ok("restore", "show"), "the database has no record of it")
	// Then an operator begins the restore after all, with the same result as in time.
	ok("restore", "begin", "--backup-time", made.Format(time.RFC3339Nano), "--stopped-at", stopped.Format(time.RFC3339Nano), "--by", "ops", "--why", "a lost disk")
	ok("restore", "audit", "--bucket", "file://"+bucket)
	d.start()
	require.Equal(t, first.Remembered(), d.final(eu, lost, http.StatusCreated).Remembered())
	d.once(2)
	d.end()
}

// failed waits for the end of a command that fails, and returns its output.
func (c *command) failed() string {
	c.t.Helper()
	require.NotZero(c.t, c.exit())
	return c.stderr.String()
}

// exported waits until the bucket has all of these, to their end.
func exported(t *testing.T, bucket string, requests []request) {
	t.Helper()
	b, err := node.OpenAudit(t.Context(), "file://"+bucket)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	archive := audit.Archive{Objects: b} // verified later
	for _, q := range requests {
		until(t, q.key+" is exported", func() bool {
			found, _, err := archive.Find(t.Context(), audit.Wanted{Tenant: "acme", Key: q.key})
			require.NoError(t, err)
			begun := slices.ContainsFunc(found, func(f audit.Found) bool { return f.Life != nil && (q.key != "soft" || f.Generation == 2) })
			return begun && slices.ContainsFunc(found, func(f audit.Found) bool { return f.Event == claim.EventSettled })
		})
	}
}

func mintedKey(t *testing.T, r *answer.Answer) string {
	t.Helper()
	var minted struct{ Keys []string }
	require.NoError(t, json.Unmarshal(r.Body, &minted))
	require.Len(t, minted.Keys, 1)
	return minted.Keys[0]
}

// restoredDemo is a demo with a directory that is copied while it is stopped.
type restoredDemo struct {
	*demo
	backup string
}

func newRestoredDemo(t *testing.T, bucket string) *restoredDemo {
	d := &restoredDemo{newDemo(t), filepath.Join(t.TempDir(), "backup")}
	settings := quickSettings(t)
	text, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settings, append(text, restoreAudit(bucket)...), 0o600))
	d.args[2] = settings
	return d
}

func (d *restoredDemo) end() { d.interrupt(); d.drained() }

func (d *restoredDemo) back() {
	d.end()
	require.NoError(d.t, os.CopyFS(d.backup, os.DirFS(d.data)))
	d.start()
}

func (d *restoredDemo) forward() {
	require.NoError(d.t, os.Rename(d.data, d.data+"-lost"))
	require.NoError(d.t, os.CopyFS(d.data, os.DirFS(d.backup)))
}

func (d *restoredDemo) command(args ...string) *command {
	if args[0] != "audit" || args[1] != "verify" {
		args = append(args, "--config", d.args[2])
	}
	return runCommand(d.t, append(args, "--data", d.data)...)
}

func (d *restoredDemo) final(region string, q request, status int) *answer.Answer {
	d.t.Helper()
	q.tenant = demoAcme
	r := d.settle(d.ctx, region, q, nil)
	require.NoError(d.t, r.Err)
	require.Equal(d.t, status, r.Status, "%s: %s", q.key, r.Body)
	return r
}

func (d *restoredDemo) send(region string, q request) *answer.Answer {
	q.tenant = demoAcme
	return d.caller.send(d.ctx, region, q)
}

func (d *restoredDemo) once(moved int) { d.t.Helper(); d.j.once(d.t, moved) }

func (d *restoredDemo) paid(region string, q request) *answer.Answer {
	return untilPaid(d.t, func() *answer.Answer { return d.send(region, q) })
}

func untilPaid(t *testing.T, send func() *answer.Answer) (r *answer.Answer) {
	t.Helper()
	until(t, "it is paid", func() bool {
		r = send()
		return r.Status == http.StatusCreated
	})
	return r
}

// restoredDatabase is a database that is dumped while nodes run, and restored as another.
type restoredDatabase struct {
	*served
	backup string
}

func newRestoredDatabase(t *testing.T, bucket string) *restoredDatabase {
	c := localdb.Config{Kind: localdb.PostgreSQL}
	if onCockroach() { // on disks, beside which its nodes keep backups
		c = localdb.Config{Kind: localdb.CockroachDB, Regions: []string{us, eu}, Durable: true}
	}
	d := &restoredDatabase{newServedOn(t, c), filepath.Join(t.TempDir(), "backup")}
	key, err := audit.NewKey()
	require.NoError(t, err)
	d.extra, d.env = restoreAudit(bucket), []string{"HOMEWARD_AUDIT_KEYS=" + key}
	return d
}

func (d *restoredDatabase) start() {
	d.served.start(us)
	d.served.start(eu)
}

func (d *restoredDatabase) end() {
	for _, n := range d.nodes {
		require.NoError(d.t, n.cmd.Process.Signal(syscall.SIGTERM))
	}
	for region, n := range d.nodes {
		require.Zero(d.t, n.exit(), region)
	}
	d.nodes = map[string]*serveNode{}
}

func (d *restoredDatabase) run(args ...string) {
	d.t.Helper()
	out, err := exec.CommandContext(d.ctx, args[0], args[1:]...).CombinedOutput()
	require.NoError(d.t, err, "%s", out)
}

// cockroachBackup is where the first node keeps it: Cockroach Labs' documentation, "BACKUP" and
// "RESTORE", with a full backup of a database that is restored under another name.
const cockroachBackup = "'nodelocal://1/backup'"

func (d *restoredDatabase) back() {
	if onCockroach() {
		err := d.execute("BACKUP DATABASE homeward INTO " + cockroachBackup)
		if needs := new(pgconn.PgError); errors.As(err, &needs) && needs.Code == "XXC01" {
			d.t.Skip("this CockroachDB was built without BACKUP: ", needs.Message)
		}
		require.NoError(d.t, err)
		return
	}
	d.run("pg_dump", "--format=custom", "--file", d.backup, d.url)
}

func (d *restoredDatabase) forward() {
	if onCockroach() {
		require.NoError(d.t, d.execute("RESTORE DATABASE homeward FROM LATEST IN "+cockroachBackup+" WITH new_db_name = 'restored'"))
		d.url = d.server.URL("", "restored")
		return
	}
	require.NoError(d.t, d.server.CreateDatabase(d.ctx, "restored", ""))
	d.url = d.server.URL("", "restored")
	d.run("pg_restore", "--no-owner", "--dbname", d.url, d.backup)
}

func (d *restoredDatabase) execute(statement string) error {
	conn, err := pgx.Connect(d.ctx, d.server.URL("", ""))
	require.NoError(d.t, err)
	_, err = conn.Exec(d.ctx, statement)
	return errors.Join(err, conn.Close(d.ctx))
}

func (d *restoredDatabase) command(args ...string) *command {
	return runCommandIn(d.t, append(d.env, "HOMEWARD_DATABASE_URL="+d.url), args...)
}

func (d *restoredDatabase) send(region string, q request) *answer.Answer {
	return d.caller.send(d.ctx, region, q)
}

func (d *restoredDatabase) once(moved int) { d.t.Helper(); d.judge.once(d.t, moved) }

func (d *restoredDatabase) paid(region string, q request) *answer.Answer {
	return untilPaid(d.t, func() *answer.Answer { return d.send(region, q) })
}
