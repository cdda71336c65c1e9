package adyen_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/adyen"
)

var call = psp.Call{
	Key: "hw_k", Reference: "ch_1", Amount: 1250, Currency: "usd", Source: "pm_8415736344864224",
	Description: "Order №7, with a gift in paper", Terms: &psp.Terms{Customer: "shopper_1"},
}

// answers serves one answer, keeps the request, and fails the test on a second one.
func answers(t testing.TB, status int, body string, header ...string) (url string, request *http.Request, sent func() map[string]any) {
	t.Helper()
	request = &http.Request{}
	var raw []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if request.Method != "" {
			t.Errorf("one request too many: %s %s", r.Method, r.URL)
		}
		raw, _ = io.ReadAll(r.Body)
		*request = *r
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, request, func() map[string]any {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
}

const paid = `"pspReference":"NC6HT9CRT65ZGN82","merchantReference":"ch_1","amount":{"currency":"USD","value":1250}`

func failure(status int, kind, code string) string {
	return fmt.Sprintf(`{"status":%d,"errorCode":%q,"message":"Some\n words.","errorType":%q,"pspReference":"GJ2SPW8ZNQ8HLJ82"}`, status, code, kind)
}

// "Payment result codes", "Refusal reasons", "API idempotency", "Response handling".
func TestPaymentReplies(t *testing.T) {
	onSession := call
	onSession.Terms = &psp.Terms{Customer: "shopper_1", OnSession: true}
	held := call
	held.Terms = &psp.Terms{Customer: "shopper_1", Manual: true}
	for name, c := range map[string]struct {
		call   psp.Call
		status int
		body   string
		header []string
		want   psp.Outcome
		class  psp.Class
		code   string // of a decline, or the state that a pending payment is in
	}{
		"authorised":            {call, 200, `{"resultCode":"Authorised",` + paid + `}`, nil, psp.Approved, 0, ""},
		"held":                  {held, 200, `{"resultCode":"Authorised",` + strings.Replace(paid, "ch_1", "ch_1-held", 1) + `}`, nil, psp.Authorized, 0, ""},
		"another's":             {call, 200, `{"resultCode":"Authorised",` + strings.Replace(paid, "ch_1", "ch_2", 1) + `}`, nil, psp.Unknown, 0, ""},
		"another amount":        {call, 200, `{"resultCode":"Authorised",` + strings.Replace(paid, "1250", "1251", 1) + `}`, nil, psp.Unknown, 0, ""},
		"another currency":      {call, 200, `{"resultCode":"Authorised",` + strings.Replace(paid, "USD", "EUR", 1) + `}`, nil, psp.Unknown, 0, ""},
		"without amount":        {call, 200, `{"resultCode":"Authorised","pspReference":"NC6HT9CRT65ZGN82","merchantReference":"ch_1"}`, nil, psp.Unknown, 0, ""},
		"without pspReference":  {call, 200, `{"resultCode":"Authorised",` + strings.Replace(paid, "NC6HT9CRT65ZGN82", "", 1) + `}`, nil, psp.Unknown, 0, ""},
		"in part":               {call, 200, `{"resultCode":"PartiallyAuthorised",` + paid + `}`, nil, psp.Unknown, 0, ""},
		"of another kind":       {call, 200, `{"resultCode":"AuthenticationFinished",` + paid + `}`, nil, psp.Unknown, 0, ""},
		"refused":               {call, 200, `{"resultCode":"Refused","refusalReasonCode":"12","refusalReason":"Not enough balance"}`, nil, psp.Declined, psp.Soft, "insufficient_funds"},
		"refused for good":      {call, 200, `{"resultCode":"Refused","refusalReasonCode":"6"}`, nil, psp.Declined, psp.Hard, "expired_card"},
		"refused, new reason":   {call, 200, `{"resultCode":"Refused","refusalReasonCode":"4711"}`, nil, psp.Declined, psp.Soft, "generic_decline"},
		"another's refusal":     {call, 200, `{"resultCode":"Refused","refusalReasonCode":"12","merchantReference":"ch_2"}`, nil, psp.Unknown, 0, ""},
		"error":                 {call, 200, `{"resultCode":"Error"}`, nil, psp.Declined, psp.Soft, "processing_error"},
		"cancelled":             {call, 200, `{"resultCode":"Cancelled"}`, nil, psp.Declined, psp.Soft, "canceled"},
		"pending":               {call, 200, `{"resultCode":"Pending",` + paid + `}`, nil, psp.Pending, 0, "processing"},
		"received":              {call, 200, `{"resultCode":"Received",` + paid + `}`, nil, psp.Pending, 0, "processing"},
		"redirect":              {onSession, 200, `{"resultCode":"RedirectShopper","action":{"type":"redirect"}}`, nil, psp.Pending, 0, "requires_action"},
		"challenge":             {onSession, 200, `{"resultCode":"ChallengeShopper","action":{"type":"threeDS2"}}`, nil, psp.Pending, 0, "requires_action"},
		"identify":              {onSession, 200, `{"resultCode":"IdentifyShopper","action":{"type":"threeDS2"}}`, nil, psp.Pending, 0, "requires_action"},
		"present":               {onSession, 200, `{"resultCode":"PresentToShopper","action":{"type":"voucher"}}`, nil, psp.Pending, 0, "requires_action"},
		"redirect, off session": {call, 200, `{"resultCode":"RedirectShopper","action":{"type":"redirect"}}`, nil, psp.Declined, psp.Soft, "authentication_required"},
		"validation":            {call, 422, failure(422, "validation", "800"), nil, psp.Declined, psp.Invalid, "adyen_800"},
		"configuration":         {call, 422, failure(422, "configuration", "905_1"), nil, psp.Declined, psp.Invalid, "adyen_905_1"},
		"bad request":           {call, 400, failure(400, "validation", "702"), nil, psp.Declined, psp.Invalid, "adyen_702"},
		"in progress":           {call, 422, failure(422, "validation", "704"), nil, psp.Unknown, 0, ""},
		"in progress, 409":      {call, 409, failure(409, "validation", "704"), []string{"Transient-Error", "true"}, psp.Unknown, 0, ""},
		"transient":             {call, 422, failure(422, "validation", "702"), []string{"transient-error", "true"}, psp.Unknown, 0, ""},
		"no store of keys":      {call, 503, failure(503, "internal", "703"), []string{"transient-error", "true"}, psp.Unknown, 0, ""},
		"internal":              {call, 422, failure(422, "internal", "905"), nil, psp.Unknown, 0, ""},
		"unauthorized":          {call, 401, failure(401, "security", "000"), nil, psp.Unknown, 0, ""},
		"forbidden":             {call, 403, failure(403, "security", "901"), nil, psp.Unknown, 0, ""},
		"too many":              {call, 429, "", nil, psp.Unknown, 0, ""},
		"server error":          {call, 500, failure(500, "internal", "905"), nil, psp.Unknown, 0, ""},
		"a gateway's":           {call, 422, "<html>", nil, psp.Unknown, 0, ""},
		"a gateway's 404":       {call, 404, "404 page not found", nil, psp.Unknown, 0, ""},
		"redirected":            {call, 307, "", []string{"Location", "/elsewhere"}, psp.Unknown, 0, ""},
		"half an answer":        {call, 200, `{"resultCode":"Authorised",` + paid, nil, psp.Unknown, 0, ""},
		"too long":              {call, 200, `{"resultCode":"Authorised",` + paid + `}` + strings.Repeat(" ", 1<<20), nil, psp.Unknown, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url, _, _ := answers(t, c.status, c.body, c.header...)
			r := adapter(t, url, "").Charge(t.Context(), c.call)
			if r.Outcome != c.want || (r.Decline != nil) != (c.want == psp.Declined) || (r.Wait != nil) != (c.want == psp.Pending) || (r.Err != nil) != (c.want == psp.Unknown) {
				t.Fatalf("got %+v, want %s", r, c.want)
			}
			if reused := errors.Is(r.Err, psp.ErrKeyReused); reused != strings.HasPrefix(name, "another") {
				t.Errorf("the key is reused: %t, of %v", reused, r.Err)
			}
			switch c.want {
			case psp.Declined:
				if r.Decline.Class != c.class || r.Decline.Code != c.code || r.Decline.Message == "" || strings.Contains(r.Decline.Message, "\n") {
					t.Errorf("got %+v, want %s %s", *r.Decline, c.class, c.code)
				}
			case psp.Pending:
				if string(r.Wait.State) != c.code || (c.code == "requires_action") != strings.Contains(string(r.Wait.NextAction), "type") {
					t.Errorf("waits for %+v", *r.Wait)
				}
			case psp.Approved, psp.Authorized:
				if r.ProviderRef != "NC6HT9CRT65ZGN82" {
					t.Errorf("is called %q", r.ProviderRef)
				}
			case psp.Unknown:
				if strings.ContainsRune(r.Err.Error(), '\n') || len(r.Err.Error()) > 600 {
					t.Errorf("want one line of reason, got %v", r.Err)
				}
			}
		})
	}
}

