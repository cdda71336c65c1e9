package meter

// The sections, in the order of the page.
var (
	requests = &Section{Title: "Requests"}
	claims   = &Section{Title: "Claims"}
	provider = &Section{Title: "Providers"}
	regions  = &Section{Title: "Regions"}
	queues   = &Section{Title: "Outbox"}
	money    = &Section{Title: "Money"}
	stores   = &Section{Title: "Stores"}
	sections = []*Section{requests, claims, provider, regions, queues, money, stores}
)

// Buckets. The layer's objective is a p99 of 15 ms: its buckets are narrow around that.
var (
	layerBuckets    = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .1, .25, .5, 1, 2.5}
	requestBuckets  = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30} // OpenTelemetry's for HTTP, and a provider's time-out
	providerBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 90}
	waitBuckets     = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 4, 5, 7.5} // the wait ends after 5 s
	forwardBuckets  = []float64{.005, .01, .025, .05, .075, .1, .15, .2, .3, .5, 1, 2.5, 5, 10, 30, 90}
	dbBuckets       = []float64{.0005, .001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	handleBuckets   = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	batchBuckets    = []float64{1, 2, 4, 8, 16, 32, 64} // 64 is the largest group
	payoutBuckets   = []float64{1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 172800}
)

// Requests and what callers see of them.
var (
	HTTPDuration = requests.histogram("http.server.request.duration", "s", requestBuckets,
		"How long the API took to answer, by route and status; the provider's time is in it.",
		"Compare with homeward.layer.duration and homeward.provider.duration to see where the time goes.",
		Method, Route, Status)
	Requests = requests.counter("homeward.requests", "{request}",
		"Requests that move money, once each, at their entry: by operation, outcome, the key's home and path (local, registrar, replica, forward, deputy).",
		"unavailable, home_unavailable and error are the availability objective's errors. Many replayed: clients retry, so look for the slow part. deputy: a region is lost.",
		Operation, Outcome, Home, Path)
	TenantRequests = requests.counter("homeward.tenant.requests", "{request}",
		"The same by tenant and outcome: the tenants with the most traffic, and all others as `other`.",
		"Errors of one tenant: its integration. Errors of all: our fault or the provider's.",
		Tenant, Outcome)
	FailClosed = requests.counter("homeward.requests.fail_closed", "{request}",
		"Answers 503 to requests that move money because no durable claim could be made, by problem code: store_unavailable, home_unavailable. No money moved.",
		"store_unavailable: look at the database. home_unavailable: look at homeward.region.lost and the network between regions.",
		Code)
	LayerDuration = requests.histogram("homeward.layer.duration", "s", layerBuckets,
		"Homeward's own part of a request: its time without the attempt at the provider, without the wait for a rival, and, at the entry of a forward, without the round trip and the home's time. The home's part has the path `home`. The objective is a p99 of 15 ms.",
		"Check statements (db.client.operation.duration), waits for connections and group sizes; else the node's processors.",
		Path)
	LogDropped = requests.counter("homeward.log.dropped", "{line}",
		"Lines of the node's log that were dropped unread: the reader of its standard error stalled or died, and no request waits for it.",
		"Look at what collects the log. Restart the node if its reader has died: what reads a pipe does not come back.")
	InHand = requests.gauge("homeward.requests.in_hand", "{request}",
		"Requests in progress on the node, from merchants (api) and from other regions (forward).",
		"Grows without more traffic: the provider or the store is slow.",
		By)
)

