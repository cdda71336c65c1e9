package simulate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/e2e/goods"
	"github.com/homeward-io/homeward/e2e/history"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
	"github.com/homeward-io/homeward/region"
)

var (
	regions = []string{"us-east1", "europe-west1", "asia-northeast1"}
	tenants = []string{"acme", "globex"}
	secret  = relay.NewSecret() // of notices
	// fourth is the region that is added to some runs.
	fourth = "us-west1"
)

const (
	perRegion = 2
	provider  = "simulator"
	second    = "second" // of a seed with two
	// declinedOnce is what the first provider has no money for, at first, and the second has.
	declinedOnce = "pm_card_insufficient_funds_once"
	// keyLife is how long the provider, or the API behind a gateway, remembers keys. Homeward relies on that for an hour less.
	keyLife = 90 * time.Minute
	// sureAfter is longer than a jump of the store's clock and the longest way of a request to the API behind a
	// gateway: that of a node which is frozen.
	sureAfter = 45 * time.Minute
	// maxUnknowns is how often a gateway tries to find out, or a node waits for the notice of a blind provider: some 20
	// minutes, or less if merchants retry. A notice takes a few, also where faults delay it.
	maxUnknowns = 16
)

// world is a cluster, its provider and its merchants, all in one bubble of virtual time.
type world struct {
	t        *testing.T
	ctx      context.Context
	seed     uint64
	stripe   bool       // the provider speaks Stripe's API: charges may be held, or wait for a payer or a bank
	grows    bool       // it gets the fourth region
	welcome  func()     // starts the merchants who come with it
	reports  bool       // see reports
	blind    bool       // the provider knows no keys and answers no look-ups: only a notice tells what an unknown call came to
	api      *goods.API // the nodes are gateways in front of it, and there is no provider; nil: they are none
	network  *network
	distance *wan.Network // between regions, and of the store's steps
	disk     *vfs.MemFS
	room     errorfs.Toggle // on: the disk is full
	db       *embedded.DB   // nil while the store is down, and its nodes live on
	outlived bool           // the store ends in this run while nodes live on
	blobs    *blobs
	bucket   *bucket                 // nil: the audit is not exported, and the store is not put back
	judges   []*judge                // of the providers, the default first; none before an api
	client   map[string]*http.Client // of a region's merchants
	coverage *coverage
	log      lockedBuffer
	history  history.History
	transit  sync.WaitGroup // steps that arrive late
	ended    sync.WaitGroup // nodes that were killed

	busy time.Duration // under load

	seals, gossip []byte // the keys that nodes start with, the present one first

	authorities *authorities // of the nodes' certificates

	contesting sync.Mutex
	contests   []*contest

	mu        sync.Mutex
	homes     []string      // the regions that merchants know
	joining   bool          // they know the fourth, which has no row yet
	machines  []*machine    // of nodes that run, or will again: by region, see nodes
	coming    []*machine    // of the fourth region, until it is added
	rng       *rand.Rand    // of the network's and the store's luck
	ahead     time.Duration // of the clocks of store and provider
	troubles  map[*trouble]bool
	ambushes  map[*ambush]bool
	keys      map[string]time.Time // the provider's, since when it knows them
	events    map[string]int       // deliveries, by type and object
	disputes  []dispute
	reversals []reversal
}

// judge is a provider, and knows what it has moved.
type judge struct {
	*simulator.Simulator
	name, ip string

	closed map[string]bool // nodes that send it nothing, as their circuits are open; guarded by world.mu
}

// sink is a consumer of events.
type sink struct{ *machine }

func (s sink) Deliver(_ context.Context, e relay.Event) outbox.Disposition {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.events[e.Type+" "+e.Object]++
	if s.w.rng.IntN(10) == 0 { // it has it, and the node does not hear that
		return outbox.Failed("no answer")
	}
	return outbox.Done()
}

// machine is a node's.
type machine struct {
	*host
	w       *world
	started int
	running *node.Node
	skew    time.Duration // of its own clock; guarded by w.mu
}

// wall is the machine's own clock.
func (m *machine) wall() time.Time {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return time.Now().Add(m.skew)
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func between(rng *rand.Rand, below time.Duration) time.Duration {
	if below <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(below)))
}

