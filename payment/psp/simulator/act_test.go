package simulator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
)

// TestAConfirmedChargeWaitsAgain: a charge that failed at its bank is confirmed again, and its bank takes
// its time again.
func TestAConfirmedChargeWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		rec, i, err := s.decide(psp.Call{Kind: psp.KindCharge, Key: "k1", Reference: "ch_1", Amount: 7, Currency: "usd", Source: "pm_bank_debit_5s_fails"})
		require.NoError(t, err)
		require.Equal(t, processing, rec.outcome)
		stands := func() outcome {
			time.Sleep(6 * time.Second)
			s.mu.Lock()
			defer s.mu.Unlock()
			o, _ := s.book.state(i)
			return o
		}
		again := func(key, method string) {
			rec, _, err := s.take(psp.Call{Kind: psp.KindCharge, Key: key, Source: formatID(psp.KindCharge, i), Again: method}, confirmedAgain)
			require.NoError(t, err)
			require.Equal(t, processing, rec.outcome)
		}
		require.Equal(t, authenticationFailed, stands())
		again("k2", "pm_bank_debit_5s_fails")
		require.Equal(t, authenticationFailed, stands())
		again("k3", "pm_bank_debit_5s")
		require.Equal(t, approved, stands())
		require.Len(t, s.Effects(), 1)
	})
}
