// Package region tracks the regions of a deployment and their live nodes, and
// forwards requests to them.
//
// # Topology
//
// [Topology] is the table of regions: name, code, status. It says which region
// a stamped key's code means. It only grows: a node takes in regions that were
// added while it runs, and never forgets one.
//
// # What an operator says
//
// An operator sets a region's status to active, draining or down (package admin);
// nodes never change it. The status decides three things: whether a key without a
// home may get its home there, whether the region's nodes report ready, and whether
// other regions wait before they recover its rows as deputies. It never moves a key and never
// stops a retry.
//
// Only the first must be up to date, and it is: the store's step that gives a key its
// home reads the table of regions itself. [Topology.Homes], readiness and everything
// else use the node's copy. A stale copy costs a refused step, or one more request at a
// region that is about to leave. So a drain needs no agreement among nodes: package
// admin asks them before it calls a region safe to take down only so that no traffic is
// cut off.
//
// # Membership is a hint
//
// Gossip decides where to send a request; the row decides what may happen to
// it. [Membership] is only a routing hint. It may be late, incomplete or wrong,
// and two nodes may have different views at once: at worst a request takes one
// hop too many, or gets a 503 and succeeds on retry. No card is charged twice.
// So nothing in this package elects, locks or decides.
//
// A node's life in it:
//
//	NewMembership ─▶ listening, knows itself
//	Join          ─▶ exchanges its whole view with the seeds; from here on
//	                 changes arrive by gossip, within seconds
//	SetDraining   ─▶ still alive, chosen last
//	SetReady      ─▶ the others hear whether it can record a charge
//	SetVersions   ─▶ the others hear which versions of shared rows it has read
//	Leave         ─▶ announces it; the others drop this node at once
//	Close         ─▶ silent
//
// What the others see of it:
//
//   - A node that dies without Leave fails a probe, is suspected, and is dropped when
//     no other node can reach it either: in seconds with LocalTimings, in a minute or so
//     across oceans. Until then forwards to it fail on the wire and are retried on its
//     neighbours.
//   - A node with its RPC port closed, to all or to one region, stays in gossip, which has
//     a port of its own.
//   - A node that is alive but cut off is dropped by everyone on the far side, and drops
//     them. Both sides continue. [Membership] keeps probing the seeds that it cannot see
//     (see [RejoinEvery]), so the sides find each other when the cut heals. A deployment
//     therefore names at least one seed per region.
//   - A node with metadata that does not decode is logged once and ignored: it is of another
//     version, or another system.
//   - A node that cannot record a charge is chosen last. Requests for a region of such nodes
//     alone go to no node of it ([Outages.Unready]).
//   - [Membership.LastSeen] reports how long a region has had no live node; who acts on
//     that, and after what grace, is not decided here.
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
// An answer is what came over a connection. A node that gives no connection within a bound got no
// request, so it counts for nothing but its time, and the next one is tried while the caller has
// any. What gossip sees and what calls reach are two things: [Outages] remembers the nodes that
// answer no call and has them tried last, until they answer a ping.
//
// Every node orders a region's nodes alike, so duplicates of one request reach
// the same process while views agree. When they do not, the claim decides.
//
// What a failure means:
//
//   - The peer answered with an error: it is one of claim's, or [WrongHomeError], exactly
//     as the home's claim returned it. It is not retried: any other node would read the
//     same row.
//   - [ErrNoNode]: no live node of the region is known. Nothing was sent.
//   - [ErrNoAnswer]: every try failed on the wire (refused, reset, timed out,
//     something else or another deployment answering at that address), or the caller's
//     context ended.
//     The request may or may not have run. The retries are safe all the same,
//     which is what the claim is for: the second node finds the first one's claim.
//   - [ErrPeerFailed]: the peer had an error outside the contract. The outcome is
//     unknown. The peer's log has the details, its answer does not.
//   - [ErrHopLimit], [ErrRefused]: nothing ran. They mean two nodes of different
//     versions or views, or a defect.
//
// # Who is calling
//
// With [TLS] both ends of a connection prove their identity by a certificate of the
// deployment's CA that names a region's node or an operator ([Identity]). [Peers]
// sends a forward only to a node that proved to be of the home ([Towards]), and
// [Handler] accepts it only from a node of the request's entry region. The entry
// node authenticated the tenant in it: the channel vouches for it, and no header of
// a merchant's request is forwarded. Without TLS no identity is checked; use that on
// one machine only.
//
// Secrets are copied and addresses reused, so an identity does not say of which deployment
// its holder is. A node's gossip, requests and answers name the id of its rows, and
// nothing of another id is believed ([OtherDeploymentError]).
//
// An entry that cannot reach its store asks another node of its region, or one of another, to act as
// deputy for whatever home a key has, and to find tenants ([Peers.Deputies], [Peers.Tenant]).
//
// A receiver never forwards, nor does such a deputy. One that is not the key's home answers
// [WrongHomeError], which names the home if the key contains it.
package region
