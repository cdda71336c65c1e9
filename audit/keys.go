package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// PEM types of keys, by RFC 7468: openssl genpkey -algorithm ed25519 and openssl pkey
// -pubout write them.
const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
)

// KeyID names a public key: the first 16 bytes of the SHA-256 of its DER
// (SubjectPublicKeyInfo), in hexadecimal.
func KeyID(key ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // an Ed25519 key can always be encoded
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:16])
}

// Trust holds the public keys of accepted segments, by [KeyID].
type Trust map[string]ed25519.PublicKey

// Keys sign and verify segments: the first signs, and segments signed by any of
// them are accepted.
type Keys struct {
	signs ed25519.PrivateKey
	id    string
	trust Trust
	order []string
}

// NewKey mints a signing key, in PEM.
func NewKey() (string, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der})), nil
}

// ParseKeys reads private keys in PEM, one after the other; the first signs. It also
// accepts public keys, those of retired keys, which only verify. The error contains no key.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{trust: Trust{}}
	err := eachPEM(text, func(kind string, der []byte) error {
		var public ed25519.PublicKey
		switch kind {
		case pemPrivate:
			parsed, err := x509.ParsePKCS8PrivateKey(der)
			private, ok := parsed.(ed25519.PrivateKey)
			if err != nil || !ok {
				return errors.New("is not an Ed25519 key in PKCS #8; make one with: homeward audit key")
			}
			public, _ = private.Public().(ed25519.PublicKey)
			if k.signs == nil {
				k.signs, k.id = private, KeyID(public)
			}
		default:
			var err error
			if public, err = parsePublic(der); err != nil {
				return err
			}
		}
		id := KeyID(public)
		if k.trust[id] != nil {
			return errors.New("is there twice")
		}
		k.trust[id] = public
		k.order = append(k.order, id)
		return nil
	})
	if err == nil && k.signs == nil {
		err = errors.New("there is no private key; make one with: homeward audit key")
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Trust returns the public halves of all keys.
func (k *Keys) Trust() Trust { return k.trust }

// ID returns the id of the signing key.
func (k *Keys) ID() string { return k.id }

// Public returns the public halves of the keys, in PEM, the signing key's first.
func (k *Keys) Public() (string, error) {
	text := ""
	for _, id := range append([]string{k.id}, k.order...) {
		if text != "" && id == k.id {
			continue
		}
		der, err := x509.MarshalPKIXPublicKey(k.trust[id])
		if err != nil {
			return "", err
		}
		text += string(pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}))
	}
	return text, nil
}

// ParseTrust reads public keys in PEM, one after the other.
func ParseTrust(text string) (Trust, error) {
	t := Trust{}
	err := eachPEM(text, func(kind string, der []byte) error {
		if kind == pemPrivate {
			return errors.New("is a private key; give its public half, which homeward audit key --public prints")
		}
		key, err := parsePublic(der)
		if err == nil {
			t[KeyID(key)] = key
		}
		return err
	})
	return t, err
}

func parsePublic(der []byte) (ed25519.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, errors.New("is not an Ed25519 public key")
	}
	return key, nil
}

// eachPEM calls read for each block of text, which must have at least one.
func eachPEM(text string, read func(kind string, der []byte) error) error {
	rest, n := []byte(text), 0
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		rest, n = after, n+1
		if block.Type != pemPrivate && block.Type != pemPublic {
			return fmt.Errorf("block %d is a %s, not a key", n, block.Type)
		}
		if err := read(block.Type, block.Bytes); err != nil {
			return fmt.Errorf("key %d %w", n, err)
		}
	}
	if n == 0 {
		return errors.New("there is no key in PEM (-----BEGIN …)")
	}
	return nil
}
