package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/e2e/goods"
	record "github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/recon"
	"github.com/homeward-io/homeward/payment/verify"
)

var (
	nemesisHours = flag.Float64("nemesis.hours", 0, "TestNemesis begins runs for this long; 0: one short run")
	nemesisSeed  = flag.Uint64("nemesis.seed", 0, "the seed of TestNemesis' first run, the next ones follow; 0: any")
)

// nemesisSize is one run's. The short one is for each merge.
type nemesisSize struct {
	clients, steps int
	longest        time.Duration // of a step
}

// TestNemesis runs nodes as processes, two in each of three regions, on a real database, under load,
// and does to them what the seed says: see nemesisPlan. At the end all that was answered is read
// again in every region, and the files of the run are judged: see [record.JudgeFiles].
//
// HOMEWARD_TEST_KIND is the database, PostgreSQL unless it says otherwise. With -nemesis.hours, as
// make nemesis has it, runs follow each other until one fails.
func TestNemesis(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of processes, under faults")
	}
	onPostgres(t)
	size, seed := nemesisSize{clients: 6, steps: 10, longest: 6 * time.Second}, cmp.Or(*nemesisSeed, rand.Uint64()>>44)
	if *nemesisHours == 0 && *nemesisSeed == 0 {
		size, seed = nemesisSize{clients: 4, steps: 4, longest: 3 * time.Second}, 4
	}
	if onCockroach() { // which moves leases after seconds
		size.longest *= 2
	}
	until := time.Now().Add(time.Duration(*nemesisHours * float64(time.Hour)))
	for n := 0; n == 0 || time.Now().Before(until); n++ {
		seed := seed + uint64(n)
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			n := startNemesis(t, "", seed, throughGateways(seed))
			n.run(size.clients, nemesisPlan(seed, n.kind, size.steps, size.longest))
		}) {
			break
		}
	}
}

// throughGateways reports whether a seed's nodes are gateways.
func throughGateways(seed uint64) bool { return seed%3 == 2 }

// nemesis is one run.
type nemesis struct {
	*served
	seed    uint64
	dir     string // of its files
	log     string // of the nodes, in dir
	kind    localdb.Kind
	history record.History
	port    int
	proxies map[string]*wireproxy.Proxy // between a region's nodes and the database, by region
	paths   map[string]*lab.Gate        // beyond those
	gates   map[string]*lab.Gate        // in front of RPC ports, by node
	api     *goods.API                  // the nodes are gateways in front of it; nil: they are none
	// releasing are the requests that wire has held, until they have passed.
	releasing sync.WaitGroup

	load    context.Context // of every request
	over    atomic.Bool
	next    atomic.Int64
	running sync.WaitGroup
	mu      sync.Mutex
	done    []request      // that were answered
	none    map[string]int // answers that say to ask again, by error
	hit     []nemesisHit
}

// nemesisHit is a fault with its times.
type nemesisHit struct {
	nemesisFault
	from, to time.Time
}

// run sends load while it does what the plan says, and judges.
func (n *nemesis) run(clients int, plan [][]nemesisFault) {
	began := time.Now()
	load, giveUp := context.WithCancel(n.ctx)
	defer giveUp()
	n.load = load
	for c := range clients {
		n.running.Go(func() { n.client(c) })
	}
	defer n.running.Wait()
	defer n.over.Store(true)
	defer giveUp() // before the wait, if a step fails
	for i, step := range plan {
		n.step(i, step)
	}
	n.over.Store(true)
	defer time.AfterFunc(patience, giveUp).Stop()
	n.running.Wait()
	unread := n.again(clients)
	n.evidence()
	require.Zero(n.t, unread, "answers that could not be read again in a region, though all faults were over; all answers: %s", n.answers())
	n.judgement(plan, time.Since(began))
}