// policy is the published one. Its windows of days pass by setting the store's clock.
func (w *world) policy() claim.Policy {
	if w.api == nil {
		p := claim.DefaultPolicy()
		if w.blind {
			p.MaxUnknowns = maxUnknowns
		}
		return p
	}
	p := node.DefaultGatewaySettings().Policy
	p.MaxUnknowns = maxUnknowns
	return p
}

// now is the clock of store and provider.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// ofStripe reports whether a seed's provider has Stripe's API, in place of ours.
func ofStripe(seed uint64) bool { return seed%3 == 0 }

// ofBlind reports whether a seed's provider is blind.
func ofBlind(seed uint64) bool { return seed%3 == 1 && (seed/3%8 == 1 || seed/3%8 == 2) }

// ofTwo reports whether a seed has two providers of our API, over which tenants have routes.
func ofTwo(seed uint64) bool { return seed%3 == 1 && slices.Contains([]uint64{3, 4, 7}, seed/3%8) }

// ofGateway reports whether a seed's nodes are gateways.
func ofGateway(seed uint64) bool { return seed%3 == 2 }

func newWorld(t *testing.T, seed uint64, plan [][]fault, covered *coverage) *world {
	w := &world{
		t: t, ctx: context.Background(), seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), coverage: covered, blobs: &blobs{all: map[string][]byte{}},
		distance: wan.New(wan.Defaults(append(slices.Clone(regions), fourth))), homes: regions, seals: []byte{1}, gossip: []byte{1}, troubles: map[*trouble]bool{}, ambushes: map[*ambush]bool{}, keys: map[string]time.Time{}, events: map[string]int{}, client: map[string]*http.Client{},
	}
	w.network = newNetwork(rand.New(rand.NewPCG(seed, 2)), func(from, to *host) time.Duration {
		return 100*time.Microsecond + w.distance.Distance(from.region, to.region)/2
	})
	w.stripe, w.blind, w.grows, w.outlived = ofStripe(seed), ofBlind(seed), has(plan, added), has(plan, crash) || has(plan, full)
	w.reports = reports(seed, plan)
	w.authorities = newAuthorities(w)
	for i, r := range append(slices.Clone(regions), fourth) {
		merchant := w.network.host("merchant of "+r, r, fmt.Sprintf("10.8.0.%d", i+1))
		w.client[r] = &http.Client{Transport: &http.Transport{DialContext: merchant.process().DialContext}}
		for j := range perRegion {
			h := w.network.host(fmt.Sprintf("%s-%d", r, j+1), r, fmt.Sprintf("10.0.%d.%d", i+1, j+1))
			m := &machine{host: h, w: w}
			if r == fourth {
				w.coming = append(w.coming, m)
			} else {
				w.machines = append(w.machines, m)
			}
		}
	}
	if ofGateway(seed) {
		w.startUpstreams()
	} else {
		w.startProvider(provider, "10.9.0.1")
		if ofTwo(seed) {
			w.startProvider(second, "10.9.0.2")
		}
		w.setFaults(w.everyday())
	}
	if has(plan, restored) {
		var err error
		w.bucket, err = newBucket()
		require.NoError(t, err)
	}
	w.disk, w.room.Injector = vfs.NewCrashableMem(), errorfs.InjectorFunc(noRoom)
	w.openStore()
	if w.grows {
		_, err := w.db.SetRegionStatus(w.ctx, fourth, claim.RegionDown) // which hides it: see store.Regions
		require.NoError(t, err)
	}
	for i, id := range tenants {
		if w.api != nil {
			break // a gateway makes them
		}
		tenant := claim.Tenant{ID: id, Registrar: regions[i]}
		if ofTwo(seed) && i == 1 {
			tenant.Routes = "*/pm_card_=" + second
		}
		require.NoError(t, w.db.PutTenant(w.ctx, tenant, "sk_"+id))
	}
	for _, m := range w.nodes() {
		m.start()
	}
	return w
}

