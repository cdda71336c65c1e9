package cli

import (
	"context"
	"fmt"
	"time"
)

type tenantKeysCommand struct {
	liveFlags
	ID   string `arg:"" help:"The tenant's id."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward tenant keys --help adds.
func (tenantKeysCommand) Help() string {
	return `Only a hash is stored of an API key. KEY is the beginning of the SHA-256 of the key: whoever has the key finds it with printf %s "$API_KEY" | sha256sum. When a key was last used is not recorded, as that would be a write for each request.

` + liveHelp
}

// States of an API key.
const (
	keyValid  = "valid"
	keyEnding = "ending"
	keyEnded  = "ended"
)

// keyShown is an API key in the JSON of homeward tenant keys.
type keyShown struct {
	Key       string    `json:"key"` // the beginning of its SHA-256
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	EndsAt    time.Time `json:"ends_at,omitzero"`
}

func (c *tenantKeysCommand) Run(ctx context.Context, io streams) error {
	return c.withRows(ctx, func(s *store) error {
		if _, err := s.Tenant(ctx, c.ID); err != nil {
			return unknownTenant(c.ID, err)
		}
		all, err := s.APIKeys(ctx, c.ID)
		if err != nil {
			return err
		}
		shown := make([]keyShown, 0, len(all))
		for _, k := range all {
			one := keyShown{Key: k.Hash.Short(), State: keyValid, CreatedAt: k.CreatedAt, EndsAt: k.EndsAt}
			switch {
			case k.Ended:
				one.State = keyEnded
			case !k.EndsAt.IsZero():
				one.State = keyEnding
			}
			shown = append(shown, one)
		}
		if c.JSON {
			return indented(io, shown)
		}
		return printKeys(io, c.ID, shown)
	})
}

func printKeys(io streams, tenant string, all []keyShown) error {
	t := keyColumns.list(io)
	ending := false
	for _, k := range all {
		ending = ending || k.State == keyEnding
		t.row(k.Key, k.State, k.CreatedAt, k.EndsAt)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintf(io.out, "tenant %s has no API key; homeward tenant rotate-key %s mints one\n", tenant, tenant)
	}
	if ending {
		fmt.Fprintf(io.out, "Nodes may accept a key for %s after it ends.\n", following())
	}
	return nil
}
