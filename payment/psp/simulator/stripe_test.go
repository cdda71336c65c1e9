package simulator

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func stripeDo(s *Simulator, method, path, key string, form url.Values) reply {
	req := httptest.NewRequest(method, "/stripe"+path, strings.NewReader(form.Encode()))
	req.Header.Set("Authorization", "Bearer sk_test_1")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, req)
	return reply{rec.Code, rec.Body.String()}
}

func intentForm(reference, method string) url.Values {
	return url.Values{
		"amount": {"1250"}, "currency": {"usd"}, "payment_method": {method}, "confirm": {"true"}, "off_session": {"true"},
		"automatic_payment_methods[enabled]": {"true"}, "automatic_payment_methods[allow_redirects]": {"never"},
		"metadata[homeward_reference]": {reference},
	}
}

func TestStripeSpellsTheSameBooks(t *testing.T) {
	s := open(t, Config{})
	const pi = `{"id":"pi_000000000001","object":"payment_intent","amount":1250,"currency":"usd","created":1772366400,"livemode":false,"metadata":{"homeward_key":"a","homeward_reference":"ch_1"},"status":"succeeded","capture_method":"automatic_async","client_secret":"pi_000000000001_secret_000000000000000000000000","amount_received":1250}`
	const failed = `{"id":"pi_000000000002","object":"payment_intent","amount":1250,"currency":"usd","created":1772366400,"livemode":false,"metadata":{"homeward_key":"b","homeward_reference":"ch_2"},"status":"requires_payment_method","capture_method":"automatic_async","client_secret":"pi_000000000002_secret_000000000000000000000000","amount_received":0,"last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"stolen_card","message":"The card was reported stolen."}}`
	refund := url.Values{"amount": {"250"}, "payment_intent": {"pi_000000000001"}, "metadata[homeward_reference]": {"re_1"}}
	const re = `{"id":"re_000000000003","object":"refund","amount":250,"currency":"usd","created":1772366400,"metadata":{"homeward_key":"c","homeward_reference":"re_1"},"status":"succeeded","payment_intent":"pi_000000000001"}`
	search := func(ref string) string {
		return "/v1/payment_intents/search?query=" + url.QueryEscape("metadata['homeward_reference']:'"+ref+"'")
	}
	for _, c := range []struct{ got, want reply }{
		{stripeDo(s, "POST", "/v1/payment_intents", "a", intentForm("ch_1", "pm_card_visa")), reply{200, pi}},
		{stripeDo(s, "POST", "/v1/payment_intents", "a", intentForm("ch_1", "pm_card_visa")), reply{200, pi}},
		{stripeDo(s, "POST", "/v1/payment_intents", "b", intentForm("ch_2", "pm_card_stolen")),
			reply{402, `{"error":{"type":"card_error","code":"card_declined","decline_code":"stolen_card","message":"The card was reported stolen.","payment_intent":` + failed + `}}`}},
		{stripeDo(s, "POST", "/v1/refunds", "c", refund), reply{200, re}},
		{stripeDo(s, "GET", "/v1/payment_intents/pi_000000000001", "", nil), reply{200, pi}},
		{stripeDo(s, "GET", "/v1/refunds/re_000000000003", "", nil), reply{200, re}},
		{stripeDo(s, "GET", search("ch_2"), "", nil), reply{200, `{"object":"search_result","url":"/v1/payment_intents/search","has_more":false,"data":[` + failed + `]}`}},
		{stripeDo(s, "GET", search("ch_3"), "", nil), reply{200, `{"object":"search_result","url":"/v1/payment_intents/search","has_more":false,"data":[]}`}},
		{stripeDo(s, "POST", "/v1/payment_intents", "a", intentForm("ch_9", "pm_card_visa")), reply{400, `{"error":{"type":"idempotency_error","message":"The key was used with other parameters."}}`}},
		{do(s, "GET", "/v1/lookup?kind=charge&reference=ch_1", "", ""),
			reply{200, `{"id":"psp_ch_000000000001","status":"succeeded","reference":"ch_1","amount":1250,"currency":"usd","created":1772366400}`}},
	} {
		c.want.body += "\n"
		if c.got != c.want {
			t.Errorf("got  %d %swant %d %s", c.got.status, c.got.body, c.want.status, c.want.body)
		}
	}
	wantSummary(t, s, Summary{Effects: 2, Keys: 3, Refunds: 1})
}

