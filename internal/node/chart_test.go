package node

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/homeward-io/homeward/gateway"
)

// What the chart gives as an example of config is settings that a node starts with, at the
// drain that it names.
func TestTheChartsExampleIsAccepted(t *testing.T) {
	values, err := os.ReadFile("../../helm/homeward/values.yaml")
	require.NoError(t, err)
	example := regexp.MustCompile(`(?m)^config: \{\}\n((?:#  .*\n)+)`).FindSubmatch(values)
	require.NotNil(t, example)
	text := strings.ReplaceAll(strings.TrimPrefix(string(example[1]), "#  "), "\n#  ", "\n")
	drain := regexp.MustCompile(`# with (drain: \w+)`).FindStringSubmatch(text)
	require.NotNil(t, drain)
	s, _, err := LoadServeSettings(write(t, text+drain[1]+"\n"), nil)
	require.NoError(t, err)
	require.Equal(t, "stripe", s.Provider.Kind)
	require.Empty(t, s.Provider.BaseURL)
}

// The chart has the settings and secrets of a node.
func TestTheChartHasTheSettings(t *testing.T) {
	var chart struct {
		Secrets         map[string]string
		ProviderSecrets map[string]string `yaml:"providerSecrets"`
		Looks           map[string]string
		Kinds           map[string]struct{ Key, URL bool }
		Timeout         string
		GatewayTimeout  string `yaml:"gatewayTimeout"`
	}
	file, err := os.Open("../../helm/homeward/files/settings.yaml")
	require.NoError(t, err)
	defer file.Close()
	in := yaml.NewDecoder(file)
	in.KnownFields(true)
	require.NoError(t, in.Decode(&chart))

	secrets := map[string]string{}
	for variable, settings := range secretNames {
		for _, setting := range settings {
			secrets[setting] = variable
		}
	}
	require.Equal(t, secrets, chart.Secrets)
	require.Equal(t, providerSecretNames, chart.ProviderSecrets)
	for what, pattern := range chart.Looks {
		_, err := regexp.Compile(pattern)
		require.NoError(t, err, what)
	}
	byDefault := DefaultServeSettings()
	require.Equal(t, byDefault.Provider.Timeout.String(), chart.Timeout)
	require.Equal(t, gateway.DefaultTimeout.String(), chart.GatewayTimeout)
	require.Len(t, chart.Kinds, len(providerKinds))
	for kind, must := range chart.Kinds {
		require.True(t, slices.Contains(providerKinds, kind), kind)
		require.Equal(t, !hasOwnURL(kind), must.URL, kind)
		s := byDefault
		s.Provider.Kind = kind
		missing := Secrets{DatabaseURL: "postgres://x"}.Missing(s)
		require.Equal(t, missing != nil && strings.Contains(missing.Error(), ProviderKey), must.Key, kind)
	}
}
