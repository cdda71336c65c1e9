package stripe_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/psptest"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	apiKey = "sk_test_123"
	secret = "whsec_of_this_endpoint"
)

func TestConformance(t *testing.T) {
	psptest.Exercise(t, harness)
}

// harness puts the adapter before the simulator's Stripe-shaped API.
func harness(t *testing.T) psptest.Harness {
	t.Helper()
	sim, err := simulator.Open(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { srv.Close(); _ = sim.Close() })
	h := psptest.Simulated(t, sim, adapter(t, srv.URL+"/stripe/", secret), stripeSpelling.Replace)
	h.Notices = func() <-chan psptest.Delivery {
		return psptest.SimulatedNotices(t, sim, simulator.NoticeTarget{Secret: secret, Stripe: true})
	}
	h.Stranger = adapter(t, "http://127.0.0.1:1", "whsec_another")
	return h
}

// stripeSpelling turns the simulator's ids of what it does by itself into Stripe's.
var stripeSpelling = strings.NewReplacer("psp_dp_", "du_", "psp_re_", "re_", "psp_trr_", "trr_", "psp_po_", "po_")

func adapter(t testing.TB, url, secret string) *stripe.Provider {
	t.Helper()
	p, err := stripe.New(stripe.Config{Key: apiKey, WebhookSecret: secret, BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

var call = psp.Call{Key: "k", Reference: "ch_1", Amount: 1250, Currency: "usd", Source: "pm_card_visa", Description: "d"}

// answers serves one reply after the other and fails the test on any further request.
func answers(t *testing.T, replies ...func(w http.ResponseWriter, r *http.Request)) (url string, requests func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		n := len(seen)
		mu.Unlock()
		if n > len(replies) {
			t.Errorf("one request too many: %s %s", r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		replies[n-1](w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string { mu.Lock(); defer mu.Unlock(); return seen }
}

func says(status int, body string, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func intent(status, more string) string {
	return fmt.Sprintf(`{"id":"pi_1","object":"payment_intent","amount":1250,"currency":"usd","status":%q,"metadata":{"homeward_reference":"ch_1","homeward_key":"k"}%s}`, status, more)
}

func stripeError(kind, code, decline string) string {
	return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"decline_code":%q,"message":"Some words.","payment_intent":%s}}`, kind, code, decline, intent("requires_payment_method", ""))
}

func TestReplies(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   psp.Outcome
		class  psp.Class
		code   string
	}{
		"succeeded":                 {200, intent("succeeded", ""), psp.Approved, 0, ""},
		"more members":              {200, intent("succeeded", `,"unheard_of":{"a":[1]}`), psp.Approved, 0, ""},
		"another amount":            {200, strings.Replace(intent("succeeded", ""), "1250", "1251", 1), psp.Unknown, 0, ""},
		"other money":               {200, strings.Replace(intent("succeeded", ""), "usd", "eur", 1), psp.Unknown, 0, ""},
		"another object":            {200, strings.Replace(intent("succeeded", ""), "ch_1", "ch_2", 1), psp.Unknown, 0, ""},
		"no id":                     {200, strings.Replace(intent("succeeded", ""), "pi_1", "", 1), psp.Unknown, 0, ""},
		"failed":                    {200, intent("requires_payment_method", `,"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"lost_card"}`), psp.Declined, psp.Hard, "lost_card"},
		"failed at Stripe":          {200, intent("requires_payment_method", `,"last_payment_error":{"type":"api_error","message":"m"}`), psp.Declined, psp.Soft, "api_error"},
		"failed at the payer":       {200, intent("requires_payment_method", `,"last_payment_error":{"type":"invalid_request_error","code":"payment_intent_authentication_failure","message":"m"}`), psp.Declined, psp.Soft, "payment_intent_authentication_failure"},
		"not confirmed":             {200, intent("requires_payment_method", ""), psp.Unknown, 0, ""},
		"wants the payer":           {200, intent("requires_action", ""), psp.Declined, psp.Hard, "authentication_required"},
		"canceled":                  {200, intent("canceled", ""), psp.Declined, psp.Soft, "canceled"},
		"cut short":                 {200, intent("succeeded", "")[:40], psp.Unknown, 0, ""},
		"empty":                     {200, "", psp.Unknown, 0, ""},
		"oversized":                 {200, intent("succeeded", `,"pad":"`+strings.Repeat("x", 5<<20)+`"`), psp.Unknown, 0, ""},
		"redirect":                  {307, "", psp.Unknown, 0, ""},
		"insufficient funds":        {402, stripeError("card_error", "card_declined", "insufficient_funds"), psp.Declined, psp.Soft, "insufficient_funds"},
		"stolen":                    {402, stripeError("card_error", "card_declined", "stolen_card"), psp.Declined, psp.Hard, "stolen_card"},
		"expired, code only":        {402, stripeError("card_error", "expired_card", ""), psp.Declined, psp.Hard, "expired_card"},
		"authentication":            {402, stripeError("card_error", "authentication_required", "authentication_required"), psp.Declined, psp.Hard, "authentication_required"},
		"a code of tomorrow":        {402, stripeError("card_error", "card_declined", "moon_phase"), psp.Declined, psp.Soft, "moon_phase"},
		"a decline without code":    {402, stripeError("card_error", "", ""), psp.Declined, psp.Soft, "generic_decline"},
		"402 of another type":       {402, stripeError("api_error", "", ""), psp.Unknown, 0, ""},
		"402 by a proxy":            {402, "<html>", psp.Unknown, 0, ""},
		"no such method":            {404, stripeError("invalid_request_error", "resource_missing", ""), psp.Declined, psp.Invalid, "resource_missing"},
		"bad parameter":             {400, stripeError("invalid_request_error", "", ""), psp.Declined, psp.Invalid, "invalid_request_error"},
		"our balance":               {400, stripeError("invalid_request_error", "balance_insufficient", ""), psp.Declined, psp.Soft, "balance_insufficient"},
		"closed destination":        {400, stripeError("invalid_request_error", "account_closed", ""), psp.Declined, psp.Hard, "account_closed"},
		"key met other parameters":  {400, stripeError("idempotency_error", "", ""), psp.Unknown, 0, ""},
		"key under way":             {409, stripeError("idempotency_error", "idempotency_key_in_use", ""), psp.Unknown, 0, ""},
		"409 as an invalid request": {409, stripeError("invalid_request_error", "idempotency_key_in_use", ""), psp.Unknown, 0, ""},
		"lock time-out":             {429, stripeError("invalid_request_error", "lock_timeout", ""), psp.Unknown, 0, ""},
		"too many":                  {429, stripeError("invalid_request_error", "rate_limit", ""), psp.Unknown, 0, ""},
		"wrong API key":             {401, stripeError("invalid_request_error", "", ""), psp.Unknown, 0, ""},
		"forbidden":                 {403, stripeError("invalid_request_error", "", ""), psp.Unknown, 0, ""},
		"404 by a proxy":            {404, "404 page not found", psp.Unknown, 0, ""},
		"server error":              {500, stripeError("api_error", "", ""), psp.Unknown, 0, ""},
		"server error, as a card's": {500, stripeError("card_error", "card_declined", "stolen_card"), psp.Unknown, 0, ""},
		"server error, approval":    {500, intent("succeeded", ""), psp.Unknown, 0, ""},
		"unavailable":               {503, "", psp.Unknown, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answers(t, says(c.status, c.body, "Location", "/elsewhere"), says(c.status, c.body))
			r := adapter(t, url, "").Charge(t.Context(), call)
			if r.Outcome != c.want || (r.Outcome == psp.Approved && r.ProviderRef != "pi_1") {
				t.Fatalf("got %+v, want %s", r, c.want)
			}
			if c.want == psp.Declined && (r.Decline.Class != c.class || r.Decline.Code != c.code || r.Decline.Message == "") {
				t.Errorf("got %+v, want %s %s", *r.Decline, c.class, c.code)
			}
			if c.want == psp.Unknown && (r.Err == nil || strings.ContainsRune(r.Err.Error(), '\n') || len(r.Err.Error()) > 600) {
				t.Errorf("want one line of reason, got %v", r.Err)
			}
			if reused := errors.Is(r.Err, psp.ErrKeyReused); reused != (name == "key met other parameters") {
				t.Errorf("the key is reused: %t, of %v", reused, r.Err)
			}
			if n := len(requests()); name != "not confirmed" && n != 1 { // that one is read again
				t.Errorf("%d requests, want 1: %v", n, requests())
			}
		})
	}
}

// What Stripe asks to keep from customers is in the code for the merchant, and not
// in the message.
func TestFraudIsNotExplained(t *testing.T) {
	url, _ := answers(t, says(402, strings.Replace(stripeError("card_error", "card_declined", "fraudulent"), "Some words.", "Looks like fraud.", 1)))
	r := adapter(t, url, "").Charge(t.Context(), call)
	if r.Decline == nil || r.Decline.Class != psp.Hard || strings.Contains(r.Decline.Message, "fraud") {
		t.Errorf("got %+v", r.Decline)
	}
}

// A kept 5xx would be repeated for a day: what became of the money is looked up.
func TestKeptFailureIsLookedUp(t *testing.T) {
	kept := says(500, stripeError("api_error", "", ""), "Idempotent-Replayed", "true")
	declined := intent("requires_payment_method", `,"last_payment_error":{"type":"card_error","code":"card_declined"}`)
	for name, c := range map[string]struct {
		found string
		want  psp.Outcome
	}{
		"found":      {intent("succeeded", ""), psp.Approved},
		"declined":   {declined, psp.Declined},
		"not found":  {"", psp.Unknown},
		"undecided":  {intent("processing", ""), psp.Pending},
		"of another": {strings.Replace(intent("succeeded", ""), "ch_1", "ch_2", 1), psp.Unknown},
		// This one's own object may not be listed yet, and may have moved money.
		"of an attempt before": {strings.Replace(declined, `"k"`, `"another"`, 1), psp.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answers(t, kept, says(200, `{"object":"search_result","data":[`+c.found+`],"has_more":false}`), says(200, c.found))
			if r := adapter(t, url, "").Charge(t.Context(), call); r.Outcome != c.want {
				t.Errorf("got %+v, want %s", r, c.want)
			}
			if got := strings.Join(requests(), ", "); got != "POST /v1/payment_intents, GET /v1/payment_intents/search" && name != "undecided" {
				t.Errorf("asked %s", got)
			}
		})
	}
}

// A kept 5xx of a capture or a cancellation: the PaymentIntent shows what became of it. An
// unchanged one is no answer.
func TestKeptFailureOfCaptureAndCancel(t *testing.T) {
	kept := says(500, stripeError("api_error", "", ""), "Idempotent-Replayed", "true")
	captured := strings.Replace(intent("succeeded", `,"capture_method":"manual","amount_received":1250`), `"k"`, `"k","homeward_capture":"cap_1"`, 1)
	for name, c := range map[string]struct {
		cancel bool
		now    string
		want   psp.Outcome
	}{
		"captured":            {false, captured, psp.Approved},
		"captured by another": {false, strings.Replace(captured, "cap_1", "cap_2", 1), psp.Declined},
		"held":                {false, intent("requires_capture", ""), psp.Unknown},
		"canceled":            {true, intent("canceled", ""), psp.Approved},
		"too late":            {true, captured, psp.Declined},
		"not canceled":        {true, intent("requires_capture", ""), psp.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answers(t, kept, says(200, c.now))
			p, order := adapter(t, url, ""), psp.Call{Key: "o", Reference: "cap_1", Amount: 1250, Currency: "usd", Source: "pi_1"}
			act := p.Capture
			if c.cancel {
				act = p.Cancel
			}
			if r := act(t.Context(), order); r.Outcome != c.want || len(requests()) != 2 {
				t.Errorf("got %+v, want %s; requested %v", r, c.want, requests())
			}
		})
	}
}

// The owner of a connected account can write our reference on a payment of their own, of a cent: it
// is not what a look-up finds.
func TestLookUpsInConnectedAccounts(t *testing.T) {
	good := strings.Replace(intent("succeeded", ""), "pi_1", "pi_2", 1)
	own := call
	own.Kind, own.Terms = psp.KindCharge, &psp.Terms{Account: "acct_1"}
	for name, c := range map[string]struct {
		listed, again string
		want          psp.Found
	}{
		"ours":            {good, "", psp.FoundYes},
		"of a cent":       {strings.Replace(good, "1250", "1", 1), "", psp.FoundNo},
		"in another coin": {strings.Replace(good, "usd", "jpy", 1), "", psp.FoundNo},
		"under no key":    {strings.Replace(good, `"k"`, `"x"`, 1), "", psp.FoundNo},
		"tried again":     {strings.Replace(good, `"k"`, `"before"`, 1), "pi_2@acct_1", psp.FoundYes},
		"beside ours":     {strings.Replace(intent("succeeded", ""), "1250", "1", 1) + "," + good, "", psp.FoundYes},
	} {
		url, _ := answers(t, says(200, `{"object":"search_result","data":[`+c.listed+`],"has_more":false}`))
		own.Again = c.again
		found, r := adapter(t, url, "").Lookup(t.Context(), own)
		if found != c.want || found == psp.FoundYes && r.ProviderRef != "pi_2@acct_1" {
			t.Errorf("%s: got %v %+v, want %v", name, found, r, c.want)
		}
	}
}

// A confirmation leaves no key in the metadata: its PaymentIntent is read by its id.
func TestKeptFailureOfConfirmation(t *testing.T) {
	kept := says(500, stripeError("api_error", "", ""), "Idempotent-Replayed", "true")
	before := func(status, more string) string { return strings.Replace(intent(status, more), `"k"`, `"before"`, 1) }
	again := call
	again.Again = "pi_1@acct_1"
	for name, c := range map[string]struct {
		status int
		now    string
		want   psp.Outcome
	}{
		"succeeded":       {200, before("succeeded", ""), psp.Approved},
		"processing":      {200, before("processing", ""), psp.Pending},
		"wants the payer": {200, before("requires_action", ""), psp.Declined},
		"canceled":        {200, before("canceled", ""), psp.Declined},
		// This may be the decline that was there before.
		"declined":         {200, before("requires_payment_method", `,"last_payment_error":{"type":"card_error","code":"card_declined"}`), psp.Unknown},
		"of another":       {200, strings.Replace(before("succeeded", ""), "ch_1", "ch_2", 1), psp.Unknown},
		"another amount":   {200, strings.Replace(before("succeeded", ""), "1250", "1251", 1), psp.Unknown},
		"not to be called": {503, "", psp.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answers(t, kept, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Stripe-Account"); got != "acct_1" {
					t.Errorf("requested in the name of %q", got)
				}
				says(c.status, c.now)(w, r)
			})
			r := adapter(t, url, "").Charge(t.Context(), again)
			if r.Outcome != c.want || r.Outcome == psp.Approved && r.ProviderRef != again.Again || r.Outcome == psp.Unknown && r.Err == nil {
				t.Errorf("got %+v, want %s", r, c.want)
			}
			if got := strings.Join(requests(), ", "); got != "POST /v1/payment_intents/pi_1/confirm, GET /v1/payment_intents/pi_1" {
				t.Errorf("asked %s", got)
			}
		})
	}
}

