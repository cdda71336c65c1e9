package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// DatabaseURL is the variable of the database's connection string, which holds
// its password.
const DatabaseURL = "HOMEWARD_DATABASE_URL"

// DatabaseUnverified is the variable of the setting database.allow_unverified, for tools
// that read no settings.
const DatabaseUnverified = "HOMEWARD_DATABASE__ALLOW_UNVERIFIED"

// AllowUnverified reads [DatabaseUnverified] of the environment; unset is false.
func AllowUnverified(environ []string) (bool, error) {
	return boolean(environ, DatabaseUnverified, false)
}

// boolean reads a variable that is true or false.
func boolean(environ []string, name string, unset bool) (bool, error) {
	value := variable(environ, name)
	if value == "" {
		return unset, nil
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s is %q, which is neither true nor false; write one of them", name, value)
	}
	return is, nil
}

// fileSuffix turns a secret's variable into the one that names a file with it.
const fileSuffix = "_FILE"

// Secret returns the secret name from environ, as of [os.Environ]: the variable's
// value, or the content of the file that the variable name_FILE names, as container
// platforms mount secrets, without surrounding white space. "" means that neither is
// set. Secrets have no other source: settings files are kept and shown, and every user
// of a machine can read its command lines. The error is one line and never contains the
// secret.
func Secret(environ []string, name string) (string, error) {
	value, path := variable(environ, name), variable(environ, name+fileSuffix)
	switch {
	case value != "" && path != "":
		return "", fmt.Errorf("%s and %s are both set; keep one", name, name+fileSuffix)
	case path == "":
		return strings.TrimSpace(value), nil
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s: there is no file %s", name+fileSuffix, path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name+fileSuffix, err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return "", fmt.Errorf("%s: the file %s is empty", name+fileSuffix, path)
	}
	return secret, nil
}

// variable returns the last value that environ gives to a name, as a process that is
// started with it would see it; "" for none.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if n, is, ok := strings.Cut(v, "="); ok && n == name {
			value = is
		}
	}
	return value
}
