package stripe_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Stripe reports the account of a key. A key without that permission reports none.
func TestAccount(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
		fails      bool
	}{
		"said":        {200, `{"id":"acct_1","object":"account"}`, "acct_1", false},
		"not allowed": {403, stripeError("invalid_request_error", "", ""), "", true},
		"no id":       {200, `{"object":"account"}`, "", true},
		"down":        {500, stripeError("api_error", "", ""), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answers(t, says(c.status, c.body))
			id, err := adapter(t, url, "").Account(t.Context())
			require.Equal(t, c.want, id)
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, []string{"GET /v1/account"}, requests())
		})
	}
}
