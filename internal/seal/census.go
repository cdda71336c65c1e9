package seal

import (
	"context"
	"errors"
)

// Census processes stored values: it counts them by their keys, and seals them anew
// unless Look is set. It is not safe for concurrent use.
type Census struct {
	Ring *Ring
	// Look counts without changes.
	Look bool

	// Under counts values by the name of their key; "" counts unsealed values.
	Under map[string]int
	// Again counts the values that were sealed anew, Lost those that cannot be opened
	// here, and Why is the reason for the first of these.
	Again, Lost int
	Why         error
	// Kept counts the values that stay under another key than the first; see Keep.
	Kept int
}

// Keep counts a value that is not sealed anew, since it is soon deleted. One that is not sealed is of
// an owner that does not seal, and is not counted.
func (c *Census) Keep(stored []byte) {
	name, sealed := KeyOf(stored)
	if !sealed {
		return
	}
	if c.Under == nil {
		c.Under = map[string]int{}
	}
	c.Under[name.String()]++
	if c.Ring.Seals() && name != c.Ring.keys[0].Name {
		c.Kept++
	}
}

// Value counts a value and returns its replacement, nil for no change. The error is
// [ErrNoAnswer]; a value that cannot be opened at all is counted and left.
func (c *Census) Value(ctx context.Context, row Row, stored []byte) ([]byte, error) {
	if c.Under == nil {
		c.Under = map[string]int{}
	}
	under := ""
	if name, sealed := KeyOf(stored); sealed {
		under = name.String()
	}
	c.Under[under]++
	if c.Look {
		return nil, nil
	}
	again, err := c.Ring.Again(ctx, row, stored)
	switch {
	case errors.Is(err, ErrLost):
		c.Lose(err)
		return nil, nil
	case err != nil:
		return nil, err
	case again != nil:
		c.Again++
	}
	return again, nil
}

// Lose counts a value that cannot be opened.
func (c *Census) Lose(err error) {
	if c.Lost++; c.Why == nil {
		c.Why = err
	}
}
