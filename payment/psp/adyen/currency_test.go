package adyen_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// documented are the decimals of "Currency codes and minor units"
// (docs.adyen.com/development-resources/currency-codes), copied in 2026.
var documented = map[int]string{
	0: "CVE DJF GNF IDR JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
	2: `AED ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BWP BYN BZD CAD CHF CLP CNY COP CRC
CUP CZK DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF ILS INR ISK JMD KES KGS
KHR KYD KZT LAK LKR MAD MDL MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK
PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SEK SGD SHP SLE SOS SRD STN SVC SZL THB TOP TRY TTD TWD TZS UAH USD
UYU UZS WST XCD XCG YER ZAR ZMW`,
	3: "BHD IQD JOD KWD LYD OMR TND",
}

// The adapter sends the same money in Adyen's decimals as the request has in those of ISO 4217,
// over all currencies that Adyen lists.
func TestAmounts(t *testing.T) {
	differ := ""
	for adyens, codes := range documented {
		for code := range strings.FieldsSeq(codes) {
			iso := psp.MinorDigits(strings.ToLower(code))
			minor := int64(7 * math.Pow10(max(iso, adyens))) // whole units, whichever decimals
			want := minor
			if adyens != iso {
				differ += " " + code
				want = int64(float64(minor) * math.Pow10(adyens-iso))
			}
			url, _, sent := answers(t, 200, fmt.Sprintf(`{"resultCode":"Authorised","pspReference":"P","merchantReference":"ch_1","amount":{"currency":%q,"value":%d}}`, code, want))
			charge := call
			charge.Amount, charge.Currency = minor, strings.ToLower(code)
			if r := adapter(t, url, "").Charge(t.Context(), charge); r.Outcome != psp.Approved {
				t.Errorf("%s: %+v", code, r)
			}
			if got := fmt.Sprint(sent()["amount"]); got != fmt.Sprintf("map[currency:%s value:%v]", code, float64(want)) {
				t.Errorf("%d of %s with %d decimals are sent as %s of %d", minor, code, iso, got, adyens)
			}
		}
	}
	if n := len(strings.Fields(differ)); n != 4 {
		t.Errorf("%d currencies differ, the page marks CLP, CVE, IDR and ISK:%s", n, differ)
	}
	for _, currency := range []string{"cve", "idr"} {
		url, request, _ := answers(t, 200, `{}`)
		charge := call
		charge.Amount, charge.Currency = 1050, currency
		if r := adapter(t, url, "").Charge(t.Context(), charge); r.Outcome != psp.Declined || r.Decline.Class != psp.Invalid || r.Decline.Member != "amount" || request.Method != "" {
			t.Errorf("10.50 %s: %+v", currency, r)
		}
	}
}

// The simulator, which has lists of its own, books the requested amount, and reports it.
func TestAmountsThroughTheSimulator(t *testing.T) {
	sim, url := opened(t)
	p, in := adapter(t, url, hmacKey), notices(t, sim)
	for i, currency := range []string{"clp", "isk", "cve", "idr", "jpy", "kwd", "eur"} {
		charge := call
		charge.Key, charge.Reference, charge.Source = fmt.Sprint("k", i), fmt.Sprint("ch_", i), "pm_card_visa"
		charge.Amount, charge.Currency = 100_000, currency
		if r := p.Charge(t.Context(), charge); r.Outcome != psp.Approved {
			t.Fatalf("%s: %+v", currency, r)
		}
		if e := sim.Effects()[i]; e.Amount != charge.Amount || e.Currency != currency {
			t.Errorf("%s: booked %+v", currency, e)
		}
		if n, err := p.Read((<-in).Body); err != nil || n.Amount != charge.Amount || n.Currency != currency {
			t.Errorf("%s: reported %+v, %v", currency, n, err)
		}
	}
}