// A reply that Stripe kept while the object was undecided is undecided for ever.
func TestUndecidedIsReadAgain(t *testing.T) {
	for now, want := range map[string]psp.Outcome{"succeeded": psp.Approved, "processing": psp.Pending, "canceled": psp.Declined} {
		url, requests := answers(t, says(200, intent("processing", "")), says(200, intent(now, "")))
		if r := adapter(t, url, "").Charge(t.Context(), call); r.Outcome != want {
			t.Errorf("%s: got %+v, want %s", now, r, want)
		}
		if got := strings.Join(requests(), ", "); got != "POST /v1/payment_intents, GET /v1/payment_intents/pi_1" {
			t.Errorf("asked %s", got)
		}
	}
	refund := `{"id":"re_1","object":"refund","amount":1250,"currency":"usd","status":%q,"metadata":{"homeward_reference":"ch_1"}}`
	for now, want := range map[string]psp.Outcome{"succeeded": psp.Approved, "pending": psp.Pending, "failed": psp.Declined} {
		url, _ := answers(t, says(200, fmt.Sprintf(refund, "pending")), says(200, fmt.Sprintf(refund, now)))
		if r := adapter(t, url, "").Refund(t.Context(), call); r.Outcome != want {
			t.Errorf("refund %s: got %+v, want %s", now, r, want)
		}
	}
}