// startNemesis starts the cluster of a run, of gateways or not. Its files have a name, "" for the seed's.
func startNemesis(t *testing.T, name string, seed uint64, gateways bool) *nemesis {
	t.Helper()
	n := &nemesis{seed: seed, kind: localdb.PostgreSQL, none: map[string]int{}, proxies: map[string]*wireproxy.Proxy{}, paths: map[string]*lab.Gate{}, gates: map[string]*lab.Gate{}}
	if onCockroach() {
		n.kind = localdb.CockroachDB
	}
	n.dir = filepath.Join("..", "bin", "nemesis", cmp.Or(name, fmt.Sprintf("%s-%d", n.kind, seed)))
	require.NoError(t, os.RemoveAll(n.dir))
	require.NoError(t, os.MkdirAll(n.dir, 0o755))
	t.Logf("seed %d; history and verdict will be in %s", seed, strings.TrimPrefix(n.dir, "../"))
	t.Cleanup(func() {
		if t.Failed() && name == "" {
			t.Logf("to repeat the schedule: make nemesis STORE=%s SEED=%d", n.kind, seed)
		}
	})
	n.served = newServedOn(t, localdb.Config{Kind: n.kind, Regions: regions, Durable: n.kind == localdb.CockroachDB, Dir: dbtest.Dir(t)})
	n.addRegions(asia)
	db := n.store()
	require.NoError(t, db.PutTenant(n.ctx, claim.Tenant{ID: "globex", Registrar: eu}, globex))
	require.NoError(t, db.Close())
	log, err := os.Create(filepath.Join(n.dir, "nodes.log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	n.served.log, n.log = log, log.Name()
	n.extra = "deputy_after: 2s\ntenant_rate: 0\ntenant_burst: 0\ndatabase: {max_conns: 8}\n"
	n.env = []string{"HOMEWARD_CLAIM__DECLINE_PAUSE=500ms", "HOMEWARD_CLAIM__BACKOFF_MAX=2s", "HOMEWARD_PROVIDER_WEBHOOK_SECRET=" + noticeSecret}
	if gateways {
		n.openAPI()
	}
	n.port = ports(t)
	for _, r := range regions {
		u, err := url.Parse(n.server.URL(r, "homeward"))
		require.NoError(t, err)
		n.paths[r] = n.gate("127.0.0.1:0", u.Host)
		n.proxies[r], err = wireproxy.Start(n.paths[r].Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.proxies[r].Close()) })
	}
	for i, name := range nemesisNodes {
		n.gates[name] = n.gate(n.portOf(i, 2), n.portOf(i, 1))
	}
	var targets []simulator.NoticeTarget
	for i, name := range nemesisNodes {
		n.begins(name)
		if i%2 == 1 { // every region gets the notices of all
			targets = append(targets, simulator.NoticeTarget{URL: n.base(name) + "/v1/webhooks/simulator", Secret: noticeSecret})
		}
	}
	if n.api == nil {
		require.NoError(t, n.judge.SetNotices(simulator.Notices{Targets: targets, Jitter: time.Second, Duplicate: 0.1, Drop: 0.1, Seed: seed, RetryAfter: 100 * time.Millisecond}))
	}
	n.setFaults(n.everyday())
	n.healthy()
	return n
}

// openAPI opens the API behind the gateways that the nodes are to be: for each region one that recognises
// no requests of the others, or one for all.
func (n *nemesis) openAPI() {
	n.api = goods.New(goods.Config{Remembers: 2 * time.Hour})
	at := func(name string) string {
		s := httptest.NewServer(n.api.At(name))
		n.t.Cleanup(s.Close)
		return s.URL
	}
	settings := "gateway:\n  tenant: {from: header, name: X-Tenant}\n  trusted_proxies: [127.0.0.1/32]\n"
	if n.seed/3%2 == 0 {
		var all []string
		for _, r := range regions {
			all = append(all, r+"="+at(r))
		}
		settings += "  upstreams: [" + strings.Join(all, ", ") + "]\n"
	} else {
		settings += "  upstream: " + at("") + "\n"
	}
	settings += "  routes:\n  - {match: POST /, timeout: 5s}\n  - {match: PATCH /, timeout: 5s}\n" // or these outlast a lease
	for _, r := range goods.Routes(2*time.Hour, nemesisSure) {
		settings += fmt.Sprintf("  - {match: %s, timeout: 5s, dedupe: %q, dedupe_for: %v, ask: {path: %q, answers: %t, sure_after: %v}}\n",
			r.Match, r.Dedupe, r.DedupeFor, r.Ask.Path, r.Ask.Answers, r.Ask.SureAfter)
	}
	n.extra += settings
	n.env = []string{"HOMEWARD_CLAIM__BACKOFF_MAX=2s", "HOMEWARD_CLAIM__MAX_UNKNOWNS=10"}
}

