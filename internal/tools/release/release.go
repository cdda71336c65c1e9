// Package release is what makes a release of Homeward beside goreleaser and cyclonedx-gomod:
// the images and the licences. docs/design/providers.md says why these are ours. It is a module
// of its own, so that the go.mod of the service stays free of its libraries. .ci/release runs it.
package release
