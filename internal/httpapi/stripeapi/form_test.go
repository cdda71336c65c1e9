package stripeapi

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// canonical returns the JSON body that a claim has for a form.
func canonical(t testing.TB, v *View, form string) (string, error) {
	t.Helper()
	body, err := v.ReadForm("", []byte(form))
	if err != nil {
		return "", err
	}
	c, err := claim.Canonical(body, claim.CanonicalOptions{})
	if err != nil {
		t.Fatalf("%s became %s: %v", form, body, err)
	}
	return string(c), nil
}

func TestAFormMeansABody(t *testing.T) {
	for _, c := range []struct {
		of         Resource
		form, want string
	}{
		{Charge, "amount=1999&currency=usd&source=pm_1", `{"amount":1999,"currency":"usd","payment_method":"pm_1"}`},
		{Charge, "payment_method=pm_1&currency=USD&amount=0001999", `{"amount":1999,"currency":"usd","payment_method":"pm_1"}`},
		{Charge, "amount=1&currency=usd&source=pm_1&capture=false", `{"amount":1,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`},
		{PaymentIntent, "amount=1&currency=usd&payment_method=pm_1&confirm=true&capture_method=manual&off_session=true", `{"amount":1,"capture_method":"manual","currency":"usd","payment_method":"pm_1"}`},
		{Charge, "amount=1&currency=usd&source=pm_1&capture=true&expand[]=payment_intent&expand[0]=payment_intent&description=", `{"amount":1,"currency":"usd","payment_method":"pm_1"}`},
		{
			Charge, "amount=1&currency=usd&source=pm_1&metadata%5Border_id%5D=6735&metadata[7]=caf%C3%A9+%26+tea&metadata[gone]=&order_id=o-1&expires_at=2030-01-31T12:00:00Z",
			`{"amount":1,"currency":"usd","expires_at":"2030-01-31T12:00:00Z","metadata":{"7":"café & tea","order_id":"6735"},"order_id":"o-1","payment_method":"pm_1"}`,
		},
		{Charge, "amount=1&currency=usd&source=pm_1&metadata=", `{"amount":1,"currency":"usd","payment_method":"pm_1"}`},
		{
			PaymentIntent, "amount=1&currency=usd&payment_method=pm_1&confirm=true&capture_method=automatic_async&payment_method_types[0]=card&automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never&off_session=true&expand[0]=latest_charge",
			`{"amount":1,"currency":"usd","payment_method":"pm_1"}`,
		},
		{
			PaymentIntent, "amount=9&currency=usd&payment_method=pm_1&confirm=true&customer=cus_1&setup_future_usage=off_session&return_url=https%3A%2F%2Fx.test&statement_descriptor_suffix=X",
			`{"amount":9,"currency":"usd","customer":"cus_1","off_session":false,"payment_method":"pm_1","return_url":"https://x.test","setup_future_usage":"off_session","statement_descriptor_suffix":"X"}`,
		},
		{
			Charge, "amount=9&currency=usd&source=pm_1&on_behalf_of=acct_1&transfer_data[destination]=acct_2&transfer_data[amount]=3",
			`{"amount":9,"currency":"usd","on_behalf_of":"acct_1","payment_method":"pm_1","transfer_data":{"amount":3,"destination":"acct_2"}}`,
		},
		{PaymentIntent, "amount=9&currency=usd&payment_method=pm_1&confirm=true&off_session=false&application_fee_amount=1", `{"amount":9,"application_fee_amount":1,"currency":"usd","off_session":false,"payment_method":"pm_1"}`},
		{Refund, "charge=ch_1&amount=5&reason=duplicate&metadata[a]=b", `{"amount":5,"charge":"ch_1","metadata":{"a":"b"},"reason":"duplicate"}`},
		{Refund, "payment_intent=pi_1", `{"charge":"ch_1"}`},
		{Transfer, "amount=7&currency=eur&destination=acct_1&description=x", `{"amount":7,"currency":"eur","description":"x","destination":"acct_1"}`},
		// The merchant's API judges these values.
		{Transfer, "amount=-7&currency=xxx&destination=acct_1", `{"amount":-7,"currency":"xxx","destination":"acct_1"}`},
	} {
		if got, err := canonical(t, &View{Resource: c.of}, c.form); err != nil || got != c.want {
			t.Errorf("%s %s\ngot  %s, %v\nwant %s", c.of, c.form, got, err, c.want)
		}
	}
}