const received = `{"merchantAccount":"HomewardSimulator","paymentPspReference":"NC6HT9CRT65ZGN82","pspReference":"WNS7WQ756L2GWR82","reference":"re_1","status":"received","amount":{"currency":"USD","value":1250}}`

// Received is no outcome.
func TestModificationReplies(t *testing.T) {
	refund := psp.Call{Key: "hw_r", Reference: "re_1", Amount: 1250, Currency: "usd", Source: "NC6HT9CRT65ZGN82"}
	for name, c := range map[string]struct {
		status int
		body   string
		want   psp.Outcome
	}{
		"received":         {201, received, psp.Pending},
		"another status":   {201, strings.Replace(received, `"received"`, `"done"`, 1), psp.Unknown},
		"another's":        {201, strings.Replace(received, "re_1", "re_2", 1), psp.Unknown},
		"of another":       {201, strings.Replace(received, "NC6HT9CRT65ZGN82", "NC6HT9CRT65ZGN83", 1), psp.Unknown},
		"of other money":   {201, strings.Replace(received, "1250", "1251", 1), psp.Unknown},
		"no such payment":  {422, failure(422, "validation", "167"), psp.Declined},
		"in progress":      {422, failure(422, "validation", "704"), psp.Unknown},
		"without a number": {201, strings.Replace(received, "WNS7WQ756L2GWR82", "", 1), psp.Unknown},
	} {
		url, request, _ := answers(t, c.status, c.body)
		r := adapter(t, url, "").Refund(t.Context(), refund)
		if r.Outcome != c.want || c.want == psp.Pending && (r.ProviderRef != "WNS7WQ756L2GWR82" || r.Wait.State != psp.Processing) {
			t.Errorf("%s: got %+v, want %s", name, r, c.want)
		}
		if reused := errors.Is(r.Err, psp.ErrKeyReused); reused != slices.Contains([]string{"another's", "of another", "of other money"}, name) {
			t.Errorf("%s: the key is reused: %t, of %v", name, reused, r.Err)
		}
		if request.URL.Path != "/v71/payments/NC6HT9CRT65ZGN82/refunds" {
			t.Errorf("%s: requested %s", name, request.URL)
		}
	}
	// A reference that could lead elsewhere is not sent.
	for _, source := range []string{"", "..", "a/b", "a b", "NC6HT9CRT65ZGN82/../x"} {
		url, request, _ := answers(t, 201, received)
		refund.Source = source
		if r := adapter(t, url, "").Refund(t.Context(), refund); r.Outcome != psp.Declined || r.Decline.Class != psp.Invalid || request.Method != "" {
			t.Errorf("%q: got %+v, requested %q", source, r, request.Method)
		}
	}
}