func TestLookupReplies(t *testing.T) {
	search := func(objects ...string) string {
		return `{"object":"search_result","url":"/v1/payment_intents/search","has_more":false,"data":[` + strings.Join(objects, ",") + `]}`
	}
	declined := intent("requires_payment_method", `,"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}`)
	for name, c := range map[string]struct {
		status  int
		body    string
		want    psp.Found
		outcome psp.Outcome
	}{
		"approved":                    {200, search(intent("succeeded", "")), psp.FoundYes, psp.Approved},
		"declined":                    {200, search(declined), psp.FoundYes, psp.Declined},
		"approved before a decline":   {200, search(declined, intent("succeeded", "")), psp.FoundYes, psp.Approved},
		"approved after a decline":    {200, search(intent("succeeded", ""), declined), psp.FoundYes, psp.Approved},
		"held before a decline":       {200, search(declined, intent("requires_capture", "")), psp.FoundYes, psp.Authorized},
		"held after a decline":        {200, search(intent("requires_capture", ""), declined), psp.FoundYes, psp.Authorized},
		"nothing":                     {200, search(), psp.FoundNo, psp.Unknown},
		"another's":                   {200, search(strings.Replace(intent("succeeded", ""), "ch_1", "ch_2", 1)), psp.FoundNo, psp.Unknown},
		"processing":                  {200, search(intent("processing", "")), psp.FoundYes, psp.Pending},
		"search not available":        {400, stripeError("invalid_request_error", "", ""), psp.FoundUnknown, psp.Unknown},
		"a proxy's no":                {404, "404 page not found", psp.FoundUnknown, psp.Unknown},
		"unavailable":                 {503, "", psp.FoundUnknown, psp.Unknown},
		"half a reply":                {200, search(intent("succeeded", ""))[:50], psp.FoundUnknown, psp.Unknown},
		"undecided, then a decline":   {200, search(intent("processing", ""), declined), psp.FoundYes, psp.Pending},
		"a decline, then one pending": {200, search(declined, intent("processing", "")), psp.FoundYes, psp.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := answers(t, says(c.status, c.body), says(200, intent("processing", "")))
			found, r := adapter(t, url, "").Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: "ch_1"})
			if found != c.want || r.Outcome != c.outcome {
				t.Fatalf("found %d, %+v; want %d, %s", found, r, c.want, c.outcome)
			}
			if found == psp.FoundUnknown && r.Err == nil {
				t.Error("no reason")
			}
		})
	}
}

