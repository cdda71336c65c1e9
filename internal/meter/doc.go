// Package meter holds the catalogue of all metrics, and the instruments that record them
// through OpenTelemetry's API.
//
// The catalogue is the single source. Only this package defines a [Metric], with its
// unit, labels, buckets and the advice to operators. docs/METRICS.md is generated from
// it, and a metric that is not in it cannot be registered.
//
// Names, units and labels are those of OpenTelemetry's semantic conventions where they
// exist, and homeward.* elsewhere. Labels are regions, codes and names from small sets:
// never a key, an object or an amount. Tenants are labels up to a bound.
package meter

//go:generate go test . -run ^TestThePageIsCurrent$ -write
