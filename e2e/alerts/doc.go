// Package alerts makes the alerts of monitoring/ fire: a fault on running nodes, the
// metrics that they serve, and Prometheus' own engine with the project's own rules.
//
// Time is Prometheus': each look at the nodes is written down a step later than the one
// before, so that hours of a rule are some looks here. What nodes count, they count for
// real; their store's clock is set where an age is needed.
package alerts