// A refund is looked for among those of its charge, however many others there are.
// An object of another amount is not what was asked for, and is no reason to ask for it again.
func TestALookUpFindsWhatWasAskedFor(t *testing.T) {
	part := func(status string) string { return strings.Replace(intent(status, ""), "1250", "500", 1) }
	whole := strings.Replace(intent("succeeded", ""), "pi_1", "pi_2", 1)
	asked := call
	asked.Kind = psp.KindCharge
	held := asked
	held.Terms = &psp.Terms{Manual: true}
	for name, c := range map[string]struct {
		call    psp.Call
		listed  string
		now     string // as it is read again
		want    psp.Found
		outcome psp.Outcome
	}{
		"all of it":          {asked, whole, "", psp.FoundYes, psp.Approved},
		"a part":             {asked, part("succeeded"), part("succeeded"), psp.FoundUnknown, psp.Unknown},
		"another coin":       {asked, strings.Replace(whole, "usd", "jpy", 1), strings.Replace(whole, "usd", "jpy", 1), psp.FoundUnknown, psp.Unknown},
		"a part that waits":  {asked, part("processing"), part("processing"), psp.FoundUnknown, psp.Unknown},
		"a part, and then":   {asked, intent("processing", ""), part("succeeded"), psp.FoundUnknown, psp.Unknown},
		"a part, and all":    {asked, part("succeeded") + "," + whole, "", psp.FoundYes, psp.Approved},
		"a part of a hold":   {held, intent("succeeded", `,"capture_method":"manual","amount_received":500`), "", psp.FoundYes, psp.Approved},
		"more than the hold": {held, intent("succeeded", `,"capture_method":"manual","amount_received":1251`), intent("succeeded", `,"capture_method":"manual","amount_received":1251`), psp.FoundUnknown, psp.Unknown},
		"nothing that was":   {psp.Call{Kind: psp.KindCharge, Reference: "ch_1"}, part("succeeded"), "", psp.FoundYes, psp.Approved},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := answers(t, says(200, `{"object":"search_result","data":[`+c.listed+`],"has_more":false}`), says(200, c.now))
			found, r := adapter(t, url, "").Lookup(t.Context(), c.call)
			if found != c.want || r.Outcome != c.outcome || found == psp.FoundUnknown && r.Err == nil {
				t.Errorf("found %v %+v, want %v %s", found, r, c.want, c.outcome)
			}
		})
	}
}