// nemesisSure is longer than a request to the API behind a gateway can take to show: a node is frozen for
// less, and what is late there is so for less.
const nemesisSure = 15 * time.Second

// setFaults sets those of the provider, or of the API behind gateways.
func (n *nemesis) setFaults(f simulator.Faults) {
	n.t.Helper()
	if n.api != nil {
		n.api.SetFaults(f)
		return
	}
	require.NoError(n.t, n.judge.SetFaults(f))
}

func (n *nemesis) gate(at, to string) *lab.Gate {
	g, err := lab.OpenGate(at, to)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { require.NoError(n.t, g.Close()) })
	return g
}

// portOf is one of a node's addresses: API, RPC, the gate in front of it, gossip.
func (n *nemesis) portOf(node, which int) string {
	return fmt.Sprintf("127.0.0.1:%d", n.port+4*node+which)
}

// begins starts a node, at the addresses that it had before.
func (n *nemesis) begins(name string) {
	n.t.Helper()
	i := slices.Index(nemesisNodes, name)
	n.startNode(name, regionOf(name), "HOMEWARD_DATABASE_URL="+n.proxies[regionOf(name)].URL(n.server.URL(regionOf(name), "homeward")),
		"HOMEWARD_API__LISTEN="+n.portOf(i, 0), "HOMEWARD_RPC__LISTEN="+n.portOf(i, 1), "HOMEWARD_RPC__ADVERTISE="+n.portOf(i, 2), "HOMEWARD_GOSSIP__LISTEN="+n.portOf(i, 3))
}

// store is the database, beside all proxies.
func (n *nemesis) store() *sqlstore.DB {
	n.t.Helper()
	db, err := sqlstore.Open(n.ctx, sqlstore.Config{URL: n.url, Policy: quick(), Pool: patientPool()})
	require.NoError(n.t, err)
	return db
}

// everyday is a provider with some faults.
func (n *nemesis) everyday() simulator.Faults {
	return simulator.Faults{Latency: 2 * time.Millisecond, Jitter: 100 * time.Millisecond, ErrorBefore: 0.03, ErrorAfter: 0.03, DropReply: 0.03, Seed: n.seed}
}

// step does what a step's faults say, at their times, and waits until the cluster is healthy.
func (n *nemesis) step(i int, faults []nemesisFault) {
	n.t.Helper()
	type event struct {
		at   time.Duration
		last bool // of those at the same time
		do   func()
	}
	var events []event
	for _, f := range faults {
		what := fmt.Sprintf("step %d: %v", i+1, f)
		events = append(events, event{f.begin, false, func() {
			n.t.Logf("%s, from %v to %v", what, f.begin.Round(time.Millisecond), f.end.Round(time.Millisecond))
			began := time.Now()
			end := n.begin(f)
			events = append(events, event{f.end, f.kind.starts(), func() {
				end()
				n.history.AddFault(what, began)
				n.hit = append(n.hit, nemesisHit{f, began, time.Now()})
			}})
		}})
	}
	for began := time.Now(); len(events) > 0; {
		slices.SortStableFunc(events, func(a, b event) int {
			if a.at == b.at && a.last != b.last {
				return map[bool]int{false: -1, true: 1}[a.last]
			}
			return cmp.Compare(a.at, b.at)
		})
		e := events[0]
		events = events[1:]
		require.NoError(n.t, wait(n.ctx, time.Until(began.Add(e.at))))
		e.do()
	}
	n.releasing.Wait()
	began := time.Now()
	n.healthy()
	n.t.Logf("step %d: healthy after %v; %d requests, %d keys", i+1, time.Since(began).Round(10*time.Millisecond), len(n.history.Operations()), n.next.Load())
}