func (w *world) startProvider(name, ip string) {
	at := w.network.host(name, provider, ip)
	book, err := simulator.Open(simulator.Config{Now: w.now, Dial: at.process().DialContext})
	require.NoError(w.t, err)
	w.judges = append(w.judges, &judge{book, name, ip, map[string]bool{}})
	var targets []simulator.NoticeTarget
	for _, m := range w.nodes() {
		if strings.HasSuffix(m.name, "-1") {
			targets = append(targets, simulator.NoticeTarget{URL: m.base() + "/v1/webhooks/" + name, Secret: secret, Stripe: w.stripe})
		}
	}
	drop := 0.2
	if w.reports {
		drop = 0
	}
	require.NoError(w.t, book.SetNotices(simulator.Notices{Targets: targets, Jitter: time.Minute, Duplicate: 0.2, Drop: drop, Seed: w.seed}))
	server := book.NewServer("")
	switch {
	case w.blind:
		server.Handler = keyless(server.Handler)
	case !w.stripe: // which remembers them for longer than a run
		server.Handler = w.contesters(w.forgetful(server.Handler))
	}
	w.serve(at, server)
}

// serve serves at a host's port 80.
func (w *world) serve(at *host, server *http.Server) {
	l, err := at.process().Listen("tcp", at.ip+":80")
	require.NoError(w.t, err)
	go func() { _ = server.Serve(l) }()
	w.t.Cleanup(func() { _ = server.Close() })
}

// startUpstreams starts the API behind a gateway, at a host in each region: see upstreams.
func (w *world) startUpstreams() {
	w.api = goods.New(goods.Config{Remembers: keyLife, Now: w.now})
	w.setFaults(w.everyday())
	for i, r := range append(slices.Clone(regions), fourth) {
		name := r
		if upstreamsOf(w.seed) != apart {
			name = ""
		}
		w.serve(w.network.host(provider, r, fmt.Sprintf("10.9.0.%d", i+1)), &http.Server{Handler: w.api.At(name)})
	}
}

// upstreams are what a gateway has behind it.
type upstreams string

const (
	apart  upstreams = "upstreams that recognise no requests of each other"
	shared upstreams = "upstreams that recognise the same requests"
	single upstreams = "one upstream"
)

// upstreamsOf is a seed's.
func upstreamsOf(seed uint64) upstreams {
	return []upstreams{apart, apart, single, shared}[seed/3%4]
}

// gateway is the settings of each node.
func (w *world) gateway() gateway.Settings {
	s := gateway.DefaultSettings()
	s.Tenant, s.TrustedProxies = gateway.Tenant{From: "header", Name: "X-Tenant"}, []string{"10.8.0.0/16"}
	s.Routes = goods.Routes(keyLife, sureAfter)
	for i, r := range regions {
		s.Upstreams = append(s.Upstreams, fmt.Sprintf("%s=http://10.9.0.%d", r, i+1))
	}
	switch upstreamsOf(w.seed) {
	case single:
		s.Upstream, s.Upstreams = "http://10.9.0.1", nil
	case shared:
		s.ShareKeys = true
	}
	return s
}

// setFaults sets those of the default provider, or of the API behind a gateway. Another provider has everyday ones.
func (w *world) setFaults(f simulator.Faults) {
	if w.api != nil {
		w.api.SetFaults(f)
		return
	}
	for i, j := range w.judges {
		if i > 0 {
			f = w.everyday()
		}
		require.NoError(w.t, j.SetFaults(f))
	}
}

// releaseLate has what is late done at once.
func (w *world) releaseLate() {
	if w.api != nil {
		w.api.ReleaseLate()
		return
	}
	for _, j := range w.judges {
		j.ReleaseLate()
	}
}

// effects are all that the provider, or the API behind a gateway, has done.
func (w *world) effects() (all []any) {
	if w.api != nil {
		for _, m := range w.api.Effects() {
			all = append(all, m)
		}
		return all
	}
	for _, j := range w.judges {
		for _, e := range j.Effects() {
			all = append(all, e)
		}
	}
	return w.withoutReturned(all)
}

// moved is effects, as judges have them.
func (w *world) moved() (all []history.Movement) {
	for _, e := range w.effects() {
		switch e := e.(type) {
		case history.Movement:
			all = append(all, e)
		case simulator.Effect:
			all = append(all, history.Movement{Kind: string(e.Kind), Reference: e.Reference, Amount: e.Amount})
		}
	}
	return all
}