// Claims and their life.
var (
	Claims = claims.counter("homeward.claims", "{claim}",
		"Arrivals at a claim, once each, by decision: won, won_unknown, replay, shared, mismatch, tombstone, busy, need_pin, used (by who gives the key up); or unavailable, if the store did not answer, and error.",
		"A jump in the share of replays means that clients retry. HomewardReplaysHigh fires above 15 %.",
		Decision)
	Conflicts = claims.counter("homeward.claim.conflicts", "{claim}",
		"Arrivals that met a rival with the same key in flight: the wait ended with its answer (answered), without (in_use), or the caller went away (gone).",
		"A growing share of homeward.claims: a retry storm, or a load balancer that repeats requests. HomewardConflictsHigh fires above 0.5 %.",
		Outcome)
	WaitDuration = claims.histogram("homeward.claim.wait.duration", "s", waitBuckets,
		"How long the losing side waited for its rival.",
		"5 s means stuck claims or a slow provider. HomewardWaitsLong fires at a p99 above 1 s.")
	Mismatches = claims.counter("homeward.claim.mismatches", "{request}",
		"Requests that reused the key of a different request, by tenant (those with the most, and `other`).",
		"A client's bug or abuse: from 10 a minute inform the tenant.",
		Tenant)
	Generations = claims.counter("homeward.claim.generations", "{claim}",
		"Claims begun again after a definitive no, such as a soft decline.",
		"A jump: payers are declined and try again. Look at the provider's decline codes.",
		Operation)
	Settled = claims.counter("homeward.claim.settled", "{claim}",
		"Verdicts, by the resulting state: completed, failed_terminal, failed_retry, or in_flight if the outcome is unknown; or refused, if the store cannot record the verdict, now or later.",
		"in_flight: the provider does not answer. refused pages: see the log.",
		Operation, State)
	TakeOvers = claims.counter("homeward.claim.takeovers", "{claim}",
		"Claims taken over after their lease ended or their outcome was unknown: by a retry or by recovery.",
		"Some after a node dies. Steadily: nodes that stall, or leases that are too short for the provider.",
		By)
	Fenced = claims.counter("homeward.claim.fenced", "{write}",
		"Writes that the store refused because another holder has since taken the claim or the row, by step.",
		"The fence did its work. Steadily: nodes pause for longer than a lease.",
		Step)
	GivenUp = claims.counter("homeward.claim.given_up", "{claim}",
		"Claims closed at the bound with the outcome still unknown.",
		"Ask the provider, or the API behind a gateway, about each. A charge that surfaces later is refunded automatically.",
		Operation)
	Stuck = claims.gauge("homeward.claim.stuck", "{claim}",
		"Claims in flight whose lease ended over a minute ago and whose recovery is due, but that no node works on. Counted up to 1,000.",
		"Should be 0. Is a worker running in their home, and does it get answers from the provider?",
		Home)
	UnknownOpen = claims.gauge("homeward.claim.unknown.open", "{claim}",
		"Claims in flight without a holder, after an attempt with an unknown outcome. Counted up to 1,000.",
		"Grows: the provider does not answer, see homeward.provider.duration.",
		Home)
	UnknownAge = claims.gauge("homeward.claim.unknown.age", "s",
		"The age, since its first use, of the oldest of them; 0 if there is none.",
		"After four hours the worker gives a claim up: ask the provider before then.",
		Home)
	Pins = claims.counter("homeward.pins", "{pin}",
		"Look-ups of the home of an opaque key, by outcome: here, elsewhere, none, no_new_homes or unavailable.",
		"elsewhere: clients do not send Homeward-Home-Region back. unavailable: the registrar's rows cannot be reached.",
		Outcome)
)

// Providers.
var (
	ProviderDuration = provider.histogram("homeward.provider.duration", "s", providerBuckets,
		"How long the provider took: by call (charge, transfer, refund, capture, cancel, lookup, show) and outcome (approved, declined, pending, authorized, unknown, found, not_found, not_sent).",
		"Slow or unknown: see the provider's status page. Charges and their retries wait for the provider.",
		Provider, Call, Outcome)
	Circuit = provider.gauge("homeward.provider.circuit", "",
		"1 for the state that the provider's circuit is in: closed, open or half-open.",
		"open: half of the calls get no answer. The breaker sends nothing for 10 s at a time; callers get 503 and retry. half-open: it waits for the answers of three probes, and holds all else back.",
		Provider, State)
)

