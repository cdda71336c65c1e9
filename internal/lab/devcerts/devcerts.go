// Package devcerts makes certificates for development: for deployments on one machine
// and for tests. An authority's key exists in memory only, so no one can issue more
// certificates; a production deployment has a CA of its own.
package devcerts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// Authority is a CA that exists for one run. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority for certificates that are valid between these times.
func NewAuthority(from, to time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("throw-away CA: %w", err)
	}
	serial := newSerial()
	template := &x509.Certificate{
		SerialNumber: serial,
		// Two authorities in one file need different names.
		Subject:   pkix.Name{CommonName: fmt.Sprintf("Homeward throw-away CA %x", serial)},
		NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("throw-away CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("throw-away CA: %w", err)
	}
	return &Authority{cert, key}, nil
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Issue makes a certificate for both ends of a connection, with these URIs as
// its names, and its key, PKCS #8. Both are PEM.
func (a *Authority) Issue(from, to time.Time, names ...*url.URL) (cert, key []byte, err error) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("throw-away certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), NotBefore: from, NotAfter: to, URIs: names,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pair.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("throw-away certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return nil, nil, fmt.Errorf("throw-away certificate: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret), nil
}

// Revoke makes the list of the authority, in PEM, that revokes these certificates, which are
// PEM. It is to be replaced at next.
func (a *Authority) Revoke(next time.Time, certs ...[]byte) ([]byte, error) {
	list := &x509.RevocationList{Number: newSerial(), ThisUpdate: a.cert.NotBefore, NextUpdate: next}
	for _, text := range certs {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, errors.New("throw-away list: a certificate is not PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("throw-away list: %w", err)
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: a.cert.NotBefore})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		return nil, fmt.Errorf("throw-away list: %w", err)
	}
	return encode("X509 CRL", der), nil
}

// newSerial is positive and has at most 20 bytes, as RFC 5280 has it.
func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	b[0] |= 0x40
	return new(big.Int).SetBytes(b[:])
}

func encode(what string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der})
}
