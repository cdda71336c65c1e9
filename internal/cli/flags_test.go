package cli

import (
	"context"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
)

// everyArgument calls f for each flag and positional argument of each command.
func everyArgument(t *testing.T, f func(command *kong.Node, name string, v *kong.Value)) {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.BindTo(t.Context(), (*context.Context)(nil)))
	require.NoError(t, err)
	seen := 0
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, flag := range n.Flags {
			seen++
			f(n, "--"+flag.Name, flag.Value)
		}
		for _, arg := range n.Positional {
			seen++
			f(n, arg.Name, arg)
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	require.Greater(t, seen, 150)
}

// Every user of a machine can read its command lines: no flag takes a secret. What holds one is
// a variable, or the file that one names; a flag may name a file.
func TestNoFlagTakesASecret(t *testing.T) {
	secret := regexp.MustCompile(`(?i)secret|passw|token|credential|\bkeys?\b|authoriz`)
	holds := map[string]string{ // and what it is
		"key-or-object": "an idempotency key or an object's id",
		"KEY|OBJECT":    "the same",
	}
	everyArgument(t, func(n *kong.Node, name string, v *kong.Value) {
		if v.Target.Kind() == reflect.Bool || v.Tag.Type == "path" || strings.HasSuffix(strings.ToLower(v.Tag.Type), "file") || holds[name] != "" {
			return
		}
		if secret.MatchString(name) || secret.MatchString(v.Tag.PlaceHolder) {
			t.Errorf("%s: %s %s takes a secret: read it by node.Secret from a variable", n.FullPath(), name, v.Tag.PlaceHolder)
		}
	})
}

// A URL with a password, or with what looks like one, is refused as any argument of any command, and
// is not repeated.
func TestNoArgumentHoldsAPassword(t *testing.T) {
	onlyWith(t)
	tried := 0
	everyArgument(t, func(n *kong.Node, name string, v *kong.Value) {
		value, kind := "https://user:hunter2@provider.example/x", v.Target.Type()
		switch {
		case kind.Kind() == reflect.Map:
			value = "us-east1=" + value
		case kind.Kind() != reflect.String && (kind.Kind() != reflect.Slice || kind.Elem().Kind() != reflect.String) || v.Tag.Type != "" || v.Enum != "":
			return
		}
		tried++
		args := append(strings.Fields(n.FullPath())[1:], value)
		says := []string{"password"}
		if v.Flag != nil {
			args = append(args[:len(args)-1], name, value)
			says = append(says, name)
		}
		code, out, errs := homeward(t, args...)
		require.NotZero(t, code, args)
		for _, s := range says {
			require.Contains(t, errs, s, "%v", args)
		}
		require.NotContains(t, out+errs, "hunter2")
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	})
	require.Greater(t, tried, 60)
	code, _, errs := homeward(t, "reconcile", "--statement", "https://provider.example/day?from={from}&access_token=hunter2")
	require.Equal(t, exitUnread, code)
	require.Contains(t, errs, "HOMEWARD_STATEMENT_URL")
	require.NotContains(t, errs, "hunter2")
}

// The simulator signs with the secret of the variable that its node reads.
func TestTheSimulatorsSecretIsAVariable(t *testing.T) {
	t.Setenv(node.ProviderWebhooks, "")
	t.Setenv(node.ProviderWebhooks+"_FILE", write(t, "secret", "whsec_aGVsbG8=\n"))
	c, err := (&simulatorCommand{WebhookURL: []string{"http://a.example/x"}}).config(streams{})
	require.NoError(t, err)
	require.Equal(t, "whsec_aGVsbG8=", c.Notices.Targets[0].Secret)
}
