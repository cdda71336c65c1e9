package audit

import (
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// Entry is one audit entry of a region, as segments store it. Its JSON is the format of
// segments: members are only ever added.
type Entry struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key"`
	// Object and ProviderRef are those of the key's claim, if it was still stored, and
	// in the same life, when the entry was exported.
	Object      string `json:"object,omitempty"`
	ProviderRef string `json:"provider_ref,omitempty"`
	// ID is unique within the region, for ever: two entries with the same ID are one
	// entry that was exported twice.
	ID         string      `json:"id"`
	At         time.Time   `json:"at"`
	Event      claim.Event `json:"event"`
	Region     string      `json:"region"`
	Node       string      `json:"node"`
	Fence      uint64      `json:"fence"`
	Generation uint32      `json:"generation"`
	// Detail is an outcome, an operation or a decline code; card numbers are masked.
	Detail string `json:"detail,omitempty"`
	// Life describes the key's claim, in the entry of the step that began its
	// generation, if that was its latest when the entry was exported.
	Life *Life `json:"life,omitempty"`
	// Claim is the claim of the key, if it is stored and of the same life: at least its
	// key, object, first use, fingerprint, generation and provider key. The exporter
	// derives Life from it.
	Claim *claim.Record `json:"-"`
}

// Life holds the facts that identify a claim after its store has lost it; see
// claim.Witness.
type Life struct {
	FirstUse time.Time `json:"first_use"`
	// Fingerprint is the request's in hexadecimal, by the rules of Version.
	Fingerprint string `json:"fingerprint"`
	Version     uint8  `json:"version"`
	// Provider names the provider of the generation; "" if none was named.
	Provider string `json:"provider,omitempty"`
}

// begins are the events of steps that begin a generation.
var begins = []claim.Event{claim.EventClaimed, claim.EventReplaced, claim.EventReclaimed, claim.EventMoved, claim.EventRestored}

// live sets Life if e began the latest generation of its claim; providers are the
// possible providers.
func (e *Entry) live(providers []string) {
	rec := e.Claim
	if rec == nil || rec.Generation != e.Generation || !slices.Contains(begins, e.Event) {
		return
	}
	if provider, ok := rec.With(providers); ok {
		e.Life = &Life{
			FirstUse: rec.FirstUse, Fingerprint: hex.EncodeToString(rec.Fingerprint.Sum[:]),
			Version: uint8(rec.Fingerprint.Version), Provider: provider,
		}
	}
}

// Position is a place in the audit of a region, in the order that its store has. The zero
// Position is before all of it.
type Position struct {
	Tenant string    `json:"tenant"`
	Key    string    `json:"key"`
	At     time.Time `json:"at"`
	ID     string    `json:"id"`
}

// Position returns the position of e.
func (e *Entry) Position() Position {
	return Position{Tenant: e.Tenant, Key: e.Key, At: e.At, ID: e.ID}
}

// same reports whether p and q are one place.
func (p Position) same(q Position) bool {
	return p.Tenant == q.Tenant && p.Key == q.Key && p.ID == q.ID && p.At.Equal(q.At)
}

// lost returns how many notes of replies were lost, by e.
func (e *Entry) lost() uint64 {
	if e.Event != claim.EventRepliesLost {
		return 0
	}
	n, _ := strconv.ParseUint(e.Detail, 10, 64) // only our own code writes it
	return n
}
