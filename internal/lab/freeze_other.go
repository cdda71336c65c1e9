//go:build !linux

package lab

import "errors"

func wake(int) {}

// errNoFreeze: not every system can suspend a process.
var errNoFreeze = errors.New("only Linux freezes processes here; take the region away with region-loss")

func freeze(int) error { return errNoFreeze }
func thaw(int) error   { return errNoFreeze }
