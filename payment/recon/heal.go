package recon

import "github.com/homeward-io/homeward/payment/notice"

// Ghost converts a refundable mismatch to the ghost that a notice of the movement would
// make, so that both together refund it once.
func (m *Mismatch) Ghost(provider string) notice.Ghost {
	g := notice.Ghost{
		Tenant: m.Tenant, Object: m.Reference, Home: m.Home, Provider: provider, ProviderRef: m.ProviderRef,
		Amount: m.Stated, Currency: m.StatedCurrency, Reason: "late_success",
	}
	if m.second {
		g.Reason = "second_movement"
	}
	if m.Class == RefundMissing {
		g.Amount, g.Currency = m.Booked, m.BookedCurrency
	}
	return g
}
