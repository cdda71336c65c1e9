// Command geodns puts geo-DNS in front of a running homeward cluster: PowerDNS answers
// for one name with the address of the region that is nearest to the client, of those
// whose GET /readyz answers 200. `go run ./e2e/geodns` runs it, and the test of this package
// judges it under load.
//
//	merchant ──▶ resolver ──▶ PowerDNS    api.homeward.test? (client subnet) 127.0.2.1
//	    │                        │ GET /readyz, every second
//	    │                        ▼
//	    └─────────────────▶ 127.0.2.1:8080   the load balancer of europe-west1
//	                             │ GET /readyz of each node
//	                             ▼
//	                        the region's nodes
//
// What is real: PowerDNS, its health checks, EDNS client subnets (RFC 7871), the nodes
// and their /readyz. What stands in: each region has an address of loopback where a
// cloud has a load balancer ([entrance]), and places are those of subnets kept for
// benchmarks (RFC 2544), in a database of the format that MaxMind describes ([earth]).
package main
