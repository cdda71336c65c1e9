package psptest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/homeward-io/homeward/payment/psp"
)

// FuzzAnswers has the provider at url answer arbitrary bytes to every call. Nothing may panic, and a
// result must be whole. What is no JSON, or a failure of the provider's, proves nothing: its outcome
// is unknown. seeds are bodies of answers.
func FuzzAnswers(f *testing.F, open func(t testing.TB, url string) psp.Provider, seeds ...string) {
	for _, s := range seeds {
		for call := range uint8(8) {
			f.Add(call, uint16(http.StatusOK), []byte(s))
			f.Add(call, uint16(http.StatusPaymentRequired), []byte(s))
			f.Add(call, uint16(http.StatusInternalServerError), []byte(s))
		}
	}
	type answer struct {
		status int
		body   []byte
	}
	var next atomic.Pointer[answer]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := next.Load()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	}))
	f.Cleanup(srv.Close)
	p := open(f, srv.URL)
	f.Fuzz(func(t *testing.T, call uint8, status uint16, body []byte) {
		a := &answer{200 + int(status)%400, body}
		if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
			return // has no body
		}
		next.Store(a)
		c := psp.Call{Key: "k", Reference: "ch_1", Amount: 1250, Currency: "usd", Source: "pm_1", Of: "ch_1"}
		moves := true
		var r psp.Result
		switch call % 8 {
		case 0:
			r = p.Charge(t.Context(), c)
		case 1:
			c.Terms = &psp.Terms{Manual: true}
			r = p.Charge(t.Context(), c)
		case 2:
			r = p.Refund(t.Context(), c)
		case 3:
			r = p.Transfer(t.Context(), c)
		case 4:
			r = p.Capture(t.Context(), c)
		case 5:
			r = p.Cancel(t.Context(), c)
		case 6:
			c.Kind, moves = psp.KindCharge, false
			var found psp.Found
			if found, r = p.Lookup(t.Context(), c); found != psp.FoundYes {
				if found == psp.FoundNo && (a.status >= 500 || a.status == 200 && !json.Valid(body)) {
					t.Errorf("status %d proves that there is nothing", a.status)
				}
				return
			}
		case 7:
			found, m, err := p.Show(t.Context(), psp.KindCharge, "ch_1", "px_1")
			if err != nil && (found != psp.FoundUnknown || strings.ContainsAny(err.Error(), "\r\n")) {
				t.Errorf("%v: %q", found, err)
			}
			if found != psp.FoundYes {
				if found == psp.FoundNo && (a.status >= 500 || a.status == 200 && !json.Valid(body)) {
					t.Errorf("status %d proves that there is nothing", a.status)
				}
				return
			}
			r, moves = psp.Result{Outcome: m.Outcome, ProviderRef: m.ProviderRef, Decline: m.Decline, Wait: m.Wait}, false
			if r.Outcome == psp.Declined { // it may have failed since, for no reason that is given
				return
			}
		}
		unsupported := r.Outcome == psp.Declined && r.Decline != nil && r.Decline.Class == psp.Invalid
		switch {
		case moves && !unsupported && r.Outcome != psp.Unknown && (a.status >= 500 || !json.Valid(body)):
			t.Errorf("status %d with %q is %v", a.status, body, r.Outcome)
		case r.Outcome == psp.Declined != (r.Decline != nil), r.Outcome == psp.Pending != (r.Wait != nil):
			t.Errorf("not whole: %+v", r)
		case r.Decline != nil && (r.Decline.Class < psp.Soft || r.Decline.Class > psp.Invalid || r.Decline.Code == ""):
			t.Errorf("no decline: %+v", r.Decline)
		case (r.Outcome == psp.Approved || r.Outcome == psp.Authorized) && r.ProviderRef == "":
			t.Errorf("money moved under no reference: %+v", r)
		case r.Err != nil && strings.ContainsAny(r.Err.Error(), "\r\n"):
			t.Errorf("%q is not one line", r.Err)
		}
	})
}
