// Package wireproxy stands between a node and its database and injects faults into
// chosen statements. It is test support: only on the wire can a test lose a reply,
// return an ambiguous result, or let a statement commit after its client has given up.
//
// A [Proxy] listens on loopback and speaks the PostgreSQL protocol, version 3,
// in plain text. It refuses TLS and GSS encryption itself ('N') and passes
// start-up and authentication through, SCRAM included. Works with PostgreSQL
// and CockroachDB.
//
// # Names
//
// A statement is known by the line "-- name: begin" among the comments in front
// of it, or without one by its first word in lower case: "sql:commit". A simple
// query that carries several statements is known by the first.
//
// # Groups
//
// A request is everything that a client sends up to and including Sync, or one simple
// query. A fault hits it as a whole, because the database answers it as a whole. A
// request executes S when it contains an Execute of a portal bound to S, or is the
// simple query S. Preparing S does not count. A request with several executions, such
// as a pgx.Batch, counts for each, and the first of them that a [Shot] is armed for
// decides.
//
// What comes before an explicit Flush has reached the database by then, as the
// client asked: it is counted, and cannot be injured. COPY is passed through as
// a simple query only.
//
// # Transaction blocks
//
// An error ends a transaction block on both databases, so it does here: after
// an error of the proxy's own inside a block, the database's block is failed
// too, and a COMMIT can only roll back. Only a COMMIT, or a statement outside a
// block, can be [Ambiguous40003Done] and have committed. A COMMIT that is
// answered with an error and not executed is a rollback.
package wireproxy
