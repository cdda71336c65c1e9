package embedded

import "github.com/homeward-io/homeward/claim"

// flight is a claim that this process began and has not settled yet, as its row is on
// disk. Its provider call's row is as Begin wrote it. Settle need not read either.
type flight struct {
	code  claim.RegionCode
	rec   claim.Record
	audit string // of the claim's row, as it is there
	// since is the sequence number of the Begin that minted the claim's id: nobody knew
	// the id, or booked under it, before. 0: an older one minted it, or nobody knows.
	since uint64
}

// minted reports whether id is new with this flight.
func (f *flight) minted(id string) bool { return f.since != 0 && f.rec.Minted.ID == id }

// flights cache one flight for each lock of the rows, which guards it. If another
// displaces it, or a step other than Settle has changed it, the row is read again. The
// cache may be lost. It serves the budget of charges, half the rate of two bare synced
// batches: without it a charge takes a tenth to a fourth more CPU.
type flights [stripes]*flight

// of returns the flight of key, nil if it is not cached.
func (f *flights) of(stripe int, code claim.RegionCode, key claim.Key) *flight {
	if got := f[stripe]; got != nil && got.code == code && got.rec.Key == key {
		return got
	}
	return nil
}

// flying reports whether old, which may be nil, has a row of a provider call.
func flying(old *claim.Record) bool { return old != nil && old.State == claim.InFlight }

// stepped updates the cache after a step, once that is durable. A provider call that
// replaced another is not cached: its row was set twice.
func (f *flights) stepped(stripe int, code claim.RegionCode, old, next *claim.Record, fx *claim.Effects, audit string, since uint64) {
	switch {
	case fx.Enqueue != nil && next.State == claim.InFlight && !flying(old):
		f[stripe] = &flight{code: code, rec: *next, audit: audit, since: since}
	case f.of(stripe, code, next.Key) != nil:
		f[stripe] = nil
	}
}

// forget is for other steps that change a claim, or the row of its provider call.
func (f *flights) forget(stripe int) { f[stripe] = nil }
