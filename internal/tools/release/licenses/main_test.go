package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-licenses/v2/licenses"
)

// TestWhatMayNotBeIn ends the check, each with its library's name, and what may be does not.
func TestWhatMayNotBeIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LICENSE")
	if err := os.WriteFile(path, []byte("the text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, may := range map[string]bool{
		"MIT": true, "Apache-2.0": true, "BSD-3-Clause": true, "MPL-2.0": true, "ISC": true, "BSD-0-Clause": true, "Unlicense": true,
		"GPL-3.0": false, "GPL-2.0": false, "LGPL-2.1": false, "AGPL-3.0": false, "BUSL-1.1": false, "SSPL-1.0": false, "CC-BY-NC-4.0": false,
	} {
		c := collector{document: document{map[string][]part{}, map[string]string{}}}
		c.add("example.com/library", path, []licenses.License{{Name: name, Type: licenses.LicenseType(name)}})
		err := errors.Join(c.errs...)
		if may != (err == nil) || err != nil && !strings.Contains(err.Error(), "example.com/library is under "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