// forgetful is a provider that knows a key for keyLife after its first use.
func (w *world) forgetful(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			now := w.now()
			w.mu.Lock()
			if first, known := w.keys[key]; !known || now.Sub(first) > keyLife {
				w.keys[key] = now
			}
			r.Header.Set("Idempotency-Key", fmt.Sprint(key, "-", w.keys[key].UnixNano()))
			w.mu.Unlock()
		}
		next.ServeHTTP(rw, r)
	})
}

// keyless is a provider that knows no keys: each call moves money.
func keyless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Del("Idempotency-Key")
		next.ServeHTTP(rw, r)
	})
}

// everyday is a provider with some faults, or an API behind a gateway with more of them.
func (w *world) everyday() simulator.Faults {
	if w.api != nil {
		return simulator.Faults{
			Latency: 50 * time.Millisecond, Jitter: 5 * time.Second, ErrorBefore: 0.1, ErrorAfter: 0.05, DropReply: 0.1, LateEffect: 0.03, LateBy: 40 * time.Second, Seed: w.seed,
		}
	}
	return simulator.Faults{Latency: 50 * time.Millisecond, Jitter: 5 * time.Second, ErrorBefore: 0.03, ErrorAfter: 0.03, DropReply: 0.03, Seed: w.seed}
}

func (w *world) openStore() {
	db, err := embedded.Open(embedded.Config{Dir: "store", FS: errorfs.Wrap(w.disk, &w.room), Regions: w.stored(), Policy: w.policy(), Network: w.distance, Clock: w.now, Logger: w.logger("store")})
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.db = db
}

func (w *world) logger(of string) *slog.Logger {
	return slog.New(slog.NewTextHandler(&w.log, nil)).With("of", of)
}

func (m *machine) base() string { return "http://" + m.ip + ":80" }

// start starts a node, again and again until it can, or has died meanwhile.
func (m *machine) start() {
	w := m.w
	m.started++
	alive := m.process()
	var seeds []string
	for _, other := range w.nodes() {
		if other != m {
			seeds = append(seeds, other.ip+":82")
		}
	}
	own := &store{m, alive}
	var pays node.Payments
	if w.api != nil {
		pays.Gateway, pays.Accounts = &gateway.Config{Settings: w.gateway()}, own
	} else {
		pays.Notifiers = map[string]psp.Notifier{}
		for _, j := range w.judges {
			p, err := w.adapter(j, &http.Transport{DialContext: alive.DialContext, DisableKeepAlives: true})
			require.NoError(w.t, err)
			pays.Providers, pays.Notifiers[j.name] = append(pays.Providers, p), p
		}
		if len(w.judges) > 1 {
			pays.Failover = map[string]payment.Failover{}
			for i, j := range w.judges {
				pays.Providers[i] = &circuit{pays.Providers[i], m, j}
				pays.Failover[j.name] = payment.Failover{To: w.judges[1-i].name, Codes: []string{"insufficient_funds"}}
			}
		}
	}
	for {
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		topology, err := m.topology(ctx, own)
		certs, missing := m.certificates()
		err = cmp.Or(err, missing)
		c := node.Config{
			Tuning:   node.Tuning{Policy: w.policy(), Limits: httpapi.DefaultLimits()},
			Payments: pays,
			Name:     fmt.Sprintf("%s.%d", m.name, m.started), Region: m.region, APIListen: m.ip + ":80",
			Peering:  node.Peering{RPCListen: m.ip + ":81", GossipListen: m.ip + ":82", Seeds: seeds, Sockets: alive, GossipKeys: gossipKeys(w.gossip), TLS: certs},
			Topology: topology, Store: own, Blobs: w.blobs, Sinks: map[outbox.Kind]relay.Sink{outbox.KindLog: sink{m}}, Seal: sealtest.Ring(w.seals...), Clock: w.now, Wall: m.wall, Logger: w.logger(m.name),
		}
		if w.bucket != nil {
			c.Audit, c.AuditObjects, c.AuditKeys = auditing(), w.bucket, w.bucket.keys
		}
		var running *node.Node
		if err == nil {
			running, err = node.Start(ctx, c)
		}
		cancel()
		select {
		case <-alive.dead: // it has met what lay in wait, whose end starts it again
			m.bury(running)
			return
		default:
		}
		if m.running = running; err == nil {
			return
		}
		w.logger(m.name).Warn("the node cannot start yet", "error", err)
		time.Sleep(time.Second)
	}
}

