package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/homeward-io/homeward/region"
)

// TLSSettings are the certificates with which nodes authenticate each other: all three
// files, or none.
type TLSSettings struct {
	Cert string `koanf:"cert"` // file, PEM; intermediate certificates behind it
	Key  string `koanf:"key"`  // file, PKCS #8 in PEM
	CA   string `koanf:"ca"`   // file, PEM; two CAs while one replaces the other
	// Revoked is a file with lists of revoked certificates, PEM or DER; "": none is.
	Revoked string `koanf:"revoked"`
	// TrustDomain is the deployment's name in its certificates.
	TrustDomain string `koanf:"trust_domain"`
}

// defaultTrustDomain is for deployments that share their CA with no other.
const defaultTrustDomain = "homeward"

func (t TLSSettings) on() bool { return t.Cert != "" || t.Key != "" || t.CA != "" }

// validate checks the settings and not the files, which may be on another machine.
func (t TLSSettings) validate(rpc RPCSettings) error {
	var errs []error
	for _, f := range []struct{ name, path string }{{"cert", t.Cert}, {"key", t.Key}, {"ca", t.CA}} {
		if t.on() && f.path == "" {
			errs = append(errs, fmt.Errorf("settings: tls.%s is missing; name all of tls.cert, tls.key and tls.ca, or none", f.name))
		}
	}
	if t.Revoked != "" && !t.on() {
		errs = append(errs, errors.New("settings: tls.revoked is set without tls.cert, tls.key and tls.ca, whose CAs revoke; set them, or leave it out"))
	}
	if !region.ValidTrustDomain(t.TrustDomain) {
		errs = append(errs, fmt.Errorf("settings: tls.trust_domain %q is not a trust domain; use lower case letters, digits, '.', '-' and '_'", t.TrustDomain))
	}
	// A caller that can forward to a node acts for any merchant.
	if !t.on() && !onLoopback(rpc.Listen) {
		errs = append(errs, fmt.Errorf("settings: rpc.listen %s is open to other machines, which could act for any merchant; set tls.cert, tls.key and tls.ca, or listen on 127.0.0.1", rpc.Listen))
	}
	return errors.Join(errs...)
}

// fileMistake returns what to do about a setting that names a missing or unreadable file.
func fileMistake(setting, path, hint string) error {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("settings: %s: there is no file %s; %s", setting, path, hint)
	case err != nil:
		return fmt.Errorf("settings: %s: %w; %s", setting, err, hint)
	}
	return nil
}

// open reads the files of a node of a region; nil if TLS is off.
func (t TLSSettings) open(nodeRegion string, log *slog.Logger) (*region.TLS, error) {
	if !t.on() {
		return nil, nil
	}
	for _, f := range []struct{ name, path string }{{"cert", t.Cert}, {"key", t.Key}, {"ca", t.CA}} {
		if err := fileMistake("tls."+f.name, f.path, "docs/RUNBOOK.md describes its contents (Rotate certificates), and homeward dev-certs makes one to try"); err != nil {
			return nil, err
		}
	}
	if t.Revoked != "" {
		if err := fileMistake("tls.revoked", t.Revoked, "it is a list of revoked certificates (CRL) of the CA; docs/RUNBOOK.md says how to make one (Revoke a certificate)"); err != nil {
			return nil, err
		}
	}
	return region.NewTLS(region.TLSConfig{
		CertFile: t.Cert, KeyFile: t.Key, CAFile: t.CA, RevokedFile: t.Revoked, TrustDomain: t.TrustDomain, Region: nodeRegion, Logger: log,
	})
}
