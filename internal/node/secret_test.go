package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(file, []byte("postgres://file\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for name, c := range map[string]struct {
		environ []string
		want    string
		says    []string
	}{
		"neither":          {environ: []string{"PATH=/bin"}},
		"the variable":     {environ: []string{DatabaseURL + "=postgres://x?a=b"}, want: "postgres://x?a=b"},
		"the last counts":  {environ: []string{DatabaseURL + "=a", DatabaseURL + "=b"}, want: "b"},
		"a file":           {environ: []string{DatabaseURL + "_FILE=" + file}, want: "postgres://file"},
		"both":             {environ: []string{DatabaseURL + "=a", DatabaseURL + "_FILE=" + file}, says: []string{DatabaseURL, "_FILE", "keep one"}},
		"an empty file":    {environ: []string{DatabaseURL + "_FILE=" + empty}, says: []string{"_FILE", empty, "empty"}},
		"no such file":     {environ: []string{DatabaseURL + "_FILE=/nonexistent"}, says: []string{"_FILE", "/nonexistent"}},
		"another variable": {environ: []string{DatabaseURL + "S=a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Secret(c.environ, DatabaseURL)
			require.Equal(t, c.want, got)
			require.Equal(t, len(c.says) > 0, err != nil, "%v", err)
			for _, s := range c.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}
