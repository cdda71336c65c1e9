// Package release is what makes a release of Homeward beside goreleaser: the images, the
// bills of materials, the section of the changelog, the licences. It is a module of its own,
// so that the go.mod of the service stays free of its libraries. .ci/release runs it.
package release
