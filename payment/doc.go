// Package payment defines charges, transfers and refunds: which requests are
// well-formed ([Parse]), what the answer looks like (a 201 whose bytes follow from
// stored values alone), which provider call is safe to make now ([Executor]), and what
// its outcome books and emits.
//
// One attempt makes at most one call that can move money. Whether a second
// attempt may make another depends on what the provider does with a key it has
// seen:
//
//   - The provider dedupes. Every attempt of a generation sends the same provider key,
//     so a repeat reads the first call's result. Providers forget keys, most after 24
//     h, so the executor relies on this for as long as the provider promises, less
//     [dedupeMargin]. Some providers know a key only at the endpoint that received it:
//     an attempt names the claim's home, and the adapter has one endpoint for each
//     home, so that a deputy repeats a call at the same endpoint.
//   - The provider does not dedupe, or may have forgotten, but answers look-ups. It
//     must report "nothing under this reference" in [askBeforeCall] attempts a settle
//     window apart, and once more, before another call.
//   - The provider does neither. The executor makes no second call: the outcome stays
//     unknown until the claim is given up and an operator, or reconciliation, decides.
//     A refund is not given up while its provider answers look-ups: only its request
//     names its charge, so it could not be booked later.
//
// A look-up that finds a decline proves only that no money has moved under the
// reference so far; after a soft decline it may belong to the previous generation. It
// then counts as "nothing".
//
// A repeat that the provider refuses as invalid proves nothing about the first call: a provider may
// validate a request before it looks up the key. The refusal counts only after the look-ups above
// have found nothing, as often and as far apart as for any other call. If the provider has no
// look-ups, the outcome stays unknown. A provider that takes the repeat for another call under the
// same key ([psp.ErrKeyReused]) refuses neither call, and the executor looks up as above.
//
// # Providers
//
// A charge or transfer goes to the provider for which its claim's generation was begun,
// which its provider key names ([claim.Record.With]); only a node that has that
// provider acts on it. A refund goes to its charge's provider, which the
// books record for ever, so its claim names none; a compensation goes to its ghost's. A
// first attempt at a refund releases its key if this node lacks the provider; a later
// one leaves the claim open.
//
// Charges in a connected account, and their refunds, are booked there (ledger.Where). A
// provider's report counts for a claim only if it is about the account that was called.
//
// If the settings say so, another provider tries a payment after a first attempt that
// certainly moved no money ([Options].Failover): a call that was not sent, or a decline
// with one of the configured codes, never a hard one. Fail-over never follows an
// unknown outcome, nor a recovery, nor a request that names its provider. The points at
// which a process may die on the way:
//
//	first provider answers | Settle: moved | TakeOver | second provider is called | Settle
//
//	before Settle is durable    the claim is with the first provider: its call is repeated
//	                            under its key, or looked up, and the claim stays with it
//	after it                    the claim has no holder and is with the second provider, which
//	                            was not called: the next holder calls it, as a recovery
//	after TakeOver, or during   as for every claim, with the second provider alone
//	the call
//
// # Refunds and compensations
//
// A refund names a charge. The executor reads what to refund (provider, reference,
// currency, and the amount if none is requested) from the charge's transaction in the
// books, at the home that the charge's id names. A transaction never changes, so every
// attempt sends the same call, and a refund that the transaction rules out was never
// sent. A missing transaction is a no to a first attempt alone: a store that was
// restored from a backup has lost charges that earlier attempts found, so a recovery
// waits for the charge. Captures and cancellations wait alike. The provider decides how
// much of a charge is left, so it refuses the second of two refunds that together
// exceed the charge. While the books cannot be read the refund is unknown, and nothing
// is sent.
//
// A compensation refunds money that moved for nothing (a ghost, see package ledger). It
// is a claim like any other, except that its request contains everything, that asking
// never ends before the outcome is known, and that a refusal is LIMBO: an operator is
// paged, and the ghost stays in the books. It waits, and is not sent, while this node
// lacks the ghost's provider, or while automatic refunds are held ([Options].Held).
//
// A payment that was booked as failed has already been reversed, and one that its payer
// disputes, or that a person refunded at the provider, leaves less to give back. Each
// attempt reads that in the books, and a recovery of a compensation asks the provider, too, as a
// dispute may not be booked yet. The executor refuses a first attempt to refund more
// than is left. A recovery looks up the earlier attempt and never calls: at a provider
// that answers no look-ups it stays unknown. If the refund was made all the same, an
// operator is paged ([PageUndone]).
//
// Refunds and compensations are recovered as charges are, by the same rules, with
// look-ups for refunds.
//
// # Pending at a provider without look-ups
//
// A provider without look-ups reports the outcome of a pending movement in a notice,
// and in no other way ([psp.Capabilities].Blind). Until then the claim waits, and no
// attempt calls or asks. The notice settles the claim either way; a decline must name
// the very movement that the claim waits for. A charge past its time is closed as
// expired, and becomes a ghost if it is paid after all. A refund waits for as long as
// it takes.
//
// # A success of an earlier generation
//
// A provider may report late that it made a movement which it had declined. If the claim has gone
// on to a later generation by then, that settles on the movement, as it is the money that the
// merchant asks for; a second movement is then refunded. The movement must still stand: it is not
// booked as a ghost, it is not another one than its [claim.Witness] names, and the provider shows
// it as made, if it has look-ups. A movement that does not stand settles nothing, and its notice
// waits for the claim.
//
// # Held money, its capture and its cancellation
//
// A charge with capture_method manual ends its first attempt pending, in the state
// [RequiresCapture]. The worker asks about it at the pace for banks. It ends by a
// capture, a cancellation, its expires_at, or at the provider, where a hold lapses. In
// each case the charge's own claim asks the provider for the movement, books the
// captured amount under the charge's id, and emits the event. There is no other way to
// book a charge.
//
// A capture or a cancellation is a claim of its own, with its own provider key. Its
// attempt calls the provider, has the charge's claim find out the result
// ([Charges].Learn), and answers once that claim is final: with the charge if it is as
// requested, or with a refusal that names its state. So an answered capture is booked,
// a second one under another key finds the first, and of a concurrent capture and
// cancellation the provider admits one. The order itself books and emits nothing.
// No capture begins once the charge is past its expires_at or its key is canceled.
//
// The provider lets money be captured once for each charge.
//
//	begin | call the provider | take the charge over, ask, settle it | settle
//
//	before the call          nothing was sent: the next attempt reads the charge, and calls
//	during it, or before     the charge's claim waits, and finds the capture by itself when it
//	the charge is settled    is next due, or by a webhook; the next attempt of the capture
//	                         repeats it under the same provider key, or finds the charge made
//	while the charge is      the charge's lease lapses and it is asked about again; the capture
//	asked about              waits for that look-up
//	after the charge is      the charge is made and booked, or canceled; the next attempt reads
//	settled                  that and calls no provider
//	after Settle             all of them are there
//
// # Held money at a provider that reports later
//
// If the provider reports the result of a capture later, and has no look-ups
// ([psp.Capabilities].Asynchronous and Blind), two orders under different keys could both be under
// way, and both succeed. So an order first takes its charge, in a step of the charge's own claim:
// the charge then waits, processing, by the order ([claim.Interim].By), and refuses any other
// order. The order then calls, and waits. The provider's notice ([claim.Held]) settles the charge
// by what it reports, whoever gave the order, and then the order. A notice that the order had no
// effect closes the order for good, and frees the charge. The charge itself cancels a hold past its
// time, and is closed once the provider has released it. The crash points are beside the code, in
// hold_later.go.
//
// # What is not sent
//
// An attempt of which the provider's adapter is certain that nothing was sent
// ([psp.NotSentError], by an open circuit) is unknown, too, as earlier attempts may
// have moved money. The worker retries it when the adapter says, and never counts it as
// the last.
//
// # Expiry
//
// A declined request with an expires_at that was released is closed at that time, by a
// worker, without a call: no money has moved. The first attempt of a request past its
// time is refused as expired, also without a call.
//
// An outcome that is unknown at that time is not closed by time alone. Where the provider
// answers look-ups, each later attempt asks, and never calls:
//
//	it finds the movement     the claim gets the movement's outcome, approved or declined
//	it finds nothing          the claim waits for the settle window and asks again; at the
//	                          third time it is refused as expired. A call may still arrive:
//	                          a charge's success is then a ghost, and a transfer's is for a
//	                          person
//	it does not answer        the claim stays unknown. A charge is refused as expired once no
//	                          call that was sent in time can still be answered: after the
//	                          provider's time-out or settle window, whichever is longer
//
// Where the provider answers no look-ups, the attempt repeats the call under the same
// provider key while the provider remembers that key. A charge is repeated until the same
// bound at most, and is then refused as expired. A transfer that cannot be repeated any
// more stays unknown. A pending payment is canceled at the provider first.
//
// # Crash points
//
//	read the charge and its failure | call the provider | settle: claim, posting, events,
//	expiry
//
//	before the call         nothing was sent: the next attempt reads the same charge, and
//	                        its failure where it has failed meanwhile
//	during it, or before    the next attempt repeats the call under the same provider
//	Settle is durable       key, or asks; the same answer makes the same posting, under
//	                        the same id, and the same events but for the fence in theirs
//	after Settle            claim, booking, events and expiry are there together
//
// An attempt that was fenced off has booked and emitted nothing. A closing that crashes
// is repeated, and finds the claim closed or retried.
package payment
