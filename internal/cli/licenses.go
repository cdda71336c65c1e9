package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/homeward-io/homeward/internal/build"
)

type licensesCommand struct {
	Text bool `help:"Print the licence texts, too."`
	JSON bool `help:"Print JSON, with the texts."`
}

func (l licensesCommand) Run(io streams) error {
	all, err := build.Libraries()
	if err != nil {
		return err
	}
	if l.JSON {
		return indented(io, all)
	}
	t := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	users := map[string][]string{}
	var texts []string
	for _, library := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", library.Name, library.Version, library.SPDX())
		for _, license := range library.Licenses {
			if users[license.Text] == nil {
				texts = append(texts, license.Text)
			}
			users[license.Text] = append(users[license.Text], library.Name)
		}
	}
	if err := t.Flush(); err != nil || !l.Text {
		return err
	}
	for _, text := range texts {
		fmt.Fprintf(io.out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimSpace(text))
	}
	return nil
}