// Regions and the links between them.
var (
	ForwardDuration = regions.histogram("homeward.forward.duration", "s", forwardBuckets,
		"Round trips to the home region, its processing time included: by home, call (execute, inspect, object, tenant) and outcome (answered, or failed: no node answered).",
		"failed: the region or the network to it. homeward.region.lost follows.",
		Home, Call, Outcome)
	ForwardMisses = regions.counter("homeward.forward.misses", "{try}",
		"Nodes of the home that did not answer, so that another was tried, by reason: dial (no connection, nothing was sent) or call (no answer over one).",
		"A node died or restarts. Steadily: gossip sees a node that forwards cannot reach, see homeward.region.silent.",
		Home, Reason)
	RegionNodes = regions.gauge("homeward.region.nodes", "{node}",
		"Nodes of a region that this node's gossip sees alive.",
		"0: the region is lost, or the network to it.",
		Peer)
	RegionSilent = regions.gauge("homeward.region.silent", "{node}",
		"Nodes of a region that this node's gossip sees alive and that do not answer its calls.",
		"All of homeward.region.nodes: the region's RPC port is closed to this region, and it is lost soon. Fewer: that node's. Compare with what the other regions report: each knows its own calls alone.",
		Peer)
	RegionLost = regions.gauge("homeward.region.lost", "",
		"1 while this node counts the region as lost and acts as its deputy.",
		"See the runbook for a lost region. Nothing is charged twice, whichever other nodes act.",
		Peer)
	RegionCircuit = regions.gauge("homeward.region.circuit", "",
		"1 for the state that this node's circuit to the region is in: closed (requests for its keys are forwarded), half-open (no node of it answers, and they are pinged) or open (gossip sees none, or they record nothing).",
		"Not closed: this node acts on the region's rows itself, at once. For as long as homeward.region.lost says, it is lost.",
		Peer, State)
	RegionStatus = regions.gauge("homeward.region.status", "",
		"1 for the status that the table of regions gives the region: active, draining or down.",
		"A forgotten drain: run `homeward regions`, then `homeward region undrain`.",
		Peer, State)
	RegionRTT = regions.gauge("homeward.region.rtt", "s",
		"The round trip to the region's nearest node, smoothed over gossip's probes.",
		"Above what the distance explains: the network. Forwards are slower by the same time.",
		Peer)
	TopologyEpoch = regions.gauge("homeward.topology.epoch", "{epoch}",
		"The epoch of the table of regions that the node uses.",
		"Nodes that differ for more than a minute: one cannot read the table.")
	TopologyAge = regions.gauge("homeward.topology.age", "s",
		"The time since the node last read that table. One node of a region reads it every few seconds, the others every minute and when they hear of a change.",
		"Above ten minutes, or above one at every node of a region: the table cannot be read.")
	VersionNodes = regions.gauge("homeward.version.nodes", "{node}",
		"Live nodes by the version of their build, as this node's gossip sees them.",
		"More than one version for longer than an upgrade takes: finish it or roll it back.",
		Version)
	CertificateNotAfter = regions.gauge("homeward.certificate.not_after", "s",
		"When the node's certificate (node), or the first of the CAs that it trusts (ca), expires, in Unix time. Absent without TLS.",
		"Renew weeks before: without it regions cannot forward.",
		Certificate)
	NodeReady = regions.gauge("homeward.node.ready", "",
		"1 while the node could record a charge when that was last checked, by a probe of /readyz or for a request; 0 while /readyz fails for want of that.",
		"0: the log says why, in the line about a node that is not ready. Balancers send such a node nothing, so no count of requests shows it.")
	ClockOffset = regions.gauge("homeward.clock.offset", "s",
		"How far the node's clock is ahead of the store's, as measured within half a round trip, at most a minute or so ago. Negative: behind.",
		"Beyond claim.lease_margin less a statement's time: fix the node's time service. Nothing is charged twice for it, but a node may trust a lease for too short or too long.")
)

// Outbox.
var (
	OutboxLag = queues.gauge("homeward.outbox.lag", "s",
		"How long the most overdue row of a kind has been due, among the first 1,000 due rows of a queue; 0 if none is due. For events the kind is the sink.",
		"Provider calls: recovery is behind. Events: the sink is down. HomewardOutboxLag fires above 5 s, HomewardEventsLag above 5 min.",
		Home, Queue, RowKind)
	SinkWaiting = queues.gauge("homeward.sink.waiting", "",
		"1 while a sink takes no events at this node, so that they wait; for NATS.",
		"The server cannot be reached, or the stream is missing or lost its subjects: the node's log says which. Payments continue.",
		RowKind)
	OutboxPending = queues.gauge("homeward.outbox.pending", "{row}",
		"Rows that are neither done nor parked, counted up to about 100,000 for each queue.",
		"For provider calls about as many as requests in progress. At the bound: a backlog.",
		Home, Queue)
	OutboxParked = queues.gauge("homeward.outbox.parked", "{row}",
		"Parked rows, which wait for an operator, by kind, counted up to 1,000 for each queue.",
		"`homeward outbox list` shows why; `homeward outbox retry` requeues one.",
		Home, Queue, RowKind)
	HandleDuration = queues.histogram("homeward.outbox.handle.duration", "s", handleBuckets,
		"How long a worker handled a row, by kind and disposition: done, gone, later, failed, parked or faulted.",
		"failed: see the sink or provider. faulted: our code panics on a row; report it.",
		RowKind, Outcome)
)

