package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/internal/node"
)

type auditExportCommand struct {
	storeFlags
	bucketFlags
	IgnoreSessions bool `help:"None of the other sessions of the database is a node's."`
}

// Help returns the text that homeward audit export --help adds.
func (auditExportCommand) Help() string {
	return bucketHelp + "HOMEWARD_AUDIT_KEYS signs, as at the nodes. Nodes export whole windows; this exports the rest, up to now, for the homeward restore audit of the database that is used instead.\n\n" + storeHelp
}

func (c *auditExportCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		if !c.IgnoreSessions {
			open, err := s.Sessions(ctx)
			if err != nil {
				return err
			}
			if len(open) > 0 {
				return fmt.Errorf("the database has other sessions: %s; stop every node, or add --ignore-sessions if none of them is a node's", strings.Join(open, ", "))
			}
		}
		keys, err := auditKeys(c.Data)
		if err != nil {
			return err
		}
		bucket, _, err := c.open(ctx, c.Data)
		if err != nil {
			return err
		}
		return errors.Join(c.export(ctx, io, s, bucket, keys), bucket.Close())
	})
}

func (c *auditExportCommand) export(ctx context.Context, io streams, s *store, bucket audit.Objects, keys *audit.Keys) error {
	accounts, err := s.Accounts(ctx)
	if err != nil {
		return err
	}
	var providers []string
	for _, a := range accounts {
		providers = append(providers, a.Provider)
	}
	put, _, err := s.Restore(ctx)
	if err != nil {
		return err
	}
	deployment, err := s.DeploymentID(ctx)
	if err != nil {
		return err
	}
	name := "export-" + uuid.NewString()[:8]
	for _, region := range s.regions {
		if put.Unread(region) {
			return fmt.Errorf("region %s: a restore is in effect, and what is lost was not read from the bucket; run homeward restore audit first", region)
		}
		x, err := node.NewExporter(audit.Config{
			Store: s.rows, Objects: bucket, Keys: keys, Deployment: deployment, Policy: audit.DefaultPolicy(), Home: region, Node: name, Providers: providers,
		})
		if err != nil {
			return err
		}
		if err := x.Compare(ctx, put.OpenedAt); err != nil {
			return fmt.Errorf("region %s: %w; if it was restored, run homeward restore begin", region, err)
		}
		status, err := x.Finish(ctx)
		if err != nil {
			return fmt.Errorf("region %s: %w", region, err)
		}
		fmt.Fprintf(io.out, "%s: %d entries in %d segments, exported until %s\n", region, status.Entries, status.Segments, status.Exported.UTC().Format("2006-01-02T15:04:05.999999Z07:00"))
	}
	return nil
}
