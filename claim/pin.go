package claim

import (
	"errors"
	"time"
)

// Pin says which region is home to an opaque key. It lives in the partition of
// the tenant's registrar.
type Pin struct {
	Key  Key
	Home string
	// CreatedAt is the store's clock when the home was fixed or last confirmed.
	CreatedAt time.Time
}

// PinChange says what a pinning request does to the stored pin.
type PinChange uint8

const (
	// PinStands: nothing is written.
	PinStands PinChange = iota + 1
	// PinConfirmed: the same home, with a fresh time.
	PinConfirmed
	// PinTaken: entry becomes the key's home. The step that writes it also looks
	// at the region's status, see [Store.Pin].
	PinTaken
)

// Pinnable fails for a key that names its home itself: a pin could give it another, if who
// made the request forgot to read its stamp.
func Pinnable(key Key) error {
	if _, stamped := ReadStamp(key.Value); stamped {
		return errors.New("claim: a stamped key names its home and gets no pin; set Request.Stamp where the request is made")
	}
	return nil
}

// PinFor decides what a pinning request for entry finds. old is the stored
// pin, nil when there is none; spokenFor says whether the claim at old's home
// still answers for the key, which is whenever its [Age] is not [Gone], and is
// only read for a pin past its life.
//
// It returns the pin that holds from now on and how it differs from the stored one.
//
//   - A young pin stands.
//   - After that, until its end, it is confirmed with a fresh time at the same
//     home. A claim may be made under it at any moment, even for the first time
//     (a crash between pin and claim), and the pin must outlive that claim.
//   - Past its end the entry region takes it, unless the old home's claim still
//     speaks for the key: an owed outcome keeps its home, however long it takes,
//     and so does one that came late, until its tombstone is over.
//
// Half of [Policy.CreateWithin] is young, so that whoever is given a pin has at
// least the other half to get its claim made.
func PinFor(old *Pin, key Key, entry string, spokenFor bool, p *Policy, now time.Time) (Pin, PinChange) {
	switch {
	case old == nil:
		return Pin{Key: key, Home: entry, CreatedAt: now}, PinTaken
	case now.Before(old.CreatedAt.Add(p.CreateWithin() / 2)):
		return *old, PinStands
	case now.Before(old.CreatedAt.Add(p.PinLife())) || spokenFor:
		return Pin{Key: key, Home: old.Home, CreatedAt: now}, PinConfirmed
	default:
		return Pin{Key: key, Home: entry, CreatedAt: now}, PinTaken
	}
}

// Settled reports whether a pin read from a replica may be acted on: only while
// no other region can have taken it. It names the home; whether a claim may
// still be made under it is for the home to say, see [Begin].
func (pin *Pin) Settled(p *Policy, now time.Time) bool {
	return now.Before(pin.CreatedAt.Add(p.ReplayFor + p.TombstoneFor - p.ClockOffset))
}