// begin begins a fault, and returns how it ends.
func (n *nemesis) begin(f nemesisFault) (end func()) {
	must := func(err error) { n.t.Helper(); require.NoError(n.t, err, "%v", f) }
	signal := func(node string, s syscall.Signal) { must(n.nodes[node].cmd.Process.Signal(s)) }
	switch f.kind {
	case kill, stop, lose:
		nodes := []string{f.at}
		if f.kind == lose {
			nodes = []string{f.at + "-1", f.at + "-2"}
		}
		for _, node := range nodes {
			signal(node, map[bool]syscall.Signal{true: syscall.SIGTERM, false: syscall.SIGKILL}[f.kind == stop])
		}
		return func() {
			for _, node := range nodes {
				receive(n.t, "the end of "+node, n.nodes[node].dead)
				n.begins(node)
			}
		}
	case freeze:
		signal(f.at, syscall.SIGSTOP)
		return func() { signal(f.at, syscall.SIGCONT) }
	case drop, dropFrom:
		var against []int
		for name, one := range n.nodes {
			if f.kind == dropFrom && regionOf(name) == f.from {
				against = append(against, one.cmd.Process.Pid)
			}
		}
		n.gates[f.at].Set(true, against)
		return func() { n.gates[f.at].Set(false, nil) }
	case wire:
		var shots []*wireproxy.Shot
		for _, s := range f.shots {
			shots = append(shots, n.proxies[f.at].Arm(s.statement, s.fault, s.times))
		}
		return func() {
			for _, s := range shots {
				s.Disarm()
				// What it passes on may wait for a database that is away.
				n.releasing.Go(s.Release)
			}
		}
	case refuse:
		n.proxies[f.at].Refuse(true)
		n.proxies[f.at].CutAll()
		return func() { n.proxies[f.at].Refuse(false) }
	case path:
		n.paths[f.at].Set(true, nil)
		return func() { n.paths[f.at].Set(false, nil) }
	case killDB:
		must(n.server.Kill(f.at))
		return func() { must(n.server.Restart(n.ctx, f.at)) }
	case freezeDB:
		must(n.server.Pause(f.at))
		return func() { must(n.server.Resume(f.at)) }
	case leases:
		n.relocate(f.table, f.at)
		return func() {}
	case ranges:
		var at []string
		for _, tenant := range []string{"acme", "globex"} {
			for _, key := range []string{"4", "8", "c", "order-%d-2", "order-%d-4", "order-%d-6", "order-%d-8"} {
				at = append(at, fmt.Sprintf("('%s', '%s', '%s')", f.at, tenant, strings.ReplaceAll(key, "%d", fmt.Sprint(n.seed))))
			}
		}
		points := " AT VALUES " + strings.Join(at, ", ")
		n.sql("ALTER TABLE " + f.table + " SPLIT" + points)
		return func() { n.sql("ALTER TABLE " + f.table + " UNSPLIT" + points) }
	case mute, slow:
		bad := n.everyday()
		if f.kind == mute {
			bad.ErrorBefore, bad.DropReply, bad.ErrorAfter = 0.7, 0.5, 1
			bad.LateEffect, bad.LateBy = 0.3, 2*quick().Lease
		} else {
			bad.Jitter = 3 * quick().Lease
		}
		n.setFaults(bad)
		return func() {
			n.setFaults(n.everyday())
			if n.api != nil {
				n.api.ReleaseLate()
			} else {
				n.judge.ReleaseLate()
			}
		}
	case drain:
		n.status(f.at, claim.RegionDraining)
		return func() { n.status(f.at, claim.RegionActive) }
	}
	n.t.Fatalf("begin does not know %v", f)
	return nil
}

// status sets a region's, as homeward region does.
func (n *nemesis) status(region string, to claim.RegionStatus) {
	n.t.Helper()
	db := n.store()
	_, err := db.SetRegionStatus(n.ctx, region, to)
	require.NoError(n.t, errors.Join(err, db.Close()))
}

