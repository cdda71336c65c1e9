package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// placed is a deployment to which an operator adds regions and from which he takes them away, with
// homeward's commands, as docs/RUNBOOK.md says. Its nodes act for another region only while an
// operator has it marked down.
type placed struct {
	*restoredDatabase
	bucket string
	moved  int
	past   []remembered
}

// remembered is a request that was answered.
type remembered struct {
	q      request
	status int
	answer *answer.Answer
}

func newPlaced(t *testing.T, names ...string) *placed {
	if !onCockroach() {
		onPostgres(t)
	}
	bucket := filepath.Join(t.TempDir(), "audit")
	p := &placed{restoredDatabase: newRestoredDatabase(t, bucket), bucket: bucket}
	p.extra += "deputy_after: 1h\nsweep_every: 100ms\n"
	p.addRegions(names...)
	for _, r := range names {
		p.served.start(r)
	}
	return p
}

// ok runs a command on the database.
func (p *placed) ok(args ...string) string {
	p.t.Helper()
	c := p.command(args...)
	require.Zero(p.t, c.exit(), "%s", c.stderr)
	return c.stdout.String()
}

var rpcLine = regexp.MustCompile(`, RPC (\S+),`)

// ask runs a command that asks the node of a region.
func (p *placed) ask(region string, args ...string) string {
	p.t.Helper()
	at := rpcLine.FindStringSubmatch(p.nodes[region].stdout.String())
	require.NotNil(p.t, at)
	return p.ok(append(args, "--node", at[1])...)
}

// pay sends a request until it is answered, which is remembered.
func (p *placed) pay(region string, q request, status int) *answer.Answer {
	p.t.Helper()
	r := p.final(region, q, status)
	if status == http.StatusCreated {
		p.moved++
	}
	p.past = append(p.past, remembered{q, status, r})
	p.once(p.moved)
	return r
}

// again sends all that was answered to each region that has a node: the same bytes.
func (p *placed) again() {
	p.t.Helper()
	for region := range p.nodes {
		for _, one := range p.past {
			require.Equal(p.t, one.answer.Remembered(), p.final(region, one.q, one.status).Remembered(), "%s in %s", one.q.key, region)
		}
	}
	p.once(p.moved)
}

// gone ends a region's node by a signal.
func (p *placed) gone(region string, s syscall.Signal) (code int) {
	p.t.Helper()
	n := p.nodes[region]
	require.NoError(p.t, n.cmd.Process.Signal(s))
	delete(p.nodes, region)
	return n.exit()
}

// aged makes the database one in which two days and more have passed.
func (p *placed) aged() {
	p.run("psql", "--quiet", "--dbname", p.url, "-c", `UPDATE claims SET removable_at = now() - INTERVAL '1 h' WHERE removable_at IS NOT NULL;
		UPDATE pins SET created_at = created_at - INTERVAL '60 h'; UPDATE tenants SET registrar_moved_at = registrar_moved_at - INTERVAL '60 h'`)
}

// stale: a tenant's registrar that was moved from us to eu may be moved on once the pins at us are
// past their life, though no node of us lives to delete them.
func (p *placed) stale() {
	p.t.Helper()
	require.Contains(p.t, p.command("tenant", "move-registrar", "acme", "--to", asia).failed(), "wait until housekeeping has removed")
	p.aged()
	until(p.t, "the pins at the lost registrar are deleted", func() bool {
		return p.command("tenant", "move-registrar", "acme", "--to", asia).exit() == 0
	})
	p.past = nil // past their windows
}

// proven: the audit of what happened in a lost home, after it was lost, is in its chain.
func (p *placed) proven(q request) {
	p.t.Helper()
	exported(p.t, p.bucket, []request{q})
	require.Contains(p.t, p.ok("audit", "verify", "--bucket", "file://"+p.bucket, "--stale", "0"), us)
}

func servedBy(t *testing.T, r *answer.Answer, home, by string) {
	t.Helper()
	require.Equal(t, home, r.Header.Get("Homeward-Home-Region"))
	require.Equal(t, by, r.Header.Get("Homeward-Served-By"))
}

