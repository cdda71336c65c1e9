// Package runs keeps what came of runs that prove something: drills and drains of regions,
// comparisons with statements, proofs of the books. A run is one JSON object in a bucket,
// written by the command that carries it out, and read by the console. Nothing depends on
// it: no request, no claim and no later run reads a report.
//
// # Names
//
//	KIND/INVERTED-TIME-RANDOM.json    drill/8235690412345-20261122T175011Z-5f0c2a91.json
//
// INVERTED counts milliseconds down, so that a bucket, which lists names in order, lists the
// newest run first, and a reader stops after as many as it shows. Times are of the clock of
// whoever ran it. An object is small: its texts are cut and its lists have
// bounds, and what was left out is counted. None of them is needed by another one, so that
// the bucket's own lifecycle rules may delete old ones, by their age or by KIND/.
//
// # Where a crash can fall
//
// The object is written when the run begins, with the verdict [Open], at its steps, and
// with the verdict when it ends. Each time it is written whole or not at all: by one put of
// the bucket's, or of a directory by a file that is synced and renamed.
//
//	before the first write    nothing is kept, and nothing was done: Begin comes first
//	between two writes        the run is there as [Open], with the steps so far. Whether it
//	                          goes on or has died nobody can tell from outside, and the
//	                          reader is told just that
//	after the last one        the verdict is kept, whether or not anybody has read it
//
// A run whose last write fails says so with its own error, beside its verdict. What lies in
// a file's place after a power failure and is no whole report is listed as one that cannot
// be read, and hides no other.
//
// # What is in it
//
// Figures, and some of the findings, in words. No body, no secret, and no key by which a
// provider recognises a call: the rooms that make reports have none. Texts that came from
// somewhere else are cleaned of control characters, and card numbers are masked by a
// function that whoever keeps runs provides.
package runs