func TestUnservedParametersAreRefusedByName(t *testing.T) {
	const good = "amount=1&currency=usd&payment_method=pm_1"
	for _, c := range []struct {
		of                Resource
		form, param, code string
	}{
		{Charge, good + "&colour=red", "colour", codeUnknown},
		{Charge, good + "&shipping[address][line1]=x", "shipping[address][line1]", codeUnknown},
		{Charge, good + "&transfer_data[amount]=1", "transfer_data[destination]", codeMissing},
		{Charge, good + "&transfer_data[destination]=a&transfer_data[amount]=x", "transfer_data[amount]", codeInteger},
		{Charge, good + "&transfer_data[destination]=a&transfer_data[x]=y", "transfer_data[x]", codeUnknown},
		{Charge, good + "&transfer_data=acct_1", "transfer_data", ""},
		{Charge, good + "&transfer_group=x", "transfer_group", codeUnknown},
		{Charge, good + "&off_session=true", "off_session", codeUnknown},
		{Charge, good + "&application_fee_amount=x", "application_fee_amount", codeInteger},
		{Charge, good + "&capture=later", "capture", ""},
		{Charge, good + "&capture=", "capture", codeEmpty},
		{Charge, good + "&expand[]=balance_transaction", "expand", ""},
		{Charge, good + "&expand=payment_intent", "expand", ""},
		{Charge, good + "&expand[x]=payment_intent", "expand[x]", codeUnknown},
		{Charge, good + "&source=pm_2", "source", codeExclusive},
		{Charge, good + "&amount=2", "amount", ""},
		{Charge, good + "&amount[0]=2", "amount", ""},
		{Charge, good + "&metadata=x", "metadata", ""},
		{Charge, good + "&metadata[]=x", "metadata[]", ""},
		{Charge, good + "&metadata[a]=x&metadata[a]=y", "metadata[a]", ""},
		{Charge, good + "&metadata[a][b]=x", "metadata[a][b]", codeUnknown},
		{Charge, good + "&metadata[a=x", "metadata[a", codeUnknown},
		{Charge, good + "&metadata]=x", "metadata]", codeUnknown},
		{Charge, good + "&[a]=x", "[a]", codeUnknown},
		{Charge, good + "&description=%ff", "description", ""},
		{Charge, good + "&4242424242424242=x", "(digits)", codeUnknown},
		{Charge, good + "&x=%zz", "", ""},
		{Charge, "currency=usd&source=pm_1", "amount", codeMissing},
		{Charge, "amount=&currency=usd&source=pm_1", "amount", codeEmpty},
		{Charge, "amount=19.99&currency=usd&source=pm_1", "amount", codeInteger},
		{Charge, "amount=-&currency=usd&source=pm_1", "amount", codeInteger},
		{Charge, "amount=1&source=pm_1", "currency", codeMissing},
		{Charge, "amount=1&currency=usd", "payment_method", codeMissing},
		{Charge, "amount=1&currency=usd&source=", "source", codeEmpty},
		{PaymentIntent, good, "confirm", codeMissing},
		{PaymentIntent, good + "&confirm=false", "confirm", ""},
		{PaymentIntent, good + "&confirm=true&capture_method=later", "capture_method", ""},
		{PaymentIntent, good + "&confirm=true&off_session=recurring", "off_session", ""},
		{PaymentIntent, good + "&confirm=true&payment_method_types[]=sepa_debit", "payment_method_types", ""},
		{PaymentIntent, good + "&confirm=true&payment_method_types=card", "payment_method_types", ""},
		{PaymentIntent, good + "&confirm=true&automatic_payment_methods[enabled]=false", "automatic_payment_methods[enabled]", ""},
		{PaymentIntent, good + "&confirm=true&automatic_payment_methods[x]=1", "automatic_payment_methods[x]", codeUnknown},
		{PaymentIntent, good + "&confirm=true&mandate=x", "mandate", codeUnknown},
		{Refund, "amount=1", "charge", codeMissing},
		{Refund, "charge=ch_1&payment_intent=pi_1", "payment_intent", codeExclusive},
		{Refund, "payment_intent=ch_1", "payment_intent", codeNoSuch},
		{Refund, "charge=ch_1&reason=bored", "reason", ""},
		{Refund, "charge=ch_1&reverse_transfer=true", "reverse_transfer", codeUnknown},
		{Transfer, "amount=1&currency=usd&destination=acct_1&source_transaction=ch_1", "source_transaction", codeUnknown},
	} {
		_, err := canonical(t, &View{Resource: c.of}, c.form)
		var bad *ParamError
		if !errors.As(err, &bad) || bad.Param != c.param || bad.Code != c.code || bad.Message == "" {
			t.Errorf("%s %s: got %#v", c.of, c.form, err)
		}
		if err != nil && strings.Contains(err.Error(), "4242") {
			t.Errorf("repeats a card number: %v", err)
		}
	}
}

