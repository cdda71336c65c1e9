package relay

import (
	"net/http"
	"time"
)

// MaxAttempts is how many failures park a row.
const MaxAttempts = maxAttempts

// Through makes w send through rt.
func Through(w *Webhooks, rt http.RoundTripper) { w.client.Transport = rt }

// Sign signs as a delivery does.
func Sign(secret string, e Event, now time.Time) (string, error) {
	s, _, err := sign([]string{secret}, e, now)
	return s, err
}
