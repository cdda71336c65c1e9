package httpapi

import (
	"slices"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// route says whom req goes to: whomever it names, or its tenant's routes do; else the home
// has a default. A request that names nobody who is here may be the retry of one that was
// let in when he was, so it goes on to be compared, and refusal is what to answer where no
// claim has an answer for it.
func (s *server) route(routes string, intent *payment.Intent, req *claim.Request) (refusal error) {
	switch intent.Operation {
	case payment.Charge, payment.Transfer:
	default:
		return nil // a refund goes where its charge was made
	}
	if req.Provider = intent.Provider; req.Provider == "" {
		req.Provider = payment.Routes(routes).Provider(intent)
		return nil
	}
	if s.Providers != nil && !slices.Contains(s.Providers, req.Provider) {
		req.Provider = ""
		return &payment.InvalidError{Member: "provider", Reason: "names no provider that there is here; leave it out for the default"}
	}
	return nil
}
