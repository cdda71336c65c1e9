// Package monitoring holds the configuration of Prometheus and Grafana: recording.yaml,
// alerts.yaml with their cases in tests.yaml and slow_tests.yaml, and dashboards, which
// go generate writes from [Dashboards].
package monitoring

//go:generate go test -run TestTheDashboardsAreCurrent -count=1 . -write
