// Package docker runs a whole cluster in containers, breaks it in eleven ways under load, and
// judges merchants' answers and how often money moved: make e2e, or make e2e SCENARIO=region-killed
// for one of them. Its tests are skipped unless HOMEWARD_DOCKER=1, which e2e/docker.sh and make
// set: they need Linux, Docker with Compose, and some minutes.
//
// The cluster is ../compose.yaml: three regions of two nodes, a CockroachDB node in
// each, the simulator, and the distance between regions (package wan below this
// one). If CockroachDB's image cannot be pulled, ../compose.postgres.yaml puts the
// host's PostgreSQL in its place. The tests print the database; HOMEWARD_TEST_KIND=postgresql
// or cockroachdb sets it.
//
// # Scenarios
//
// In each, clients send new keys all the time, every request from several of them at
// once, and every retry to any region. The scenario takes something away, waits for
// what must still work, and brings it back. The cluster becomes whole, and the clients
// finish. Then
//
//   - every request has a final answer;
//   - the history of each key fits the naive model (package history);
//   - the simulator moved money once for each key with an answer of 201, and for no
//     other;
//   - every key reads the same bytes again from another region.
//
// The wrong clock is real to the node: its binary is linked from the same compiled packages
// with another time.Now. Containers share the kernel's clock, and a static binary loads no
// library that could change it.
//
// When a scenario fails, the tests keep the containers' logs, the history, the simulator's
// movements and the report in ../artefacts.
package docker
