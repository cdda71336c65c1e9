package cli

import (
	"fmt"
	"time"
)

// progressEvery is the interval of progress lines.
const progressEvery = time.Second

// progress prints the progress of long work, now and then, each time in a new line;
// shorter work prints nothing. Do not call the returned function concurrently.
func (io streams) progress(what string) func(done, total int) {
	last := time.Now()
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(io.err, "%s: %d of %d\n", what, done, total)
		}
	}
}
