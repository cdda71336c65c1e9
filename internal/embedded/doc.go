// Package embedded keeps claims, pins, outbox, books, notices, audit and tenants in one
// Pebble store: one process, one directory, any number of regions. It implements
// [claim.Store], [outbox.Store], [ledger.Store], [notice.Store], [audit.Store] and
// [relay.Endpoints] for `homeward demo`, for development and for tests, with the same
// durability and the same results as the SQL store.
//
// # Time
//
// All times are of one clock, which follows the machine's and never goes back. If the
// machine's clock is set forward, the store's follows at once: leases lapse early,
// which the fences allow, and windows end early by as much. If it is set back, the
// store's continues from where it was at half the pace, until the two agree, which
// takes twice as long as it was set back by. So after a jump of an hour forward and
// back no lease and no due row waits longer than twice its time; for two hours, times
// that merchants see are up to an hour ahead. A store that is opened anew begins at the
// machine's time: open rows that were written ahead of that wait until the machine's
// clock gets there, so correct the clock before you restart.
//
// # Regions and distance
//
// Every row is homed in a region and stored under that region's code. A node
// works through the [View] of its own region: rows of that region are near; each
// operation on another region's rows first makes one round trip on the
// [wan.Network], which costs the configured distance and fails with
// [claim.ErrHomeUnreachable] while the way is cut. Nothing has been done then: a
// reply cannot be lost here, only a request. Replica reads never travel, and
// show only what is older than the replica lag.
//
// # Layout
//
// One byte names the table; r is the region code in two bytes, big-endian, and
// · is a zero byte, which no tenant, key or id contains. Values are protobuf
// (internal/proto/homeward/store/v1) unless said otherwise. Those of claims and outbox
// rows are spelt by hand in wire.go, and a test holds them against the generated code.
//
//	key                        value                written by
//	c r tenant · key           Claim, its response  Begin, Settle, Renew, TakeOver
//	                           and audit included
//	j r object id              tenant · key         Settle, unless l has the object's id
//	o r message id             Message              Begin, Settle, TakeOver, worker
//	q r message id             tenant · key         with o, while parked
//	x, z                       as o, q              the expiries: Settle, worker
//	u, w                       as o, q, without     the notices: Keep, Close, worker
//	                           the body
//	e, g                       as o, q              the events: Settle, Book, worker
//	y, v, f r due(8)           tenant · key         with x, u, e, unless parked
//	  message id
//	k r tenant · key · kind ·  nothing              with e, unless parked
//	  created(8) message id
//	l r transaction id         Transaction          Settle, Post, Book
//	b r at(8) transaction id   nothing              with l
//	r r reversed id ·          nothing              with l, if it reverses one
//	  transaction id
//	A r provider · reference   transaction id       with l, if it is an arrival
//	B provider                 version(8), JSON     PutBrake
//	n r · notice id            Notice               Keep, Rewrite, Sweep
//	N r · notice id            Notice: status,      Close; Rewrite and Sweep move it to n
//	                           detail and time
//	U r · object id            Unpaid               Settle, unless money moved
//	a r tenant · key · seq(8)  Audit                notes; and of steps what the claim's
//	                                                row has no room for. Of no key: how
//	                                                many notes were lost
//	H r                        version(8), JSON     AdvanceAudit, ForgetBooks: how far audit
//	                                                is exported, and books have left
//	D r account · currency     JSON                 ForgetBooks: the sums of what has left
//	R                          version(8), JSON     PutRestore: that the rows are a backup's
//	W tenant · key             JSON                 PutWitnesses, DropWitnesses
//	p r tenant · key           Pin                  Pin; r is the registrar
//	t tenant                   Tenant               PutTenant, MoveRegistrar
//	h SHA-256(32) of API key   tenant, as text      PutTenant
//	s tenant                   Endpoint             PutEndpoint, RemoveEndpoint, NoteDelivery,
//	                                                RewriteSecrets
//	m name                     number(8)            Open: format, epoch, region/…, window/…;
//	                                                SetRegionStatus: topology, status/…
//
// A replay is one read, as the response is in the claim's row. So is the audit of the
// claim's steps, up to some 500 bytes of it; it moves to rows of its own when there is
// more, when the key begins another life, and when the claim is swept. Whose an object is
// its provider call says (o) until it is settled; then its booking does (l), which has the
// object's id and names the key, and where nothing was booked a row of its own (j). due is in
// microseconds, so that the due rows of a region lie in the order in which they
// are taken. A provider call has no due row: it is written by each Begin and, as a rule,
// gone with Settle before it is due. An event has a due row (f) only while it is the first of its line (k),
// that of its key and sink: the others cannot be taken, and Take does not see them. Every step that moves
// the head of a line moves the due row with it. A transaction is kept until it leaves, a
// notice for [notice.KeepFor], and whose an unpaid object was for [claim.Policy].RememberFor.
// seq counts within one opening of the store, whose own number (epoch) is in its upper bits. A region's code is checked at every Open and can
// be neither changed nor given to another name.
//
// # A step
//
// Each write takes the lock of its row, reads the row, applies the pure
// transition from package claim with the store's clock, and commits one batch:
// the row, its indexes, its outbox row and its audit, and with Settle the booking or
// what is remembered of an unpaid object, the events and the expiry. A crash keeps all of a batch or none of it, so never
// one without the other. The lock is held until
// the log is synced, and authoritative readers take it too. That matters:
// Pebble shows a commit to readers before its sync is through, and a response
// read in that moment could be replayed to a client and then lost. Commits on
// other rows share the sync; while many wait, the next sync lets more of them gather, see
// [DB.syncEvery]. A scan takes no locks; where what it saw must not be
// taken back, it syncs the log before it answers.
//
// Locks are taken in one order: tenant table, pin, topology, row, transaction id or
// unpaid object.
// An outbox row is under the lock of its claim, or of its notice. Renew, Keep and CloseAll
// take their rows' locks sorted; Take takes none that it would have to wait for.
//
// # Memory
//
// The rows are the truth. Memory holds copies that were read from them, follows each
// commit before the locks of its rows are free, and is lost with the process; it gives
// no answer that the rows would not give.
//
// Most look-ups of a new charge are for missing rows. Shared iterators over the tables
// show whether those have a row, as tables change only with a flush; marks, by hash of
// a row's key, show whether it was written since the latest one, so that the memtables
// must be read. Until the first flush of an opening has completed, everything is read:
// rows of the log have no marks.
//
// A claim that was begun in this process is cached until it is settled, one for each
// lock. If this process minted its id, a booking under that id can only have been written
// since, and the marks show whether anything was: Settle does not look for an older one. Some thousand of the first due rows of a queue are cached, so that Take does
// not step over the deletions of handled ones. The rows of each line of events are
// counted, so that an event that is alone, as nearly all are, does not look for others.
// The counts are made at Open, from the lines' rows; everything else is read on demand.
// Only the calls' own rows have their due times. Some thousand of the first calls of a
// region are ordered in memory; they are read anew when a process first takes, and
// commits continue meanwhile.
//
// # Crash points
//
//	step            crash before the sync            crash after it
//	Begin           no claim, and no pin if it was   the claim is in flight and its
//	                to write that too; nobody was    outbox row falls due with the lease:
//	                told; the next arrival begins    whoever comes first takes over. That
//	                                                 row names the key of its object. The
//	                                                 pin stands
//	Settle          in flight as before; taken over  final; retries replay it. The caller
//	                after the lease, and the         may not have heard. Booking, or what
//	                provider is asked under the      is remembered of an unpaid object,
//	                same provider key; nothing is    events and expiry are there with it.
//	                booked or told; the outbox row   The outbox row is not: the booking
//	                names the key of the object      names the key of the object now, or
//	                                                 a row of its own
//	Settle that     released as before; the expiry   final, and told of; the expiry's
//	closes          row asks for it again            worker finds nothing left to do
//	Post, Fail      not booked; who posts it again   booked, and what tells of it waits;
//	                books it                         posting it again changes nothing
//	Keep            none of the batch; the provider  all of it, each notice with its row;
//	                got no 200 and sends it again    what comes again is left out
//	Close,          unprocessed, and its row falls   closed, and no row
//	CloseAll        due again: what was done for
//	                it is done again, and must
//	                bear that
//	Renew           the older lease; lapses sooner   the newer lease
//	TakeOver        the old holder's lapsed lease    fence+1; lapses and is taken over again
//	Take, or Settle due as before; taken again;      due when the lease lapses
//	that leaves     or in flight as before
//	events
//	Finish          as before: the row falls due     done
//	                again, and is handled again
//	Retry,          as before: the row falls due     done
//	Park, Unpark    again, and the worker's fence
//	                is still good to no one but it
//	FinishAll,      each row as Finish or Retry, a batch of its own
//	RetryAll
//	Pin             see below                        the pin stands
//	MoveRegistrar   the old registrar                the new one, and the old looked at too
//	SetRegionStatus the old status                   the new one
//	PutBrake        the old brake                    the new one
//	AdvanceAudit    the old chain; the exporter      the new one
//	                finds its object and adopts it
//	ForgetAudit     there, and found again           gone
//	ForgetBooks     there, and the old chain; the    gone, carried forward, and the new
//	                object is spare                  chain
//	PutEndpoint,    the old endpoint                 the new one
//	NoteDelivery,
//	RewriteSecrets
//	Rewrite         the old body                     the new one; either opens
//	Note            lost: audit of replies is up to  there
//	                a second behind
//	Sweep           swept again                      gone, or without its body
//
// "Before the sync" includes the case that the batch reached the disk all the same. The
// next request then sees the right-hand column, so a caller that got no answer must
// retry with its key rather than assume.
//
// # Why a pin need not be synced
//
// The first pin of a key whose registrar is its home is in the batch of its claim: one is
// not there without the other. The pin's locks are held until that batch is synced. Any
// other pin is committed without waiting for the disk. It matters only to what is
// done under it later: the claim. Pebble writes one log: batches enter it in
// commit order, a log is closed and synced before the next one is started, and
// recovery keeps a prefix of it, ending at the first record that is not whole.
// So a crash that loses the pin also loses every commit after it. A claim made
// under the pin was committed after the pin was returned; if the claim is found
// after a crash, so is the pin. If neither is, nobody has called a provider,
// since that happens only after Begin's sync, and the key is as new. The crash
// tests check exactly this at random moments with random loss. (With a second
// log, for instance Pebble's WAL failover, the argument would need a new look.)
//
// # Why workers need not wait
//
// Take of other rows than provider calls, and Finish, are committed without waiting for
// the disk, too. What a crash takes away of them is a lease whose worker died with the
// process, and that a row was done: it is taken and handled once more, as after a crash
// just before the Finish, which handlers must bear at any time. A fence may be handed
// out twice then, but its first holder is dead. An event that others of its line wait for
// is finished with a sync, and one that comes later comes with a sync of its own, which
// by the same argument keeps what was before it. So no sink hears of an event again after
// one that came after it. A provider call's row is taken with a sync, for an operator who
// reads who has it.
//
// # When the disk fails
//
// After the first failed write of the log every later call fails with
// [claim.ErrUnavailable], Config.Fatal is called with one line, and ends the process
// there. Nothing was acknowledged that is not in the log; the next Open recovers.
package embedded
