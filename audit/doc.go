// Package audit exports the audit of claims for seven years: by region and day, as signed
// segments in a bucket, each of which names the one before.
//
// # The rows are the truth
//
// The audit of a claim's step is written by that step. An [Exporter] reads the rows of a
// window, a day as a rule, in the order of their keys, writes an object with them, and then
// moves the [Chain], a row of the same store, by compare-and-set. That one node of a region
// does so is a hint; the row decides which object counts.
//
// Exported is at least once: [Entry].ID tells duplicates. Rows are deleted only where their
// claim is gone and a segment of the chain was found to have them, so that it does not
// matter when a row came: one that came after its window goes into a late segment first.
//
// Replies that nobody noted are not there. Notes of replies wait in a node's memory for a
// second; those that it drops it counts, in an entry of its own
// (claim.EventRepliesLost), and the manifest has the sum. What a crash takes, up to a
// second of notes, nobody counts. Everything else is in the step's own transaction.
//
// # Objects
//
//	REGION/DAY/NUMBER-DIGEST.audit    europe-west1/2026-03-01/000000000042-1f8e0a3b5c7d9e2f.audit
//
// The first line is an envelope of DSSE (github.com/secure-systems-lab/dsse, protocol and
// envelope), signed by Ed25519, of payload type
// application/vnd.homeward.audit.manifest.v1+json; its payload is a [Manifest]. The rest is
// one zstd frame (RFC 8878) of JSON lines, each an [Entry]. The digest of a segment is the
// SHA-256 of its manifest, which has that of the body. DIGEST is its first 16 digits.
//
// An object never changes: the same name is the same content, so that a bucket may lock
// objects for seven years. A day without audit has a segment without entries, so that a
// segment that is missing can be told from a quiet day.
//
// No body, secret, payer's data or provider key is in a row of audit, and so in none of a
// segment. Card numbers in what a provider said are masked.
//
// # Crash points
//
// An exporter keeps nothing between its steps. It may die, or a rival may act, between any
// two of them:
//
//	begin | object          there is a chain, and the next round goes on with it
//	read | object           nothing has changed: the next round reads again
//	in the object           an object that is not whole, as of a disk that lost power, is
//	                        left beside the chain; the next round writes another one
//	object | chain          the object fits the chain as it is: the next round adopts it.
//	                        After a rival has moved the chain it fits no more and is spare
//	late object | chain     spare: its rows are still there, in no segment of the chain, and
//	                        the next sweep exports them again
//	chain | next window     the next round goes on
//	found | forgotten       the rows are there, and found again by the next sweep
//	forgotten | swept       the next sweep goes through what is left
//
// A reply that is lost says nothing: the next round reads the chain, and goes on from
// whatever it says. A spare object has a number of the chain and names what stood before
// it, as every writer reads that from the row; [Verify] tells it by the one that follows.
//
// # What a chain proves
//
// [Verify] reads objects alone, with public keys. It names each segment that was changed,
// removed, exchanged or signed by somebody else. That the last ones were removed only time
// tells: the chain then ends earlier than it should. Who has the signing key can write
// another chain; keep the digest of the last segment, which Verify prints, somewhere else.
package audit