// topology is that of the regions which the store has.
func (m *machine) topology(ctx context.Context, from *store) (*region.Topology, error) {
	table, _, err := from.Regions(ctx)
	if err != nil {
		return nil, err
	}
	return region.NewTopology(table)
}

// circuit is a node's way to one of two providers. It is open while the judge says so: then the node sends nothing.
// The load is too low for the node's own.
type circuit struct {
	psp.Provider
	m *machine
	j *judge
}

func (c *circuit) open() error {
	c.m.w.mu.Lock()
	defer c.m.w.mu.Unlock()
	if c.j.closed[c.m.name] {
		return &psp.NotSentError{RetryIn: 5 * time.Second, Reason: "the circuit is open"}
	}
	return nil
}

func (c *circuit) sends(ctx context.Context, call psp.Call, send func(context.Context, psp.Call) psp.Result) psp.Result {
	if err := c.open(); err != nil {
		return psp.Result{Err: err}
	}
	if c.j.name == second && call.Source == declinedOnce {
		call.Source = "pm_card_visa"
	}
	return send(ctx, call)
}

func (c *circuit) Charge(ctx context.Context, call psp.Call) psp.Result {
	return c.sends(ctx, call, c.Provider.Charge)
}

func (c *circuit) Transfer(ctx context.Context, call psp.Call) psp.Result {
	return c.sends(ctx, call, c.Provider.Transfer)
}

func (c *circuit) Refund(ctx context.Context, call psp.Call) psp.Result {
	return c.sends(ctx, call, c.Provider.Refund)
}

func (c *circuit) Lookup(ctx context.Context, call psp.Call) (psp.Found, psp.Result) {
	if err := c.open(); err != nil {
		return psp.FoundUnknown, psp.Result{Err: err}
	}
	return c.Provider.Lookup(ctx, call)
}

// adapter is a node's way to a provider.
func (w *world) adapter(to *judge, transport http.RoundTripper) (interface {
	psp.Provider
	psp.Notifier
}, error) {
	if w.stripe {
		return stripe.New(stripe.Config{Name: to.name, Key: "sk_test_simulated", WebhookSecret: secret, BaseURL: "http://" + to.ip + "/stripe", Transport: transport})
	}
	can := psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, KeyLife: keyLife}
	if w.blind {
		can = psp.Capabilities{Dedupe: psp.DedupeNone, Blind: true, SettleWindow: time.Minute}
	}
	return httpjson.New(httpjson.Config{
		Name: to.name, BaseURL: "http://" + to.ip, Capabilities: can,
		Client:  &http.Client{Transport: transport},
		Notices: httpjson.Notices{Secret: secret},
	})
}

// nodes are those that have been started. Those of a region follow each other.
func (w *world) nodes() []*machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines
}

// regions are the names of those that merchants know.
func (w *world) regions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.homes
}

// joins reports whether merchants know the fourth region and nodes do not.
func (w *world) joins() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.joining
}

// stored are the regions that the store has a row of: the fourth in a run that gets it.
func (w *world) stored() (all []claim.Region) {
	for i, r := range append(slices.Clone(regions), fourth) {
		if r != fourth || w.grows {
			all = append(all, claim.Region{Name: r, Code: claim.RegionCode(i + 1)})
		}
	}
	return all
}

// kill ends a node's process: nothing that it does has an effect any more. Its goroutines end a
// moment later.
func (m *machine) kill() {
	dying := m.running
	m.crash()
	m.bury(dying)
}

// bury ends what a dead process has left: nil if it had no node yet.
func (m *machine) bury(dead *node.Node) {
	if dead == nil {
		return
	}
	now, cancel := context.WithCancel(m.w.ctx)
	cancel()
	m.w.ended.Go(func() { _ = dead.Stop(now) })
}

// stop is SIGTERM.
func (m *machine) stop() {
	ctx, cancel := context.WithTimeout(m.w.ctx, 25*time.Second)
	defer cancel()
	if err := m.running.Stop(ctx); err != nil {
		m.w.logger(m.name).Info("left open", "error", err)
	}
	m.crash()
}

