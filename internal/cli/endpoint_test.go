package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox/relay"
)

type failing struct {
	relay.Endpoints
	err error
}

func (f failing) PutEndpoint(context.Context, relay.Endpoint) error { return f.err }

// A secret whose write has an unknown outcome may be in use, and no other command shows it.
func TestAnEndpointsSecretIsPrintedWhereTheOutcomeIsUnknown(t *testing.T) {
	for _, c := range []struct {
		minted  string
		err     error
		prints  bool
		unknown bool
	}{
		{"whsec_new", claim.ErrUnavailable, true, true},
		{"", claim.ErrUnavailable, false, true},
		{"whsec_new", errors.New("refused"), false, false},
		{"whsec_new", nil, false, false}, // its caller prints it
	} {
		var out bytes.Buffer
		err := putEndpoint(t.Context(), streams{out: &out}, failing{err: c.err}, relay.Endpoint{Tenant: "acme"}, c.minted)
		require.ErrorIs(t, err, c.err)
		if c.unknown {
			require.ErrorContains(t, err, "unknown: see homeward endpoint show acme")
			require.NotContains(t, err.Error(), "\n")
		}
		require.Equal(t, c.prints, bytes.Contains(out.Bytes(), []byte("signing secret: whsec_new\n")))
	}
}