// relocate moves the leases of a table's ranges to the database's node in a region, from which
// CockroachDB may move them again.
func (n *nemesis) relocate(table, region string) {
	n.t.Helper()
	n.onAny(func(ctx context.Context, conn *pgx.Conn) error {
		var store int
		if err := conn.QueryRow(ctx, "SELECT s.store_id FROM crdb_internal.kv_store_status AS s JOIN crdb_internal.gossip_nodes AS g ON g.node_id = s.node_id WHERE g.locality = 'region=' || $1", region).Scan(&store); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, fmt.Sprintf("ALTER RANGE RELOCATE LEASE TO %d FOR SELECT range_id FROM [SHOW RANGES FROM TABLE %s]", store, table))
		return err
	})
}

// sql executes a statement at any node of the database.
func (n *nemesis) sql(statement string) {
	n.t.Helper()
	n.onAny(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// onAny acts on the first node of the database that does it. Beside another fault, none may.
func (n *nemesis) onAny(do func(context.Context, *pgx.Conn) error) {
	n.t.Helper()
	var errs error
	for _, r := range regions {
		ctx, cancel := context.WithTimeout(n.ctx, 2*nemesisAttempt)
		conn, err := pgx.Connect(ctx, n.server.URL(r, "homeward"))
		if err == nil {
			err = errors.Join(do(ctx, conn), conn.Close(ctx))
		}
		cancel()
		if err == nil {
			return
		}
		errs = errors.Join(errs, err)
	}
	n.t.Logf("the database did not do that: %v", errs)
}

// healthy waits until every node is ready and reaches every region.
func (n *nemesis) healthy() {
	n.t.Helper()
	for _, name := range nemesisNodes {
		until(n.t, name+" is ready and reaches every region", func() bool {
			select {
			case <-n.nodes[name].dead:
				require.FailNow(n.t, name+" ended by itself", "%v; see %s", n.nodes[name].cmd.ProcessState, n.log)
			default:
			}
			if n.get(name, "/readyz") != http.StatusOK {
				return false
			}
			for _, r := range regions { // which alone can say that there is no such key
				if n.get(name, "/v1/idempotency-keys/"+stamped(n.t, r)) != http.StatusNotFound {
					return false
				}
			}
			return true
		})
	}
}

// get is the status of a node's answer, 0 for none.
func (n *nemesis) get(node, path string) int {
	ctx, cancel := context.WithTimeout(n.ctx, nemesisAttempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.base(node)+n.own(path), nil)
	require.NoError(n.t, err)
	return n.ask(req, acme).Status
}

// own is a path of the nodes' own, as the API of payments has it, or as gateways do.
func (n *nemesis) own(path string) string {
	if n.api == nil {
		return path
	}
	return "/_homeward" + strings.TrimPrefix(path, "/v1")
}

// ask sends a request of a tenant's. Our document says nothing of what gateways answer.
func (n *nemesis) ask(req *http.Request, tenant string) *answer.Answer {
	if n.api != nil {
		req.Header.Set("X-Tenant", strings.TrimPrefix(tenant, "sk_"))
		return answer.To(req, gatewayClient)
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	return n.do(req)
}

// nemesisAttempt is how long a client waits for one answer: longer than the slowest healthy one.
const nemesisAttempt = 5 * time.Second

// client sends key after key, and now and then an old request.
func (n *nemesis) client(client int) {
	for !n.over.Load() && n.load.Err() == nil {
		i := n.next.Add(1)
		rng := rand.New(rand.NewPCG(n.seed, uint64(i)))
		n.key(client, int(i), rng)
		if rng.IntN(3) == 0 {
			n.mu.Lock()
			var q request
			if len(n.done) > 0 {
				q = n.done[rng.IntN(len(n.done))]
			}
			n.mu.Unlock()
			if q.key != "" {
				n.settle(client, q, rng)
			}
		}
		_ = wait(n.load, rand64(rng, 50*time.Millisecond))
	}
}

// key sends rivals under the i-th key, and retries each. All but their timing follows from the seed.
func (n *nemesis) key(client, i int, rng *rand.Rand) {
	key := fmt.Sprintf("order-%d-%d", n.seed, i)
	if rng.IntN(2) == 0 {
		key, _ = claim.Stamp(codes[regions[rng.IntN(len(regions))]], seeded{rng}) // which does not fail
	}
	amount := 1000 + 2*i
	q, changed := charge(key, amount), charge(key, amount+1)
	switch p := rng.IntN(100); {
	case p < 25:
		q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_insufficient_funds_once", 1)
	case p < 32:
		q.body = strings.Replace(q.body, "pm_card_visa", "pm_card_stolen", 1)
	case p < 45:
		q, changed = transfer(key, amount), transfer(key, amount+1)
	}
	q.tenant = []string{acme, globex}[rng.IntN(2)]
	changed.tenant = q.tenant
	if n.api != nil {
		q.path = goods.All[rng.IntN(len(goods.All))]
		changed.path = q.path
	}
	var rivals []request
	for r := range 1 + rng.IntN(4) {
		one := q
		if r > 0 && rng.IntN(5) == 0 {
			one = changed
		}
		rivals = append(rivals, one)
	}
	canceled := rng.IntN(5) == 0
	if canceled { // it gives the key up, at one node or two, and goes on asking for an answer
		for range 1 + rng.IntN(2) {
			rivals = append(rivals, request{tenant: q.tenant, path: record.CancelPath, key: key})
		}
	}
	winner, got := n.rivals(client, rivals, rng)
	if canceled || got == nil || got.Status != http.StatusCreated || winner.path != "/v1/charges" || rng.IntN(4) > 0 {
		return
	}
	var made struct{ ID string }
	if json.Unmarshal(got.Body, &made) != nil {
		return // the judge says so
	}
	back := refund("refund-"+key, made.ID, winner.amount(n.t))
	back.tenant = q.tenant
	n.rivals(client, []request{back, back}[:1+rng.IntN(2)], rng)
}

type seeded struct{ rng *rand.Rand }

func (s seeded) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.rng.Uint32())
	}
	return len(p), nil
}

