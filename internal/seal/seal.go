// Package seal encrypts secrets and personal data at rest, so that access to the
// store alone does not reveal them. The packages that own such values seal them
// before they write to a store, and open them after they read; the store sees only
// sealed bytes.
//
// # Envelope
//
// A value is encrypted with a data key, AES-256-GCM, and the data key with a sealing
// key, which is local or at a KMS. The encrypted data key is stored before the value,
// with the name of its sealing key, so that a value can be opened with that key alone,
// whatever happens to other rows:
//
//	magic(4) name of the sealing key(8) length(uvarint) encrypted data key · nonce(12) ciphertext tag(16)
//
// Everything before the nonce is authenticated with the value, and so is its row
// ([Row]): a value that is copied into another row cannot be opened there.
//
// A process seals with a data key for [sealFor], and caches opened ones for [openFor]:
// it calls a KMS a few times an hour, and not for each value. It opens what its own data key has
// sealed for as long as that seals.
//
// # Values that are not sealed
//
// A value without the magic was written before there were sealing keys, and is returned
// as it is. New ones are written only by a ring that is [Clear]. So this package cannot detect that a value was replaced by an unsealed one:
// a writer of the store can forge it. The magic is not UTF-8, so that no text and no
// JSON can begin with it.
//
// # Rotation
//
// A [Ring] has several sealing keys: the first seals, all open. [Ring.Again] seals a
// value anew that is not under the first.
package seal

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Keeper is a sealing key. It encrypts at most 32 bytes. An error of Decrypt that is
// [ErrLost] means that a retry is useless. It is safe for concurrent use;
// gocloud.dev/secrets.Keeper is one.
type Keeper interface {
	Encrypt(ctx context.Context, plain []byte) ([]byte, error)
	Decrypt(ctx context.Context, sealed []byte) ([]byte, error)
}

// KeyName names a sealing key in the values that it has sealed, for as long as they are
// kept.
type KeyName [nameSize]byte

const nameSize = 8

// NameOf derives a name from a KMS's name of a key, or from the key itself. The name
// does not reveal the key.
func NameOf(identity string) (n KeyName) {
	sum := sha256.Sum256([]byte("homeward sealing key\x00" + identity))
	copy(n[:], sum[:])
	return n
}

// String returns the name for display.
func (n KeyName) String() string { return hex.EncodeToString(n[:]) }

// Row identifies the row of a value; the value opens in no other row.
type Row struct{ Table, Region, ID string }

func (r Row) String() string {
	if r.Region == "" {
		return r.Table + " " + r.ID
	}
	return r.Table + " " + r.ID + " of " + r.Region
}

// ErrNoKey: [Ring.Seal] has no sealing key, and would not store the value in clear text.
var ErrNoKey = errors.New("there is no sealing key")

// Errors of [Ring.Open].
var (
	// ErrLost: no retry by this process can open the value. It is sealed under a key
	// that the process does not have, or it was not sealed for this row.
	ErrLost = errors.New("it cannot be opened")
	// ErrNoAnswer: the sealing key did not answer. A later try may succeed.
	ErrNoAnswer = errors.New("the sealing key does not answer")
)

// magic begins every sealed value. The first byte never occurs in UTF-8, the last is
// the format's version.
var magic = []byte{0xf5, 'h', 'w', 1}

// dataKeySize is AES-256's.
const dataKeySize = 32

// maxWrapped bounds the encrypted data key that is accepted: KMSes make some 200 bytes.
const maxWrapped = 4096

// KeyOf names the key that a value is sealed under; ok is false for one that is not
// sealed.
func KeyOf(stored []byte) (name KeyName, ok bool) {
	if !bytes.HasPrefix(stored, magic) {
		return KeyName{}, false
	}
	copy(name[:], stored[len(magic):])
	return name, true
}

// split parses a sealed value. head is everything before the nonce.
func split(stored []byte) (name KeyName, wrapped, head, body []byte, err error) {
	rest := stored[len(magic):]
	if len(rest) < nameSize {
		return name, nil, nil, nil, errCut
	}
	copy(name[:], rest)
	rest = rest[nameSize:]
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > maxWrapped || uint64(len(rest)-size) < n {
		return name, nil, nil, nil, errCut
	}
	wrapped, body = rest[size:size+int(n)], rest[size+int(n):]
	return name, wrapped, stored[:len(stored)-len(body)], body, nil
}

var errCut = errors.New("it is truncated")

// head begins what a data key seals.
func head(name KeyName, wrapped []byte) []byte {
	b := append(bytes.Clone(magic), name[:]...)
	b = binary.AppendUvarint(b, uint64(len(wrapped)))
	return append(b, wrapped...)
}

// bound is the authenticated data beside the value: its head and its row, each part
// with its length, so that no two rows read the same.
func bound(head []byte, row Row) []byte {
	b := bytes.Clone(head)
	for _, part := range []string{row.Table, row.Region, row.ID} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// cipherOf returns the cipher of a data key. Its nonces are random: 2^32 values at most
// may be sealed with one key, and in [oldest] a node seals a twentieth of that at 2,000
// a second.
func cipherOf(key []byte) (cipher.AEAD, error) {
	if len(key) != dataKeySize {
		return nil, fmt.Errorf("its data key has %d bytes instead of %d", len(key), dataKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
