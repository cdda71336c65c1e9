package seal

import (
	"context"
	"errors"
)

// Census goes through stored values: it counts them by their keys, and seals them anew
// unless it only looks. It is for one goroutine.
type Census struct {
	Ring *Ring
	// Look counts without changes.
	Look bool

	// Under counts values by the name of the key that they were found under; "" is that
	// of values that are not sealed.
	Under map[string]int
	// Again counts those that were sealed anew, Lost those that cannot be opened here,
	// and Why says why the first of them cannot.
	Again, Lost int
	Why         error
}

// Value counts a value and returns its replacement, nil for no change. The error is
// [ErrUnasked]; a value that cannot be opened at all is counted and left.
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