// powerCut kills all nodes and the store, and starts them after a while.
func (w *world) powerCut(share int, after time.Duration) {
	for _, m := range w.nodes() {
		m.kill()
	}
	w.crashStore(share, after)
	for _, m := range w.nodes() {
		m.start()
	}
}

// crashStore ends the store, which loses a part of what was not synced, and opens it after a while. Steps that are
// under way have no answer, whether the disk has them or not.
func (w *world) crashStore(share int, after time.Duration) {
	w.mu.Lock()
	was := w.db
	w.db = nil // before the copy, so that what it lacks was not acknowledged
	clone := w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: share, RNG: w.rng})
	w.mu.Unlock()
	w.ended.Go(func() { _ = was.Close() })
	time.Sleep(after)
	w.disk = clone
	w.openStore()
}

// fillDisk has no room for the store's log for a while. The first step that writes then ends the store.
func (w *world) fillDisk(share int, after time.Duration) {
	w.room.On()
	time.Sleep(after)
	w.room.Off()
	w.crashStore(share, 0)
}

// noRoom refuses what is written to Pebble's log.
func noRoom(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate:
		if strings.HasSuffix(op.Path, ".log") {
			return syscall.ENOSPC
		}
	}
	return nil
}

// newKeys rotates the sealing and gossip keys as operators do: each step is that of every node before
// the next one begins. Rows keep the sealing key that they were written with.
func (w *world) newKeys() {
	next := w.seals[0] + 1
	for _, to := range []struct{ seals, gossip []byte }{
		{append(slices.Clone(w.seals), next), []byte{next - 1, next}},
		{append([]byte{next}, w.seals...), []byte{next, next - 1}},
		{append([]byte{next}, w.seals...), []byte{next}},
	} {
		w.seals, w.gossip = to.seals, to.gossip
		for _, m := range w.nodes() {
			m.stop()
			m.start()
		}
	}
}

// gossipKeys are those of these numbers.
func gossipKeys(numbers []byte) (all [][]byte) {
	for _, n := range numbers {
		all = append(all, bytes.Repeat([]byte{n}, 32))
	}
	return all
}

// sweep deletes rows past their windows, as a process beside the nodes.
func (w *world) sweep(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Minute):
			if db := w.database(); db != nil {
				_, _ = db.Sweep(w.ctx, 1000)
			}
		}
	}
}

// ready waits until every node is ready and reaches every region.
func (w *world) ready() {
	for _, m := range w.nodes() {
		for tries := 0; !w.isReady(m); tries++ {
			if tries > 600 {
				w.t.Fatalf("%s is not ready after ten minutes without a fault", m.name)
			}
			time.Sleep(time.Second)
		}
	}
}

func (w *world) isReady(m *machine) bool {
	under := map[bool]string{true: "/_homeward", false: "/v1"}[w.api != nil]
	paths := []string{strings.TrimSuffix(under, "/v1") + "/readyz"}
	for i := range w.regions() {
		key, _ := claim.Stamp(claim.RegionCode(i+1), nil)
		paths = append(paths, under+"/idempotency-keys/"+key) // only its home can say that there is none
	}
	for i, path := range paths {
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base()+path, nil)
		require.NoError(w.t, err)
		w.from(req, tenants[0])
		res, err := w.client[m.region].Do(req)
		cancel()
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[i == 0]; res.StatusCode != want {
			return false
		}
	}
	return true
}

// from makes a request one of a tenant's.
func (w *world) from(req *http.Request, tenant string) {
	if w.api != nil {
		req.Header.Set("X-Tenant", tenant)
		return
	}
	req.Header.Set("Authorization", "Bearer sk_"+tenant)
}

// end stops all, so that no goroutine is left in the bubble.
func (w *world) end() {
	for _, m := range w.nodes() {
		m.freeze(false)
		m.kill()
	}
	w.ended.Wait()
	w.transit.Wait()
	_ = w.db.Close()
	for _, c := range w.client {
		c.CloseIdleConnections()
	}
	for _, h := range w.network.hosts {
		h.crash()
	}
	for _, j := range w.judges {
		_ = j.Close()
	}
	time.Sleep(time.Hour) // for probes of gossip, and timers
}
