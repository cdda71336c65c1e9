// Package region knows which regions there are, which of their nodes are alive,
// and how to ask one of them.
//
// # Topology
//
// [Topology] is the table of regions: name, code, status. It says which region
// a stamped key's code means. It only grows: a node takes in regions that were
// added while it runs, and never forgets one.
//
// # What an operator says
//
// A region is active, draining or down because somebody said so (package admin), not
// because of anything that was seen. It decides three things: whether a key that has
// no home may get its home there, whether the region's nodes ask for traffic, and
// whether others must wait before they act for it. It never moves a key and never
// stops a retry.
//
// Only the first must not be late, and it is not: the store's step that gives a key
// its home looks at the table of regions itself. [Topology.Homes], readiness and
// everything else go by what the node remembers, and an old memory costs a refused
// question, or a request more at a region that is about to go. That is why a drain
// needs no agreement among nodes: package admin asks them before it calls a
// region safe to take down so that no traffic is cut off, and not to keep a promise.
//
// # Membership is a hint
//
// Gossip decides where to send a request; the row decides what may happen to
// it. [Membership] is only ever the former. It may be late, incomplete or wrong
// in any way, and two nodes may believe different things at once: the worst
// that comes of it is a hop too many or a 503 that a retry heals, never a
// charge. So nothing in this package elects, locks or decides.
//
// A node's life in it:
//
//		NewMembership ─▶ listening, knows itself
//		Join          ─▶ exchanges its whole view with the seeds; from here on
//		                 changes arrive by gossip, within seconds
//		SetDraining   ─▶ still alive, chosen last
//		Leave         ─▶ tells the others, who drop it at once
//		Close         ─▶ silent
//
//	  - A node that dies without Leave is noticed by a missed probe, suspected,
//	    and dropped when nobody else can reach it either: seconds with
//	    LocalTimings, a minute or so across oceans. Until then forwards to it fail
//	    on the wire and are retried on its neighbours.
//	  - A node that is alive but cut off is dropped by everyone on the far side,
//	    and drops them. Each side goes on; [Membership] keeps knocking at the seeds
//	    it cannot see (see [RejoinEvery]), so the sides find each other when the
//	    cut heals. A deployment therefore names at least one seed per region.
//	  - A node whose metadata does not decode is logged once and ignored: it is of
//	    another version, or another system.
//	  - [Membership.LastSeen] tells how long a region has had no live node; who
//	    acts on that, and after what grace, is not decided here.
//
// # A forward
//
// [Peers] sends a request to its key's home:
//
//	nodes of the home region, live, by rendezvous hash of the key ([Choose])
//	  └ first ── Connect over HTTP/2 ──▶ [Handler] ─▶ [Local], which cannot forward
//	             answer ◀──────────────┘
//	  └ on a failure on the wire: the second, then the third ([MaxTries])
//
// Every node orders a region's nodes alike, so duplicates of one request meet in
// one process as long as views agree. When they do not, the claim decides.
//
// What a failure means:
//
//   - The peer said so: the error is one of claim's, or [WrongHomeError], exactly
//     as the home's claim gave it. It is not retried: any other node would read
//     the same row.
//   - [ErrNoNode]: no live node of the region is known. Nothing was sent.
//   - [ErrNoAnswer]: every try failed on the wire (refused, reset, timed out,
//     something else answering at that address), or the caller's context ended.
//     The request may or may not have run. The retries are safe all the same,
//     which is what the claim is for: the second node finds the first one's claim.
//   - [ErrPeerFailed]: the peer had an error that is none of the contract's. Also
//     unknown; its log says more, its answer does not.
//   - [ErrHopLimit], [ErrRefused]: nothing ran. They mean two nodes of different
//     versions or views, or a defect.
//
// # Who is calling
//
// With [TLS] both ends of a connection prove who they are, by a certificate of the
// deployment's CA that names a region's node or an operator ([Identity]). A forward
// goes only to what proved to be of the home ([Towards]), and [Handler] takes it
// only from a node of the region that the request says it entered at. The tenant in
// it is what that node authenticated: the channel vouches for it, and no header of a
// merchant's request gets that far. Without TLS nobody is asked, which is for one
// machine.
//
// A receiver never forwards. One that is not the key's home answers
// [WrongHomeError], which names the home where the key itself tells it.
package region
