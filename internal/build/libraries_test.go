package build

import (
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachModuleHasItsLicence, of the modules of both variants, and none is kept of what is
// not in any. `make check` compares texts, too.
func TestEachModuleHasItsLicence(t *testing.T) {
	seen := map[string]bool{}
	for _, variant := range []string{"homeward", "cloud"} {
		flags, err := exec.Command("sh", "flags.sh", variant).Output()
		require.NoError(t, err)
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "../../cmd/homeward")
		cmd.Env = append(cmd.Environ(), "GOFLAGS="+strings.TrimSpace(string(flags)), "CGO_ENABLED=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		b := &debug.BuildInfo{Main: debug.Module{Path: "github.com/homeward-io/homeward"}}
		for line := range strings.Lines(string(out)) {
			path, version, ok := strings.Cut(strings.TrimSpace(line), " ")
			if ok && !seen[variant+path] {
				seen[variant+path], seen[path] = true, true
				b.Deps = append(b.Deps, &debug.Module{Path: path, Version: version})
			}
		}
		require.Greater(t, len(b.Deps), 50)
		all, err := librariesOf(b)
		require.NoError(t, err)
		require.Equal(t, "github.com/homeward-io/homeward", all[0].Name)
		require.Equal(t, "Apache-2.0", all[0].SPDX())
		by := map[string]Library{}
		for _, l := range all {
			require.NotEmpty(t, l.SPDX(), l.Name)
			for _, license := range l.Licenses {
				require.NotEmpty(t, license.Text, l.Name)
			}
			by[l.Name] = l
		}
		require.Equal(t, "BSD-3-Clause", by["std"].SPDX())
		require.Equal(t, "MPL-2.0", by["github.com/hashicorp/memberlist"].SPDX())
		require.Contains(t, by["htmx.org"].Licenses[0].Text, "Zero-Clause BSD")
		_, storage := by["cloud.google.com/go/storage"]
		require.Equal(t, variant == "cloud", storage)
	}
	_, err := librariesOf(&debug.BuildInfo{Main: debug.Module{Path: "github.com/homeward-io/homeward"}, Deps: []*debug.Module{{Path: "example.com/new"}}})
	require.ErrorContains(t, err, "example.com/new")
	require.ErrorContains(t, err, "make generate")
}
