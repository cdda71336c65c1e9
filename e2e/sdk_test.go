package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const typescript = "../sdk/typescript"

// npm finds Node.js and what the client is built with, or skips the test. It returns what
// runs a program of it there, and gives its output.
func npm(t *testing.T) func(env []string, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not on PATH: install Node.js 20.19 or later, then npm ci --prefix sdk/typescript")
	}
	if _, err := os.Stat(filepath.Join(typescript, "node_modules", "typescript")); err != nil {
		t.Skip("the tools of the TypeScript client are not installed: npm ci --prefix sdk/typescript")
	}
	return func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = typescript, append(os.Environ(), env...)
		var out, said strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &said
		require.NoError(t, cmd.Run(), "%s %v\n%s%s", name, args, &out, &said)
		return out.String()
	}
}

// The TypeScript client pays through lost requests, lost replies, 503s and a lost region,
// at a cluster of three. Its own tests say what it has to see, by the judge's count.
func TestTypeScriptClient(t *testing.T) {
	run := npm(t)
	w := startWorld(t, nil, nil)
	at, err := json.Marshal(map[string]any{
		"regions": []string{w.base(us), w.base(eu), w.base(asia)}, "simulator": w.judge.url, "apiKey": acme,
	})
	require.NoError(t, err)
	run(nil, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	out := run([]string{"HOMEWARD_SDK=" + string(at)}, "node", "--test", "--test-reporter", "tap", "test/")
	require.Contains(t, out, "\n# fail 0\n")
	require.Contains(t, out, "\n# skipped 0\n")
	w.judge.once(t, 9)
}

// What is published is the client and nothing else, its types are those of the document,
// and nothing comes with it at run time.
func TestTypeScriptPackage(t *testing.T) {
	run := npm(t)
	made := filepath.Join(t.TempDir(), "api.ts")
	run(nil, "node", "generate.mjs", made)
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(typescript, "src", "api.ts"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "sdk/typescript/src/api.ts does not match the OpenAPI document; npm run generate --prefix sdk/typescript")

	run(nil, "node", "node_modules/typescript/bin/tsc", "-p", ".")
	var packed []struct {
		Files []struct{ Path string }
	}
	require.NoError(t, json.Unmarshal([]byte(run(nil, "npm", "pack", "--dry-run", "--json", "--ignore-scripts")), &packed))
	require.Len(t, packed, 1)
	var files []string
	for _, f := range packed[0].Files {
		files = append(files, f.Path)
	}
	slices.Sort(files)
	var all []string
	for _, name := range []string{"api", "attempt", "client", "error", "index", "key", "types", "webhook"} {
		all = append(all, "dist/"+name+".d.ts", "dist/"+name+".js")
	}
	require.Equal(t, append([]string{"LICENSE", "README.md"}, append(all, "package.json")...), files)

	var manifest map[string]any
	text, err := os.ReadFile(filepath.Join(typescript, "package.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &manifest))
	for _, kind := range []string{"dependencies", "peerDependencies", "optionalDependencies", "bundleDependencies"} {
		require.NotContains(t, manifest, kind)
	}
	lock, err := os.ReadFile(filepath.Join(typescript, "package-lock.json"))
	require.NoError(t, err)
	require.NotContains(t, string(lock), `"resolved"`, "the lock file names who served it: take those lines out")
}

// Redocly's strictest rules find nothing in the document.
func TestTheDocumentIsLinted(t *testing.T) {
	run := npm(t)
	run([]string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"}, "npm", "run", "--silent", "lint")
}
