// Package e2e proves the promises on whole clusters: real listeners, real forwards, a
// real store, and processes that are killed. The judge is the payment simulator, which
// shares no code with the cluster, runs in the test's own process, survives every kill,
// and counts how often money moved.
//
// The clusters run on the embedded store, or with HOMEWARD_TEST_STORE=sql on a real
// database, PostgreSQL or CockroachDB, that package dbtest starts. The tests are the
// same; a test that one of them cannot run says so.
//
// What is proven where:
//
//	crash_test.go      SIGKILL at every step of a request's way, and in recovery
//	clone_test.go      the same on a disk that loses what was not synced
//	storm_test.go      many clients, faults, two SIGKILLs
//	nemesis_test.go    random faults by seed, for hours: nodes as processes on a real database
//	history_test.go    concurrent histories against the naive model
//	partition_test.go  regions cut off, black holes, lost replies
//	outage_test.go     the database dies, hangs and comes back
//	trips_test.go      round trips between regions, counted
//	node_test.go       dead nodes, leases, fences
//	deputy_test.go     a lost region's keys and open calls, and it is alive
//	drain_test.go      a region emptied under load, and what nodes remember of it
//	input_test.go      wrong input and slow clients leave no row
//	cli_test.go        the command: wrong starts, Ctrl-C, kill -9
//	serve_test.go      homeward serve on a database that goes away
//	cluster_test.go    homeward cluster, as a person uses it
//	drill_test.go      homeward drill on such a cluster; verdicts: internal/drill
//	tls_test.go        who may forward, between processes
//	trace_test.go      the trace of every way that a request can take
//	saga_test.go       SIGKILL at every step from a notice to a ghost's refund
//	events_test.go     the same from a settled claim to its event, and of expiry
//	stories_test.go    incidents with their books; those of providers in stories_provider_test.go
//	providers_test.go  two providers: SIGKILL between them, and a storm over both
//	stories_hold_test.go, crash_hold_test.go
//	                   held money: its capture, its cancellation, and SIGKILL between them
//	books_test.go      what the books must say at the end of a story
//	failures_test.go   the stories of movements that fail after they had succeeded
//	fault_test.go      panics of our own code
//	flood_test.go      forged and flooding webhooks
//	stripe_client_test.go, stripe_node_test.go
//	                   Stripe's own libraries as merchants' clients, and what they survive
//	sdk_test.go        the clients in each language, the document's linter, and what is published
//	errorpages_test.go where errors lead, before and after the pages have moved
//	cards_test.go      card numbers stay out, and their retries are answered
//	idle_test.go       what nodes ask of a database while no request arrives
//
// Those of serve, cluster, drill and TLS start processes on a private database,
// whatever the store under the others. Regions of containers, with distance,
// partitions, a wrong clock and a lost database, are in package docker below this
// one: make e2e. Package simulate runs clusters in virtual time, by seed. Package history checks histories, contract holds answers and events
// against the OpenAPI document, geodns puts geo-DNS in front of a cluster, answer is what
// a request was answered, bench measures, sizing computes.
//
// No test waits for time to pass in order to be right: tests wait for signals and
// readiness, and a client obeys Retry-After.
package e2e
