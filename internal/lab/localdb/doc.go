// Package localdb finds database software on this machine and runs it privately:
// on loopback, on free ports, with its files in one directory. It is
// for `make cluster`, tests and benchmarks, never for production: CockroachDB
// runs without TLS, and most configurations trade durability for speed.
//
//	s, err := localdb.Start(ctx, localdb.Config{Regions: []string{"us-east1"}})
//	...
//	defer s.Stop(ctx)
//	pool, err := pgxpool.New(ctx, s.URL("us-east1", "homeward"))
//
// # What is looked for
//
// CockroachDB: the file named by the environment's COCKROACH_BINARY, else
// cockroach on PATH. PostgreSQL 15 or newer: the directories of PATH and
// /usr/lib/postgresql/*/bin, the highest version. Nothing is downloaded.
//
// # Life
//
// A server ends with Stop. On Linux it also ends with the process that started it,
// however that died; elsewhere it outlives a killed parent. The next Start removes a
// temporary directory that a killed parent left.
//
// # Losing a database
//
// Kill takes a database away and Restart brings it back, on the same port and with
// everything that it had acknowledged. Pause suspends a database: connections are
// accepted, and nothing answers until Resume.
package localdb
