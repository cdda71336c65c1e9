package relay

import (
	"net/http"
	"time"
)

// What tests may see of an outcome.
func IsLater(o Outcome) bool  { return o.kind == outcomeLater && o.after > 0 }
func IsFailed(o Outcome) bool { return o.kind == outcomeFailed }
func IsPark(o Outcome) bool   { return o.kind == outcomePark }
func Reason(o Outcome) string { return o.reason }

// MaxAttempts is how many failures park a row.
const MaxAttempts = maxAttempts

// Through makes w send through rt.
func Through(w *Webhooks, rt http.RoundTripper) { w.client.Transport = rt }

// Sign signs as a delivery does.
func Sign(secret string, e Event, now time.Time) (string, error) {
	s, _, err := sign([]string{secret}, e, now)
	return s, err
}
