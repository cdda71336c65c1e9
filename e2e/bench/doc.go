// Command bench compares Homeward with the least that could do its work.
//
//	go run ./e2e/bench            every case, five runs each
//	go run ./e2e/bench -quick     a smoke test of under a minute
//	go run ./e2e/bench -only iii/  the cases whose names start so
//	go run ./e2e/bench -store     the cases of the SQL store, and no others
//	go run ./e2e/bench -webhooks  the cases of a flood of webhooks, and no others
//	go run ./e2e/bench -sql       the cases of nodes on a database, and no others
//	go run ./e2e/bench -scale     the cases of several nodes on one database, and no others
//	go run ./e2e/bench -report F  all of these, written to the page F
//
// The simulator, the system under test and the load generator are processes of
// their own: this binary again, with another first argument. Both sides of a
// comparison meet the same generator, the same provider adapter and a fresh
// simulator, and take turns, so that a change of the machine's mood meets both.
// Ratios are taken between runs of one turn, and their median is what counts.
//
// # The cases
//
//	i, ii  New charges. The floor reads the body, makes one provider call and
//	       two synced Pebble commits of the body: what anything that survives
//	       a crash between "about to charge" and "charged" has to pay.
//	iii    Replays of finished keys, against a handler that reads one Pebble key.
//	iv     Replays in another region, WAN round trip 80 ms, against replays at
//	       home: the ratio is the price of the distance.
//	v      Latency on top of an 80 ms provider at 200 and at 1,000 charges a second.
//	vi     Peak memory (VmHWM) over all of Homeward's runs.
//	vii    Charges with a million keys in the store, against ten thousand; with -huge
//	       ten million, too.
//	viii   Charges with metrics, and without.
//
// At the end of each suite stands one table of all targets: the figure, that of the
// floor, their ratio turn by turn, what was aimed at, and whether it was met.
//
// Every reply is checked: its status, and in a replay its bytes. A run with one
// wrong reply fails the program. Targets that are missed are printed as missed
// and make it exit with 1 only with -strict.
//
// # The cases of the SQL store
//
// They run on a private database with real fsync: CockroachDB where
// COCKROACH_BINARY or PATH has one and HOMEWARD_TEST_KIND does not say
// postgresql, else PostgreSQL. There is no HTTP and no provider in them: this
// process makes the store's calls on as many goroutines as connections.
//
//	store/raw     Begin and Settle of new claims by the store, against the two
//	              statements alone, sent by pgx from a pool with the same
//	              settings, their rows not decoded. The statements and their
//	              arguments are overheard from the store, on the wire; only the
//	              key, the object's id and the UUIDs of steps and entries are
//	              fresh each time. The ratio is what the store itself costs:
//	              transitions, arguments, time-outs, decoding.
//	store/stored  Begin and Settle by the store with a million finished charges
//	              in the database, against ten thousand; both databases are on
//	              one server. The few are made anew before each run.
//
// A run is made of slices of half a second, in which the sides alternate.
// CPU, allocations and memory are this process's, without the database's; memory
// is of both sides together. After each run the claims are counted, each of them done
// and no provider call left, and the last one must have its answer and three lines of
// audit. Who publishes figures of CockroachDB has to say how to repeat them.
//
// # The cases of nodes on a database
//
// They run on the same private databases, CockroachDB in three regions. The side
// "homeward" is a node as homeward serve starts it, one in each region, in one process;
// its floor has the same number of connections, with the same settings. After each run
// as many charges must be stored as were answered. Beside what all cases print there is
// the CPU of the database's processes, over what they use while neither side runs (the
// least of all turns), so that what a node asks for by itself is in its charges; and on
// PostgreSQL the WAL.
//
//	sql/charge   New charges with opaque and with stamped keys, and with an event that a
//	             sink takes. The floor reads the body, makes a claim and an outbox row in
//	             one statement, calls the provider, and settles the one and deletes the
//	             other in a second statement.
//	sql/replay   Replays, against a handler that reads one row by its key.
//	sql/latency  As case v.
//	sql/empty    New charges on a database that was empty when the node started, against
//	             the same one with statistics and a new node: what a connection plans for
//	             empty tables it keeps. Not on CockroachDB, where it keeps no plans.
//	sql/bare     The statements of less and less of a charge, by this process, without
//	             HTTP: a claim with an outbox row and its due index; one row, with and
//	             without a partial index on the lease; and both with 16 in a statement,
//	             beside 16 with an outbox row in place of the index, and 16 with the index
//	             and three rows of audit.
//	sql/single   One caller's Begin and Settle by the store, each against the statement
//	             on one row with the partial index.
//
// A CockroachDB that was built with an unpatched Go wedges under load unless its
// admission control is off: -cluster-setting admission.kv.enabled=false, and the same of
// admission.sql_kv_response.enabled and admission.sql_sql_response.enabled.
//
// # The cases of several nodes
//
//	scale/paced  1, 2, 4 and 8 nodes of one region, each a process, on one database: what
//	             a charge costs at a fixed rate for all together, and the CPU and the
//	             statements of the database while the nodes have nothing to do. Neither
//	             should grow with the nodes. On PostgreSQL transactions are counted; each
//	             statement is one; it does not vacuum by itself while idle nodes are
//	             watched. What idle nodes use themselves is printed, and is not in the
//	             CPU of their charges.
//
// # The cases of webhooks
//
//	webhooks/embedded  Charges at a fixed rate to one node, with and without 2,000
//	webhooks/sql       signed webhooks a second beside them.
//
// Webhooks go through the node's API, each on its due time whatever became of those
// before it, and each tells, in an event of its own with 2 KiB, of one of some charges
// that the node made just before: so all of them are acted on in full. The node, the
// provider, both generators and the database share the machine. A webhook that is
// answered 503 is counted; any other wrong reply fails the program, and so does one
// that was answered 200 and is not in the store at the end. What is not acted on yet
// when a run ends is waited for: the time is printed.
package main
