package cli

import (
	"fmt"
	"time"
)

// progressEvery is how often somebody who waits is told.
const progressEvery = time.Second

// progress tells how far a long work has come, now and then, in lines of their own: of work
// that is done sooner nothing is said. What it returns is called by one at a time.
func (io streams) progress(what string) func(done, total int) {
	last := time.Now()
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(io.err, "%s: %d of %d\n", what, done, total)
		}
	}
}
