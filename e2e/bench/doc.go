// Command bench compares Homeward with the least that could do its work.
//
//	go run ./e2e/bench            every case, five runs each
//	go run ./e2e/bench -quick     a smoke test of under a minute
//	go run ./e2e/bench -only iii/  the cases whose names start so
//
// The simulator, the system under test and the load generator are processes of
// their own: this binary again, with another first argument. Both sides of a
// comparison meet the same generator, the same provider adapter and a fresh
// simulator, and take turns, so that a change of the machine's mood meets both.
// Ratios are taken between runs of one turn, and their median is what counts.
//
// # The cases
//
//	i, ii  New charges. The floor reads the body, makes one provider call and
//	       two synced Pebble commits of the body: what anything that survives
//	       a crash between "about to charge" and "charged" has to pay.
//	iii    Replays of finished keys, against a handler that reads one Pebble key.
//	iv     Replays in another region, WAN round trip 80 ms, against replays at
//	       home: the ratio is the price of the distance.
//	v      Latency on top of an 80 ms provider at a fixed rate, below saturation.
//	vi     Peak memory (VmHWM) over all of Homeward's runs.
//	vii    Charges with a million keys in the store, against ten thousand.
//
// Every reply is checked: its status, and in a replay its bytes. A run with one
// wrong reply fails the program. Targets that are missed are printed as missed
// and make it exit with 1 only with -strict.
package main