// TestLoseARegionForGood kills the node of a region that is home to keys, registrar of a
// tenant, and in the midst of a charge.
func TestLoseARegionForGood(t *testing.T) {
	if testing.Short() {
		t.Skip("an operator's procedure, in processes on a database")
	}
	t.Parallel()
	p := newPlaced(t, us, eu, asia)
	declined := charge("refused", 130)
	declined.body = `{"amount":130,"currency":"usd","payment_method":"pm_card_stolen"}`
	p.pay(us, charge("opaque-us", 100), http.StatusCreated)
	p.pay(eu, charge("opaque-eu", 110), http.StatusCreated)
	p.pay(asia, charge(stamped(t, us), 120), http.StatusCreated)
	p.pay(us, declined, http.StatusPaymentRequired)
	paid := p.pay(us, charge("to-be-refunded", 140), http.StatusCreated)
	p.again()

	g := p.judge.hold(t)
	underway, cut := charge(stamped(t, us), 150), make(chan *answer.Answer, 1)
	go func() { cut <- p.restoredDatabase.send(us, underway) }()
	receive(t, "the provider call", g.entered)
	p.judge.SetHooks(simulator.Hooks{})
	p.gone(us, syscall.SIGKILL)
	require.Error(t, receive(t, "the end of the connection", cut).Err)
	early := charge(stamped(t, us), 160)
	servedBy(t, p.pay(eu, early, http.StatusCreated), us, eu) // at once

	p.ask(eu, "region", "down", us, "--yes")
	// No client retries the charge under way: a deputy's worker recovers it.
	p.moved++
	until(t, "the charge under way is recovered", func() bool {
		s, err := p.inspect(p.ctx, asia, acme, underway.key)
		return err == nil && s.State == "COMPLETED"
	})
	g.release()
	p.past = append(p.past, remembered{underway, http.StatusCreated, p.final(eu, underway, http.StatusCreated)})
	servedBy(t, p.pay(asia, charge(stamped(t, us), 170), http.StatusCreated), us, asia)
	p.again()
	// A refund of what is at home there has its home elsewhere, as any new key.
	servedBy(t, p.pay(asia, refund("refund-1", chargeOf(t, paid).ID, 140), http.StatusCreated), asia, asia)

	// The registrar is lost, too.
	servedBy(t, p.pay(eu, charge("pinned-at-lost", 180), http.StatusCreated), eu, eu)
	require.Contains(t, p.ok("tenant", "move-registrar", "acme", "--to", eu), "instead of "+us)
	servedBy(t, p.pay(asia, charge("pinned-at-new", 190), http.StatusCreated), asia, asia)
	p.again()
	p.proven(early)
	require.Regexp(t, `(?m)^us-east1 .*\bdown\b`, p.ask(eu, "regions"))
	p.stale()
	servedBy(t, p.pay(eu, charge("pinned-at-third", 200), http.StatusCreated), eu, eu)
	p.again()
}

// TestRemoveARegion takes a region out for good: nothing that is at home there is lost.
func TestRemoveARegion(t *testing.T) {
	if testing.Short() {
		t.Skip("an operator's procedure, in processes on a database")
	}
	t.Parallel()
	p := newPlaced(t, us, eu, asia)
	p.pay(us, charge("opaque-us", 100), http.StatusCreated)
	p.pay(eu, charge("opaque-eu", 110), http.StatusCreated)
	p.pay(asia, charge(stamped(t, us), 120), http.StatusCreated)
	soft := charge("soft", 125)
	soft.body = `{"amount":125,"currency":"usd","payment_method":"pm_card_insufficient_funds_once"}`
	require.Equal(t, http.StatusPaymentRequired, p.restoredDatabase.send(us, soft).Status)
	minted := charge(stamped(t, us), 130) // and not used before the region is down

	require.Contains(t, p.ask(eu, "region", "drain", us), "safe to take down")
	require.Contains(t, p.ok("tenant", "list"), us)
	require.Contains(t, p.ok("tenant", "move-registrar", "acme", "--to", eu), "instead of "+us)
	require.Zero(t, p.gone(us, syscall.SIGTERM))
	p.ask(eu, "region", "down", us)
	for _, r := range []string{eu, asia} { // nodes that have never seen one of us
		require.Zero(t, p.gone(r, syscall.SIGTERM))
		p.served.start(r)
	}

	p.again()
	servedBy(t, p.pay(eu, minted, http.StatusCreated), us, eu)
	p.moved++
	done := p.paid(asia, soft)
	servedBy(t, done, us, asia)
	p.past = append(p.past, remembered{soft, http.StatusCreated, done})
	other := charge("opaque-us", 101)
	require.Equal(t, http.StatusUnprocessableEntity, p.restoredDatabase.send(eu, other).Status)
	servedBy(t, p.pay(eu, charge("new", 140), http.StatusCreated), eu, eu)
	answered := p.restoredDatabase.send(asia, request{tenant: acme, path: "/v1/idempotency-keys", body: `{"count":1}`})
	home, ok := claim.ReadStamp(mintedKey(t, answered))
	require.True(t, ok)
	require.NotEqual(t, codes[us], home)
	p.again()
	p.proven(minted)

	// Its row and its code stay.
	require.Contains(t, p.command("migrate", "up", "--regions", "us-west1=1").failed(), "code 1 belongs to region us-east1 permanently")
	require.Regexp(t, `(?m)^us-east1 .*\bdown\b`, p.ask(eu, "regions"))
	p.stale()
	// It may come back.
	p.pay(eu, charge(stamped(t, us), 150), http.StatusCreated)
	p.served.start(us)
	p.ask(eu, "region", "up", us)
	servedBy(t, p.pay(us, charge("home-again", 160), http.StatusCreated), us, us)
	p.again()
}

