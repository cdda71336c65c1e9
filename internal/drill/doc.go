// Package drill takes something away from a cluster under load, brings it back,
// and judges what merchants and the payment provider saw.
//
// # Load
//
// Requests leave at a fixed rate whatever becomes of those before them, and each
// is timed from when it should have left, so that a stall is charged to everybody
// who met it. A logical payment is a call of package client: the same key and
// bytes, jittered pauses, Retry-After obeyed, another region after failures. Four
// of five requests are new payments: charges and transfers, some of them with a
// stolen card, some sent to two regions at once, under keys stamped for each
// region and opaque ones of every tenant; the fifth repeats an old one elsewhere.
//
// # Phases
//
// Settle, outage, recovery. The outage lasts from the order to take something away
// until what was taken is back. What is taken away, and how, is the business of a
// [Means], which whoever runs the cluster provides.
//
// # Verdict
//
// The provider simulator is the judge. Every payment of a drill has an amount that
// is its own, so the movements of money can be counted without believing a word
// that Homeward says. Afterwards every answered payment is asked for once more, and
// its answer must be the same.
//
//	duplicates   movements of money beyond the first for one payment
//	differing    answers to one payment that are not the same bytes
//	lost         payments without an answer, or whose answer the provider belies
package drill
