package relay

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const secretPrefix = "whsec_"

// Standard Webhooks asks for 24 to 64 bytes.
const minSecret, maxSecret, newSecret = 24, 64, 32

// NewSecret mints a secret of Standard Webhooks.
func NewSecret() string {
	random := make([]byte, newSecret)
	_, _ = rand.Read(random) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(random)
}

// secretKey returns the signing key of a secret. The error never contains the secret.
func secretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("a webhook secret is %s and the base64 of %d to %d bytes", secretPrefix, minSecret, maxSecret)
	}
	return key, nil
}

// maxURL is a length that intermediaries are known to accept.
const maxURL = 2048

// CheckURL returns an error for a URL to which no event could be sent. [CheckHost]
// checks the addresses of its host, as each delivery does again, because they can change.
func CheckURL(text string, allowHTTP bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || len(text) > maxURL:
		return fmt.Errorf("the endpoint is not a URL of at most %d bytes; write https://host/path", maxURL)
	case !dialable(u.Port()):
		return fmt.Errorf("the endpoint has port %s; write one from 1 to 65535, or none", u.Port())
	case u.Scheme == "http" && !allowHTTP:
		return errors.New("the endpoint is http, so anybody on the network path can read the events; write https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("the endpoint has scheme %q; write https://", u.Scheme)
	case u.User != nil:
		return errors.New("the endpoint has a user or password in it; leave it out, deliveries are signed instead")
	case strings.Contains(u.Hostname(), "%"):
		return errors.New("the endpoint has an address of one machine's own network (%…); write one that every node can reach")
	case u.Fragment != "":
		return errors.New("the endpoint has a fragment (#…), which is never sent; leave it out")
	}
	return nil
}

// dialable reports whether a URL's port, "" for none, is one that something may listen on.
func dialable(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// Check returns an error for an endpoint that could not be used. The error never
// contains a secret.
func (e Endpoint) Check(allowHTTP bool) error {
	if n := len(e.Secrets); n < 1 || n > MaxSecrets {
		return fmt.Errorf("an endpoint has 1 to %d secrets, this one %d", MaxSecrets, n)
	}
	for _, s := range e.Secrets {
		if _, err := secretKey(s); err != nil {
			return err
		}
	}
	return CheckURL(e.URL, allowHTTP)
}
