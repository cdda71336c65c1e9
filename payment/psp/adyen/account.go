package adyen

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

var _ psp.Accounted = (*Provider)(nil)

// Account implements [psp.Accounted] from the configuration. It returns the merchant
// account and the endpoint of each home, so that a start with another endpoint under
// the same name is refused like one with another account. It makes no call: a wrong API
// key for the merchant account shows at the first payment, which Adyen answers with
// 403.
func (p *Provider) Account(context.Context) (string, error) {
	var id strings.Builder
	id.WriteString(p.account + "@" + p.base.Host)
	for _, home := range slices.Sorted(maps.Keys(p.endpoints)) {
		id.WriteString("," + home + "=" + p.endpoints[home].Host)
	}
	return id.String(), nil
}
