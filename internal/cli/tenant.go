package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/region"
)

type tenantCommand struct {
	Create        tenantCreateCommand        `cmd:"" help:"Add a tenant and its test side, ID~test, and mint the first API key of each."`
	List          tenantListCommand          `cmd:"" help:"List tenants by id."`
	Keys          tenantKeysCommand          `cmd:"" help:"List a tenant's API keys: which there are, and when each ends."`
	RotateKey     tenantRotateKeyCommand     `cmd:"" help:"Mint a new API key, and revoke the others after a while."`
	Set           tenantSetCommand           `cmd:"" help:"Set a tenant's rate limit, card number policy and provider routes."`
	Elapse        tenantElapseCommand        `cmd:"" help:"Let time pass for a test tenant: its keys, and what waits, become older."`
	MoveRegistrar tenantMoveRegistrarCommand `cmd:"" help:"Move a tenant's pins to another registrar region."`
}

// Help returns the text that homeward tenant --help adds.
func (tenantCommand) Help() string { return migrateCommand{}.Help() }

// withDatabase opens the database of the environment while do runs.
func withDatabase(ctx context.Context, do func(*sqlstore.DB) error) error {
	url, err := node.Secret(os.Environ(), node.DatabaseURL)
	if err != nil {
		return err
	}
	return node.WithDatabase(ctx, url, func(db *sqlstore.DB) error {
		if a, ok := ctx.Value(actKey{}).(*act); ok && a.role != apart && a.role >= region.RoleOperator {
			return use(ctx, deployment.SQL(db), nil, func(*store) error { return do(db) })
		}
		return do(db)
	})
}

// tenantID: ids are part of logs and of provider keys.
var tenantID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkTenantID refuses ids that would cause trouble for as long as the tenant exists.
func checkTenantID(id string) error {
	if !tenantID.MatchString(id) {
		return fmt.Errorf("%q is not a tenant id; write 1 to 63 characters of a-z, A-Z, 0-9, '.', '_' and '-', the first a letter or digit", id)
	}
	return nil
}

// checkRegion is amongRegions of those that the database has.
func checkRegion(ctx context.Context, db *sqlstore.DB, flag, name string) error {
	regions, _, err := db.Regions(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, r := range regions {
		names = append(names, r.Name)
	}
	return amongRegions(flag, name, names)
}

// following says how long nodes may go on with what they have read of tenants: a setting of theirs,
// which a command does not know.
func following() string {
	return fmt.Sprintf("%v (or what their database.tenant_cache says)", sqlstore.DefaultPool().TenantCache)
}

// unknownTenant adds how to find the right id.
func unknownTenant(id string, err error) error {
	if errors.Is(err, claim.ErrUnknownTenant) {
		return fmt.Errorf("there is no tenant %q; homeward tenant list shows those that there are", id)
	}
	return err
}

func printKey(io streams, tenant, key string) {
	moves := ""
	if !claim.Livemode(tenant) {
		moves = " It moves no money."
	}
	fmt.Fprintf(io.out, "API key: %s\nKeep it now: only its hash is stored, and it is not shown again.%s In homeward tenant keys %s it is %s.\n", key, moves, tenant, claim.HashAPIKey(key).Short())
}

type tenantCreateCommand struct {
	ID        string `arg:"" help:"The tenant's id. It cannot be changed later."`
	Name      string `required:"" help:"Display name."`
	Registrar string `required:"" placeholder:"REGION" help:"The tenant's registrar, which keeps its pins: the region where most of its requests arrive."`
}

func (c *tenantCreateCommand) Run(ctx context.Context, io streams) error {
	if err := checkTenantID(c.ID); err != nil {
		return err
	}
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("--name is empty; give the tenant's name, as in --name 'Acme Rockets'")
	}
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		if err := checkRegion(ctx, db, "--registrar", c.Registrar); err != nil {
			return err
		}
		// The live side first: a command that ended in between makes the other one when it is
		// repeated.
		made := 0
		for _, id := range []string{c.ID, claim.TestTenant(c.ID)} {
			// Two concurrent callers that create it get a key each. That is harmless, since
			// writing a tenant that exists changes neither its keys nor its registrar.
			switch _, err := db.Tenant(ctx, id); {
			case err == nil:
				continue
			case !errors.Is(err, claim.ErrUnknownTenant):
				return err
			}
			key := claim.NewAPIKey(id)
			if err := db.PutTenant(ctx, claim.Tenant{ID: id, Name: c.Name, Registrar: c.Registrar}, key); err != nil {
				return err
			}
			fmt.Fprintf(io.out, "tenant %s, registrar %s\n", id, c.Registrar)
			printKey(io, id, key)
			made++
		}
		if made == 0 {
			return fmt.Errorf("tenant %s exists; mint a new key with homeward tenant rotate-key, or change its registrar with homeward tenant move-registrar", c.ID)
		}
		return nil
	})
}

