package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/internal/build"
)

type versionCommand struct {
	JSON bool `help:"Print JSON."`
}

func (v versionCommand) Run(io streams) error {
	i := build.Read()
	if v.JSON {
		return indented(io, i)
	}
	fmt.Fprintln(io.out, "homeward", i.Version)
	t := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	commit := i.Commit
	if i.Modified {
		commit += " (modified)"
	}
	for _, line := range [][2]string{{"commit", commit}, {"date", i.Date}, {"go", i.Go + " " + i.Platform}, {"tags", strings.Join(i.Tags, ",")}} {
		if line[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", line[0], line[1])
		}
	}
	return t.Flush()
}

// versionFlag is homeward --version.
type versionFlag bool

// BeforeReset prints the version instead of looking for a command.
func (versionFlag) BeforeReset(app *kong.Kong, io streams) error {
	defer app.Exit(0)
	return versionCommand{}.Run(io)
}
