package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/region"
)

type migrateCommand struct {
	Up     migrateUpCommand     `cmd:"" help:"Create the tables that this build needs, and add regions."`
	Plan   migratePlanCommand   `cmd:"" help:"Print the SQL that up would run now."`
	Status migrateStatusCommand `cmd:"" help:"Print the database's schema version; exits with 1 if migrations of this build are missing."`
	Copy   migrateCopyCommand   `cmd:"" help:"Copy all rows of another database to this one, which is new, and compare them."`
	Roles  migrateRolesCommand  `cmd:"" help:"Create the database's users: one that migrates, one for nodes and tools, one that only reads."`
}

// Help returns the text that homeward migrate --help adds.
func (migrateCommand) Help() string {
	return "The database is the one that HOMEWARD_DATABASE_URL names, or the file that HOMEWARD_DATABASE_URL_FILE names. Its URL is no flag, as it holds a password."
}

// migrationFlags select the target of a migration.
type migrationFlags struct {
	Regions string `placeholder:"A,B=7,…" help:"Regions to have, as NAME or NAME=CODE. None is ever removed."`
	Primary string `placeholder:"REGION" help:"CockroachDB: where the tables that no region owns are kept; default: the first of --regions."`
	Survive string `placeholder:"zone|region" help:"CockroachDB: what the database survives; default: zone."`
}

func (f *migrationFlags) migration() (sqlstore.Migration, error) {
	want := sqlstore.Migration{Primary: f.Primary, Survive: sqlstore.Survival(f.Survive)}
	if f.Regions == "" {
		return want, nil
	}
	var err error
	if want.Regions, err = sqlstore.ParseRegions(f.Regions); err != nil {
		return want, err
	}
	for _, r := range want.Regions { // tables are only added to, so every running node must cope with them
		if !region.ValidName(r.Name) {
			return want, fmt.Errorf("--regions: %q is not a region name; write 1 to %d characters of a-z, 0-9 and '-'", r.Name, region.MaxRegionName)
		}
	}
	return want, nil
}

// withMigrator connects to the database of the environment while do runs.
func withMigrator(ctx context.Context, do func(*sqlstore.Migrator) error) error {
	url, err := node.Secret(os.Environ(), node.DatabaseURL)
	if err != nil {
		return err
	}
	return node.WithMigrator(ctx, url, do)
}

type migrateUpCommand struct{ migrationFlags }

func (c *migrateUpCommand) Run(ctx context.Context, io streams) error {
	want, err := c.migration()
	if err != nil {
		return err
	}
	return withMigrator(ctx, func(m *sqlstore.Migrator) error {
		if _, err := m.Plan(ctx, want); err != nil {
			return err // before anything is done
		}
		steps, now := 0, &currentStep{}
		stop := io.progress(now.String)
		err := m.Up(ctx, want, func(s sqlstore.Step) {
			if sayBlocked(io, s) {
				return
			}
			steps++
			fmt.Fprintln(io.out, s.Name)
			now.begin(s.Name)
		})
		stop()
		if err != nil {
			return err
		}
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		if steps == 0 {
			fmt.Fprint(io.out, "nothing to do: ")
		}
		fmt.Fprintf(io.out, "%s is at schema version %d\n", m.Version(), s.Have)
		return nil
	})
}

type migratePlanCommand struct{ migrationFlags }

func (c *migratePlanCommand) Run(ctx context.Context, io streams) error {
	want, err := c.migration()
	if err != nil {
		return err
	}
	return withMigrator(ctx, func(m *sqlstore.Migrator) error {
		steps, err := m.Plan(ctx, want)
		if err != nil {
			return err
		}
		return printPlan(io, m, steps, "homeward migrate up does, which also counts what is done.")
	})
}

type migrateStatusCommand struct{}

