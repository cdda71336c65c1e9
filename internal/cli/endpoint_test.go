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

func (f failing) PutEndpoint(_ context.Context, _, _ relay.Endpoint) error { return f.err }

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
		err := putEndpoint(t.Context(), streams{out: &out}, failing{err: c.err}, relay.Endpoint{}, relay.Endpoint{Tenant: "acme"}, c.minted)
		require.ErrorIs(t, err, c.err)
		if c.unknown {
			require.ErrorContains(t, err, "unknown: see homeward endpoint show acme")
			require.NotContains(t, err.Error(), "\n")
		}
		require.Equal(t, c.prints, bytes.Contains(out.Bytes(), []byte("signing secret: whsec_new\n")))
	}
}

// An operator replaces a secret that has leaked while another sets the URL: the leaked one does not come
// back.
func TestTwoOperatorsChangeAnEndpoint(t *testing.T) {
	twoStores(t, func(t *testing.T, flags []string, open func(func(*store))) {
		does(t, append([]string{"endpoint", "set", "acme", "https://shop.example/1"}, flags...)...)
		open(func(s *store) {
			all := s.endpoints()
			read, _, err := all.Endpoint(t.Context(), "acme")
			require.NoError(t, err)
			only := relay.Endpoint{Tenant: "acme", URL: read.URL, Secrets: []string{relay.NewSecret()}}
			var out bytes.Buffer
			require.NoError(t, putEndpoint(t.Context(), streams{out: &out}, all, read, only, only.Secrets[0]))
			set := relay.Endpoint{Tenant: "acme", URL: "https://shop.example/2", Secrets: read.Secrets}
			require.ErrorContains(t, putEndpoint(t.Context(), streams{out: &out}, all, read, set, ""), "changed by another operator meanwhile, and nothing was done")
			is, _, err := all.Endpoint(t.Context(), "acme")
			require.NoError(t, err)
			require.Equal(t, only.Secrets, is.Secrets)
		})
	})
}