// Ghosts, and verifications.
var (
	Notices = money.counter("homeward.notices", "{notice}",
		"Incoming webhooks by verdict: kept, duplicate, forged, stale, malformed, unchecked, unknown_provider, refused, busy or unavailable. The provider is `other` if one step stored notices of several.",
		"forged or unchecked: the signing secret. unavailable: the store; the provider repeats them.",
		Provider, Verdict)
	NoticesClosed = money.counter("homeward.notices.closed", "{notice}",
		"Notices processed, by status: processed_ok, processed_compensated or ignored.",
		"None while homeward.notices grows: look at homeward.outbox.lag of notices.",
		Provider, State)
	Ghosts = money.counter("homeward.ghosts", "{ghost}",
		"Money booked into suspense: it moved at the provider for an object that was refused, expired or given up on, or a second time.",
		"The node refunds each automatically. Many: an outage of the provider, or a mistake of ours.",
		Provider)
	Compensations = money.counter("homeward.compensations", "{try}",
		"Tries to refund a ghost, by result: compensated, pending, held, doubtful or limbo.",
		"held: a brake is on. limbo and doubtful: an operator decides, see `homeward compensations`.",
		Provider, State)
	CompensationDuration = money.histogram("homeward.compensation.duration", "s", payoutBuckets,
		"The time to compensate: from the arrival of the notice until its refund was made.",
		"A payer waits that long. After a day a chargeback may follow.",
		Provider)
	Fallen = money.counter("homeward.movements.failed", "{movement}",
		"Movements that failed after they were booked, and were reversed in the books.",
		"A bank returned refunds or transfers: inform the merchant.",
		Provider, RowKind)
	Suspense = money.gauge("homeward.suspense", "{minor_unit}",
		"How far the tenants' suspense accounts are from zero, added up by currency, in its minor units, as of the last proof of the books: what they owe payers, or have paid back too much. Written by `homeward ledger verify --metrics-file`.",
		"Normally 0. What stays for a day is in LIMBO, held, doubtful, or booked to the wrong account.",
		Currency)
	Limbo = money.gauge("homeward.limbo", "{notice}",
		"Parked notices of money that cannot be refunded automatically, among the first 10,000 that are parked. Test tenants' are left out.",
		"An operator decides each: `homeward outbox list --queue notices`.",
		Home)
	BrakeHeld = money.gauge("homeward.brake.held", "",
		"1 while automatic refunds of the provider (or `all`) are stopped. Reported with the figures read from the store.",
		"`homeward compensations` shows why; release it once you know why there are so many.",
		Provider)
	BrakesApplied = money.counter("homeward.brakes.applied", "{brake}",
		"How often a limit stopped automatic refunds.",
		"As above.",
		Provider)
	ReconciliationLast = money.gauge("homeward.reconciliation.last", "s",
		"When a statement of the provider was last compared whole, in Unix time. Written by `homeward reconcile --metrics-file`; absent before the first.",
		"Older than the schedule: the run could not fetch the statement, see the log.",
		Provider)
	ReconciliationMismatches = money.gauge("homeward.reconciliation.mismatches", "{mismatch}",
		"Mismatches of the last comparison by class; `all` is how many of them remain, 0 included.",
		"`homeward reconcile` names each in its output.",
		Provider, Class)
	LedgerVerifyLast = money.gauge("homeward.ledger.verify.last", "s",
		"When the books were last proved, in Unix time. Written by `homeward ledger verify --metrics-file`; absent before the first.",
		"Older than a day: run `homeward ledger verify` by a schedule.")
	LedgerVerifyFindings = money.gauge("homeward.ledger.verify.findings", "{finding}",
		"Errors that the last proof of the books found; 0 if it held.",
		"Page. Stop compensations, keep the database as it is, and read the verdict.")
	AuditLag = money.gauge("homeward.audit.export.lag", "s",
		"How long the oldest audit window of the region without a segment in object storage has been due; 0 if none is. The exporting node reports it, if there is a bucket: one of the region, or of another while that is lost.",
		"Grows: the bucket, its key or the store; the log says which. Rows wait for their segment until they are 400 days old.",
		Home)
	AuditSegments = money.counter("homeward.audit.segments", "{segment}",
		"Audit segments written.",
		"None for hours while requests come: the exporter does not run.")
	AuditLost = money.counter("homeward.audit.replies.lost", "{entry}",
		"Audit entries of replies that were lost, as the segments record them.",
		"A few after a node is killed. Steadily: report it.")
)

