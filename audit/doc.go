// Package audit exports the audit of claims for seven years: by region and day, as signed
// segments in a bucket, each of which names the one before. Old books follow.
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
// Segments of books, see below, have transactions and balances in the place of entries.
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
//	books | left            the object is spare: the transactions are rows, in no segment of
//	                        the chain, and the next round writes them again
//
// There is no point between the chain and the rows of books: one step of the store makes the
// segment the chain's last, carries the sums forward and deletes the transactions.
//
// After a lost reply the next round reads the chain and continues from there. A spare
// object has a number of the chain and names its predecessor, as every writer reads both
// from the row; [Verify] recognises it by the segment that follows in the chain.
//
// # Old books
//
// Transactions that are older than [Policy].KeepBooks leave the store for segments of the same
// chain, so that a store does not grow with the years. They leave by families, once the youngest
// of a family is old enough: a charge or a transfer with all its refunds, a fee, a conversion.
// Each is in one segment whole, so its reversals are proved there. What is rare stays in the
// store for ever, and with it what it belongs to: ghosts and their refunds, disputes, failures,
// refunds at the provider, payouts, adjustments, refunds in the books of another region, and
// refunds of more than was charged, which no segment could prove. So nothing that is undecided
// leaves, and no row of the store reverses one that has left.
//
// A body has a line for each transaction, then one for each account that they touch: its balance
// over all that has left the region before the segment, and after it. The store carries the same
// sums forward, and ledger.Store.Balances counts them, so balances do not change when
// transactions leave. The store computes them from the rows that it deletes. It deletes only by
// its own clock, and only families: who has a node's rights can neither change a balance nor
// delete anything that is younger than [MinKeepBooks].
//
// The proof: each transaction balances; each segment opens as those before it close, and closes
// as its transactions say ([Verify]); the last closes as the store carries forward, and that with
// the rows is what Balances returns (verify.AllBooks).
//
// A business event is posted once, also when its row has left, since nothing posts it again:
//
//   - A claim books its object once, in the step that ends it, and objects are minted once.
//   - A notice books only beside a booking, a claim or a refusal ([claim.Unpaid]) that the store
//     has. A transaction stays while a refusal of its object is remembered, and one that leaves takes
//     along what housekeeping has not deleted yet, so a late notice of what has left finds none
//     of the three. It is parked for a person, and refunds nothing.
//   - What is booked by the provider's reference alone, as payouts are, and what persons decided
//     stays. Fees and conversions leave, and come from statements: one of a period of which books
//     have left is refused.
//   - A store that is restored has the rows again that had left since its backup. What reads the
//     lost part of the chain has them leave once more ([Followed].Left), before a node exports.
//
// A merchant who asks for a refund of a charge that has left is answered as for one that never
// was, and so from a month before it leaves ([Policy].RefundFor): a refund that began earlier
// finds its charge until it ends.
//
// # What a chain proves
//
// [Verify] reads only objects and public keys. It names each segment that was changed,
// removed, exchanged or signed with an untrusted key. It detects the removal of the last
// segments only by time: the chain then ends earlier than it should. A holder of the
// signing key can write another chain, so keep the digest of the last segment, which
// Verify prints, in another place.
//
// The numbers also prove that a store was restored from a backup: the bucket is then further than
// the chain's row, see [Exporter.Compare].
package audit