// A capture and a cancellation are of the charge: they have its reference, and its name.
func TestCapturesAndCancels(t *testing.T) {
	of := psp.Call{Key: "hw_c", Reference: "ch_1", Amount: 1250, Currency: "usd", Source: "NC6HT9CRT65ZGN82"}
	body := strings.Replace(received, "re_1", "ch_1-held", 1)
	url, request, sent := answers(t, 201, body)
	if r := adapter(t, url, "").Capture(t.Context(), of); r.Outcome != psp.Pending || r.ProviderRef != of.Source {
		t.Errorf("a capture: got %+v", r)
	}
	if got := fmt.Sprint(request.URL.Path, sent()); got != "/v71/payments/NC6HT9CRT65ZGN82/captures"+
		"map[amount:map[currency:USD value:1250] merchantAccount:HomewardSimulator reference:ch_1-held]" {
		t.Errorf("a capture sends %s", got)
	}
	url, request, sent = answers(t, 201, body)
	if r := adapter(t, url, "").Cancel(t.Context(), of); r.Outcome != psp.Pending || r.ProviderRef != of.Source {
		t.Errorf("a cancellation: got %+v", r)
	}
	if got := fmt.Sprint(request.URL.Path, sent()); got != "/v71/payments/NC6HT9CRT65ZGN82/cancels"+
		"map[merchantAccount:HomewardSimulator reference:ch_1-held]" {
		t.Errorf("a cancellation sends %s", got)
	}
}

