package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/homeward-io/homeward/internal/devcerts"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/region"
)

type devCertsCommand struct {
	Dir         string   `required:"" type:"path" help:"Directory to write to; it is made."`
	Regions     []string `required:"" placeholder:"REGION,..." help:"The deployment's regions."`
	Nodes       int      `default:"2" help:"How many nodes each region has."`
	Days        int      `default:"7" help:"How long the certificates are good for."`
	TrustDomain string   `name:"trust-domain" default:"homeward" help:"The deployment's name in its certificates: tls.trust_domain."`
	Force       bool     `help:"Write over files of the same names."`
}

// Help is what homeward dev-certs --help adds.
func (devCertsCommand) Help() string {
	return `For a deployment on one machine, or one that holds nothing. Nobody keeps the CA's key, so there is no certificate to add later: make all of them again, with --force. Running nodes take the new ones by themselves; until all have, they refuse each other.`
}

const (
	// maxDevDays and maxDevNodes keep throw-away certificates what they are.
	maxDevDays  = 365
	maxDevNodes = 100
	// devBackdate is how far clocks may be behind this machine's.
	devBackdate = 5 * time.Minute
	// devOperator is the name in the operator's certificate.
	devOperator = "dev"
)

func (c *devCertsCommand) Run(io streams) error {
	if c.Nodes < 1 || c.Nodes > maxDevNodes {
		return fmt.Errorf("--nodes must be from 1 to %d, is %d", maxDevNodes, c.Nodes)
	}
	if c.Days < 1 || c.Days > maxDevDays {
		return fmt.Errorf("--days must be from 1 to %d, is %d", maxDevDays, c.Days)
	}
	var who []region.Identity
	for i, r := range c.Regions {
		if !region.ValidName(r) {
			return fmt.Errorf("--regions: %q is not a region name; write 1 to %d characters of a-z, 0-9 and '-'", r, region.MaxRegionName)
		}
		if slices.Contains(c.Regions[:i], r) {
			return fmt.Errorf("--regions: %s is named twice", r)
		}
		for n := range c.Nodes {
			who = append(who, region.Identity{Region: r, Node: fmt.Sprintf("%s-%d", r, n+1)})
		}
	}
	d := devCerts{dir: c.Dir, trustDomain: c.TrustDomain, life: time.Duration(c.Days) * 24 * time.Hour, force: c.Force}
	who = append(who, region.Identity{Operator: devOperator})
	if err := d.make(who); err != nil {
		return err
	}
	t := table(io)
	fmt.Fprintf(t, "%s\tthrow-away CA, good for %d days\n", d.ca(), c.Days)
	for _, w := range who {
		uri, err := w.URI(c.TrustDomain)
		if err != nil {
			return err
		}
		files := d.files(w)
		fmt.Fprintf(t, "%s\t%s\n%s\tits key\n", files.Cert, uri, files.Key)
	}
	return t.Flush()
}

// devCerts are the files of a throw-away CA.
type devCerts struct {
	dir, trustDomain string
	life             time.Duration
	force            bool // over files of the same names
}

func (d devCerts) ca() string { return filepath.Join(d.dir, "ca.pem") }

// files are where somebody's certificate is, as settings.
func (d devCerts) files(who region.Identity) node.TLSSettings {
	name := who.Node
	if who.Operator != "" {
		name = "operator"
	}
	return node.TLSSettings{
		Cert: filepath.Join(d.dir, name+".pem"), Key: filepath.Join(d.dir, name+"-key.pem"), CA: d.ca(), TrustDomain: d.trustDomain,
	}
}

// make writes a CA, whose key it forgets, and a certificate for each.
func (d devCerts) make(who []region.Identity) error {
	type file struct {
		path string
		text []byte
		mode os.FileMode
	}
	const public, secret = 0o644, 0o600
	from, to := time.Now().Add(-devBackdate), time.Now().Add(d.life)
	authority, err := devcerts.NewAuthority(from, to)
	if err != nil {
		return err
	}
	all := []file{{d.ca(), authority.PEM(), public}}
	for _, w := range who {
		uri, err := w.URI(d.trustDomain)
		if err != nil {
			return err
		}
		cert, key, err := authority.Issue(from, to, uri)
		if err != nil {
			return err
		}
		files := d.files(w)
		all = append(all, file{files.Cert, cert, public}, file{files.Key, key, secret})
	}
	if !d.force {
		for _, f := range all { // before the first is written
			if _, err := os.Lstat(f.path); err == nil {
				return fmt.Errorf("%s exists; name another --dir, or write over it with --force", f.path)
			} else if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	for _, f := range all {
		if err := replaceFile(f.path, f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file in one step: whoever reads it reads all or what was
// there before, with no more permissions than mode at any time.
func replaceFile(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error in hand says more
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