func TestStripeRefuses(t *testing.T) {
	s := open(t, Config{})
	changed := func(name, value string) url.Values {
		f := intentForm("ch_1", "pm_card_visa")
		f.Set(name, value)
		return f
	}
	for name, c := range map[string]struct {
		method, path string
		form         url.Values
		status       int
		names        string
	}{
		"no such URL":        {"GET", "/v1/unicorns", nil, 404, "url_invalid"},
		"unknown parameter":  {"POST", "/v1/payment_intents", changed("colour", "red"), 400, "colour"},
		"not confirmed":      {"POST", "/v1/payment_intents", changed("confirm", "false"), 400, "confirm"},
		"no amount":          {"POST", "/v1/payment_intents", changed("amount", ""), 400, "amount"},
		"another key":        {"POST", "/v1/payment_intents", changed("metadata[homeward_key]", "another"), 400, "homeward_key"},
		"no reference":       {"POST", "/v1/payment_intents", changed("metadata[homeward_reference]", ""), 400, "reference"},
		"no such method":     {"POST", "/v1/payment_intents", changed("payment_method", "pm_x"), 404, "resource_missing"},
		"no such charge":     {"POST", "/v1/refunds", url.Values{"amount": {"1"}, "payment_intent": {"pi_000000000099"}, "metadata[homeward_reference]": {"re_1"}}, 404, "resource_missing"},
		"not a charge's id":  {"POST", "/v1/refunds", url.Values{"amount": {"1"}, "payment_intent": {"ch_1"}, "metadata[homeward_reference]": {"re_1"}}, 404, "resource_missing"},
		"no such object":     {"GET", "/v1/payment_intents/pi_000000000099", nil, 404, "resource_missing"},
		"another query":      {"GET", "/v1/payment_intents/search?query=amount%3E1", nil, 400, "query"},
		"transfers of all":   {"GET", "/v1/transfers", nil, 400, "transfer_group"},
		"limit":              {"GET", "/v1/refunds?limit=101", nil, 400, "limit"},
		"after another kind": {"GET", "/v1/refunds?starting_after=pi_000000000001", nil, 400, "starting_after"},
	} {
		r := stripeDo(s, c.method, c.path, strings.ReplaceAll(name, " ", "-"), c.form)
		if r.status != c.status || !strings.Contains(r.body, c.names) {
			t.Errorf("%s: got %d %s, want %d that names %s", name, r.status, r.body, c.status, c.names)
		}
	}
	req := httptest.NewRequest("GET", "/stripe/v1/refunds", nil)
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, req)
	if rec.Code != 401 {
		t.Errorf("without an API key: %d", rec.Code)
	}
	if sum := s.Summary(); sum.Effects != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestStripeListsRefundsNewestFirst(t *testing.T) {
	s := open(t, Config{})
	charge(s, "a", "ch_1", "pm_card_visa")
	charge(s, "b", "ch_2", "pm_card_visa")
	for i := range 25 {
		do(s, "POST", "/v1/refunds", fmt.Sprint("r", i), body(fmt.Sprint("re_", i), 1, fmt.Sprintf("psp_ch_00000000000%d", 1+i%2))).want(t, 200, "succeeded")
	}
	page := func(query string) (refs []string, last string, more bool) {
		t.Helper()
		r := stripeDo(s, "GET", "/v1/refunds?"+query, "", nil)
		var list stripeList
		if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 {
			t.Fatalf("%+v: %v", r, err)
		}
		for _, o := range list.Data {
			refs, last = append(refs, o.Metadata[referenceMember]), o.ID
		}
		return refs, last, list.HasMore
	}
	var all []string
	var after string
	more := true
	for query := "limit=10"; more; query = "limit=10&starting_after=" + after {
		var refs []string
		refs, after, more = page(query)
		all = append(all, refs...)
	}
	for i, ref := range all {
		if ref != fmt.Sprint("re_", 24-i) {
			t.Errorf("%d is %s", i, ref)
		}
	}
	if len(all) != 25 {
		t.Errorf("%d refunds, want 25", len(all))
	}
	if refs, _, more := page("limit=100&payment_intent=pi_000000000002"); len(refs) != 12 || more {
		t.Errorf("of one charge: %v, more %t", refs, more)
	}
}

// Whatever is sent, the answer is a refusal in one line or an outcome.
func FuzzBodies(f *testing.F) {
	f.Add("/v1/charges", body("ch_1", 1, "pm_card_visa"))
	f.Add("/stripe/v1/payment_intents", intentForm("ch_1", "pm_card_visa").Encode())
	f.Add("/stripe/v1/refunds", "amount=1&payment_intent=pi_000000000001&metadata[homeward_reference]=re_1")
	f.Add("/stripe/v1/transfers", "%zz")
	s := open(f, Config{})
	f.Fuzz(func(t *testing.T, path, body string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.Contains(u.Path, "/v1/") {
			t.Skip()
		}
		req := httptest.NewRequest("POST", "/", strings.NewReader(body))
		req.URL = u
		req.Header.Set("Authorization", "Bearer sk_1")
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, req)
		if rec.Code >= 500 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if rec.Code == 400 {
			var e errorBody
			if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil || e.Error.Message == "" || strings.ContainsAny(e.Error.Message, "\r\n") {
				t.Errorf("%s is not a refusal in one line: %v", rec.Body, err)
			}
		}
	})
}
