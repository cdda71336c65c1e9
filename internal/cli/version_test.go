package cli

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/build"
)

// TestVersionPrintsTheSameEachWay: as a command, as a flag, and as JSON.
func TestVersionPrintsTheSameEachWay(t *testing.T) {
	say := func(args ...string) string {
		var out, problems bytes.Buffer
		require.Zero(t, Run(t.Context(), args, &out, &problems), problems.String())
		return out.String()
	}
	text := say("version")
	require.Equal(t, text, say("--version"))
	require.Contains(t, text, "homeward "+build.Version()+"\n")
	require.Contains(t, text, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	var i build.Info
	require.NoError(t, json.Unmarshal([]byte(say("version", "--json")), &i))
	require.Equal(t, build.Read(), i)
}
