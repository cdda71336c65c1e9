// Package payment says what a charge and a transfer mean: which requests are
// well-formed ([Parse]), what the answer looks like (a 201 whose bytes follow
// from stored values alone), and which provider call is safe to make now
// ([Executor]).
//
// One attempt makes at most one call that can move money. Whether a second
// attempt may make another depends on what the provider does with a key it has
// seen:
//
//   - It dedupes. Every attempt of a generation sends the same provider key, so
//     a repeat reads the first call's result. Providers forget keys, most after
//     24 h, so this is relied on for [dedupeTrust] only.
//   - It does not, or may have forgotten, but can be asked. The provider must
//     say "nothing under this reference" in [askBeforeCall] attempts a settle
//     window apart, and once more, before another call.
//   - Neither. There is no second call: the outcome stays unknown until the
//     claim gives up and a person, or reconciliation, decides.
//
// A decline found by asking proves only that no money has moved under the
// reference so far; after a soft decline it may belong to the generation
// before. It then counts as "nothing".
//
// A repeat that is refused as invalid tells nothing of the first call: a
// provider may check a request before it looks the key up. The refusal counts
// only after the look-ups above have found nothing, as often and as far apart
// as for any other call. Where the provider cannot be asked the outcome stays
// unknown.
package payment
