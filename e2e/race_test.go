//go:build race

package e2e

// buildFlags: the command is built as the tests are, so that its own races are
// found and nothing is compiled twice.
var buildFlags = []string{"-race"}