func TestRefundsAreListedByCharge(t *testing.T) {
	url, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("payment_intent"); got != "pi_9" {
			t.Errorf("requested the refunds of %q", got)
		}
		if got := r.Header.Get("Stripe-Account"); got != "acct_9" {
			t.Errorf("requested in the name of %q", got)
		}
		_, _ = w.Write([]byte(`{"object":"list","url":"/v1/refunds","has_more":false,"data":[{"id":"re_1","object":"refund","amount":1,"currency":"usd","status":"succeeded","metadata":{"homeward_reference":"re_mine"}}]}`))
	})
	p := adapter(t, url, "")
	found, r := p.Lookup(t.Context(), psp.Call{Kind: psp.KindRefund, Reference: "re_mine", Source: "pi_9@acct_9"})
	if found != psp.FoundYes || r.ProviderRef != "re_1@acct_9" {
		t.Errorf("found %d, %+v", found, r)
	}
	if found, r := p.Lookup(t.Context(), psp.Call{Kind: psp.KindRefund, Reference: "re_mine"}); found != psp.FoundUnknown || r.Err == nil {
		t.Errorf("without its charge: found %d, %+v", found, r)
	}
}

// References are quoted in the search language.
func TestSearchQuotes(t *testing.T) {
	url, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.Query().Get("query"), `metadata['homeward_reference']:'a\'b\\c'`; got != want {
			t.Errorf("requested %s, want %s", got, want)
		}
		_, _ = w.Write([]byte(`{"object":"search_result","data":[]}`))
	})
	if found, r := adapter(t, url, "").Lookup(t.Context(), psp.Call{Kind: psp.KindCharge, Reference: `a'b\c`}); found != psp.FoundNo {
		t.Errorf("found %d, %+v", found, r)
	}
}

