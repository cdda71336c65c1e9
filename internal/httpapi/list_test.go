package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment"
)

// Charges are listed in either dialect, as payment intents too, by what the query says.
func TestListOfCharges(t *testing.T) {
	id, err := claim.NewObjectID("ch", 7, nil)
	require.NoError(t, err)
	const item = `{"id":"ch_1","object":"charge","amount":5,"currency":"usd","status":"succeeded","created":2,"order_id":"o","provider":{"name":"p","reference":"r"},"amount_captured":5,"amount_refunded":2}`
	var asked payment.List
	f := newFake()
	h := newAPI(t, f, func(c *Config) {
		c.List = func(_ context.Context, l payment.List) ([]json.RawMessage, bool, error) {
			asked = l
			for _, cursor := range []string{l.After, l.Before} {
				if cursor == "ch_gone" {
					return nil, false, &payment.CursorError{ID: cursor}
				}
			}
			if l.OrderID == "far" {
				return nil, false, claim.ErrHomeUnreachable
			}
			return []json.RawMessage{json.RawMessage(item)}, true, nil
		}
	})
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	for query, want := range map[string]payment.List{
		"":                      {Limit: 10},
		"?limit=100&order_id=o": {Limit: 100, OrderID: "o"},
		"?created=7":            {Limit: 10, From: at(7), Until: at(8)},
		"?created[gte]=7&created[lt]=9&starting_after=ch_9":   {Limit: 10, From: at(7), Until: at(9), After: "ch_9"},
		"?created%5Bgt%5D=7&created[lte]=9&ending_before=ch_": {Limit: 10, From: at(8), Until: at(10), Before: "ch_"},
		"?created[gte]=9&created[gt]=3":                       {Limit: 10, From: at(9)},
	} {
		want.Tenant = "acme"
		w := serve(h, request("GET", "/v1/charges"+query, ""))
		require.Equal(t, 200, w.Code, w.Body)
		require.Equal(t, `{"object":"list","data":[`+item+`],"has_more":true,"url":"/v1/charges"}`, w.Body.String())
		require.Equal(t, want, asked, query)
		for path, prefix := range map[string]string{"/v1/charges": "ch_", "/v1/payment_intents": "pi_"} {
			asked = payment.List{}
			w := serve(h, stripely("GET", path+strings.ReplaceAll(query, "=ch_", "="+prefix), ""))
			require.Equal(t, 200, w.Code, w.Body)
			require.Equal(t, want, asked, "%s%s", path, query)
			var page struct {
				URL  string
				Data []struct {
					ID, Object, OrderID string
					Refunded            int64  `json:"amount_refunded"`
					Latest              string `json:"latest_charge"`
				}
				More bool `json:"has_more"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
			require.Equal(t, path, page.URL)
			require.True(t, page.More)
			require.Equal(t, prefix+"1", page.Data[0].ID)
		}
	}
	w := serve(h, stripely("GET", "/v1/payment_intents?expand[]=data.latest_charge", ""))
	require.Contains(t, w.Body.String(), `"latest_charge":{"id":"ch_1"`)

	// A payment intent has one charge, which is listed as others are.
	intent := strings.Replace(id, "ch_", "pi_", 1)
	for _, dialect := range []func(method, target, body string, headers ...string) *http.Request{request, stripely} {
		asked = payment.List{}
		require.Equal(t, 200, serve(h, dialect("GET", "/v1/charges?payment_intent="+intent, "")).Code)
		require.Equal(t, payment.List{Tenant: "acme", Charge: id, Limit: 10}, asked)
	}

	for query, member := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "created[gte]=soon": "created[gte]", "created=-1": "created", "created[eq]=1": "created[eq]",
		"created=1&created[gte]=1": "created", "created[gte]=1&created[gte]=2": "created[gte]", "starting_after=ch_gone": "starting_after", "ending_before=ch_gone": "ending_before",
		"starting_after=ch_1&ending_before=ch_2": "ending_before", "customer=cus_1": "customer",
		"limit=": "limit", "order_id=": "order_id", "starting_after=": "starting_after", "ending_before=": "ending_before", "payment_intent=": "payment_intent", "created[gt]=": "created[gt]", "payment_intent=ch_1": "payment_intent",
		"payment_intent=" + intent + "&order_id=o": "payment_intent", "order_id=a&order_id=b": "order_id", "order_id=a%00": "order_id",
	} {
		w := serve(h, request("GET", "/v1/charges?"+query, ""))
		require.Equal(t, 400, w.Code, query)
		require.Equal(t, member, problemIn(t, w).Member, query)
		w = serve(h, stripely("GET", "/v1/charges?"+query, ""))
		require.Equal(t, 400, w.Code, query)
		require.Equal(t, member, stripeErrorIn(t, w).Error.Param, query)
	}
	for _, r := range []string{"/v1/charges?expand[]=data.payment_intent", "/v1/charges?expand[]=x"} {
		w := serve(h, request("GET", r, ""))
		require.Equal(t, "expand", problemIn(t, w).Member)
	}
	for _, expand := range []string{"payment_intent", "data.refunds.data", "data.customer"} {
		w := serve(h, stripely("GET", "/v1/charges?expand[]="+expand, ""))
		require.Equal(t, "expand", stripeErrorIn(t, w).Error.Param, expand)
	}
	w = serve(h, request("GET", "/v1/charges?order_id=far", ""))
	require.Equal(t, "home_unavailable", problemIn(t, w).Error)
	require.Equal(t, 503, w.Code)
	require.Equal(t, 404, serve(h, request("GET", "/v1/payment_intents", "")).Code, "without Stripe-Version there are none")
	require.Equal(t, 401, serve(h, request("GET", "/v1/charges", "", "Authorization", "")).Code)
	require.Equal(t, "GET, HEAD, POST", serve(h, request("DELETE", "/v1/charges", "")).Header().Get("Allow"), fmt.Sprint(w.Code))
}

// Without its cursor a list would begin anew, for ever: a charge's id is none of a payment intent.
func TestNoListDropsItsCursor(t *testing.T) {
	h := newAPI(t, newFake(), func(c *Config) {
		c.List = func(context.Context, payment.List) ([]json.RawMessage, bool, error) { return nil, true, nil }
	})
	for _, name := range []string{"starting_after", "ending_before"} {
		w := serve(h, stripely("GET", "/v1/payment_intents?"+name+"=ch_1", ""))
		require.Equal(t, 400, w.Code, w.Body)
		require.Equal(t, []string{name, "resource_missing"}, []string{stripeErrorIn(t, w).Error.Param, stripeErrorIn(t, w).Error.Code})
	}
}

// An item of a list has no refunds: expanded, they would say that there are none.
func TestNoListExpandsRefunds(t *testing.T) {
	h := newAPI(t, newFake(), func(c *Config) {
		c.List = func(context.Context, payment.List) ([]json.RawMessage, bool, error) { return nil, false, nil }
	})
	for path, property := range map[string]string{"/v1/charges": "refunds", "/v1/payment_intents": "latest_charge.refunds"} {
		w := serve(h, stripely("GET", path+"?expand[]=data."+property, ""))
		require.Equal(t, 400, w.Code, w.Body)
		require.Equal(t, "expand", stripeErrorIn(t, w).Error.Param)
	}
}