// rivals sends requests at once, and returns the one that the key belongs to, with its answer.
func (n *nemesis) rivals(client int, all []request, rng *rand.Rand) (winner request, got *answer.Answer) {
	var wg sync.WaitGroup
	last := make([]*answer.Answer, len(all))
	for i, q := range all {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		wg.Go(func() {
			if q.path == record.CancelPath {
				_ = wait(n.load, rand64(own, 500*time.Millisecond))
			}
			last[i] = n.settle(client*4+i, q, own)
		})
	}
	wg.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, r := range last {
		switch {
		case !r.Final() || r.Status == http.StatusUnprocessableEntity:
		case all[i].path == record.CancelPath:
			n.done = append(n.done, all[i])
		case got == nil:
			n.done, winner, got = append(n.done, all[i]), all[i], r
		}
	}
	return winner, got
}

// settle sends q until an answer is final: often to the node that it has tried before, and at times
// with little patience.
func (n *nemesis) settle(client int, q request, rng *rand.Rand) *answer.Answer {
	node := nemesisNodes[rng.IntN(len(nemesisNodes))]
	for {
		patience := nemesisAttempt
		if rng.IntN(10) == 0 {
			patience = 20*time.Millisecond + rand64(rng, 400*time.Millisecond)
		}
		r := n.attempt(client, node, q, patience)
		if r.Final() || wait(n.load, min(pauseAfter(r), time.Second)) != nil {
			return r
		}
		if rng.IntN(2) == 0 {
			node = nemesisNodes[rng.IntN(len(nemesisNodes))]
		}
	}
}