func TestWhatAPaymentSends(t *testing.T) {
	base := `map[amount:map[currency:USD value:1250] %smerchantAccount:HomewardSimulator%s paymentMethod:map[storedPaymentMethodId:8415736344864224 type:scheme] ` +
		`recurringProcessingModel:%s reference:%s returnUrl:%s shopperInteraction:ContAuth shopperReference:shopper_1 shopperStatement:%s]`
	for name, c := range map[string]struct {
		terms psp.Terms
		want  string
	}{
		"off session": {psp.Terms{Customer: "shopper_1"},
			fmt.Sprintf(base, "captureDelayHours:0 ", "", "UnscheduledCardOnFile", "ch_1", "https://shop.example/return", "Order  7, with a gift ")},
		"on session": {psp.Terms{Customer: "shopper_1", OnSession: true, ReturnURL: "https://a.example/", StatementSuffix: "A GIFT"},
			fmt.Sprintf(base, "captureDelayHours:0 ", "", "CardOnFile", "ch_1", "https://a.example/", "A GIFT")},
		"of a shopper": {psp.Terms{},
			fmt.Sprintf(base, "captureDelayHours:0 ", "", "UnscheduledCardOnFile", "ch_1", "https://shop.example/return", "Order  7, with a gift ")},
		"held": {psp.Terms{Customer: "shopper_1", Manual: true, StatementSuffix: "A", OrderID: []byte(`"o-1"`), Metadata: []byte(`{"k":"v"}`)},
			fmt.Sprintf(strings.Replace(base, "map[amount", "map[additionalData:map[manualCapture:true] amount", 1), "", " merchantOrderReference:o-1 metadata:map[k:v]", "UnscheduledCardOnFile", "ch_1-held", "https://shop.example/return", "A")},
	} {
		url, request, sent := answers(t, 200, `{}`)
		charge := call
		charge.Terms = &c.terms
		if c.terms.Customer == "" {
			charge.Source = "pm_shopper_1-8415736344864224"
		}
		adapter(t, url, "").Charge(t.Context(), charge)
		if got := fmt.Sprint(sent()); got != c.want {
			t.Errorf("%s: sends %s\nwant %s", name, got, c.want)
		}
		if request.URL.Path != "/v71/payments" || request.Header.Get("X-API-Key") != apiKey || request.Header.Get("Idempotency-Key") != "hw_k" || request.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: requested %s with %v", name, request.URL, request.Header)
		}
	}
}

// What Adyen has no such thing for is refused by name, before anything is sent.
func TestTermsThatAdyenCannotMeet(t *testing.T) {
	long := strings.Repeat("x", 81)
	for name, terms := range map[string]psp.Terms{
		"connected account":           {Account: "acct_1"},
		"transfer":                    {TransferTo: "acct_1"},
		"fee":                         {ApplicationFee: 1},
		"setup_future_usage":          {SetupFutureUsage: "off_session"},
		"customer":                    {Customer: "ab"},
		"statement_descriptor_suffix": {StatementSuffix: "Größe"},
		"metadata":                    {Metadata: []byte(`{"k":"` + long + `"}`)},
	} {
		url, request, _ := answers(t, 200, `{}`)
		charge := call
		charge.Terms = &terms
		r := adapter(t, url, "").Charge(t.Context(), charge)
		if r.Outcome != psp.Declined || r.Decline.Class != psp.Invalid || request.Method != "" || r.Decline.Member != "" && r.Decline.Member != name {
			t.Errorf("%s: got %+v, requested %q", name, r, request.Method)
		}
	}
	url, request, _ := answers(t, 200, `{}`)
	charge := call
	charge.Reference = long
	if r := adapter(t, url, "").Charge(t.Context(), charge); r.Outcome != psp.Declined || request.Method != "" {
		t.Errorf("a long reference: got %+v", r)
	}
}

// Without a key that Adyen takes nothing is sent: nothing would dedupe the call.
func TestKeysThatAdyenDoesNotTake(t *testing.T) {
	for _, key := range []string{"", strings.Repeat("k", 65)} {
		url, request, _ := answers(t, 200, `{}`)
		keyless := call
		keyless.Key = key
		if r := adapter(t, url, "").Charge(t.Context(), keyless); r.Outcome != psp.Unknown || r.Err == nil || request.Method != "" {
			t.Errorf("a key of %d: got %+v, requested %q", len(key), r, request.Method)
		}
	}
}

