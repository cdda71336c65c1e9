// Package drill takes something away from a cluster under load, brings it back,
// and judges what merchants and the payment provider saw.
//
// # Load
//
// Requests are sent at a fixed rate whether or not earlier ones are answered, and each
// is timed from when it was due, so that a stall counts for every request that it
// delays. A logical payment is a call of package client: the same key and bytes,
// jittered pauses, Retry-After obeyed, another region after failures. Four of five
// requests are new payments: charges and transfers, some of them with a stolen card,
// some sent to two regions at once, under keys stamped for each region and opaque ones
// of every tenant; the fifth repeats an old one elsewhere.
//
// # Phases
//
// Settle, outage, recovery. The outage lasts from the order to take something away
// until it is back. A [Means], which the operator of the cluster provides, decides how.
//
// # Verdict
//
// The provider simulator is the judge. Every payment of a drill has an amount of its
// own, so the movements of money can be counted without relying on Homeward. Afterwards
// the drill requests every answered payment once more, and its answer must be the same.
//
//	duplicates   movements of money beyond the first for one payment
//	differing    answers to one payment that are not the same bytes
//	lost         payments without an answer, or with one that the provider belies
package drill