func (n *nemesis) attempt(client int, node string, q request, patience time.Duration) *answer.Answer {
	ctx, cancel := context.WithTimeout(n.load, patience)
	defer cancel()
	start := time.Now()
	var r *answer.Answer
	got := (*answer.Answer).Got
	switch {
	case q.path == record.CancelPath:
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.base(node)+n.own("/v1/idempotency-keys/"+url.PathEscape(q.key)+"/cancel"), nil)
		require.NoError(n.t, err)
		r, got = n.ask(req, q.tenant), (*answer.Answer).Became
	case n.api != nil:
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.base(node)+q.path, strings.NewReader(q.body))
		require.NoError(n.t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", q.key)
		r = n.ask(req, q.tenant)
	default:
		r = n.send(ctx, node, q)
	}
	at, is := node, got(r)
	if is.Kind == record.None {
		why := "no answer"
		if r.Err == nil {
			why = fmt.Sprint(r.Status, " ", r.Problem.Error)
		}
		n.mu.Lock()
		n.none[why]++
		n.mu.Unlock()
		at += ": " + why
	}
	n.history.AddAt(client, at, record.Sent{Key: strings.TrimPrefix(q.tenant, "sk_") + "/" + q.key, Body: q.body, Path: q.path}, start, is)
	return r
}

