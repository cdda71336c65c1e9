package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/region"
)

const (
	// backdate is how far clocks may be behind this machine's.
	backdate = 5 * time.Minute
	// OperatorName is the name in operators' certificates.
	OperatorName = "dev"
)

// Certs are the files of a CA for development.
type Certs struct {
	Dir, TrustDomain string
	Life             time.Duration
	Force            bool // over files of the same names
}

// CA is the file of the CA's certificate.
func (d Certs) CA() string { return filepath.Join(d.Dir, "ca.pem") }

// Files are the files of one certificate, as settings name them.
func (d Certs) Files(who region.Identity) node.TLSSettings {
	name := who.Node
	if who.Operator != "" {
		name = who.Role.String()
	}
	return node.TLSSettings{
		Cert: filepath.Join(d.Dir, name+".pem"), Key: filepath.Join(d.Dir, name+"-key.pem"), CA: d.CA(), TrustDomain: d.TrustDomain,
	}
}

// Write writes a CA, whose key it discards, and a certificate for each.
func (d Certs) Write(who []region.Identity) error {
	type file struct {
		path string
		text []byte
		mode os.FileMode
	}
	const public, secret = 0o644, 0o600
	from, to := time.Now().Add(-backdate), time.Now().Add(d.Life)
	authority, err := devcerts.NewAuthority(from, to)
	if err != nil {
		return err
	}
	all := []file{{d.CA(), authority.PEM(), public}}
	for _, w := range who {
		uri, err := w.URI(d.TrustDomain)
		if err != nil {
			return err
		}
		cert, key, err := authority.Issue(from, to, uri)
		if err != nil {
			return err
		}
		files := d.Files(w)
		all = append(all, file{files.Cert, cert, public}, file{files.Key, key, secret})
	}
	if !d.Force {
		for _, f := range all { // before the first is written
			if _, err := os.Lstat(f.path); err == nil {
				return fmt.Errorf("%s exists; name another --dir, or write over it with --force", f.path)
			} else if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := localdb.MakeDir(d.Dir, 0o755); err != nil {
		return err
	}
	for _, f := range all {
		if err := replaceFile(f.path, f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file in one step: a reader gets all of it or the former content, with no
// more permissions than mode at any time.
func replaceFile(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error has more detail
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