func TestVersionAndKeyArePinned(t *testing.T) {
	url, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get("Stripe-Version"); v != stripe.APIVersion {
			t.Errorf("version %s, want %s", v, stripe.APIVersion)
		}
		if k := r.Header.Get("Idempotency-Key"); k != call.Key {
			t.Errorf("key %q, want %q", k, call.Key)
		}
		says(200, intent("succeeded", ""))(w, r)
	})
	if r := adapter(t, url, "").Charge(t.Context(), call); r.Outcome != psp.Approved {
		t.Errorf("got %+v", r)
	}
	if stripe.APIVersion != simulator.StripeAPIVersion {
		t.Errorf("the adapter speaks version %s, the simulator %s", stripe.APIVersion, simulator.StripeAPIVersion)
	}
	keyless := call
	keyless.Key = ""
	url, requests := answers(t)
	if r := adapter(t, url, "").Charge(t.Context(), keyless); r.Outcome != psp.Unknown || r.Err == nil || len(requests()) != 0 {
		t.Errorf("without a key: got %+v, requested %v", r, requests())
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	gate := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gate }))
	defer srv.Close()
	defer close(gate)
	p, err := stripe.New(stripe.Config{Key: apiKey, BaseURL: srv.URL, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if r := p.Charge(t.Context(), call); r.Outcome != psp.Unknown || r.Err == nil {
		t.Errorf("got %+v, want unknown", r)
	}
}

const event = `{"id":"evt_1","object":"event","api_version":"` + sdk.APIVersion + `","created":1772366400,"type":%q,"data":{"object":%s}}`

// Events of connected accounts come from an endpoint with a secret of its own, and name the
// account beside the object ("Connect webhooks").
func TestEventsOfConnectedAccounts(t *testing.T) {
	const connect = "whsec_of_connected_accounts"
	n := adapter(t, "http://127.0.0.1:1", secret+", "+connect+"\n")
	body := strings.Replace(fmt.Sprintf(event, "payment_intent.succeeded", intent("succeeded", "")), `{"id"`, `{"account":"acct_1","id"`, 1)
	for by, want := range map[string]error{secret: nil, connect: nil, "whsec_another": psp.ErrForged} {
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: by})
		_, err := n.Verify(http.Header{"Stripe-Signature": {signed.Header}}, []byte(body), time.Now())
		if !errors.Is(err, want) {
			t.Errorf("signed with %s: got %v, want %v", by, err, want)
		}
	}
	got, err := n.Read([]byte(body))
	if err != nil || got.ProviderRef != "pi_1@acct_1" || got.Key != "k" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Stripe sends the test events of connected accounts to the live endpoint, too ("Connect webhooks"),
