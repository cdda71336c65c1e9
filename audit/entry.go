package audit

import (
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// Entry is one line of the audit of a region, as a segment has it. Its JSON is the format
// of segments: members are only ever added.
type Entry struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key"`
	// Object and ProviderRef are those of the key's claim, where it was still there, and
	// in the same life, when the entry was exported.
	Object      string `json:"object,omitempty"`
	ProviderRef string `json:"provider_ref,omitempty"`
	// ID is unique within the region, for ever: two entries with the same ID are one that
	// was exported twice.
	ID         string      `json:"id"`
	At         time.Time   `json:"at"`
	Event      claim.Event `json:"event"`
	Region     string      `json:"region"`
	Node       string      `json:"node"`
	Fence      uint64      `json:"fence"`
	Generation uint32      `json:"generation"`
	// Detail is an outcome, an operation or a decline code; card numbers are masked.
	Detail string `json:"detail,omitempty"`
}

// Position is a place in the audit of a region, in the order that its store has. The zero
// Position is before all of it.
type Position struct {
	Tenant string    `json:"tenant"`
	Key    string    `json:"key"`
	At     time.Time `json:"at"`
	ID     string    `json:"id"`
}

// Position is where e stands.
func (e *Entry) Position() Position {
	return Position{Tenant: e.Tenant, Key: e.Key, At: e.At, ID: e.ID}
}

// same reports whether p and q are one place.
func (p Position) same(q Position) bool {
	return p.Tenant == q.Tenant && p.Key == q.Key && p.ID == q.ID && p.At.Equal(q.At)
}

// lost is how many notes of replies e says were lost.
func (e *Entry) lost() uint64 {
	if e.Event != claim.EventRepliesLost {
		return 0
	}
	n, _ := strconv.ParseUint(e.Detail, 10, 64) // only our own code writes it
	return n
}
