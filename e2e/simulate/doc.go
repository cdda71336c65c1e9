// Package simulate runs whole clusters in one process under virtual time, and does to them what a
// seed says. Its tests are its entry: see TestSimulate, and "The simulation" in docs/TESTING.md.
package simulate
