// Package sealtest has sealing keys for tests, without secrets.
package sealtest

import (
	"context"
	"slices"

	"github.com/homeward-io/homeward/internal/seal"
)

// mask hides a text from a search for it; it is no encryption.
type mask byte

func (m mask) turn(in []byte) []byte {
	out := slices.Clone(in)
	for i := range out {
		out[i] ^= byte(m)
	}
	return out
}

func (m mask) Encrypt(_ context.Context, plain []byte) ([]byte, error)  { return m.turn(plain), nil }
func (m mask) Decrypt(_ context.Context, sealed []byte) ([]byte, error) { return m.turn(sealed), nil }

// Ring has the keys of these numbers, each the same in every ring.
func Ring(keys ...byte) *seal.Ring {
	var all []seal.Key
	for _, k := range keys {
		all = append(all, seal.Key{Name: seal.NameOf(string(rune(k))), Keeper: mask(k)})
	}
	return seal.New(all, nil)
}
