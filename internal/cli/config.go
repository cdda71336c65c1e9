package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/telemetry"
)

type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Print every mistake in the settings of homeward serve, or the settings in effect."`
}

type configCheckCommand struct {
	Config       string `type:"path" help:"Settings file (YAML). Default: the environment and the defaults."`
	Database     bool   `help:"Check the database, too."`
	SettingsOnly bool   `help:"Check the settings alone: skip secrets, certificate files and trace endpoints, which only the node's machine has."`
}

// Run prints the settings in effect as a file that could be used instead, with further
// facts as comments. If there are mistakes it prints all of them, and nothing else.
func (c *configCheckCommand) Run(ctx context.Context, io streams) error {
	if c.SettingsOnly && c.Database {
		return errors.New("--database needs the database's URL, which --settings-only leaves out; leave one of them out")
	}
	settings, secrets, err := node.LoadServeSettings(c.Config, os.Environ())
	mistakes := []error{err}
	if !c.SettingsOnly {
		mistakes = append(mistakes, secrets.Missing(settings), node.CheckFiles(settings, jsonLog(io, settings)))
		if err := telemetry.Check(ctx, tracing(settings, jsonLog(io, settings))); err != nil {
			mistakes = append(mistakes, err) // usually metrics go the same way
		} else {
			mistakes = append(mistakes, telemetry.CheckMetrics(ctx, telemetry.Process{AllowPlaintext: settings.Metrics.AllowPlaintext}))
		}
	}
	var facts []string
	if !c.SettingsOnly {
		facts = secrets.Doubts(settings)
	}
	if c.Database && secrets.DatabaseURL != "" {
		found, err := databaseFacts(ctx, io, settings, secrets)
		facts = append(facts, found...)
		mistakes = append(mistakes, err)
	}
	if err := errors.Join(mistakes...); err != nil {
		return err
	}
	text, err := settings.YAML()
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%s# %s: %s\n# %s: %s\n# %s: %s\n", text, node.DatabaseURL, set(secrets.DatabaseURL != ""),
		node.GossipKey, set(len(secrets.GossipKeys) > 0), node.SealKeys, set(secrets.SealKeys != ""))
	variables, are := secrets.ProviderVariables(settings)
	for _, v := range variables {
		fmt.Fprintf(io.out, "# %s: %s\n", v, set(are[v]))
	}
	for _, f := range facts {
		fmt.Fprintf(io.out, "# %s\n", f)
	}
	return nil
}

func set(is bool) string {
	if is {
		return "set"
	}
	return "not set"
}

// databaseFacts checks the database as a node would at its start.
func databaseFacts(ctx context.Context, io streams, settings node.ServeSettings, secrets node.Secrets) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, node.StartTime)
	defer cancel()
	found, err := node.CheckDatabase(ctx, settings, secrets, jsonLog(io, settings))
	if err != nil {
		return nil, err
	}
	facts := []string{fmt.Sprintf("database: %s, schema version %d", found.Version, found.Schema)}
	for _, r := range found.Regions {
		facts = append(facts, fmt.Sprintf("region: %s, code %d, %v", r.Name, r.Code, r.Status))
	}
	facts = append(facts, found.Doubts...)
	if found.OffsetUnread != nil {
		return append(facts, fmt.Sprintf("the database's --max-offset could not be read; see to it that claim.clock_offset is at least that (%v)", found.OffsetUnread)), nil
	}
	return append(facts, fmt.Sprintf("clocks: at most %v apart, claim.clock_offset is %v", found.MaxOffset, settings.Policy.ClockOffset)), nil
}
