package region

import (
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxStrangers bounds the memory of whom the log has named, and the lines in strangerAgain.
const maxStrangers = 100

// strangerAgain is how long a member or caller of another deployment is not logged again: it
// comes back every second or more often, for as long as the mistake lasts.
const strangerAgain = time.Hour

// strangers are the members or callers of another deployment that the log has named. The
// zero value is ready, and safe for concurrent use.
type strangers struct {
	mu     sync.Mutex
	logged map[stranger]time.Time
}

type stranger struct {
	deployment uuid.UUID
	name       string // of the member, or the caller's host
}

// first reports whether to log s now.
func (all *strangers) first(s stranger, now time.Time) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	maps.DeleteFunc(all.logged, func(_ stranger, at time.Time) bool { return now.Sub(at) >= strangerAgain })
	if _, ok := all.logged[s]; ok || len(all.logged) == maxStrangers {
		return false
	}
	if all.logged == nil {
		all.logged = make(map[stranger]time.Time)
	}
	all.logged[s] = now
	return true
}
