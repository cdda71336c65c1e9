// Package claim owns the life of an idempotency key: who may act under it,
// what it remembers, and for how long.
//
// # The row is the truth
//
// A claim is one row, in the partition of its home region. Whoever wants to act
// writes it first, with compare-and-set, and the provider hears nothing before
// that write is durable. Everything else (gossip, in-process wake-ups, local
// timers, replicas) only saves time: if any of it is wrong, a request waits
// longer or travels further, and no card is charged.
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
//	  │                                pending (somebody else is to act)    │
//	  └─────────────────────────────────────────────────────────────────────┘
//
// Expiry is judged when the row is read, by the store's clock ([Record.Age]);
// physical deletion is housekeeping. The 24 h run from first use or from the answer,
// whichever is later ([Record.ExpiresAt]). A claim in flight never expires: an
// outcome is still owed. A row that is gone but still stored is replaced with
// fence+1.
//
// The transitions are the pure functions [Begin], [Settle], [Renew], [TakeOver]
// and [PinFor]: (record, event, now) → (record, effects). A [Store] persists
// what they return in one atomic step and decides nothing itself.
//
// # Twins
//
// Requests for one key that are under way at the same time share one outcome. The
// losers wait, and read the winner's answer. Where the winner's generation was
// released, the row keeps how it ended ([Refusal]), and that answers every request
// that was under way by then ([Shared]). Only a request that began DeclinePause after
// the release may claim the next generation: else each of the waiting twins would call
// the provider once more, under one provider key after the other.
//
// When a request began travels as a duration ([Arrival.UnderWay]): the entry counts
// it, the way to the home included, and each store goes on counting. Clocks of two
// nodes are never compared. In doubt a request counts as one that began before: it
// reads the refusal once more.
//
// # Fences, leases and trust
//
// The fence is the row's counter; every change of holder raises it and every
// write of a holder compares it. The lease says, by the store's clock, until
// when others must leave the row alone. The fence alone is what makes it safe:
// a holder that slept through its lease finds its write refused. The lease only
// keeps two holders from calling the provider needlessly.
//
// A holder counts its trust from before it asked the store, by its own clocks
// (the monotonic one sleeps with the machine, so the wall clock is looked at,
// too), and stops LeaseMargin early. When trust ends, the provider
// call's context ends and no further call is issued. A take-over waits
// ClockOffset longer than the lease. A heartbeat renews all leases of the
// process in one step, up to LeaseCeiling.
//
// What an attempt has learned is said to the store again and again, with back-off,
// while the store gives no answer and trust lasts; the heartbeat goes on meanwhile.
// Each verdict has an id of its own, which the row keeps until somebody has the claim
// again. So a verdict that was recorded, though its reply was lost, is answered with
// what it left when it is said again, and the caller gets the answer. Nothing is said
// again after [ErrFenced].
//
// # The provider key
//
// It is a hash of tenant, key, first use, generation and the name of the provider that
// the generation is with: so the row says, in what the provider is told and nowhere else,
// whom to ask ([Record.With]). A node that does not have that provider leaves the claim to
// one that has.
//
// A definitive no of one provider may be another one's to answer (OutcomeMoved): the step
// that records it begins a generation for that other one, under a fence of its own, before
// anybody calls it.
//
// The generation goes up only when a re-claim follows a definitive no: under the same
// provider key the provider would only repeat its cached decline. After an unknown outcome
// it never changes, so that however many holders ask, the provider sees one request.
//
// # Crash points
//
// The process may die at any point of a request's way; these are the ones that
// differ, with what the next request (or the outbox worker) sees.
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
//	E  after Settle, before or     COMPLETED: replay
//	   during the reply
//
// While a verdict is said again the row is as in D or, where a try was done and only
// its reply lost, as in E: a holder that dies then leaves one of the two.
//
// Between the pin of an opaque key and its Begin: a pin without a claim; the
// next request is sent to the pinned home, which begins. Where Begin pins the key
// as well ([Arrival].PinHere) there is no such point on SQL: A or B. Between the large body
// in the object store and its Settle: an orphan blob, which the retry adopts
// because it is named by its content; the row is as in D. Between the outbox
// worker's take and its TakeOver: the row is due again when its own short lease
// ends. Between the last reply and its audit note: the note is lost; notes of
// replays are the one thing that is allowed to be.
//
// A panic in an attempt is a crash of that attempt alone. In the executor it is C: the
// outcome is unknown, the row is put off, and asking is never given up for it. In the
// settlement it is D. Either way no lease is renewed any more, and the worker counts the
// failure and parks the row after some tries, with the claim in flight.
//
// # Outcomes
//
// An attempt ends in done, refused, released, unknown or pending. Unknown keeps the row
// IN_FLIGHT without a holder until a back-off passes; then the outbox worker or
// a retry of the same request asks again. At MaxUnknowns it becomes
// FAILED_TERMINAL with reason outcome_unknown, which is logged as an error; a
// charge that surfaces later is to be refunded. An attempt that never began, because
// trust had ended before it could, is an unknown that sent nothing and counts for
// nothing.
//
// Pending is neither: the provider has the call and waits for the payer, for a bank, or to be
// told to take the money that it holds.
// The row stays IN_FLIGHT without a holder and keeps an [Interim] answer, which every
// request reads until an attempt learns that the state has changed. It is asked about at
// the pace that the verdict names, and whoever has heard of it may take it over at once.
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
// Every step that says no, for good or for now, leaves an [Unpaid]: whose the object
// was, for as long as a provider can surprise, which is far longer than the claim is
// kept. What was paid needs none, for it is in the books, and what is in flight is
// never deleted.
package claim
