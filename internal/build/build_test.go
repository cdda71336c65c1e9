package build

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersion: a release's version precedes the one that Go recorded. Without either it is "dev".
func TestVersion(t *testing.T) {
	at := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-01T10:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		{Key: "-tags", Value: "grpcnotrace,aws"},
	}
	of := func(main string, s ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: main}, Settings: s}
	}
	require.Equal(t, "dev", describe(of("")).Version)
	require.Equal(t, "dev", describe(of("(devel)")).Version)

	i := describe(of("v0.0.0-20261101100000-abc+dirty", at...))
	require.Equal(t, "v0.0.0-20261101100000-abc+dirty", i.Version)
	require.Equal(t, []string{"abc", "2026-11-01T10:00:00Z"}, []string{i.Commit, i.Date})
	require.Equal(t, []string{"grpcnotrace", "aws"}, i.Tags)
	require.True(t, i.Modified)

	version, commit, date = "v1.2.3", "def", "2026-11-02T10:00:00Z"
	defer func() { version, commit, date = "", "", "" }()
	i = describe(of("v0.0.0-20261101100000-abc+dirty", at...))
	require.Equal(t, []string{"v1.2.3", "def", "2026-11-02T10:00:00Z"}, []string{i.Version, i.Commit, i.Date})
	require.False(t, i.Modified)
}
