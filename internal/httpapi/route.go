package httpapi

import (
	"slices"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// route selects the provider of req: the one that the request names, or that its
// tenant's routes name; otherwise the home uses its default. A request that names an
// unknown provider may be the retry of one that was accepted while the node had it, so
// it continues as compare-only, and refusal is the answer if no claim has one.
func (s *server) route(routes string, intent *payment.Intent, req *claim.Request) (refusal error) {
	switch intent.Operation {
	case payment.Charge, payment.Transfer:
	default:
		return nil // a refund goes to its charge's provider
	}
	if req.Provider = intent.Provider; req.Provider == "" {
		req.Provider = payment.Routes(routes).Provider(intent)
		return nil
	}
	if s.Providers != nil && !slices.Contains(s.Providers, req.Provider) {
		req.Provider = ""
		return &payment.InvalidError{Member: "provider", Reason: "names no provider that this API has; leave it out for the default"}
	}
	return nil
}