// Stores.
var (
	DBDuration = stores.histogram("db.client.operation.duration", "s", dbBuckets,
		"How long the database took for one try of a statement, by the statement's name.",
		"One statement: its plan. All: the database or the network.",
		DBSystem, Statement, Outcome)
	DBRetries = stores.counter("homeward.db.retries", "{try}",
		"Tries beyond the first, by statement: contention, lost connections, ambiguous commits.",
		"Some are normal on CockroachDB. Many on one: contention on a row.",
		Statement)
	DBConnections = stores.gauge("db.client.connection.count", "{connection}",
		"Connections of a pool (main, door) that are idle or used.",
		"All used for long: database.max_conns, or statements that hang.",
		Pool, PoolState)
	DBConnectionsMax = stores.gauge("db.client.connection.max", "{connection}",
		"How many connections a pool may have.",
		"A setting: database.max_conns.",
		Pool)
	PoolTimeouts = stores.counter("db.client.connection.timeouts", "{timeout}",
		"Acquisitions that timed out: calls that waited for their turn (arriving, begun), and for the connection itself (main, door).",
		"Callers got 503.",
		Pool)
	PoolCalls = stores.gauge("homeward.pool.calls", "{call}",
		"Calls of the database that wait for a connection or have one: those of work that arrives, and those of work that was begun.",
		"At database.max_waiting the node refuses callers at once.",
		Pool)
	PoolWaits = stores.counter("homeward.pool.waits", "{wait}",
		"Calls that waited for a connection.",
		"More connections (database.max_conns), or a faster database.",
		Pool)
	PoolWaitTime = stores.counter("homeward.pool.wait.time", "s",
		"The total time of these waits.",
		"Divided by homeward.pool.waits: the mean wait. It is part of the layer's time.",
		Pool)
	BatchSize = stores.histogram("homeward.batch.size", "{step}", batchBuckets,
		"Steps that shared one statement, by statement.",
		"Grows with load, as intended. At 64 for long: the database is at its limit.",
		Statement)
	Compactions = stores.counter("homeward.embedded.compactions", "{compaction}",
		"Compactions of the embedded store.",
		"With the debt it shows whether the store keeps up.")
	CompactionDebt = stores.gauge("homeward.embedded.compaction.debt", "By",
		"Bytes that the embedded store has yet to compact.",
		"Grows for long: the disk is too slow for the load.")
	Syncs = stores.counter("homeward.embedded.syncs", "{sync}",
		"Syncs of the embedded store's log to the disk; requests share them.",
		"homeward.embedded.sync.time divided by it is the mean sync.")
	SyncTime = stores.counter("homeward.embedded.sync.time", "s",
		"The total time of these syncs.",
		"A mean above a few milliseconds: the disk. Each claim waits for two syncs.")
	DiskUsage = stores.gauge("homeward.embedded.disk.usage", "By",
		"The size of the embedded store on disk.",
		"While it compacts it needs as much free space again.")
	Collected = stores.gauge("homeward.store.figures.age", "s",
		"The age of the figures read from the store: stuck, unknown, lag, pending, parked, LIMBO and brakes. One node of a region at a time reads and reports them; the others do not.",
		"Above two minutes: the store does not answer, and these gauges are out of date.")
	CollectFailures = stores.counter("homeward.store.figures.failures", "{try}",
		"Failed reads of these figures from the store.",
		"Look at the database.")
)
