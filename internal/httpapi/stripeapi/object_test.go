package stripeapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

var update = flag.Bool("update", false, "write the golden files anew: every retry that spans the change reads other bytes")

// stored returns the body that the merchant's API stores for a movement.
func stored(t testing.TB, op payment.Operation, id, body string) []byte {
	t.Helper()
	c, err := claim.Canonical([]byte(body), claim.CanonicalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := payment.Parse(op, c)
	if err != nil {
		t.Fatal(err)
	}
	if op == payment.Refund { // those of its charge
		in.Amount, in.Currency = 500, "usd"
	}
	return payment.Rendered(claim.Minted{ID: id, Created: time.Unix(1893499200, 0), Receipt: "HW-0001"}, &in, "stripe", "pi_theirs").Body
}

const chargeBody = `{"amount":1999,"currency":"usd","payment_method":"pm_1","description":"two <engines>","metadata":{"b":"2","a":"1"},"order_id":"o-1","expires_at":"2030-01-31T12:00:00Z"}`

// A retry reads a rendering, so the golden files fix its bytes.
func TestRenderings(t *testing.T) {
	charge := stored(t, payment.Charge, "ch_1", chargeBody)
	plain := stored(t, payment.Charge, "ch_2", `{"amount":1,"currency":"jpy","payment_method":"pm_1"}`)
	refund := stored(t, payment.Refund, "re_1", `{"charge":"ch_gjgvk653uu3t5db5001dcnk7as","reason":"duplicate","metadata":{"a":"1"}}`)
	transfer := stored(t, payment.Transfer, "tr_1", `{"amount":7,"currency":"eur","destination":"acct_1","description":"x"}`)
	spec := readSpec(t)
	for name, c := range map[string]struct {
		v    View
		body []byte
	}{
		"charge":                  {View{Resource: Charge}, charge},
		"charge_plain":            {View{Resource: Charge}, plain},
		"charge_expanded":         {View{Resource: Charge, expand: []string{expandIntent}}, charge},
		"payment_intent":          {View{Resource: PaymentIntent}, charge},
		"payment_intent_expanded": {View{Resource: PaymentIntent, expand: []string{expandCharge}}, charge},
		"refund":                  {View{Resource: Refund}, refund},
		"transfer":                {View{Resource: Transfer}, transfer},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.v.Object(c.body)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got)
			var object map[string]any
			if err := json.Unmarshal(got, &object); err != nil {
				t.Fatal(err)
			}
			spec.check(t, string(c.v.Resource), object)
		})
	}
	for name, c := range map[string]struct {
		of   Resource
		body string
	}{
		"no JSON":         {Charge, `<html>`},
		"another kind":    {Refund, string(charge)},
		"no kind":         {Charge, `{"id":"ch_1"}`},
		"no status":       {Charge, `{"id":"ch_1","object":"charge"}`},
		"a refund as one": {PaymentIntent, string(refund)},
	} {
		if got, err := (View{Resource: c.of}).Object([]byte(c.body)); err == nil {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// read is a charge as it is read, with what more has.
func read(status, more string) []byte {
	return []byte(`{"id":"ch_1","object":"charge","amount":5000,"currency":"usd","status":"` + status + `","created":1,"payment_method":"pm_1","receipt_number":"R","provider":{"name":"p","reference":"r"}` + more + `,"as_of":9}`)
}

// refunds are n of one charge, the latest first, of which the last has failed.
func refunds(n int) string {
	var all []string
	for i := range n {
		status, reason := "succeeded", ""
		if i == n-1 {
			status = "failed"
		} else if i == 0 {
			reason = `,"reason":"made_at_provider"`
		}
		all = append(all, fmt.Sprintf(`{"id":"re_%d","object":"refund","amount":100,"currency":"usd","status":%q,"created":2,"charge":"ch_1"%s,"provider":{"name":"p","reference":"r"}}`, i, status, reason))
	}
	return `,"refunds":[` + strings.Join(all, ",") + `]`
}

// A read has the members of Stripe's own objects that say what happened since.
func TestWhatHappenedSince(t *testing.T) {
	spec := readSpec(t)
	for name, c := range map[string]struct {
		of                                  Resource
		expand                              []string
		body                                []byte
		status                              string
		captured, refunded                  int64
		paid, isRefunded, disputed, hasMore bool
		refunds                             int
	}{
		"as it was":             {Charge, nil, read("succeeded", `,"amount_captured":5000,"amount_refunded":0`), "succeeded", 5000, 0, true, false, false, false, 0},
		"refunded in part":      {Charge, nil, read("succeeded", `,"amount_captured":5000,"amount_refunded":200`+refunds(3)), "succeeded", 5000, 200, true, false, false, false, 0},
		"with its refunds":      {Charge, []string{expandRefunds}, read("succeeded", `,"amount_captured":5000,"amount_refunded":200`+refunds(3)), "succeeded", 5000, 200, true, false, false, false, 3},
		"with many":             {Charge, []string{expandRefunds}, read("succeeded", `,"amount_captured":5000,"amount_refunded":1100`+refunds(12)), "succeeded", 5000, 1100, true, false, false, true, 10},
		"captured in part":      {Charge, nil, read("succeeded", `,"amount_captured":600,"amount_refunded":600`), "succeeded", 600, 5000, true, true, false, false, 0},
		"refunded and disputed": {Charge, nil, read("succeeded", `,"amount_captured":5000,"amount_refunded":5000,"disputes":[{"id":"dp_1","status":"won"}]`), "succeeded", 5000, 5000, true, true, true, false, 0},
		"failed":                {Charge, nil, read("failed", `,"amount_captured":0,"amount_refunded":0`), "failed", 0, 0, false, false, false, false, 0},
		"by its intent":         {PaymentIntent, []string{expandCharge, expandCharge + "." + expandRefunds}, read("succeeded", `,"amount_captured":5000,"amount_refunded":200`+refunds(3)), "succeeded", 5000, 200, true, false, false, false, 3},
		"failed by its intent":  {PaymentIntent, []string{expandCharge}, read("failed", `,"amount_captured":0,"amount_refunded":0`), "requires_payment_method", 0, 0, false, false, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := View{Resource: c.of, expand: c.expand}.Object(c.body)
			require.NoError(t, err)
			type charge struct {
				Status   string `json:"status"`
				Captured int64  `json:"amount_captured"`
				Refunded int64  `json:"amount_refunded"`
				Paid     bool   `json:"paid"`
				All      bool   `json:"refunded"`
				Disputed bool   `json:"disputed"`
				Refunds  *struct {
					Data []struct {
						Status string  `json:"status"`
						Reason *string `json:"reason"`
						Intent string  `json:"payment_intent"`
					} `json:"data"`
					HasMore bool   `json:"has_more"`
					URL     string `json:"url"`
				} `json:"refunds"`
			}
			var got charge
			var object map[string]any
			require.NoError(t, json.Unmarshal(raw, &object))
			spec.check(t, string(c.of), object)
			require.EqualValues(t, 9, object["as_of"])
			if c.of == PaymentIntent {
				var intent struct {
					Status   string `json:"status"`
					Received int64  `json:"amount_received"`
					Charge   charge `json:"latest_charge"`
				}
				require.NoError(t, json.Unmarshal(raw, &intent))
				require.Equal(t, c.status, intent.Status)
				require.Equal(t, c.captured, intent.Received)
				got = intent.Charge
			} else {
				require.NoError(t, json.Unmarshal(raw, &got))
				require.Equal(t, c.status, got.Status)
			}
			require.Equal(t, []any{c.captured, c.refunded, c.paid, c.isRefunded, c.disputed}, []any{got.Captured, got.Refunded, got.Paid, got.All, got.Disputed})
			if c.refunds == 0 {
				require.Nil(t, got.Refunds, "they are shown if they are asked for")
				return
			}
			require.Len(t, got.Refunds.Data, c.refunds)
			require.Equal(t, c.hasMore, got.Refunds.HasMore)
			require.Equal(t, "/v1/refunds?charge=ch_1", got.Refunds.URL)
			require.Nil(t, got.Refunds.Data[0].Reason, "Stripe has no such reason")
			require.Equal(t, "pi_1", got.Refunds.Data[0].Intent)
		})
	}
	transfer := strings.NewReplacer("charge", "transfer", "ch_1", "tr_1").Replace(string(read("succeeded", `,"amount_reversed":99,"reversals":[{"id":"trr_1","object":"transfer_reversal","amount":99,"currency":"usd","status":"succeeded","created":2}]`)))
	for status, want := range map[string]string{"succeeded": `"amount_reversed":99,`, "failed": `"amount_reversed":5000,`} {
		raw, err := View{Resource: Transfer}.Object([]byte(strings.Replace(transfer, "succeeded", status, 1)))
		require.NoError(t, err)
		require.Contains(t, string(raw), want)
		require.Contains(t, string(raw), fmt.Sprintf(`"reversed":%v`, status == "failed"))
		require.Contains(t, string(raw), `"transfer":"tr_1"}],"has_more":false`)
		var object map[string]any
		require.NoError(t, json.Unmarshal(raw, &object))
		spec.check(t, string(Transfer), object)
	}
}

// Refunds are listed in pages, in either direction.
func TestPagesOfRefunds(t *testing.T) {
	charge := read("succeeded", refunds(5))
	for query, want := range map[string]string{
		"charge=ch_1":                                  "re_0 re_1 re_2 re_3 re_4",
		"payment_intent=pi_1&limit=2":                  "re_0 re_1 more",
		"charge=ch_1&limit=2&starting_after=re_1":      "re_2 re_3 more",
		"charge=ch_1&limit=2&starting_after=re_2":      "re_3 re_4",
		"charge=ch_1&starting_after=re_4":              "",
		"charge=ch_1&limit=2&ending_before=re_3":       "re_1 re_2 more",
		"charge=ch_1&limit=2&ending_before=re_2":       "re_0 re_1",
		"charge=ch_1&limit=100&ending_before=re_0":     "",
		"charge=ch_1&starting_after=re_9":              "! starting_after",
		"":                                             "! charge",
		"charge=ch_1&payment_intent=pi_1":              "! payment_intent",
		"payment_intent=ch_1":                          "! payment_intent",
		"charge=ch_1&limit=0":                          "! limit",
		"charge=ch_1&limit=101":                        "! limit",
		"charge=ch_1&limit=x":                          "! limit",
		"charge=ch_1&charge=ch_2":                      "! charge",
		"charge=ch_1&created[gte]=1":                   "! created",
		"charge=ch_1&starting_after=a&ending_before=b": "! ending_before",
		"charge=":            "! charge",
		"charge=ch_1&limit=": "! limit",
	} {
		page, err := ReadPage(query)
		for _, stripe := range []bool{true, false} {
			var raw []byte
			if err == nil {
				raw, err = page.Refunds(charge, stripe)
			}
			if param, bad := strings.CutPrefix(want, "! "); bad {
				var is *ParamError
				require.ErrorAs(t, err, &is, query)
				require.Equal(t, param, is.Param, query)
				continue
			}
			require.NoError(t, err, query)
			var got struct {
				Object string
				Data   []map[string]any
				More   bool `json:"has_more"`
			}
			require.NoError(t, json.Unmarshal(raw, &got))
			require.Equal(t, "list", got.Object)
			require.NotNil(t, got.Data)
			var ids []string
			for _, r := range got.Data {
				ids = append(ids, r["id"].(string))
				_, hasIntent := r["payment_intent"]
				require.Equal(t, stripe, hasIntent)
			}
			if got.More {
				ids = append(ids, "more")
			}
			require.Equal(t, want, strings.Join(ids, " "), query)
		}
	}
}

// A rendering shows the terms of a payment as they are stored, and no others.
func TestTermsAreShown(t *testing.T) {
	spec := readSpec(t)
	const terms = `"application_fee_amount":1,"customer":"cus_1","on_behalf_of":"acct_1","statement_descriptor_suffix":"X","transfer_data":{"amount":2,"destination":"acct_2"}`
	body := []byte(`{"id":"ch_1","object":"charge","amount":5,"currency":"usd","status":"succeeded","created":1,"payment_method":"pm_1","receipt_number":"R","setup_future_usage":"off_session",` + terms + `}`)
	for _, of := range []Resource{Charge, PaymentIntent} {
		got, err := View{Resource: of}.Object(body)
		if err != nil {
			t.Fatal(err)
		}
		for member := range strings.SplitSeq(strings.Replace(terms, `2,"d`, `2;"d`, 1), ",") {
			if member = strings.Replace(member, ";", ",", 1); !strings.Contains(string(got), member) {
				t.Errorf("%s has no %s: %s", of, member, got)
			}
		}
		if strings.Contains(string(got), `"setup_future_usage":"off_session"`) != (of == PaymentIntent) {
			t.Errorf("%s: %s", of, got)
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil {
			t.Fatal(err)
		}
		spec.check(t, string(of), object)
	}
}

// A payment without an outcome is rendered neither as made nor as refused.
func TestAPaymentWithoutAnOutcome(t *testing.T) {
	spec := readSpec(t)
	for status, want := range map[string]string{"requires_action": "requires_action", "processing": "processing", "a later status": "processing"} {
		body := []byte(`{"id":"ch_1","object":"charge","amount":5,"currency":"usd","status":"` + status + `","created":1,"payment_method":"pm_1","receipt_number":"R",` +
			`"client_secret":"pi_9_secret_x","next_action":{"type":"redirect_to_url"}}`)
		var intent struct {
			Status         string
			AmountReceived int64  `json:"amount_received"`
			ClientSecret   string `json:"client_secret"`
			NextAction     struct{ Type string }
			LatestCharge   struct {
				Status         string
				Paid, Captured bool
			} `json:"latest_charge"`
		}
		got, err := View{Resource: PaymentIntent, expand: []string{expandCharge}}.Object(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &intent); err != nil {
			t.Fatal(err)
		}
		if c := intent.LatestCharge; intent.Status != want || intent.AmountReceived != 0 || intent.ClientSecret != "pi_9_secret_x" || c.Status != "pending" || c.Paid || c.Captured {
			t.Errorf("%s: got %s", status, got)
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil {
			t.Fatal(err)
		}
		spec.check(t, "payment_intent", object)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, append(slices.Clone(got), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.TrimSpace(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// spec is the part of Stripe's OpenAPI document that the tests compare with.
type spec struct {
	Schemas map[string]struct {
		Required   []string
		Properties map[string]property
	}
	Parameters map[string][]string
}

type property struct {
	Type, Ref string
	Nullable  bool
	Enum      []string
	AnyOf     []property
}

func readSpec(t testing.TB) (s spec) {
	t.Helper()
	raw, err := os.ReadFile("testdata/stripe.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// check compares an object with its schema: its members are in the schema, those that the schema
// requires are there, and each has its type.
func (s spec) check(t *testing.T, name string, object map[string]any) {
	t.Helper()
	schema, ok := s.Schemas[name]
	if !ok {
		t.Fatalf("no schema %s", name)
	}
	for _, member := range schema.Required {
		if _, ok := object[member]; !ok {
			t.Errorf("%s has no %s, which is required", name, member)
		}
	}
	for member, value := range object {
		p, ok := schema.Properties[member]
		switch {
		case ok && !s.fits(t, p, value):
			t.Errorf("%s.%s is %v, and should be %+v", name, member, value, p)
		case !ok && !slices.Contains([]string{"order_id", "expires_at", "provider", "as_of"}, member):
			t.Errorf("%s.%s is not in the schema", name, member)
		}
	}
}

func (s spec) fits(t *testing.T, p property, value any) bool {
	if value == nil {
		return p.Nullable
	}
	if p.Ref != "" || p.AnyOf != nil {
		object, is := value.(map[string]any)
		if !is {
			return slices.ContainsFunc(p.AnyOf, func(q property) bool { return q.Ref == "" && s.fits(t, q, value) })
		}
		for _, q := range append(p.AnyOf, p) {
			if _, known := s.Schemas[q.Ref]; known {
				s.check(t, q.Ref, object)
			}
		}
		return true
	}
	switch v := value.(type) {
	case string:
		return p.Type == "string" && (p.Enum == nil || slices.Contains(p.Enum, v))
	case float64:
		return p.Type == "integer"
	case bool:
		return p.Type == "boolean"
	case []any:
		return p.Type == "array"
	default:
		return p.Type == "object"
	}
}

// Each served parameter is one of Stripe's, or one of the few of our own, and the document of this
// API has the same. The extract of Stripe's document lacks what acts on a payment.
func TestParametersAreStripesAndDocumented(t *testing.T) {
	ours := []string{"order_id", "expires_at"}
	s := readSpec(t)
	raw, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for of, form := range map[Resource]string{
		Charge: "StripeChargeForm", PaymentIntent: "StripePaymentIntentForm", Refund: "StripeRefundForm", Transfer: "StripeTransferForm",
		Charge + "/capture": "StripeCaptureForm", Charge + "/cancel": "StripeCancelForm",
		PaymentIntent + "/capture": "StripePaymentIntentCaptureForm", PaymentIntent + "/cancel": "StripePaymentIntentCancelForm",
	} {
		var names []string
		resource, action, _ := strings.Cut(string(of), "/")
		for _, p := range served[of] {
			names = append(names, p.name)
			// payment_method is what /v1/payment_intents calls it, and source is its older name.
			if action == "" && !slices.Contains(s.Parameters["/v1/"+resource+"s"], p.name) && !slices.Contains(ours, p.name) && p.name != "payment_method" {
				t.Errorf("Stripe's %s has no parameter %s", of, p.name)
			}
		}
		if expandable[Resource(resource)] != nil {
			names = append(names, "expand")
		}
		slices.Sort(names)
		if documented := slices.Sorted(maps.Keys(doc.Components.Schemas[form].Properties)); !slices.Equal(names, documented) {
			t.Errorf("%s: served %v\ndocumented %v", form, names, documented)
		}
	}
}

// Every error of the contract, as a payment's and as a refund's.
func TestFailures(t *testing.T) {
	decline := func(code string, retry problem.Retry) problem.Problem {
		p := problem.New(problem.CardDeclined, "No.")
		p.DeclineCode, p.Retry = code, retry
		return p
	}
	refused := problem.New(problem.InvalidRequest, "No.")
	refused.Member, refused.DeclineCode = "metadata.color", "no_such_charge"
	gaveUp := problem.New(problem.OutcomeUnknown, "No.")
	gaveUp.Retry = problem.NewKey
	s, seen := readSpec(t), map[problem.Code]bool{}
	for _, c := range []struct {
		of           Resource
		p            problem.Problem
		status       int
		again        bool
		kind, code   string
		decline, arg string
	}{
		{Charge, decline("insufficient_funds", problem.SameKey), 402, false, typeCard, codeDeclined, "insufficient_funds", ""},
		{Charge, decline("stolen_card", problem.NewKey), 402, false, typeCard, codeDeclined, "stolen_card", ""},
		{PaymentIntent, decline("expired_card", problem.NewKey), 402, false, typeCard, "expired_card", "expired_card", ""},
		{Charge, decline("", problem.SameKey), 402, false, typeCard, codeDeclined, "", ""},
		{Charge, decline(expired, problem.NewKey), 402, false, typeCard, codeExpired, "", ""},
		{Refund, decline("balance_insufficient", problem.SameKey), 400, false, typeInvalid, "balance_insufficient", "", ""},
		{Transfer, decline("account_closed", problem.NewKey), 400, false, typeInvalid, "account_closed", "", ""},
		{Refund, refused, 400, false, typeInvalid, codeNoSuch, "", "metadata[color]"},
		{Charge, problem.New(problem.InvalidRequest, "No."), 400, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.KeyMissing, "No."), 400, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.KeyInvalid, "No."), 400, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.Unauthorized, "No."), 401, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.Forbidden, "No."), 403, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.NotFound, "No."), 404, false, typeInvalid, codeNoSuch, "", "id"},
		{Charge, problem.New(problem.MethodNotAllowed, "No."), 405, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.BodyTooLarge, "No."), 413, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.UnsupportedMediaType, "No."), 415, false, typeInvalid, "", "", ""},
		{Charge, problem.New(problem.KeyInUse, "No."), 409, true, typeIdempotency, codeInUse, "", ""},
		{Charge, problem.New(problem.FingerprintMismatch, "No."), 400, false, typeIdempotency, "", "", ""},
		{Charge, problem.New(problem.KeyCanceled, "No."), 400, false, typeIdempotency, "", "", ""},
		{Charge, problem.New(problem.KeyExpired, "No."), 400, false, typeIdempotency, "", "", ""},
		{Charge, problem.New(problem.RateLimited, "No."), 429, false, typeInvalid, codeRate, "", ""},
		{Charge, problem.New(problem.StoreUnavailable, "No."), 503, true, typeAPI, "store_unavailable", "", ""},
		{Charge, problem.New(problem.HomeUnavailable, "No."), 503, true, typeAPI, "home_unavailable", "", ""},
		{Charge, problem.New(problem.OutcomeUnknown, "No."), 503, true, typeAPI, "outcome_unknown", "", ""},
		{Charge, problem.New(problem.KeyWithheld, "No."), 503, true, typeAPI, "idempotency_key_withheld", "", ""},
		{Charge, gaveUp, 503, false, typeAPI, "outcome_unknown", "", ""},
		{Charge, problem.New(problem.Internal, "No."), 500, true, typeAPI, "", "", ""},
	} {
		seen[c.p.Code] = true
		// The problem goes through its stored form, as in a replay.
		p, err := problem.Parse(c.p.JSON(""))
		if err != nil {
			t.Fatal(err)
		}
		f := View{Resource: c.of, Key: "k-1", Method: "PUT", Path: "/v1/x"}.Failure(p)
		var body struct{ Error failure }
		var object struct{ Error map[string]any }
		if err := json.Unmarshal(f.Body, &body); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(f.Body, &object); err != nil {
			t.Fatal(err)
		}
		s.check(t, "api_errors", object.Error)
		e := body.Error
		if f.Status != c.status || f.Again != c.again || e.Type != c.kind || e.Code != c.code || e.DeclineCode != c.decline || e.Param != c.arg || e.Message == "" {
			t.Errorf("%s %+v: got %+v %s", c.of, c.p, f, f.Body)
		}
		if (e.Type == typeIdempotency) && c.p.Code != problem.KeyExpired && c.p.Code != problem.KeyCanceled && !strings.Contains(e.Message, "k-1") {
			t.Errorf("the message does not name the key: %s", e.Message)
		}
	}
	for _, code := range problem.Codes() {
		if !seen[code] {
			t.Errorf("no case for %s", code)
		}
	}
}

func TestUnits(t *testing.T) {
	for currency, want := range map[string]int64{"usd": 1000, "jpy": 1000, "kwd": 1000, "isk": 100000, "ugx": 100000, "mga": 10} {
		if got := stripeUnits(1000, currency); got != want || payment.OtherUnits(currency) != (want != 1000) {
			t.Errorf("%s: got %d", currency, got)
		}
	}
}

// Each amount of an object is in Stripe's units, those of its terms included.
func TestEachAmountIsInUnits(t *testing.T) {
	const body = `{"id":"ch_1","object":"charge","amount":5000,"currency":"CUR","status":"succeeded","created":1,"application_fee_amount":100,` +
		`"transfer_data":{"amount":2000,"destination":"acct_2"},"amount_captured":5000,"amount_refunded":300,"refunds":[{"id":"re_1","object":"refund","amount":300,"currency":"CUR","status":"succeeded","charge":"ch_1"}]}`
	for currency, factor := range map[string]float64{"usd": 1, "isk": 100, "ugx": 100, "mga": .01} {
		got, err := View{Resource: Charge, expand: []string{expandIntent, expandRefunds}}.Object([]byte(strings.ReplaceAll(body, "CUR", currency)))
		require.NoError(t, err)
		type amounts struct {
			Amount   float64 `json:"amount"`
			Received float64 `json:"amount_received"`
			Fee      float64 `json:"application_fee_amount"`
			Transfer struct {
				Amount      float64 `json:"amount"`
				Destination string  `json:"destination"`
			} `json:"transfer_data"`
		}
		var c struct {
			amounts
			Captured float64 `json:"amount_captured"`
			Refunded float64 `json:"amount_refunded"`
			Intent   amounts `json:"payment_intent"`
			Refunds  struct{ Data []amounts }
		}
		require.NoError(t, json.Unmarshal(got, &c))
		for what, is := range map[string][2]float64{
			"amount": {c.Amount, 5000}, "captured": {c.Captured, 5000}, "refunded": {c.Refunded, 300}, "fee": {c.Fee, 100}, "transfer": {c.Transfer.Amount, 2000},
			"intent": {c.Intent.Amount, 5000}, "received": {c.Intent.Received, 5000}, "its fee": {c.Intent.Fee, 100}, "its transfer": {c.Intent.Transfer.Amount, 2000},
			"refund": {c.Refunds.Data[0].Amount, 300},
		} {
			require.InDelta(t, is[1]*factor, is[0], .001, "%s in %s", what, currency)
		}
		require.Equal(t, "acct_2", c.Transfer.Destination)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{
		Version: true, OldestIntents: true, "2026-09-30.preview; feature=v1": true, "": false, "2026-08": false, "latest": false, "2026-08-26x": false,
		"2026-08-26.\n": false, "2026/08/26": false, "2026-08-26." + strings.Repeat("x", maxVersion): false,
	} {
		if IsVersion(v) != want {
			t.Errorf("%q: got %v", v, !want)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, c := range [][3]string{{"payment_intent", "pi_1", "ch_1"}, {"payment_intent", "ch_1", ""}, {"payment_intent", "1", ""}, {"charge", "ch_1", "ch_1"}, {"refund", "re_1", "re_1"}} {
		if got := (View{Resource: Resource(c[0])}).ObjectID(c[1]); got != c[2] {
			t.Errorf("%v: got %q", c, got)
		}
	}
	if got := intentOf("ch_1"); got != "pi_1" {
		t.Error(got)
	}
}
