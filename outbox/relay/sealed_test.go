package relay_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/seal/sealtest"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
)

type away struct{}

func (away) Encrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }
func (away) Decrypt(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route") }

// TestADeliveryIsSignedWithASealedSecret: secrets and persons' data at rest. What the
// store holds signs nothing; a node with the key signs as ever. One without it tries
// again, in words that name the key, and holds nothing against the endpoint; while the
// key cannot be asked it costs no try.
func TestADeliveryIsSignedWithASealedSecret(t *testing.T) {
	m := newMerchant(t, answer(200))
	bare, keys := m.endpoint(t), sealtest.Ring(1)
	require.NoError(t, relay.Sealed(m.endpoints, keys).PutEndpoint(t.Context(), bare, bare))
	for _, stored := range m.endpoint(t).Secrets {
		require.NotContains(t, stored, "whsec_")
	}
	through := func(r *seal.Ring) *relay.Webhooks {
		return m.sink(t, func(c *relay.WebhooksConfig) { c.Endpoints = relay.Sealed(m.endpoints, r) })
	}
	require.Equal(t, outbox.Done(), through(keys).Deliver(t.Context(), event("evt_1")))
	require.EqualValues(t, 1, m.calls.Load())

	name := keys.Names()[0]
	for _, without := range []*seal.Ring{nil, sealtest.Ring(2)} {
		o := through(without).Deliver(t.Context(), event("evt_2"))
		require.True(t, failed(o))
		require.Contains(t, o.String(), name.String())
		require.Contains(t, o.String(), "homeward endpoint secret acme --only")
	}
	o := through(seal.New([]seal.Key{{Name: name, Keeper: away{}}}, nil)).Deliver(t.Context(), event("evt_2"))
	require.True(t, later(o))
	require.EqualValues(t, 1, m.calls.Load())
	require.Zero(t, m.endpoint(t).FailingSince)
}
