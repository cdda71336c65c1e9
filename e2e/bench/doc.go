// Command bench compares Homeward with the least that could do its work.
//
//	go run ./e2e/bench            every case, five runs each
//	go run ./e2e/bench -quick     a smoke test of under a minute
//	go run ./e2e/bench -only iii/  the cases whose names start so
//	go run ./e2e/bench -store     the cases of the SQL store, and no others
//	go run ./e2e/bench -webhooks  the cases of a flood of webhooks, and no others
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
//	v      Latency on top of an 80 ms provider at a fixed rate, below saturation.
//	vi     Peak memory (VmHWM) over all of Homeward's runs.
//	vii    Charges with a million keys in the store, against ten thousand.
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
// is of both sides together. After each run the rows are counted: every call must
// have left a claim, a response, three lines of audit and no outbox row. Figures
// of CockroachDB are not for publishing.
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
