// Package monitoring keeps what Prometheus and Grafana are given: recording.yaml,
// alerts.yaml with their cases in tests.yaml, and the dashboards.
package monitoring
