// Package audit exports the audit of claims for seven years: by region and day, as signed
// segments in a bucket, each of which names the one before.
//
// # The rows are the truth
//
// A claim's step writes its own audit. An [Exporter] reads the rows of a window, usually a
// day, in the order of their keys, writes them to an object, and then advances the [Chain],
// a row of the same store, by compare-and-set. One node at a time exports a region's audit,
// but that is a hint; the row decides which object counts.
//
// Each row is exported at least once; [Entry].ID identifies duplicates. The sweep deletes a
// row only if its claim is gone and it has found the row in a segment of the chain. So the
// time of a row does not matter: a row that was written after its window goes into a late
// segment first.
//
// Audit entries of replies may be missing. A node buffers them for a second; it counts
// those that it drops in an entry of its own (claim.EventRepliesLost), and the manifest
// has the sum. The entries that a crash loses, up to a second of them, are not counted.
// Every other entry is written in its step's own transaction.
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
// An object never changes: the same name means the same content, so a bucket may lock
// objects for seven years. A day without audit has a segment without entries, so that a
// missing segment differs from a quiet day.
//
// A manifest names its deployment. A segment of another one, which has the same bucket and
// keys, is [ErrOtherDeployment]: no exporter writes beside it that reads it, no search or
// restore believes it, and [Verify] names it.
//
// Rows of audit, and so segments, hold no body, secret, payer's data or provider key.
// Card numbers in a provider's texts are masked.
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
//	object | chain          the object fits the chain as it is: the next round adopts it,
//	                        whatever window its policy has. After a rival has moved the
//	                        chain it fits no more and is spare
//	part | next part        the next round goes on with the window as the row has it, whatever
//	                        window its policy has
//	late object | chain     spare: its rows are still there, in no segment of the chain, and
//	                        the next sweep exports them again
//	chain | next window     the next round goes on
//	found | forgotten       the rows are there, and found again by the next sweep
//	forgotten | swept       the next sweep goes through what is left
//
// After a lost reply the next round reads the chain and continues from there. A spare
// object has a number of the chain and names its predecessor, as every writer reads both
// from the row; [Verify] recognises it by the segment that follows in the chain.
//
// # What a chain proves
//
// [Verify] reads only objects and public keys. It names each segment that was changed,
// removed, exchanged or signed with an untrusted key. It detects the removal of the last
// segments only by time: the chain then ends earlier than it should. A holder of the
// signing key can write another chain, so keep the digest of the last segment, which
// Verify prints, in another place.
//
// The numbers also prove that a store was put back to a backup: the bucket is then further than
// the chain's row, see [Exporter.Compare].
package audit
