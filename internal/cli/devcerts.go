package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/region"
)

type devCertsCommand struct {
	Dir         string   `required:"" type:"path" help:"Directory to write to; it is created."`
	Regions     []string `required:"" placeholder:"REGION,..." help:"The deployment's regions."`
	Nodes       int      `default:"2" help:"Number of nodes in each region."`
	Days        int      `default:"7" help:"Validity of the certificates."`
	TrustDomain string   `name:"trust-domain" default:"homeward" help:"The deployment's name in its certificates: tls.trust_domain."`
	Force       bool     `help:"Overwrite existing files."`
}

// Help returns the text that homeward dev-certs --help adds.
func (devCertsCommand) Help() string {
	return `For a deployment on one machine, or one that holds nothing. The CA's key is discarded, so there is no certificate to add later: make all of them again, with --force. Running nodes take the new ones by themselves; until all have, they refuse each other.`
}

const (
	// maxDevDays and maxDevNodes keep certificates for development short-lived and few.
	maxDevDays  = 365
	maxDevNodes = 100
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
	d := lab.Certs{Dir: c.Dir, TrustDomain: c.TrustDomain, Life: time.Duration(c.Days) * 24 * time.Hour, Force: c.Force}
	for _, role := range []region.Role{region.RoleReader, region.RoleOperator, region.RoleTreasurer} {
		who = append(who, region.Identity{Operator: lab.OperatorName, Role: role})
	}
	if err := d.Write(who); err != nil {
		return err
	}
	t := table(io)
	fmt.Fprintf(t, "%s\tthrow-away CA, good for %d days\n", d.CA(), c.Days)
	for _, w := range who {
		uri, err := w.URI(c.TrustDomain)
		if err != nil {
			return err
		}
		files := d.Files(w)
		fmt.Fprintf(t, "%s\t%s\n%s\tits key\n", files.Cert, uri, files.Key)
	}
	return t.Flush()
}
