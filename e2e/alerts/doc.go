// Package alerts makes the alerts of monitoring/ fire: it breaks running nodes, scrapes
// their metrics, and evaluates the project's rules in Prometheus' own engine.
//
// Time is Prometheus': each look at the nodes is written down a step later than the one
// before, so that hours of a rule are some looks here. What nodes count, they count for
// real; their store's clock is set where an age is needed.
package alerts
