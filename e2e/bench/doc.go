// Command bench measures the budgets of Homeward: what its promises may cost, each to the
// least that could do the work.
//
//	go run ./e2e/bench                              all budgets that this machine has a database for
//	go run ./e2e/bench -only cockroachdb/charge     the cases with this prefix
//	go run ./e2e/bench -runs 2 -quick               proves that it runs, in seconds a case
//	go run ./e2e/bench -page docs/BENCHMARKS.md     writes the page, if all could be measured
//
// It says of each budget what was measured, what is allowed, and whether the budget is kept.
// It exits with 1 if one is missed or could not be measured, those that -only leaves out
// aside.
//
// # How
//
// The simulator and the system under test are processes of their own: this binary again,
// with another first argument. The generator is the orchestrator itself. All sides of a case
// meet the same generator and the same provider adapter, and take turns, so that a change of
// the machine's load meets all. Ratios are taken between the runs of one turn. The median of
// the turns is judged; the least and the greatest are shown.
//
// Each reply is checked: its status, and in a replay its bytes. On a database each run must
// leave as many finished charges as were answered. One wrong reply fails the program.
//
// CockroachDB runs in three regions, PostgreSQL in one, each started for the run with real
// fsync. CPU of a database is that of its processes, less what they use while neither side
// runs: the least of all turns, so that what a node asks for by itself is in its charges.
//
// # The cases
//
//	*/charge    New charges on 64 connections. The floor on a store reads the body, makes
//	            one provider call and two synced Pebble commits of the body: what anything
//	            that survives a crash between "about to charge" and "charged" has to pay.
//	            The floor on a database makes a claim with an outbox row in one statement,
//	            calls the provider, and settles the one and deletes the other in a second
//	            statement, over a pool with a node's settings. homeward-event emits an event
//	            for each charge.
//	*/replay    Replays of finished keys, against a handler that reads one Pebble key or one
//	            row by its key.
//	*/latency   Latency on top of an 80 ms provider, at 200 charges a second.
//	*/away      Replays in another region, 80 ms away, of keys that finished before the
//	            replica's lag. What travels takes a whole round trip, so half of one means
//	            that nothing does.
//	*/idle      Nodes without load, each a process: the CPU of their database.
//
//	gateway/*/send     Guarded requests on 64 connections to an API that answers at once. The
//	                   floor is httputil.ReverseProxy between the two writes of */charge.
//	gateway/*/latency  The same to an API that takes 80 ms, at 200 requests a second.
//	gateway/*/pass     Requests without a key, on 64 connections, against ReverseProxy alone.
//
// Memory is the greatest resident set (VmHWM) of a Homeward process in all cases but those of
// CockroachDB, where one process has the nodes of three regions.
//
// A CockroachDB that was built with an unpatched Go stalls under load unless its
// admission control is off: -cluster-setting admission.kv.enabled=false, and the same of
// admission.sql_kv_response.enabled and admission.sql_sql_response.enabled.
package main
