// Package console is a small web console for operators: a map of the regions with their
// traffic, the history of a key, and everything that waits for an operator.
//
// The server renders HTML, with one style sheet and htmx, which is vendored and pinned
// by its hash; there is no build step, and no request to another host. Without
// JavaScript each page works, and updates when it is loaded again. The content security
// policy allows no inline script and no inline style.
//
// Pages are read-only, and each read is bounded: so many rows, from an index, or the
// nodes' counters in memory. The overview, which all viewers share, is queried at most
// once in [watchFor]. One page acts, and only if actions are on and the caller has the
// operator's role: it requeues a parked row, after a confirmation, and records the user.
//
// No page shows a body, a secret, or a provider key.
//
// The console reads through the small interfaces of [Config], which internal/node
// implements. An [Access] decides who may look.
package console
