//go:build race

package embedded_test

// The race detector makes allocations of its own.
func init() { detecting = true }
