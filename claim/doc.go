// Package claim owns the life of an idempotency key: who may act under it,
// what it remembers, and for how long.
//
// # The row is the truth
//
// A claim is one row, in the partition of its home region. A node that wants to
// act writes the row first, with compare-and-set, and calls the provider only
// once that write is durable. Everything else (gossip, in-process wake-ups,
// local timers, replicas) only saves time: if any of it is wrong, a request
// waits longer or travels further, and no card is charged.
//
// # States
//
//	           Begin                      Settle done
//	(none) ───────────────▶ IN_FLIGHT ──────────────────▶ COMPLETED ───────┐
//	  ▲                      ▲  │  │ │                                      │ 24 h
//	  │                      │  │  │ │     Settle refused                   ▼
//	  │              Begin   │  │  │ └───────────────────▶ FAILED_TERMINAL ▶ expired
//	  │       (same request) │  │  │     or given up                        │
//	  │                      │  │  │                                        │ 24 h
//	  │        FAILED_RETRY ─┘◀─┘  │ Settle released                        ▼
//	  │             │              │                                       gone
//	  │             └─ 24 h ───────┼───────────────────────▶ expired        │
//	  │                            └─▶ IN_FLIGHT: taken over (fence+1),     │
//	  │                                deferred (outcome unknown), or       │
//	  │                                pending (payer or bank is to act)    │
//	  └─────────────────────────────────────────────────────────────────────┘
//
// Expiry is judged when the row is read, by the store's clock ([Record.Age]); physical
// deletion is housekeeping. The 24 h run from first use or from the answer, whichever
// is later ([Record.ExpiresAt]), and an answer may have a shorter window of its own
// ([Response].ReplayFor). A claim in flight never expires, as its outcome is
// still open. A row past its tombstone that is still stored is replaced with fence+1.
//
// The transitions are the pure functions [Begin], [Reattach], [*Settlement.On], [Renew],
// [TakeOver] and [PinFor]: (record, event, now) → (record, effects). A [Store] persists
// what they return in one atomic step and decides nothing itself. [New] and [Settle] are what
// Begin creates and a verdict leaves, in durations, for a store whose statement has the time.
//
// # Twins
//
// Concurrent requests for one key share one outcome. The losers wait, then return the
// winner's answer. If the winner's generation was released, the row keeps its refusal
// ([Refusal]), which answers every request that had begun by then ([Shared]). Only a
// request that began DeclinePause after the release may claim the next generation, and none that
// waited for this one: a release has the time at which its step began, which may take longer than
// that ([Content].Waited).
// Otherwise each waiting twin would call the provider once more, each under a provider
// key of its own.
//
// A request carries its age as a duration ([Content.UnderWay]): the entry measures
// it, including the forward to the home, and each store adds to it. Clocks of two
// nodes are never compared. If in doubt, a store treats the request as begun before
// the release: it answers with the same refusal again. While the next generation is in
// flight the doubt counts the other way: the request may be that of this generation, asked
// again as its outcome is unknown, and waits for the outcome like any other.
//
// # Fences, leases and trust
//
// The fence is the row's counter; every change of holder raises it and every
// write of a holder compares it. The lease says, by the store's clock, until
// when others must leave the row alone. The fence alone makes this safe: the
// store refuses the write of a holder that slept through its lease. The lease
// only prevents needless calls to the provider by two holders.
//
// A holder trusts its lease from the moment before it sent the step, by its own clocks. The
// monotonic clock stops while the machine sleeps, so the holder also checks the wall clock. Trust
// ends LeaseMargin before the lease does. The holder then cancels the provider call's context and
// issues no further call. A take-over waits ClockOffset longer than the lease. A heartbeat renews
// all leases of the process in one step, up to LeaseCeiling. A lease that lies further ahead than
// that has lapsed: the store's clock went back since.
//
// A holder retries Settle with back-off while the store does not answer and trust
// lasts; the heartbeat continues meanwhile. Each verdict has an id, which the row
// keeps until the next holder takes the claim. So if the store recorded a verdict but
// its reply was lost, the retry returns the stored row and the caller gets the
// answer. The holder does not retry after [ErrFenced].
//
// # The provider key
//
// The provider key is a hash of tenant, key, the object's minted id, generation and the
// name of the generation's provider. The row names that provider in this hash and nowhere else
// ([Record.With]). A node without that provider leaves the claim to a node that has it.
//
// After a definitive no, the claim may move to another provider ([*Moved]): the step
// that records the no begins a generation for the other provider, under a new fence,
// before any node calls it.
//
// The generation rises only when a re-claim follows a definitive no: under the same
// provider key the provider would only repeat its cached decline. After an unknown outcome
// it never changes, so the provider sees one request, however many holders send it.
//
// # Crash points
//
// The process may die at any point while it serves a request. These are the
// points that differ, with what the next request (or the outbox worker) sees.
//
//	A  before Begin is durable     no row: the retry is the first request
//	B  after Begin, before the     IN_FLIGHT, lease runs: retries wait, then 409;
//	   provider was called         when it lapses the outbox row is due, and the
//	                               worker or the next retry takes over, fence+1,
//	                               and calls with the same provider key
//	C  during the provider call    as B; the provider dedupes the second call
//	D  provider answered, Settle   as B; the second call is answered with the
//	   not durable                 first one's result and renders the same bytes,
//	                               because all that varies was minted in Begin
//	E  after Settle, before or     COMPLETED: replay; events that the holder has not
//	   during the reply            delivered are due six leases later
//
// While a holder retries Settle, the row is as in D or, if the store settled and
// only its reply was lost, as in E. A holder that dies then leaves one of the two.
//
// Between the pin of an opaque key and its Begin: a pin without a claim; the entry forwards
// the next request to the pinned home, which begins. If Begin also pins the key
// ([Route].PinHere), there is no such point unless a row past its tombstone is replaced: else
// the row is as in A or B. Between the write of a large body to the object store and its
// Settle: an orphan blob, which the retry reuses because its name is its content's hash; the
// row is as in D. Between the outbox worker's take and its TakeOver: the row is due again when its own short lease ends.
// Between the last reply and its audit note: the note is lost; notes of replays are the
// only audit entries that may be.
//
// A caller who leaves is none of these. Its context ends its wait alone: a step that was sent
// to the store is followed to its end, and the claim that it won is executed.
//
// A panic in an attempt is a crash of that attempt alone. In the executor it is C: the
// outcome is unknown and the row is deferred; MaxUnknowns never ends the claim after a
// panic. In the settlement it is D. Either way the lease is no longer renewed, and the
// worker counts the failure and parks the row after a few attempts, with the claim in
// flight.
//
// # Outcomes
//
// An attempt ends in done, refused, released, unknown, pending or moved ([Outcome]).
// Unknown keeps the row IN_FLIGHT without a holder until a back-off passes; then the outbox
// worker or a retry of the same request asks again. At MaxUnknowns it becomes
// FAILED_TERMINAL with reason outcome_unknown, if the unknown has an answer for that
// ([Unknown].GiveUp), which is logged as an error; a charge that surfaces later must be
// refunded. An attempt that never began, because trust had ended first, is an unknown
// that does not count ([*Unsent]). If nothing was sent in the first attempt either, the row may say so
// ([Unsent].NotFound) until a holder may have called: it dies, or its verdict is another one.
//
// A verdict that the store refuses to record, now and later ([ErrUnstorable]), ends nothing:
// the claim stays in flight, an operator is paged, and the worker parks the call.
//
// Pending is neither: the provider accepted the call and waits for the payer, for a bank,
// or for a capture of the money that it holds. The row stays IN_FLIGHT without a holder and
// keeps an [Interim] answer, which every request reads until an attempt learns that the
// state has changed. The worker asks the provider at the interval that the verdict sets. A
// node that receives news of the outcome may take the row over at once.
//
//	after the provider said pending,  as D: the next attempt asks, or repeats under the
//	before Settle is durable          same provider key, and finds it pending
//	after that                        retries read the interim answer; the outbox row is
//	                                  due at the next look
//	while it is asked about           the interim answer stands; when the lease lapses the
//	                                  next attempt asks
//	after it was called off at the    the next attempt finds it called off, past its
//	provider, before Settle           time, and closes it alike
//
// A final state always has a response to replay: [Settle] makes none without one,
// and the stores refuse to keep one.
//
// Every refusal of a payment, final or not, writes an [Unpaid] row, which names the tenant of
// the object for as long as a provider may still report a success. That is far longer than
// the claim is kept. A payment needs no such row, as the books have it, and a claim in
// flight is never deleted.
//
// # Keys that are given up
//
// A merchant who has waited for long enough gives its key up ([Service.Cancel]). That is a request for
// the same key, by the same pin, home and deputies, of the operation [CancelKey]. So one row decides
// which came first, in every region.
//
//	no row        it begins a claim, as any request does, and the executor refuses it. That claim
//	              answers whatever else arrives under the key
//	IN_FLIGHT     [Cancel] writes a mark into the row ([Record].CanceledAt). The mark raises the fence
//	              and leaves the holder its lease: a holder that has not seen it cannot record its
//	              verdict. It reads the row again, and its executor makes of what it found out what
//	              a canceled key makes of it ([Attempt].Found)
//	FAILED_RETRY  it is closed, without an attempt
//	final         it stays. What it moved is refunded by a claim of its own, see package notice
//
// Under the mark nothing is sent that may not have been sent, a claim that waits is due at once, and a
// charge that turns out to have moved is refused: the step that refuses it books its money as a ghost,
// and enqueues the refund. So once the mark is durable no request reads that the charge was made, and
// all of them read the same bytes in the end. Before that they wait, or read that the outcome is
// unknown. Money that cannot be called back, of a transfer or a refund, is recorded as made.
//
//	mark | attempt, or none | settle: claim, ghost, refund | answer
//
//	before the mark is durable   nothing has happened
//	after it                     as B, C or D: whoever has or takes the claim acts under the mark
//	during the attempt           as C: it asks, or calls off again
//	after Settle                 FAILED_TERMINAL: replay; the refund is due, and its worker repeats it
//	                             until it is made, see notice.Compensator
//
// A second cancellation finds the mark, or what the first one's claim came to. A mark whose reply was
// lost is found as well, whoever made it.
//
// # After a restore
//
// A store that was restored from a backup lacks the claims that were begun after the backup. Their
// retries look like first requests, and would charge again under another provider key. So the row
// [Restore] records between which times claims are missing. While it stands, a [Guard] is in front
// of the store, at the four steps that begin work on a key, and no other code handles it:
//
//	[Store].Begin     a key with an answer is answered from its claim. Else the guard recalls
//	                  what is known of the key, before anything is begun or taken over
//	[Store].TakeOver  the guard recalls first: the generation that the backup has in flight
//	                  may be over, and a later one paid
//	[Store].Settle    of a released claim without a holder, after its request expired: likewise
//	[Store].Pin       a key without a pin may have had one
//
// A lost mark is in the [Witness], too, unless its claim was begun before the backup. The exported
// audit has the [Witness] of each key:
//
//   - A key that was minted since the restore, as its first bits show ([Restore.Minted]), is
//     new. All others are guarded.
//   - A key with a witness gets the claim back that it had: the same home, object, first use
//     and provider key. The attempt is a recovery, which asks the provider, or repeats the call
//     that it dedupes. It has the witness ([Attempt].Witness).
//   - A key without a witness is withheld ([WithheldError]) until the witnesses are known to be
//     complete, or until the missing claim would have expired anyway.
//   - A key with money that a person had booked ([Witness].Booked) is withheld.
//
// A released claim is also read behind the guard ([Guarded.ByObject]) by who decides about
// money that surfaces for it: it may be the payment of a lost generation, and no ghost.
//
// Each generation has its own provider key. A provider that was paid under one of them does not
// dedupe a call under another, so only the last generation may be attempted. A witness has the
// last one if it is final, as no generation follows a settlement while the key is remembered, or
// if the audit has all of the lost time in every region. In all other cases the key is withheld.
// A person's word ([Restore].ReleasedBy) is about keys of which nothing is known, and changes
// nothing here ([Restore].Partial). Neither does the time until lost keys are forgotten: a later
// generation may be a bank debit, which is remembered for longer. A new key, which the merchant
// chooses, is the way around.
//
// The row is written while no node runs, and each node reads it before its first request. If
// the row was forgotten, the exported audit may prove that the store was put back: the node that
// finds it writes the row (audit.Exporter.Compare). Later a node may see changes late. This is
// safe: each change allows keys that an older view withholds. So a step that needs no guard costs
// no statement, and no clock or message has to be trusted. The exception is a row that is begun
// while nodes run. A node begins keys as before until it has read that row: it hears of it by
// gossip within seconds, and else reads within a minute.
//
//	the backup is put back | the row is written | witnesses are written | the row changes |
//	nodes start | a claim is begun from its witness | its attempt | Settle
//
//	before the row is written    no node may run yet; the tool asks the database who does, and
//	                             a node that starts asks the audit's bucket
//	after it                     every first sight is withheld
//	between two witnesses        as before; writing one again writes the same
//	before the row says that     as before: a key without a witness is withheld, and one whose
//	they are complete            witness is not final
//	after a claim was begun      as B and C of every claim: a recovery under the provider
//	from its witness             key that the lost claim had
//
// Interleavings:
//
//	the tool writes a later     the guard reads the row before the witness, and the tool writes
//	witness between the two     them in the other order. If the guard saw "complete" the witness
//	                            was written; a final witness is not replaced by another generation
//	the tool is given a bucket  it writes nothing: an earlier generation would replace the last
//	with less than it has read
//	a person books the payment  the attempt recalls once more, and sends nothing
//	between step and attempt
package claim
