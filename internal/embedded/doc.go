// Package embedded keeps claims, pins, outbox, books, notices, audit and tenants in one
// Pebble store: one process, one directory, any number of regions. It implements
// [claim.Store], [outbox.Store], [ledger.Store], [notice.Store], [audit.Store] and
// [documents.Store] for `homeward demo`, for development and for tests, with the same
// durability and the same results as the SQL store.
//
//	db, err := embedded.Open(embedded.Config{Dir: dir, Regions: regions, Policy: policy})
//	view, err := db.Region("us-east1") // the claim.Store of that region's nodes
//
// Each contract has a file: claims.go, pins.go, outbox.go, ledger.go, notices.go, audit.go,
// books.go, tenants.go, and shared.go for documents and witnesses. Below them are keys.go,
// rows.go (messages of protobuf) and store.go (batches, reads, scans).
//
// # A step
//
// Each write takes the lock of its row, reads the row, applies the pure transition from
// package claim with the store's clock, and commits one batch: the row, its indexes and
// every effect. A crash keeps all of a batch or none of it. The lock is held until the log
// is synced, and authoritative readers take it too: Pebble shows a commit to readers before
// its sync is through, and a response read in that moment could be replayed to a client and
// then lost. Pebble lets the commits on other rows share the sync. A scan takes no locks; if
// a crash must not undo its result, it syncs the log before it answers.
//
// Locks are taken in one order: tenants, pin, topology, row, transaction id or unpaid
// object. An outbox row is under the lock of its claim, or of its notice. Renew, CloseAll
// and other steps of many rows take their locks sorted; Take takes none that it would have
// to wait for.
//
// Memory has locks, a copy of the tenants and a few recent answers. Everything else is read.
//
// # Layout
//
// One byte names the table; r is the region code in two bytes, big-endian, and · is a zero
// byte, which no tenant, key or id contains. Values are messages of
// internal/proto/homeward/store/v1 unless said otherwise.
//
//	key                        value                 written by
//	c r tenant · key           Claim, with its       Begin, Settle, Renew, TakeOver, worker
//	                           provider call
//	j r object id              tenant · key          Begin
//	i r reversed id ·          nothing               with c, while in flight, if it reverses
//	  object id                                      one
//	a r tenant · key · seq(8)  Audit                 every step, Note, AppendAudit
//	e, x, u r message id       Message               events: Settle, Book, worker; expiries:
//	                                                 Settle, worker; notices, without the
//	                                                 body: Keep, CloseAll, worker
//	d, f, y, v r due(8)        its owner, or its     with the call in c, e, x, u; due is the
//	  message id               line's row            greatest of all while parked
//	k r tenant · key · kind ·  nothing               with e, while not parked: the line of
//	  created(8) message id                          events, of which the first can be taken
//	l r transaction id         Transaction           Settle, Post, Book
//	b r at(8) transaction id   nothing               with l
//	r r reversed id ·          nothing               with l, if it reverses one
//	  transaction id
//	L r tenant · created(8)    nothing               with l, if it is a charge
//	  transaction id
//	N r tenant · order_id ·    nothing               with l, if it is a charge that has one
//	  created(8)
//	  transaction id
//	A r provider · reference   transaction id        with l, if it is incoming
//	U r object id              Unpaid                Settle, unless money moved
//	n r notice id              Notice                Keep, CloseAll, Rewrite, Sweep
//	p r tenant · key           Pin                   Pin, Begin; r is the registrar
//	H r                        version(8), JSON      AdvanceAudit, ForgetBooks: how far audit
//	                                                 is exported, and books have left
//	D r account · currency     JSON                  ForgetBooks: the sums of what has left
//	B kind · name              version(8), JSON      PutDocument, also by Open
//	W tenant · key             JSON                  PutWitnesses, DropWitnesses
//	t tenant                   Tenant                PutTenant, MoveRegistrar
//	h SHA-256(32) of API key   tenant, as text       PutTenant
//	m name                     number(8), or an id   Open: format, epoch, region/…, deployment;
//	                                                 SetRegionStatus: topology, status/…
//
// A replay is one read, as the response is in the claim's row. due, created and at are in
// microseconds. seq counts within one opening of the store, and has the number of the opening
// (epoch) in its upper bits. A transaction is kept until it leaves. Every Open checks the regions'
// codes: a region keeps its code for ever, and no other region gets it.
//
// # Regions and distance
//
// Every row is homed in a region. A node works through the [View] of its own region: each
// operation on another region's rows first makes one round trip on the [wan.Network], which
// costs the configured distance and fails with [claim.ErrHomeUnreachable] while the network
// is partitioned. Then the operation has not begun: here only requests can be lost, and no
// replies. Replica reads never travel, and show only rows older than the replica lag.
//
// # Time
//
// All times are of one clock, which follows the machine's and never goes back. If the
// machine's clock is set forward, the store's follows at once: leases lapse early, which the
// fences allow, and windows end early by as much. If it is set back, the store's continues
// from where it was at half the pace, until the two agree. So after a jump of an hour
// forward and back no lease and no due row waits longer than twice its time, and half of a
// request's age, which its entry measures, is in doubt from then on. After a restart the store
// begins at the machine's time: open rows with later times wait until the machine's clock
// reaches them, so correct the clock before you restart.
//
// # Crash points
//
// Every step is synced before it answers, but for Pin, notes and what Sweep deletes. A crash
// before the sync leaves nothing of the step, or all of it: a batch may have reached the disk
// all the same, so a caller without an answer retries with its key rather than assume. After
// Begin the provider call falls due with the lease; after Settle there are the booking, or the
// Unpaid row, the events and the expiry, and no call. A Take ends when its lease lapses.
// After a lost Finish, Retry, Park or Close the row falls due again, so handlers must be
// idempotent.
//
// # Why a pin need not be synced
//
// Begin puts a pin that it makes into the batch of its claim. A pin that Pin makes matters
// only to what is done under it later: the claim. Pebble writes one log:
// batches enter it in commit order, a log is closed and synced before the next one is
// started, and recovery keeps a prefix of it, ending at the first record that is not whole.
// So a crash that loses the pin also loses every commit after it, the claim made under it
// included; and no node has called a provider, since that happens only after Begin's sync. Nodes
// run in the store's process, so none outlives a crash and remembers a pin that it lost.
// The crash tests check exactly this at random moments with random loss. (With a second log,
// for instance Pebble's WAL failover, the argument would need a new look.)
//
// # When the disk fails
//
// After the first failed write of the log, calls in progress and later ones fail with
// [claim.ErrUnavailable]. The store calls Config.Fatal with one line. Nothing was acknowledged that
// is not in the log. Once there is room, the next Open recovers, also in the same process after
// Close.
package embedded
