package stripe

import (
	"context"
	"errors"
	"net/http"

	sdk "github.com/stripe/stripe-go/v85"

	"github.com/homeward-io/homeward/payment/psp"
)

var _ psp.Accounted = (*Provider)(nil)

// Account implements [psp.Accounted] by "Retrieve account" of Stripe's API reference: GET
// /v1/account is the account of the key. A restricted key may lack the right to read it.
func (p *Provider) Account(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.caps.Timeout)
	defer cancel()
	var a sdk.Account
	params := &sdk.AccountRetrieveParams{}
	params.Context = ctx
	if err := p.backend.Call(http.MethodGet, "/v1/account", p.key, params, &a); err != nil {
		return "", oneLine(err)
	}
	if a.ID == "" {
		return "", errors.New("stripe: an account without id")
	}
	return a.ID, nil
}
