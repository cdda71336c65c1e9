package stripe_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// iso is ISO 4217's list one: the active codes by the decimals of their minor unit,
// without metals, testing codes and units of account that have none.
var iso = map[int]string{
	0: "bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf",
	2: `aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob bov brl bsd btn bwp byn bzd cad cdf che
		chf chw cny cop cou crc cup cve czk dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gtq gyd hkd hnl htg
		huf idr ils inr irr jmd kes kgs khr kpw kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mru mur mvr mwk
		mxn mxv myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sdg sek sgd shp sle
		sos srd ssp stn svc syp szl thb tjs tmt top try ttd twd tzs uah usd usn uyu uzs ved ves wst xcd xcg yer zar zmw zwg`,
	3: "bhd iqd jod kwd lyd omr tnd",
	4: "clf uyw",
}

// documented is what docs.stripe.com/currencies ("Supported currencies") documents of how amounts
// are written: a currency that is not named has two decimals.
var documented = struct{ zero, three, whole string }{
	zero:  "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf",
	three: "bhd jod kwd omr tnd",
	whole: "isk ugx",
}

func listed(list, currency string) bool { return strings.Contains(" "+list+" ", " "+currency+" ") }

func power(digits int) int64 { return int64(math.Pow10(digits)) }

// TestAmounts compares both conversions with the documented lists for every currency of
// ISO 4217: one and a thousand major units, and what lies between.
func TestAmounts(t *testing.T) {
	for digits, codes := range iso {
		for currency := range strings.FieldsSeq(codes) {
			require.Equal(t, digits, psp.MinorDigits(currency), currency)
			decimals, step := 2, int64(1) // Stripe's decimals, and the least step in its unit
			switch {
			case listed(documented.zero, currency):
				decimals = 0
			case listed(documented.three, currency):
				decimals, step = 3, 10
			case listed(documented.whole, currency):
				step = 100
			case digits != 2:
				_, err := stripe.ToStripe(power(digits), currency)
				require.Error(t, err, "Stripe's documentation does not say how to write %s", currency)
				_, err = stripe.FromStripe(100, currency)
				require.Error(t, err, currency)
				continue
			}
			for _, major := range []int64{1, 19, 1000} {
				got, err := stripe.ToStripe(major*power(digits), currency)
				require.NoError(t, err, currency)
				require.Equal(t, major*power(decimals), got, "%d %s", major, currency)
				back, err := stripe.FromStripe(got, currency)
				require.NoError(t, err, currency)
				require.Equal(t, major*power(digits), back, "%d %s", major, currency)
			}
			for minor := int64(1); minor <= 3000; minor++ {
				got, err := stripe.ToStripe(minor, currency)
				if err != nil {
					// In Stripe's unit it is no whole multiple of the step.
					require.NotZero(t, minor*power(decimals)%(step*power(digits)), "%d minor units of %s: %v", minor, currency, err)
					continue
				}
				require.Zero(t, got%step, "%d minor units of %s", minor, currency)
				back, err := stripe.FromStripe(got, currency)
				require.NoError(t, err)
				require.Equal(t, minor, back, currency)
			}
		}
	}
}

func TestAmountsThatDoNotFit(t *testing.T) {
	_, err := stripe.ToStripe(math.MaxInt64/10, "isk")
	require.Error(t, err)
	_, err = stripe.FromStripe(math.MaxInt64/10, "mga")
	require.Error(t, err)
	_, err = stripe.FromStripe(550, "isk")
	require.Error(t, err, "half a króna")
}

// What Stripe cannot take is refused by name before anything is sent.
func TestAmountRefusedUnsent(t *testing.T) {
	p := adapter(t, "http://127.0.0.1:1", "") // where no server listens
	for _, c := range []struct {
		amount   int64
		currency string
		says     string
	}{
		{12345, "kwd", "multiples of 10"},
		{150, "mga", "multiples of 100"},
		{1000, "iqd", "no payments in IQD"},
	} {
		for _, move := range []func() psp.Result{
			func() psp.Result {
				return p.Charge(t.Context(), psp.Call{Key: "k", Reference: "ch_1", Amount: c.amount, Currency: c.currency, Source: "pm_card_visa"})
			},
			func() psp.Result {
				return p.Refund(t.Context(), psp.Call{Key: "k", Reference: "re_1", Amount: c.amount, Currency: c.currency, Source: "pi_1"})
			},
		} {
			r := move()
			require.Equal(t, psp.Declined, r.Outcome, "%v", r.Err)
			require.Equal(t, psp.Invalid, r.Decline.Class)
			require.Equal(t, "amount", r.Decline.Member)
			require.Contains(t, r.Decline.Message, c.says)
		}
	}
}

// Requests to Stripe are in Stripe's unit; counts, answers, reads and notices are in ours. The
// simulator has lists of its own.
func TestAmountsThroughTheSimulator(t *testing.T) {
	sim, err := simulator.Open(simulator.Config{})
	require.NoError(t, err)
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	p := adapter(t, srv.URL+"/stripe", "")
	charged := map[string]int64{"mga": 100_000, "isk": 5, "ugx": 5, "kwd": 12_340, "jpy": 500, "huf": 1045, "twd": 1045, "usd": 1250}
	for currency, amount := range charged {
		r := p.Charge(t.Context(), psp.Call{Key: "k_" + currency, Reference: "ch_" + currency, Amount: amount, Currency: currency, Source: "pm_card_visa"})
		require.Equal(t, psp.Approved, r.Outcome, "%s: %v", currency, r.Err)
		found, m, err := p.Show(t.Context(), psp.KindCharge, "", r.ProviderRef)
		require.NoError(t, err)
		require.Equal(t, psp.FoundYes, found)
		require.Equal(t, amount, m.Amount, currency)
		refund := p.Refund(t.Context(), psp.Call{Key: "r_" + currency, Reference: "re_" + currency, Amount: amount, Currency: currency, Source: r.ProviderRef})
		require.Equal(t, psp.Approved, refund.Outcome, "%s: %v", currency, refund.Err)
	}
	for _, e := range sim.Effects() {
		require.Equal(t, charged[e.Currency], e.Amount, "a %s of %s", e.Kind, e.Currency)
	}
}

func TestNoticeAmounts(t *testing.T) {
	p := adapter(t, "http://127.0.0.1:1", "whsec_x")
	event := func(amount int64, currency string) []byte {
		return fmt.Appendf(nil, `{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","object":"payment_intent",
			"amount":%d,"currency":%q,"status":"succeeded","metadata":{"homeward_reference":"ch_1"}}}}`, amount, currency)
	}
	n, err := p.Read(event(1000, "mga"))
	require.NoError(t, err)
	require.EqualValues(t, 100_000, n.Amount)
	n, err = p.Read(event(500, "isk"))
	require.NoError(t, err)
	require.EqualValues(t, 5, n.Amount)
	_, err = p.Read(event(550, "isk"))
	require.ErrorIs(t, err, psp.ErrMalformed)
}