// TestAddARegion adds one to a deployment that runs.
func TestAddARegion(t *testing.T) {
	if testing.Short() {
		t.Skip("an operator's procedure, in processes on a database")
	}
	t.Parallel()
	p := newPlaced(t, us, eu)
	p.pay(us, charge("opaque-us", 100), http.StatusCreated)
	p.pay(us, charge(stamped(t, eu), 110), http.StatusCreated)

	require.Contains(t, p.ok("migrate", "plan", "--regions", asia), asia)
	require.Contains(t, p.ok("migrate", "up", "--regions", asia), "region "+asia)
	require.Regexp(t, `region +asia-northeast1 +code 3 +active`, p.ok("migrate", "status"))
	p.served.start(asia)
	until(t, "all have the region and its node", func() bool {
		out := p.ask(us, "regions")
		return regexp.MustCompile(`(?m)^asia-northeast1 +3 +active`).MatchString(out) && regexp.MustCompile(`(?m)^asia-northeast1-\S+ +asia-northeast1 +ready`).MatchString(out)
	})
	require.True(t, p.ready(asia))

	p.again() // older keys, from there
	servedBy(t, p.pay(asia, charge("opaque-asia", 120), http.StatusCreated), asia, asia)
	servedBy(t, p.pay(asia, charge(stamped(t, asia), 130), http.StatusCreated), asia, asia)
	sent := p.pay(us, charge(stamped(t, asia), 140), http.StatusCreated)
	servedBy(t, sent, asia, asia)
	require.Equal(t, "1", sent.Header.Get("Homeward-Hops"))
	away := p.pay(asia, charge(stamped(t, eu), 150), http.StatusCreated)
	servedBy(t, away, eu, eu)
	p.again()
}

// TestMoveToAnotherDatabase moves a deployment as it would move to CockroachDB; to that
// where HOMEWARD_TEST_MOVE_TO says cockroachdb, else to another PostgreSQL database.
func TestMoveToAnotherDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("an operator's procedure, in processes on a database")
	}
	t.Parallel()
	p := newPlaced(t, us, eu, asia)
	declined := charge("refused", 130)
	declined.body = `{"amount":130,"currency":"usd","payment_method":"pm_card_stolen"}`
	p.pay(us, charge("opaque-us", 100), http.StatusCreated)
	paid := p.pay(eu, charge("opaque-eu", 110), http.StatusCreated)
	p.pay(asia, charge(stamped(t, us), 120), http.StatusCreated)
	p.pay(asia, declined, http.StatusPaymentRequired)
	source := "HOMEWARD_SOURCE_DATABASE_URL=" + p.url
	target := ""
	if os.Getenv("HOMEWARD_TEST_MOVE_TO") == string(localdb.CockroachDB) {
		s := dbtest.Start(t, localdb.Config{Kind: localdb.CockroachDB, Regions: regions})
		require.NoError(t, s.CreateDatabase(p.ctx, "moved", ""))
		target = s.URL(us, "moved")
	} else {
		require.NoError(t, p.server.CreateDatabase(p.ctx, "moved", ""))
		target = p.server.URL("", "moved")
	}
	move := func(args ...string) *command {
		return runCommandIn(t, append([]string{source, "HOMEWARD_DATABASE_URL=" + target}, p.env...), args...)
	}
	up := move("migrate", "up", "--regions", us+"=1,"+eu+"=2,"+asia+"=3")
	require.Zero(t, up.exit(), "%s", up.stderr)
	require.Contains(t, move("migrate", "copy").failed(), "has other sessions", "nodes run")
	p.end()
	var done *command
	until(t, "the sessions of the nodes have ended", func() bool {
		done = move("migrate", "copy")
		return done.exit() == 0 || !strings.Contains(done.stderr.String(), "has other sessions")
	})
	require.Zero(t, done.exit(), "%s", done.stderr)
	require.Regexp(t, `(?m)^claims +4 rows, the same$`, done.stdout.String())
	require.Contains(t, move("migrate", "copy").failed(), "has rows")
	p.url = target
	p.ok("ledger", "verify")
	for _, r := range regions {
		p.served.start(r)
	}
	p.again()
	p.pay(asia, charge(stamped(t, eu), 140), http.StatusCreated)
	p.pay(eu, refund("refund-1", chargeOf(t, paid).ID, 110), http.StatusCreated)
	p.again()
}