type tenantListCommand struct {
	liveFlags
	After string `placeholder:"ID" help:"List those after this id."`
	Limit int    `default:"100" help:"Maximum number to list."`
}

// Help returns the text that homeward tenant list --help adds.
func (tenantListCommand) Help() string { return liveHelp }

func (c *tenantListCommand) Run(ctx context.Context, io streams) error {
	const most = 10_000 // one response of the database: some 2 MB
	if c.Limit < 1 || c.Limit > most {
		return fmt.Errorf("--limit must be from 1 to %d, is %d", most, c.Limit)
	}
	return c.withRows(ctx, func(s *store) error {
		all, err := s.Tenants(ctx, c.After, c.Limit+1) // one more shows whether there are more
		if err != nil {
			return err
		}
		page := all[:min(len(all), c.Limit)]
		t := tenantColumns.list(io)
		for _, one := range page {
			moved := ""
			if !one.RegistrarMovedAt.IsZero() {
				moved = moment(one.RegistrarMovedAt)
			}
			rate, burst := any("default"), any("default")
			if one.RatePerSecond > 0 {
				rate, burst = one.RatePerSecond, one.Burst
			}
			t.row(one.ID, one.Name, one.Registrar, one.PreviousRegistrar, moved, rate, burst, one.CardNumbers, one.Routes)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if len(all) > len(page) {
			fmt.Fprintf(io.err, "there are more: homeward tenant list --after %s\n", page[len(page)-1].ID)
		}
		return nil
	})
}

type tenantRotateKeyCommand struct {
	ID   string        `arg:"" help:"The tenant's id."`
	Keep time.Duration `default:"24h" help:"How long the other keys stay valid; 0s revokes them at once."`
}

func (c *tenantRotateKeyCommand) Run(ctx context.Context, io streams) error {
	if c.Keep < 0 {
		return fmt.Errorf("--keep must not be negative, is %v", c.Keep)
	}
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		key := claim.NewAPIKey(c.ID)
		if err := db.RotateKey(ctx, c.ID, key, c.Keep); err != nil {
			return unknownTenant(c.ID, err)
		}
		printKey(io, c.ID, key)
		fmt.Fprintf(io.out, "The tenant's other keys end in %v; nodes may believe them for %s longer.\n", c.Keep, following())
		return nil
	})
}

type tenantElapseCommand struct {
	ID string        `arg:"" help:"The test tenant's id, which ends in ~test."`
	By time.Duration `required:"" help:"How much time passes."`
}

func (c *tenantElapseCommand) Run(ctx context.Context, io streams) error {
	switch {
	case claim.Livemode(c.ID):
		return fmt.Errorf("%s is live, and its time cannot be moved; that of its test side can: %s", c.ID, claim.TestTenant(c.ID))
	case c.By <= 0:
		return fmt.Errorf("--by must be above 0, is %v", c.By)
	}
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		if _, err := db.Tenant(ctx, c.ID); err != nil {
			return unknownTenant(c.ID, err)
		}
		regions, _, err := db.Regions(ctx)
		if err != nil {
			return err
		}
		for _, r := range regions {
			view, err := db.Region(r.Name)
			if err != nil {
				return err
			}
			if err := view.Elapse(ctx, r.Name, c.ID, c.By); err != nil {
				return fmt.Errorf("%s: %w", r.Name, err)
			}
		}
		fmt.Fprintf(io.out, "%v have passed for %s\n", c.By, c.ID)
		return nil
	})
}

type tenantMoveRegistrarCommand struct {
	ID string `arg:"" help:"The tenant's id."`
	To string `required:"" placeholder:"REGION" help:"The new registrar region."`
}

func (c *tenantMoveRegistrarCommand) Run(ctx context.Context, io streams) error {
	return withDatabase(ctx, func(db *sqlstore.DB) error {
		if err := checkRegion(ctx, db, "--to", c.To); err != nil {
			return err
		}
		before, err := db.Tenant(ctx, c.ID)
		if err != nil {
			return unknownTenant(c.ID, err)
		}
		if before.Registrar == c.To {
			fmt.Fprintf(io.out, "nothing to do: %s is the registrar of %s\n", c.To, c.ID)
			return nil
		}
		windows, err := db.Windows(ctx)
		if err != nil {
			return err
		}
		if err := db.MoveRegistrar(ctx, c.ID, c.To); err != nil {
			return err
		}
		fmt.Fprintf(io.out, `%s keeps the pins of %s from now on, instead of %s: every new pin reads it from the tenant's row.
Pins at %[3]s count, and are looked for there, for as long as there are any: %v as a rule, longer where an outcome is still open.
Until the last of them is deleted the only other move is the one back to %[3]s.
`, c.To, c.ID, before.Registrar, windows.PinLife())
		return nil
	})
}
