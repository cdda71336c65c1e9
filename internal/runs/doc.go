// Package runs stores reports of runs that prove something: drills and drains of
// regions, comparisons with statements, verifications of the books. A run is one JSON
// object in a bucket. The command that executes it writes it, and the console reads it.
// Nothing depends on it: no request, no claim and no later run reads a report.
//
// # Names
//
//	KIND/INVERTED-TIME-RANDOM.json    drill/8235690412345-20261122T175011Z-5f0c2a91.json
//
// INVERTED counts milliseconds down, so that a bucket, which lists names in order,
// lists the newest run first, and a reader stops after as many as it shows. Times are
// by the clock of the machine that ran it. An object is small: texts are cut and lists
// are bounded, and the number of omitted items is stored. No object needs another one,
// so the bucket's own lifecycle rules may delete old ones, by their age or by KIND/.
//
// # Where a crash can fall
//
// The object is written when the run begins, with the verdict [Open], at its steps, and
// with the verdict when it ends. Each write is atomic: one put to a bucket, or in a
// directory a file that is synced and renamed.
//
//	before the first write    nothing is stored, and nothing was done: Begin comes first
//	between two writes        the run is there as [Open], with the steps so far. It still runs
//	                          or has died: no reader can tell which, and the page says so
//	after the last one        the verdict is stored, whether or not it was read
//
// A run with a failed last write reports that with an error of its own, beside its verdict. A file
// that a power failure left incomplete is listed as unreadable, and hides no other.
//
// # What is in it
//
// Figures, and some of the findings, in words. No body, no secret, and no provider key:
// the packages that make reports have none. Control characters are removed from foreign
// texts, and the function passed to [New] masks card numbers.
package runs