func (migrateStatusCommand) Run(ctx context.Context, io streams) error {
	return withMigrator(ctx, func(m *sqlstore.Migrator) error {
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		t := table(io)
		fmt.Fprintf(t, "database\t%s\n", m.Version())
		fmt.Fprintf(t, "schema\tversion %d, this build needs %d\n", s.Have, s.Want)
		if s.Deployment != uuid.Nil {
			fmt.Fprintf(t, "deployment\t%s\n", s.Deployment)
		}
		for _, r := range s.Regions {
			fmt.Fprintf(t, "region\t%s\tcode %d\t%v\n", r.Name, r.Code, r.Status)
		}
		if s.Primary != "" {
			fmt.Fprintf(t, "primary\t%s\n", s.Primary)
			fmt.Fprintf(t, "survives\tloss of a %s\n", s.Survive)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		return behind(s)
	})
}

type migrateCopyCommand struct {
	Resume bool `help:"Go on with a copy that was cut off: rows that are there stay."`
}

// Help returns the text that homeward migrate copy --help adds.
func (migrateCopyCommand) Help() string {
	return "No node may run on either database. " + node.SourceURL + ", or the file that " + node.SourceURL + "_FILE names, is the database that is copied, and stays as it is; the new one needs homeward migrate up with the same regions and codes.\n\n" + migrateCommand{}.Help()
}

func (c *migrateCopyCommand) Run(ctx context.Context, io streams) error {
	source, err := node.Secret(os.Environ(), node.SourceURL)
	if err != nil {
		return err
	}
	return withMigrator(ctx, func(to *sqlstore.Migrator) error {
		return node.WithMigrator(ctx, source, func(from *sqlstore.Migrator) error {
			t := table(io)
			if err := to.Copy(ctx, from, c.Resume, func(done sqlstore.CopiedTable) { fmt.Fprintf(t, "%s\t%d rows, the same\n", done.Name, done.Rows) }); err != nil {
				return err
			}
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(io.out, "copied from %s to %s; run homeward ledger verify on it before its nodes start\n", from.Version(), to.Version())
			return nil
		})
	})
}

type migrateRolesCommand struct {
	Owner  string `default:"homeward_owner" placeholder:"NAME" help:"Role that owns the tables and runs migrations. Default: homeward_owner."`
	Node   string `default:"homeward_node" placeholder:"NAME" help:"Role of nodes and tools, which may append to the ledger. Default: homeward_node."`
	Reader string `default:"homeward_reader" placeholder:"NAME" help:"Role of people who read: no secrets, and nothing that merchants or providers sent. Default: homeward_reader."`
	DryRun bool   `name:"dry-run" help:"Print the SQL that would be run now."`
}

// Help returns the text that homeward migrate roles --help adds.
func (migrateRolesCommand) Help() string {
	return "Run it after migrate up, as a superuser (CockroachDB: a member of admin), and again after an upgrade that made tables. What is there already is left as it is. It sets no password.\n\n" + migrateCommand{}.Help()
}

func (c *migrateRolesCommand) Run(ctx context.Context, io streams) error {
	want := sqlstore.Roles{Owner: c.Owner, Node: c.Node, Reader: c.Reader}
	return withMigrator(ctx, func(m *sqlstore.Migrator) error {
		if c.DryRun {
			steps, err := m.PlanRoles(ctx, want)
			if err != nil {
				return err
			}
			return printPlan(io, m, steps, "homeward migrate roles does.")
		}
		steps := 0
		if err := m.MakeRoles(ctx, want, func(s sqlstore.Step) {
			if sayBlocked(io, s) {
				return
			}
			steps++
			fmt.Fprintln(io.out, s.SQL)
		}); err != nil {
			return err
		}
		if steps == 0 {
			fmt.Fprint(io.out, "nothing to do: ")
		}
		fmt.Fprintf(io.out, `%[1]s owns the tables and migrates, %[2]s is for nodes and tools, %[3]s only reads.
Give each a password (ALTER ROLE … PASSWORD) or a certificate, and put %[2]s into the nodes' HOMEWARD_DATABASE_URL.
`, c.Owner, c.Node, c.Reader)
		return nil
	})
}

// sayBlocked prints which sessions keep a step from a lock, and reports whether any does.
func sayBlocked(io streams, s sqlstore.Step) bool {
	if s.Blocked != "" {
		fmt.Fprintf(io.err, "%s waits for a lock, lets charges go first, and tries again; the table is in use by %s\n", s.Name, s.Blocked)
	}
	return s.Blocked != ""
}

// printPlan prints steps as SQL; how describes the command that runs them.
func printPlan(io streams, m *sqlstore.Migrator, steps []sqlstore.Step, how string) error {
	if len(steps) == 0 {
		_, err := fmt.Fprintln(io.out, "-- Nothing to do.")
		return err
	}
	fmt.Fprintf(io.out, "-- To read. This is what %s\n-- %s\n", how, m.Version())
	for _, s := range steps {
		fmt.Fprintf(io.out, "\n-- %s\n%s;\n", s.Name, strings.TrimSuffix(s.SQL, ";"))
	}
	return nil
}

// behind returns what to run if the database lacks tables that this build needs. A
// newer schema is no fault: tables only grow, so that an older build keeps working.
func behind(s sqlstore.Status) error {
	switch {
	case len(s.Regions) == 0:
		return errors.New("the database has no region yet; run homeward migrate up --regions NAME,…")
	case s.Have < s.Want:
		return fmt.Errorf("the schema is at version %d and this build needs %d; run homeward migrate up", s.Have, s.Want)
	default:
		return nil
	}
}

// table aligns columns that tabs separate. It prints when flushed.
func table(io streams) *tabwriter.Writer { return tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0) }