// signed with its secret. In test mode no money moves.
func TestEventsOfTheOtherModeAreIgnored(t *testing.T) {
	const (
		paid    = `{"id":"pi_1","object":"payment_intent","amount":1250,"currency":"usd","status":"succeeded","metadata":{"homeward_reference":"ch_1","homeward_key":"k"}}`
		dispute = `{"id":"du_1","object":"dispute","amount":1250,"currency":"usd","status":"lost","payment_intent":"pi_1"}`
	)
	for _, c := range []struct {
		key, livemode string
		counts        bool
	}{
		{"sk_live_1", `"livemode":true,`, true},
		{"sk_live_1", `"livemode":false,`, false},
		{"rk_live_1", `"livemode":false,`, false},
		{"sk_test_1", `"livemode":false,`, true},
		{"rk_test_1", `"livemode":true,`, false},
		{"sk_live_1", ``, false}, // Stripe always says it
		{"sk_of_a_stand_in", `"livemode":false,`, true},
	} {
		p, err := stripe.New(stripe.Config{Key: c.key, WebhookSecret: secret})
		if err != nil {
			t.Fatal(err)
		}
		for event, object := range map[string]string{"payment_intent.succeeded": paid, "charge.dispute.created": dispute} {
			n, err := p.Read(fmt.Appendf(nil, `{"id":"evt_1","object":"event","created":1772366400,%s"type":%q,"account":"acct_1","data":{"object":%s}}`, c.livemode, event, object))
			if got := n.Movement || len(n.Unasked) > 0; err != nil || n.ID != "evt_1" || got != c.counts {
				t.Errorf("%s with %s for %s: got %+v, %v", event, c.livemode, c.key, n, err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	n := adapter(t, "http://127.0.0.1:1", secret)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	refund := `{"id":"re_1","object":"refund","amount":7,"currency":"usd","status":%q,"metadata":{"homeward_reference":"re_a"}}`
	for name, c := range map[string]struct {
		kind, object string
		want         psp.Notice
		code         string
	}{
		"succeeded": {"payment_intent.succeeded", intent("succeeded", ""), psp.Notice{Movement: true, Kind: psp.KindCharge, Reference: "ch_1", ProviderRef: "pi_1", Outcome: psp.Approved, Amount: 1250, Currency: "usd"}, ""},
		"failed": {"payment_intent.payment_failed", intent("requires_payment_method", `,"last_payment_error":{"type":"card_error","code":"expired_card"}`),
			psp.Notice{Movement: true, Kind: psp.KindCharge, Reference: "ch_1", ProviderRef: "pi_1", Outcome: psp.Declined, Amount: 1250, Currency: "usd"}, "expired_card"},
		"held":           {"payment_intent.amount_capturable_updated", intent("requires_capture", ""), psp.Notice{Movement: true, Kind: psp.KindCharge, Reference: "ch_1", ProviderRef: "pi_1", Outcome: psp.Authorized, Amount: 1250, Currency: "usd"}, ""},
		"processing":     {"payment_intent.processing", intent("processing", ""), psp.Notice{Movement: true, Kind: psp.KindCharge, Reference: "ch_1", Outcome: psp.Pending, Amount: 1250, Currency: "usd"}, ""},
		"refund":         {"refund.created", fmt.Sprintf(refund, "succeeded"), psp.Notice{Movement: true, Kind: psp.KindRefund, Reference: "re_a", ProviderRef: "re_1", Outcome: psp.Approved, Amount: 7, Currency: "usd"}, ""},
		"pending refund": {"refund.created", fmt.Sprintf(refund, "pending"), psp.Notice{Movement: true, Kind: psp.KindRefund, Reference: "re_a", Outcome: psp.Pending, Amount: 7, Currency: "usd"}, ""},
		"failed refund":  {"refund.failed", fmt.Sprintf(refund, "failed"), psp.Notice{Movement: true, Kind: psp.KindRefund, Reference: "re_a", ProviderRef: "re_1", Outcome: psp.Declined, Amount: 7, Currency: "usd"}, "refund_failed"},
		"refund that had succeeded": {"charge.refund.updated", fmt.Sprintf(refund, "failed") + `,"previous_attributes":{"status":"succeeded"}`,
			psp.Notice{Movement: true, Kind: psp.KindRefund, Reference: "re_a", ProviderRef: "re_1", Outcome: psp.Declined, Amount: 7, Currency: "usd"}, "refund_failed"},
		"not ours":     {"payment_intent.succeeded", `{"id":"pi_2","object":"payment_intent","amount":5,"currency":"usd","status":"succeeded","metadata":{}}`, psp.Notice{}, ""},
		"another type": {"customer.created", `{"anything":[1,2]}`, psp.Notice{}, ""},
	} {
		got, err := n.Read(fmt.Appendf(nil, event, c.kind, c.object))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (got.Decline == nil) != (c.code == "") || (got.Decline != nil && got.Decline.Code != c.code) {
			t.Errorf("%s: decline %+v, want %q", name, got.Decline, c.code)
		}
		got.Decline = nil
		if c.want.Kind == psp.KindCharge {
			c.want.Key = "k"
		}
		c.want.ID, c.want.At = "evt_1", at
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, c.want)
		}
	}
	for name, body := range map[string]string{
		"thin event":   `{"id":"evt_1","object":"v2.core.event","type":"payment_intent.succeeded"}`,
		"no object":    strings.Replace(fmt.Sprintf(event, "payment_intent.succeeded", "null"), `{"object":null}`, `{}`, 1),
		"other object": fmt.Sprintf(event, "payment_intent.succeeded", `[1]`),
		"no amount":    fmt.Sprintf(event, "payment_intent.succeeded", strings.Replace(intent("succeeded", ""), "1250", "0", 1)),
		"no id":        strings.Replace(fmt.Sprintf(event, "payment_intent.succeeded", intent("succeeded", "")), "evt_1", "", 1),
		"cut short":    fmt.Sprintf(event, "payment_intent.succeeded", intent("succeeded", ""))[:99],
		"oversized":    fmt.Sprintf(event, "x", `"`+strings.Repeat("x", psp.MaxNotice)+`"`),
	} {
		if got, err := n.Read([]byte(body)); !errors.Is(err, psp.ErrMalformed) || !reflect.DeepEqual(got, psp.Notice{}) {
			t.Errorf("%s: got %+v, %v; want %v", name, got, err, psp.ErrMalformed)
		}
	}
}

func TestVerifyKeepsToTheTolerance(t *testing.T) {
	n := adapter(t, "http://127.0.0.1:1", secret)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) // far from the clock of the SDK
	body := fmt.Appendf(nil, event, "payment_intent.succeeded", intent("succeeded", ""))
	for age, want := range map[time.Duration]error{0: nil, psp.NoticeTolerance - time.Second: nil, psp.NoticeTolerance + time.Second: psp.ErrStale} {
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: now.Add(-age)})
		header := http.Header{"Stripe-Signature": {signed.Header}}
		if _, err := n.Verify(header, body, now); !errors.Is(err, want) {
			t.Errorf("signed %s ago: got %v, want %v", age, err, want)
		}
		if _, err := adapter(t, "http://127.0.0.1:1", "").Verify(header, body, now); !errors.Is(err, psp.ErrUnchecked) {
			t.Errorf("without a secret: got %v, want %v", err, psp.ErrUnchecked)
		}
	}
}

