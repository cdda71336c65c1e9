// Package payment says what a charge, a transfer and a refund mean: which requests
// are well-formed ([Parse]), what the answer looks like (a 201 whose bytes follow
// from stored values alone), which provider call is safe to make now ([Executor]),
// and what its outcome books and tells.
//
// One attempt makes at most one call that can move money. Whether a second
// attempt may make another depends on what the provider does with a key it has
// seen:
//
//   - It dedupes. Every attempt of a generation sends the same provider key, so
//     a repeat reads the first call's result. Providers forget keys, most after
//     24 h, so this is relied on for as long as the provider promises, less
//     [dedupeMargin]. Some know a key only at the endpoint that it was sent to: an
//     attempt names the claim's home, and the adapter has one endpoint for each home,
//     so that a deputy repeats a call where it was made.
//   - It does not, or may have forgotten, but can be asked. The provider must
//     say "nothing under this reference" in [askBeforeCall] attempts a settle
//     window apart, and once more, before another call.
//   - Neither. There is no second call: the outcome stays unknown until the
//     claim gives up and a person, or reconciliation, decides. A refund is not
//     given up on while its provider can tell: its charge is known from the
//     request alone, and could not be booked later.
//
// A decline found by asking proves only that no money has moved under the
// reference so far; after a soft decline it may belong to the generation
// before. It then counts as "nothing".
//
// A repeat that is refused as invalid tells nothing of the first call: a
// provider may check a request before it looks the key up. The refusal counts
// only after the look-ups above have found nothing, as often and as far apart
// as for any other call. Where the provider cannot be asked the outcome stays
// unknown. A repeat that the provider takes for another call under the same key
// ([psp.ErrKeyReused]) is no refusal of either, and leads to the same look-ups.
//
// # Providers
//
// A charge or transfer goes to the provider that its claim's generation was begun for,
// which its provider key names ([claim.Record.With]); only a node that has that provider
// acts on it. Keys of older builds name none: those claims are with the provider that was in
// use alone then, or with nobody until a person says who that was ([Options].Nameless), and
// never with whoever is the default since. A refund goes to its charge's provider, which the
// books name and never change, so its claim is with none; a compensation to its ghost's. A
// first attempt at a refund whose provider this node lacks lets go of its key, and a later one
// leaves the claim open.
//
// What is charged in a connected account, or given back of that, is booked there
// (ledger.Where). A provider's word counts for a claim where it is of the account that was
// asked for.
//
// Where the settings say so, another provider tries what a first attempt certainly has not
// moved ([Options].Failover): a call that was not sent, or a decline with one of the codes
// given, never a hard one. Never after an unknown outcome, nor in a recovery, nor where the
// request names its provider. The points at which a process may die on the way:
//
//	first provider answers | Settle: moved | TakeOver | second provider is called | Settle
//
//	before Settle is durable    the claim is with the first provider: its call is repeated
//	                            under its key, or asked for, and the claim stays with it
//	after it                    the claim is nobody's and with the second, which nobody has
//	                            called: whoever takes it over does, as a recovery
//	after TakeOver, or during   as for every claim, with the second provider alone
//	the call
//
// # Refunds and compensations
//
// A refund names a charge. What it gives back (provider, reference, currency, and the
// amount where none is asked for) is read from the charge's transaction in the books,
// at the home that the charge's id names. A transaction never changes, so every
// attempt sends the same call, and what its charge's transaction refuses has never been
// sent. That there is no such transaction is a no to a first attempt alone: a store that was
// restored from a backup has lost charges that attempts before found, so a recovery waits for
// the charge. Captures and cancellations wait alike. How much of a charge is left is the provider's to say: two refunds that are
// too much together are told apart there. While the books cannot be read the refund
// is unknown, and nothing is sent.
//
// A compensation gives back money that moved for nothing (a ghost, see package
// ledger). It is a claim like any other, but that its request says all there is to
// know, that it is asked for until it is known, and that a refusal is LIMBO: a person
// is called, and the ghost stays in the books. It waits, and is not sent, while the
// provider of the ghost is not one of the node's, or while automatic refunds are held
// ([Options].Held).
//
// What is booked as failed since it came in has gone back by itself. A first attempt to
// give it back is refused; a recovery asks what became of the one before, and never
// calls: at a provider that answers no look-ups it stays unknown. Where the refund was
// made all the same, a person is called ([PageUndone]).
//
// Both are recovered as charges are, by the same rules, with look-ups for refunds.
//
// # Pending where nobody can be asked
//
// A provider that shows no movement tells what became of a pending one in a notice, and
// there is no other way ([psp.Capabilities].Blind). Until then the claim waits, and no
// attempt calls or asks. Its word settles the claim either way; a decline has to be of the
// very movement that is waited for. A charge past its time is closed as expired, and is a
// ghost should it be paid after all. A refund waits for as long as it takes.
//
// # Held money, its capture and its cancellation
//
// A charge with capture_method manual ends its first attempt pending, in the state
// [RequiresCapture]. It is asked about at a bank's pace and ends by a capture, a
// cancellation, its expires_at, or the provider, where a hold lapses. Whichever it is, the
// charge's own claim learns it by asking the provider for the movement, books what was
// captured under the charge's id, and tells. There is no other way to book a charge.
//
// A capture or a cancellation is a claim of its own, with its own provider key. Its attempt
// calls the provider, has the charge's claim find out what that came to
// ([Charges].Learn), and answers once that claim is final: with the charge, where it is
// what was asked for, or with a refusal that says what it is instead. So a capture that was
// answered is booked, a second one under another key finds the first, and of a capture and a
// cancellation at the same time the provider lets one through. It books and tells nothing
// itself.
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
//	asked about              waits for whoever does that
//	after the charge is      the charge is made and booked, or canceled; the next attempt reads
//	settled                  that and calls nobody
//	after Settle             all of them are there
//
// # Held money at a provider that tells later
//
// Where the provider only tells later what became of a capture, and cannot be asked
// ([psp.Capabilities].Asynchronous and Blind), two under different keys could both be on
// their way, and both succeed. So an order first takes its charge, in a step of the
// charge's own claim: that waits, processing, by the order ([claim.Interim].By), and any
// other order is refused. Then the order calls, and waits. The provider's word
// ([claim.Held]) settles the charge by what it says, whoever gave the order, and then the
// order; a word that the order came to nothing closes the order for good, and frees the
// charge. A hold past its time is called off by the charge itself, which is closed once
// the provider has let it go. The crash points are beside the code, in hold_later.go.
//
// # What is not sent
//
// An attempt of which the provider's adapter is certain that nothing left
// ([psp.NotSentError], by an open circuit) is unknown, too, as earlier ones may have
// moved money. It is tried again when the adapter says, and never the last.
//
// # Expiry
//
// A request with an expires_at that was declined for now is closed then. A charge that
// is unknown when no call that left in time can be answered any more, by the
// provider's own time-out, and whose provider does not answer look-ups, is
// refused as expired: a success that surfaces later is a ghost.
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
// An attempt that was fenced off has booked and told nothing. A closing that crashes is
// repeated, and finds the claim closed or tried again.
package payment
