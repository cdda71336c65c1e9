package payment

import "strings"

const currencyLength = 3

// currencyCodes are the active codes of ISO 4217 for money that can be paid: without
// funds codes, metals and the codes for testing and for no currency.
const currencyCodes = `aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl
bsd btn bwp byn bzd cad cdf chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp
gel ghs gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw
kwd kyd kzt lak lbp lkr lrd lsl lyd mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio
nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sos srd
ssp stn svc syp szl thb tjs tmt tnd top try ttd twd tzs uah ugx usd uyu uzs ved ves vnd vuv wst xaf xcd
xcg xof xpf yer zar zmw zwg`

// currencies maps a code to itself, so that a look-up by bytes returns a string without
// allocating. It is read-only.
var currencies = func() map[string]string {
	m := make(map[string]string)
	for code := range strings.FieldsSeq(currencyCodes) {
		m[code] = code
	}
	return m
}()

// KnownCurrency reports whether code, in lower case, is one that can be paid in.
func KnownCurrency(code string) bool { _, ok := currencies[code]; return ok }