func TestQueries(t *testing.T) {
	for query, param := range map[string]string{
		"": "", "expand[]=latest_charge": "", "expand[]=latest_charge.refunds": "", "expand[]=refunds": "expand", "expand%5B%5D=latest_charge": "", "expand[]=customer": "expand", "x=1": "x", "%": "-",
	} {
		v := View{Resource: PaymentIntent}
		err := v.ReadQuery(query)
		var bad *ParamError
		if errors.As(err, &bad) != (param != "") || bad != nil && param != "-" && bad.Param != param {
			t.Errorf("%q: got %v", query, err)
		}
		if (len(v.expand) > 0) != (err == nil && query != "") {
			t.Errorf("%q: expand is %v", query, v.expand)
		}
	}
}

// A body of the merchant's API, written as a form, is read as the same body.
func FuzzReadForm(f *testing.F) {
	for _, s := range []string{
		"amount=1999&currency=usd&source=pm_1&metadata[order_id]=6735", "charge=ch_1&expand[]=x", "a[b]=c&a=d", "amount=0&amount[]=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, form string) {
		for of := range served {
			v := View{Resource: of}
			body, err := v.ReadForm("", []byte(form))
			if err != nil {
				if _, ok := errors.AsType[*ParamError](err); !ok {
					t.Fatalf("%q: %v", form, err)
				}
				if !json.Valid(err.(*ParamError).Failure().Body) {
					t.Fatalf("%q: the error is not JSON", form)
				}
				continue
			}
			c, err := claim.Canonical(body, claim.CanonicalOptions{})
			if err != nil {
				if _, ok := errors.AsType[*claim.JSONError](err); !ok {
					t.Fatalf("%q became %s: %v", form, body, err)
				}
				continue
			}
			if intent, err := payment.Parse(payment.Charge, c); of == Charge && err == nil {
				again := url.Values{}
				var members struct {
					Amount        json.Number
					Currency      string
					PaymentMethod string `json:"payment_method"`
					Description   string
					OrderID       string `json:"order_id"`
					ExpiresAt     string `json:"expires_at"`
					Metadata      map[string]string
				}
				if err := json.Unmarshal(c, &members); err != nil || intent.Amount < 1 {
					t.Fatal(err)
				}
				for name, value := range map[string]string{
					"amount": members.Amount.String(), "currency": members.Currency, "payment_method": members.PaymentMethod,
					"description": members.Description, "order_id": members.OrderID, "expires_at": members.ExpiresAt,
				} {
					if value != "" {
						again.Set(name, value)
					}
				}
				for name, value := range members.Metadata {
					again.Set("metadata["+name+"]", value)
				}
				v := View{Resource: Charge}
				if got, err := canonical(t, &v, again.Encode()); err != nil || got != string(c) {
					t.Fatalf("%q\nbecame     %s\nand again %s, %v", form, c, got, err)
				}
			}
		}
	})
}

// Captures and cancellations have parameters of their own.
func TestFormsOfCapturesAndCancellations(t *testing.T) {
	for _, c := range []struct {
		of                 Resource
		action, form, want string
	}{
		{Charge, "capture", "", `{}`},
		{Charge, "capture", "amount=5&expand[]=payment_intent", `{"amount":5}`},
		{PaymentIntent, "capture", "amount_to_capture=5", `{"amount":5}`},
		{Charge, "cancel", "", `{}`},
		{PaymentIntent, "cancel", "cancellation_reason=abandoned", `{}`},
	} {
		got, err := canonical(t, &View{Resource: c.of, Action: c.action}, c.form)
		if err != nil || got != c.want {
			t.Errorf("%s %s %s: got %s %v", c.of, c.action, c.form, got, err)
		}
	}
	for _, c := range []struct {
		of                  Resource
		action, form, param string
	}{
		{Charge, "capture", "amount_to_capture=5", "amount_to_capture"}, {PaymentIntent, "capture", "amount=5", "amount"},
		{PaymentIntent, "capture", "amount_to_capture=x", "amount_to_capture"}, {Charge, "cancel", "amount=5", "amount"},
		{PaymentIntent, "cancel", "cancellation_reason=bored", "cancellation_reason"}, {PaymentIntent, "capture", "off_session=true", "off_session"},
	} {
		_, err := canonical(t, &View{Resource: c.of, Action: c.action}, c.form)
		if bad := (*ParamError)(nil); !errors.As(err, &bad) || bad.Param != c.param {
			t.Errorf("%s %s %s: got %v", c.of, c.action, c.form, err)
		}
	}
}
