// Package console is a small web console for operators: a map of the regions with what
// arrives there, what became of one key, and everything that waits for a person.
//
// It is HTML that the server renders, with one style sheet and htmx, which is vendored and
// pinned by its hash; nothing is built, and nothing is asked of another host. Without
// JavaScript each page works, and shows what is new when it is loaded again. The content
// security policy allows no inline script and no inline style.
//
// Pages only read, and each reading is bounded: so many rows, from an index, or what the
// nodes have counted in memory. What all viewers share, the overview, is asked for at most
// once in [watchFor]. One page acts, and only where actions are on and the caller has the
// operator's role: it makes a parked row due again, after a confirmation, and notes who
// did.
//
// No page shows a body, a secret, or the key by which the provider recognises a call.
//
// The console reads through the small interfaces of [Config]; internal/node hands it what
// it has. Who may look is an [Access].
package console