// The endpoints of two regions do not share keys. The claim's home decides which one is called, and
// not the node: a deputy's repeat moves no money again.
func TestKeysAreRepeatedAtTheirHome(t *testing.T) {
	eu, euURL := opened(t)
	us, usURL := opened(t)
	cfg := config(euURL, "")
	cfg.Endpoints = map[string]string{"us-east": usURL}
	holder, deputy := made(t, cfg), made(t, cfg)
	charge := call
	charge.Source = "pm_card_visa"
	first := map[string]string{}
	for _, p := range []*adyen.Provider{holder, deputy} {
		for _, home := range []string{"us-east", "eu-west"} {
			charge.Home = home
			r := p.Charge(t.Context(), charge)
			if r.Outcome != psp.Approved || first[home] != "" && first[home] != r.ProviderRef {
				t.Errorf("at %s: %+v, before that %q", home, r, first[home])
			}
			first[home] = r.ProviderRef
		}
	}
	for name, n := range map[string]int{"eu": effects(eu, psp.KindCharge, "ch_1"), "us": effects(us, psp.KindCharge, "ch_1")} {
		if n != 1 {
			t.Errorf("in %s money moved %d times", name, n)
		}
	}
	if c := holder.Capabilities(); !c.RegionalKeys || c.KeyLife != adyen.KeyLife || c.Dedupe != psp.DedupeKey || c.Lookup || !c.Blind || !c.Asynchronous {
		t.Errorf("%+v", c)
	}
}

func TestTimeoutIsUnknown(t *testing.T) {
	gate := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gate }))
	defer srv.Close()
	defer close(gate)
	cfg := config(srv.URL, "")
	cfg.Timeout = time.Millisecond
	if r := made(t, cfg).Charge(t.Context(), call); r.Outcome != psp.Unknown || r.Err == nil {
		t.Errorf("got %+v, want unknown", r)
	}
}

// net/http may send a request with an Idempotency-Key again where it can have the body
// again: it cannot.
func TestNeverSendsTwice(t *testing.T) {
	sent := 0
	cfg := config("", "")
	cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		sent++
		if r.GetBody != nil || r.URL.String() != "https://checkout-test.adyen.com/v71/payments" {
			t.Errorf("%s; can be sent again: %t", r.URL, r.GetBody != nil)
		}
		return nil, errors.New("connection reset\nby peer")
	})
	r := made(t, cfg).Charge(t.Context(), call)
	if r.Outcome != psp.Unknown || r.Err == nil || strings.ContainsRune(r.Err.Error(), '\n') || sent != 1 {
		t.Errorf("sent %d times: %+v", sent, r)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*adyen.Config){
		"no key":          func(c *adyen.Config) { c.Key = "" },
		"key":             func(c *adyen.Config) { c.Key = " secret" },
		"account":         func(c *adyen.Config) { c.MerchantAccount = "" },
		"return URL":      func(c *adyen.Config) { c.ReturnURL = "" },
		"HMAC key":        func(c *adyen.Config) { c.HMACKey = "secret" },
		"upper case name": func(c *adyen.Config) { c.Name = "Adyen" },
		"relative URL":    func(c *adyen.Config) { c.BaseURL = "/v1" },
		"query":           func(c *adyen.Config) { c.BaseURL = "http://host?a=b" },
		"endpoint":        func(c *adyen.Config) { c.Endpoints = map[string]string{"eu": "host"} },
		"time-out":        func(c *adyen.Config) { c.Timeout = -1 },
	} {
		cfg := config("", hmacKey)
		change(&cfg)
		if _, err := adyen.New(cfg); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := adyen.LiveURL("1797a841fbb37ca7-Shop"); got != "https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout" {
		t.Errorf("live: %s", got)
	}
}

// The endpoints belong to the account that is pinned: one endpoint has the keys of a home.
func TestAccountNamesTheEndpoints(t *testing.T) {
	cfg := config("", "")
	cfg.BaseURL, cfg.Endpoints = adyen.LiveURL("a-Shop"), map[string]string{"us": adyen.LiveURL("b-Shop"), "ap": adyen.LiveURL("c-Shop")}
	got, err := made(t, cfg).Account(t.Context())
	if want := "HomewardSimulator@a-Shop-checkout-live.adyenpayments.com,ap=c-Shop-checkout-live.adyenpayments.com,us=b-Shop-checkout-live.adyenpayments.com"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
}
