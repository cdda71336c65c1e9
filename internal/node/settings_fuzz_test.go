package node

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzSettings reads arbitrary files and variables as a node's settings and as the demo's. Each
// mistake is a line without names of our code. Settings without one are the same when they are
// written and read again.
func FuzzSettings(f *testing.F) {
	example, err := os.ReadFile("../../docs/node.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example), "HOMEWARD_CLAIM__LEASE", "20s")
	f.Add("node: {region: eu-west1}\nproviders: {stripe: {kind: stripe, account: acct_1}}\ndefault_provider: stripe\n", "HOMEWARD_PROVIDERS__STRIPE__TIMEOUT", "1")
	f.Add("claim: {lease: 30, a.b: 1}\nlog: [x]\n1: 2\n", "HOMEWARD_", "=")
	f.Add(`{"a\nb": 1}`, "HOMEWARD_A\rB", "1")
	f.Add(`regions: [{"a\nb": 1}]`, "", "")
	f.Add(`providers: {"a\nb": {kind: [1]}}`, "", "")
	f.Add("providers: a", "", "")
	path := filepath.Join(f.TempDir(), "node.yaml")
	f.Fuzz(func(t *testing.T, text, variable, value string) {
		if strings.HasSuffix(variable, fileSuffix) {
			return // which names a file of this machine
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		environ := []string{variable + "=" + value}
		s, _, err := LoadServeSettings(path, environ)
		checkMistakes(t, err)
		if err == nil {
			again, err := s.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, again, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _, err := LoadServeSettings(path, nil); err != nil || !reflect.DeepEqual(got, s) {
				t.Fatalf("%+v is written as\n%s\nand read as %+v, %v", s, again, got, err)
			}
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = LoadSettings(path, environ)
		checkMistakes(t, err)
	})
}

// checkMistakes fails if a line of err is none that a person could act on.
func checkMistakes(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if strings.TrimSpace(line) == "" || strings.ContainsAny(line, "\r\x00") {
			t.Fatalf("%q is no line of %q", line, err)
		}
		for _, internal := range []string{"time.Duration", "strconv", "node.Settings", "reflect.", "koanf", "mapstructure"} {
			if strings.Contains(line, internal) {
				t.Fatalf("%q names %s", line, internal)
			}
		}
	}
}