// again reads all that was answered once more in every region, and returns how many it did not get. The
// judge compares.
func (n *nemesis) again(clients int) int64 {
	n.t.Helper()
	began := time.Now()
	queue := make(chan request, len(n.done))
	for _, q := range n.done {
		queue <- q
	}
	close(queue)
	var all sync.WaitGroup
	var unread atomic.Int64
	for c := range clients {
		all.Go(func() {
			for q := range queue {
				for _, region := range regions {
					rng := rand.New(rand.NewPCG(n.seed, uint64(len(q.key))))
					r := n.attempt(c, fmt.Sprintf("%s-%d", region, 1+rng.IntN(2)), q, nemesisAttempt)
					for !r.Final() && wait(n.load, pauseAfter(r)) == nil {
						r = n.attempt(c, fmt.Sprintf("%s-%d", region, 1+rng.IntN(2)), q, nemesisAttempt)
					}
					if !r.Final() {
						unread.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	n.t.Logf("%d answers were read again in every region, in %v; %d of these reads got none", len(n.done), time.Since(began).Round(time.Second), unread.Load())
	return unread.Load()
}

// nemesisVerdict is verdict.json.
type nemesisVerdict struct {
	Seed     uint64         `json:"seed"`
	Database string         `json:"database"`
	Took     string         `json:"took"`
	Plan     []string       `json:"plan"`
	Keys     record.Verdict `json:"keys"`
	Provider simulator.Stats
	API      *goods.Stats  `json:"api,omitempty"` // behind gateways
	Books    verify.Report `json:"books"`
	// Statement is what comparing it with books and claims found.
	Statement  *recon.Report    `json:"statement"`
	Mismatches []recon.Mismatch `json:"mismatches"`
}

// evidence writes what merchants read and what the provider did, whatever the verdict is to be.
func (n *nemesis) evidence() {
	n.file(record.File, n.history.Write)
	n.file(record.Movements, func(w io.Writer) (err error) {
		enc := json.NewEncoder(w)
		if n.api != nil {
			n.api.Settled()
			for _, e := range n.api.Effects() {
				err = errors.Join(err, enc.Encode(e))
			}
			return err
		}
		for _, e := range n.judge.Effects() {
			err = errors.Join(err, enc.Encode(e))
		}
		return err
	})
}

// judgement judges the files of the run, and prints the history of what is broken.
func (n *nemesis) judgement(plan [][]nemesisFault, took time.Duration) {
	t := n.t
	t.Helper()
	v := nemesisVerdict{Seed: n.seed, Database: n.server.Version(), Took: took.Round(time.Second).String(), Provider: n.judge.Stats()}
	for i, step := range plan {
		for _, f := range step {
			v.Plan = append(v.Plan, fmt.Sprintf("step %d: %v, from %v to %v", i+1, f, f.begin.Round(time.Millisecond), f.end.Round(time.Millisecond)))
		}
	}
	keys, h, err := record.JudgeFiles(n.dir)
	require.NoError(t, err)
	v.Keys = keys
	if n.api != nil {
		stats := n.api.Stats()
		v.API = &stats
	} else {
		n.compare(&v)
	}
	n.file("verdict.json", func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	})

	told := map[string]bool{}
	for _, b := range keys.Breaks {
		t.Errorf("seed %d: key %s: %s", n.seed, b.Key, b.What)
		if !told[b.Key] && b.Key != "" {
			var lines bytes.Buffer
			require.NoError(t, h.Of(b.Key).Write(&lines))
			t.Logf("the history of %s, and the faults that it saw, with their steps:\n%s", b.Key, &lines)
		}
		told[b.Key] = true
	}
	require.True(t, keys.OK(), "duplicates %d, differing %d, lost %d, disordered %d", keys.Duplicates, keys.Differing, keys.Lost, keys.Disordered)
	if n.api != nil {
		require.Empty(t, n.api.Breaks(&n.history))
		t.Logf("the API behind the gateways: %+v; %d keys were left open", *v.API, keys.Open)
	} else {
		require.Zero(t, v.Provider.DuplicateEffects, "the provider's own count")
		require.Zero(t, v.Provider.KeyReuses)
		require.True(t, v.Books.OK(), "%v", v.Books.Failures)
		require.Empty(t, v.Mismatches, "the statement is to agree")
		require.Equal(t, v.Statement.Lines, v.Statement.Agree, "%+v", v.Statement)
		t.Logf("%d transactions verified, %d lines of the statement agree", v.Books.Transactions, v.Statement.Agree)
	}
	require.NotZero(t, keys.Completed)
	text, err := os.ReadFile(n.log)
	require.NoError(t, err)
	for _, bad := range []string{"DATA RACE", "panic"} {
		require.NotContains(t, string(text), bad, n.log)
	}
	require.NoError(t, os.Remove(n.log)) // it is large, and of use to failures alone
	t.Logf("%s, %s: %d requests, %d keys, %d completed, %d declined, %d given up, %d faults, %d movements; duplicates 0, differing 0, lost 0",
		v.Database, v.Took, keys.Requests, keys.Keys, keys.Completed, keys.Declined, keys.Canceled, keys.Faults, keys.Movements)
	t.Logf("answers: %s", n.answers())
}

// compare compares the books with themselves, with the claims, and with the provider's statement.
func (n *nemesis) compare(v *nemesisVerdict) {
	t := n.t
	t.Helper()
	var statement bytes.Buffer
	require.NoError(t, n.judge.WriteStatement(io.MultiWriter(&statement), simulator.Statement{Format: "csv"}))
	n.file("statement.csv", func(w io.Writer) error { _, err := w.Write(statement.Bytes()); return err })
	db := n.store()
	defer func() { require.NoError(t, db.Close()) }()
	store, err := db.Region(us)
	require.NoError(t, err)
	v.Books, err = verify.Books(n.ctx, store, regions)
	require.NoError(t, err)
	v.Statement, err = recon.Run(n.ctx, recon.Config{
		Books: store, Claims: store, Provider: judged, Regions: regions, Home: homeOf, Dir: t.TempDir(),
		Found: func(_ context.Context, m recon.Mismatch) error { v.Mismatches = append(v.Mismatches, m); return nil },
	}, &statement, recon.CSV)
	require.NoError(t, err)
}

// answers counts the kinds of answers, and those that say to ask again.
func (n *nemesis) answers() string {
	count := maps.Clone(n.none)
	for _, o := range n.history.Operations() {
		if kind := o.Output.(record.Got).Kind; kind != record.None {
			count[string(kind)]++
		}
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(count)) {
		all = append(all, fmt.Sprintf("%s %d", k, count[k]))
	}
	return strings.Join(all, ", ")
}

func (n *nemesis) file(name string, write func(io.Writer) error) {
	n.t.Helper()
	f, err := os.Create(filepath.Join(n.dir, name))
	require.NoError(n.t, err)
	require.NoError(n.t, errors.Join(write(f), f.Close()), name)
}
