package claim

import (
	"errors"
	"time"
)

// Pin records the home region of an opaque key. It lives in the partition of the
// tenant's registrar.
type Pin struct {
	Key  Key
	Home string
	// CreatedAt is when the home was fixed or last confirmed, by the store's
	// clock.
	CreatedAt time.Time
}

// PinChange is the effect of a pinning request on the stored pin.
type PinChange uint8

const (
	// PinUnchanged: nothing is written.
	PinUnchanged PinChange = iota + 1
	// PinConfirmed: the same home, with a fresh time.
	PinConfirmed
	// PinTaken: entry becomes the key's home. The step that writes it also looks
	// at the region's status, see [Store.Pin].
	PinTaken
)

// Pinnable returns an error for a stamped key. A caller that forgot to read the stamp
// could otherwise pin the key to a second home.
func Pinnable(key Key) error {
	if _, stamped := ReadStamp(key.Value); stamped {
		return errors.New("claim: a stamped key names its home and gets no pin; set Request.Stamp where the request is made")
	}
	return nil
}

// PinFor decides the outcome of a pinning request for entry. old is the stored pin, nil
// if there is none. spokenFor reports whether the claim at old's home still owns the
// key, which is so unless its [Age] is [Gone]. PinFor calls it only for a pin past its
// life.
//
// It returns the pin that holds from now on and how it differs from the stored one:
//
//   - A young pin stands.
//   - An older pin, until its end, is confirmed with a fresh time at the same home. A
//     claim may be created under it at any moment, even for the first time (a crash
//     between pin and claim), and the pin must outlive that claim.
//   - Past its end the entry region takes the pin, unless the claim at the old home
//     still owns the key. A claim in flight keeps its home however long it takes, and
//     so does a claim that was settled late, until its tombstone ends.
//
// A pin is young for half of [Policy.CreateWithin], so a request that gets a pin has at
// least the other half to create its claim.
func PinFor(old *Pin, key Key, entry string, spokenFor bool, p *Policy, now time.Time) (Pin, PinChange) {
	switch {
	case old == nil:
		return Pin{Key: key, Home: entry, CreatedAt: now}, PinTaken
	case now.Before(old.CreatedAt.Add(p.CreateWithin() / 2)):
		return *old, PinUnchanged
	case now.Before(old.CreatedAt.Add(p.PinLife())) || spokenFor:
		return Pin{Key: key, Home: old.Home, CreatedAt: now}, PinConfirmed
	default:
		return Pin{Key: key, Home: entry, CreatedAt: now}, PinTaken
	}
}

// Settled reports whether a pin that was read from a replica is safe to use, because no
// other region can have taken it. It names the home; the home decides whether a claim
// may still be created under it, see [Begin].
func (pin *Pin) Settled(p *Policy, now time.Time) bool {
	return now.Before(pin.CreatedAt.Add(p.ReplayFor + p.TombstoneFor - p.ClockOffset))
}
