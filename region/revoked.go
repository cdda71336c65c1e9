package region

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// revoked are lists of revoked certificates, one or several of each CA.
type revoked struct {
	lists []*x509.RevocationList
	// by has the lists that name a certificate, by its issuer and serial number.
	by map[string][]*x509.RevocationList
}

// readRevoked reads lists in PEM, one behind the other, or one in DER. Each whose issuer is
// among cas must be signed by one of them: a list that anybody could have written would let a
// revoked certificate in. The lists of intermediate CAs are verified with their first use.
func readRevoked(path string, cas []*x509.Certificate) (*revoked, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := [][]byte{text}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		all = nil
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "X509 CRL" {
				return nil, fmt.Errorf("it has a %s, and wants X509 CRL alone", block.Type)
			}
			all = append(all, block.Bytes)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no list; write one with openssl ca -gencrl")
	}
	r := &revoked{by: map[string][]*x509.RevocationList{}}
	for i, der := range all {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
		if err := signedByOne(list, cas); err != nil {
			return nil, fmt.Errorf("list %d, of %v: %w", i+1, list.Issuer, err)
		}
		r.lists = append(r.lists, list)
		for _, entry := range list.RevokedCertificateEntries {
			at := string(list.RawIssuer) + "\x00" + entry.SerialNumber.String()
			r.by[at] = append(r.by[at], list)
		}
	}
	return r, nil
}

// signedByOne returns an error if cas have CAs of the list's issuer, and none has signed it. A list
// may say which key signed it: one of a CA that another of its name has replaced is not theirs.
func signedByOne(list *x509.RevocationList, cas []*x509.Certificate) (err error) {
	for _, ca := range cas {
		another := len(list.AuthorityKeyId) > 0 && len(ca.SubjectKeyId) > 0 && !bytes.Equal(list.AuthorityKeyId, ca.SubjectKeyId)
		if another || !bytes.Equal(ca.RawSubject, list.RawIssuer) {
			continue
		}
		if err = list.CheckSignatureFrom(ca); err == nil {
			return nil
		}
	}
	return err
}

// check returns an error if a list that an issuer among cas or chain has signed names a
// certificate of the chain.
func (r *revoked) check(chain, cas []*x509.Certificate) error {
	if r == nil {
		return nil
	}
	for _, cert := range chain {
		for _, list := range r.by[string(cert.RawIssuer)+"\x00"+cert.SerialNumber.String()] {
			for _, issuers := range [][]*x509.Certificate{chain, cas} {
				for _, ca := range issuers {
					if bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil {
						return fmt.Errorf("the certificate with the serial number %x is revoked", cert.SerialNumber)
					}
				}
			}
		}
	}
	return nil
}

// oldest is when the first of the lists should have been replaced; zero if none has a date.
func (r *revoked) oldest() (at time.Time) {
	if r == nil {
		return at
	}
	for _, list := range r.lists {
		if !list.NextUpdate.IsZero() && (at.IsZero() || list.NextUpdate.Before(at)) {
			at = list.NextUpdate
		}
	}
	return at
}
