// Package meter is what the rooms say in metrics: the catalogue of all there are, and the
// instruments that they are told with, by OpenTelemetry's API.
//
// The catalogue is the single source. A [Metric] is made here and nowhere else, with its
// unit, labels, buckets and what a person needs to know of it; docs/METRICS.md is made
// from it, and what is not in it cannot be registered.
//
// Names, units and labels are those of OpenTelemetry's semantic conventions where they
// exist, and homeward.* elsewhere. Labels are regions, codes and names from small sets:
// never a key, an object or an amount. Tenants are labels up to a bound.
package meter

//go:generate go test . -run ^TestThePageIsCurrent$ -write
