package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment"
)

type tenantSetCommand struct {
	ID          string            `arg:"" help:"The tenant's id."`
	Rate        *float64          `placeholder:"N" help:"Requests per second allowed at each node."`
	Burst       *int              `placeholder:"N" help:"Burst of requests allowed at each node."`
	Default     bool              `help:"Use the nodes' settings for both (tenant_rate, tenant_burst)."`
	CardNumbers claim.CardNumbers `placeholder:"refuse|mask|allow" help:"Policy for card numbers in free text: refuse the request, mask all digits but the last four, or allow."`
	Routes      *string           `placeholder:"ROUTES" help:"Provider of charges and transfers that name none: rules such as eur/pm_sepa_=bank,gbp=acquirer,*=stripe, of which the first match counts; empty for the nodes' default."`
}

// Bounds that no merchant approaches: a value above is a typing error.
const (
	mostRate  = 1_000_000
	mostBurst = 1_000_000
)

var cardNumbers = []claim.CardNumbers{claim.RefuseCardNumbers, claim.MaskCardNumbers, claim.AllowCardNumbers}

// rates reports whether rate or burst are to be set.
func (c *tenantSetCommand) rates() bool { return c.Default || c.Rate != nil || c.Burst != nil }

func (c *tenantSetCommand) check() error {
	switch {
	case c.Default && (c.Rate != nil || c.Burst != nil):
		return errors.New("--default leaves rate and burst to the nodes' settings; leave --rate and --burst out")
	case !c.rates() && c.CardNumbers == "" && c.Routes == nil:
		return errors.New("there is nothing to set; give --rate and --burst, or --default, or --card-numbers, or --routes")
	case c.Routes != nil && payment.Routes(*c.Routes).Validate() != nil:
		return fmt.Errorf("--routes: %w", payment.Routes(*c.Routes).Validate())
	case c.CardNumbers != "" && !slices.Contains(cardNumbers, c.CardNumbers):
		return fmt.Errorf("--card-numbers must be refuse, mask or allow, is %q", c.CardNumbers)
	case c.Rate != nil && !(*c.Rate > 0 && *c.Rate <= mostRate): // not a number is neither
		return fmt.Errorf("--rate must be above 0 and at most %d requests per second, is %g; --default leaves it to the nodes' settings", mostRate, *c.Rate)
	case c.Burst != nil && (*c.Burst < 1 || *c.Burst > mostBurst):
		return fmt.Errorf("--burst must be from 1 to %d requests, is %d", mostBurst, *c.Burst)
	}
	return nil
}

func (c *tenantSetCommand) Run(ctx context.Context, io streams) error {
	if err := c.check(); err != nil {
		return err
	}
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		if c.rates() {
			if err := c.setRates(ctx, io, db); err != nil {
				return err
			}
		}
		if c.Routes != nil {
			if err := db.SetRoutes(ctx, c.ID, *c.Routes); err != nil {
				return unknownTenant(c.ID, err)
			}
			fmt.Fprintf(io.out, "payments of %s go to %s; nodes follow within %s\n", c.ID, cmp.Or(*c.Routes, "the default of the nodes"), following())
		}
		if c.CardNumbers == "" {
			return nil
		}
		if err := db.SetCardNumbers(ctx, c.ID, c.CardNumbers); err != nil {
			return unknownTenant(c.ID, err)
		}
		fmt.Fprintf(io.out, "card numbers in the free text of %s: %s; nodes follow within %s\n", c.ID, c.CardNumbers, following())
		return nil
	})
}

func (c *tenantSetCommand) setRates(ctx context.Context, io streams, db *sqlstore.DB) error {
	t, err := db.Tenant(ctx, c.ID)
	if err != nil {
		return unknownTenant(c.ID, err)
	}
	if c.Default {
		t.RatePerSecond, t.Burst = 0, 0
	}
	if c.Rate != nil {
		t.RatePerSecond = *c.Rate
	}
	if c.Burst != nil {
		t.Burst = *c.Burst
	}
	if !c.Default && (t.RatePerSecond == 0 || t.Burst == 0) {
		return fmt.Errorf("tenant %s has no rate and burst of its own yet; give both --rate and --burst", c.ID)
	}
	if err := db.SetRate(ctx, c.ID, t.RatePerSecond, t.Burst); err != nil {
		return unknownTenant(c.ID, err)
	}
	what := fmt.Sprintf("%s may send %g requests per second, and %d at once, to each node", c.ID, t.RatePerSecond, t.Burst)
	if c.Default {
		what = fmt.Sprintf("what %s may send is left to the settings of the nodes", c.ID)
	}
	fmt.Fprintf(io.out, "%s; nodes may use the former values for %s longer\n", what, following())
	return nil
}
