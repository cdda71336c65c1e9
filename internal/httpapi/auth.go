package httpapi

import (
	"net/http"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// maxAPIKey bounds the API keys that are looked up, in bytes. Ours have fewer than 64.
const maxAPIKey = 255

// admit returns the tenant and charges the request to its rate.
func (s *server) admit(res *response, r *http.Request) error {
	key, ok := bearer(r)
	if !ok && res.stripe != nil {
		key, ok = basic(r)
	}
	if !ok {
		return unauthorized("Send an Authorization header with your API key: Bearer hw_live_…")
	}
	res.testKey = !claim.APIKeyFits(key, "")
	if claim.APIKeyMadeUp(key) {
		return errMistypedKey // malformed: no look-up needed
	}
	tenant, ok, err := s.Tenants.TenantByAPIKey(r.Context(), claim.HashAPIKey(key))
	if err != nil {
		return err
	}
	if !ok {
		return errUnknownKey
	}
	res.tenant = tenant
	if wait := s.rates.take(&tenant, s.Now()); wait > 0 {
		p := problem.New(problem.RateLimited, "This account sends requests faster than its rate allows; slow down.")
		p.RetryAfter = wait
		return &refusal{Problem: p}
	}
	return nil
}

var (
	errUnknownKey  = unauthorized("This API key is not known.")
	errMistypedKey = unauthorized("This API key is mistyped or cut short: its last characters do not fit the others. Copy it again.")
)

func unauthorized(detail string) error {
	return &refusal{Problem: problem.New(problem.Unauthorized, detail), challenge: true}
}

// bearer returns the token of the one Authorization header.
func bearer(r *http.Request) (string, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && visible(token)
}

// visible reports whether a token could be an API key.
func visible(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != "" && len(token) <= maxAPIKey
}
