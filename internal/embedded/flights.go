package embedded

import "github.com/homeward-io/homeward/claim"

// flight is a claim that somebody of this process began and has not settled yet, as its
// row is on disk. Its provider call's row is there as Begin wrote it. Who settles it need
// not read either.
type flight struct {
	code  claim.RegionCode
	rec   claim.Record
	audit string // of the claim's row, as it is there
}

// flights remember one flight for each lock of the rows, and are guarded by it. One that
// another displaces, or that a step other than Settle has changed, is read from its row
// again. Nothing is lost with them.
type flights [stripes]*flight

// of returns the flight of key, nil if it is not remembered.
func (f *flights) of(stripe int, code claim.RegionCode, key claim.Key) *flight {
	if got := f[stripe]; got != nil && got.code == code && got.rec.Key == key {
		return got
	}
	return nil
}

// stepped notes what a step has left of a claim, once it is durable.
func (f *flights) stepped(stripe int, code claim.RegionCode, next *claim.Record, fx *claim.Effects, audit string) {
	switch {
	case fx.Enqueue != nil && next.State == claim.InFlight:
		f[stripe] = &flight{code: code, rec: *next, audit: audit}
	case f.of(stripe, code, next.Key) != nil:
		f[stripe] = nil
	}
}

// forget is for steps that change a claim, or the row of its provider call, otherwise.
func (f *flights) forget(stripe int) { f[stripe] = nil }