func FuzzNotices(f *testing.F) {
	psptest.FuzzNotifier(f, adapter(f, "http://127.0.0.1:1", secret), "Stripe-Signature",
		fmt.Sprintf(event, "payment_intent.succeeded", intent("succeeded", "")), fmt.Sprintf(event, "refund.failed", `{}`),
		fmt.Sprintf(event, "transfer.created", `"tr_1"`), `{}`, `[]`, ``)
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]stripe.Config{
		"no key":                            {},
		"a public key":                      {Key: "pk_live_1"},
		"upper case name":                   {Key: apiKey, Name: "Stripe"},
		"relative URL":                      {Key: apiKey, BaseURL: "/v1"},
		"query":                             {Key: apiKey, BaseURL: "http://host?a=b"},
		"time-out":                          {Key: apiKey, Timeout: -1},
		"tolerance":                         {Key: apiKey, Tolerance: -1},
		"an API key for a webhook secret":   {Key: apiKey, WebhookSecret: "sk_test_hunter2"},
		"a public key for a webhook secret": {Key: apiKey, WebhookSecret: secret + " pk_live_1"},
		"a restricted key among the webhook secrets": {Key: apiKey, WebhookSecret: secret + ",rk_live_hunter2"},
		"no prefix of a webhook secret":              {Key: apiKey, WebhookSecret: "hunter2"},
		"half a webhook secret":                      {Key: apiKey, WebhookSecret: "whsec_"},
	} {
		if _, err := stripe.New(cfg); err == nil || strings.Contains(err.Error(), "pk_live_1") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// net/http may send a request with an Idempotency-Key again where it can have the
// body again, and the SDK any that fails: neither happens.
func TestNeverSendsTwice(t *testing.T) {
	sent := 0
	p, err := stripe.New(stripe.Config{Key: apiKey, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent++
		if r.GetBody != nil || r.Header.Get("Idempotency-Key") != call.Key {
			t.Errorf("the request can be sent again, or has no key: %v", r.Header)
		}
		return nil, errors.New("connection reset by peer")
	})})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Charge(t.Context(), call); r.Outcome != psp.Unknown || r.Err == nil || sent != 1 {
		t.Errorf("sent %d times: %+v", sent, r)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzAnswers(f *testing.F) {
	psptest.FuzzAnswers(f, func(t testing.TB, url string) psp.Provider { return adapter(t, url, secret) },
		intent("succeeded", ""), intent("requires_capture", ""), `{"id":"re_1","object":"refund","status":"succeeded"}`,
		`{"error":{"type":"card_error","code":"card_declined","decline_code":"stolen_card","message":"No."}}`,
		`{"object":"search_result","data":[]}`, `{}`, `[]`, ``)
}
